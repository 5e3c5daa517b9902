//! Profiles: devices on paper, in TOML, one file for each; every number names its source there.
//!
//! A profile is fitted to the calibration rows of the scoreboard; the rest is from data sheets and published
//! measurements. A number that is uncertain carries the range in which it lies as a comment, so that a sweep can vary it.

use onewrite_block::{EvictionOrder, GIB, Geometry, MIB, PAGE_SIZE, PowerCut, PowerLoss, TrimRead, WriteBuffer};
use serde::Deserialize;

use crate::error::Error;
use crate::ssd::model::{Model, Timing, VictimPolicy};
use crate::ssd::shape::{FlashPlan, Shape};
use crate::ssd::{Ssd, share_pairs_max};

/// Name and text of every profile, in the order in which they are listed.
const PROFILES: &[(&str, &str)] = &[
    ("sata-850pro", include_str!("../../profiles/sata-850pro.toml")),
    ("nvme-share", include_str!("../../profiles/nvme-share.toml")),
    ("ftl-16g", include_str!("../../profiles/ftl-16g.toml")),
    ("ideal", include_str!("../../profiles/ideal.toml")),
];

/// A device on paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name by which it is loaded.
    #[serde(skip)]
    pub name: String,
    /// What it stands for, in one sentence.
    pub description: String,
    /// The door to the host.
    pub host: HostSide,
    /// The write buffer.
    pub buffer: BufferSide,
    /// The flash.
    pub flash: FlashSide,
}

/// The door to the host, on paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSide {
    /// Requests that may be under way at once.
    pub queue_depth: u32,
    /// Most pages in one read or write.
    pub transfer_pages_max: u32,
    /// From submission until a command is understood, in microseconds.
    pub command_us: f64,
    /// Least time between two commands, in microseconds.
    pub command_interval_us: f64,
    /// Speed of the link in MB/s; 0 for infinite.
    pub link_mb_s: f64,
    /// Whether the link carries both directions at once.
    pub link_is_duplex: bool,
    /// Whether writes may carry FUA.
    pub fua: bool,
    /// Whether there is SHARE.
    pub share: bool,
    /// A TRIM, in microseconds.
    pub trim_us: f64,
    /// A FLUSH beside the programs that it needs, in microseconds.
    pub flush_us: f64,
}

/// The write buffer, on paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSide {
    /// Bytes written after which the first page may have left.
    pub eviction_begins_bytes: u64,
    /// Bytes written after which all earlier pages have left.
    pub eviction_certain_bytes: u64,
    /// Whether a capacitor saves it in a power cut.
    pub capacitor: bool,
}

/// The flash, on paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSide {
    /// Channels between controller and dies.
    pub channels: u32,
    /// Dies in all.
    pub dies: u32,
    /// Pages of 4 KiB that a die programs at once: planes times size of the flash page.
    pub planes: u32,
    /// Pages of 4 KiB in an erase block over all planes; a power of two.
    pub pages_per_block: u32,
    /// Spare share of the logical capacity.
    pub spare_percent: f64,
    /// Sensing a page, in microseconds.
    pub read_us: f64,
    /// Programming a page, in microseconds, by kind of page in turn (SLC 1, MLC 2, TLC 3, QLC 4 numbers).
    pub program_us: Vec<f64>,
    /// Erasing a block, in microseconds.
    pub erase_us: f64,
    /// Speed of a channel in MB/s; 0 for infinite.
    pub channel_mb_s: f64,
    /// A die collects while it has fewer free blocks than this.
    pub collect_below_blocks: usize,
    /// How a die chooses what to collect.
    #[serde(default)]
    pub victim: Victim,
    /// Blocks that `windowed` looks at.
    #[serde(default)]
    pub victim_window_blocks: usize,
    /// Static wear levelling begins where the erase counts of a die differ by more; 0 for none.
    #[serde(default)]
    pub wear_spread_max: u32,
    /// Interrupting a program or erase for a read, in microseconds; 0 if the flash cannot.
    #[serde(default)]
    pub suspend_us: f64,
}

/// How a die chooses what to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// Fewest valid pages.
    #[default]
    Greedy,
    /// Most gain for its cost (Kawaguchi et al., USENIX 1995).
    CostBenefit,
    /// Fewest valid pages among the blocks closed first (Hu et al., SYSTOR 2009).
    Windowed,
}

/// Microseconds in whole nanoseconds.
fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}

/// A page at so many MB/s, in whole nanoseconds.
fn page_nanos(mb_s: f64) -> u64 {
    if mb_s > 0.0 { (PAGE_SIZE as f64 * 1000.0 / mb_s).round() as u64 } else { 0 }
}

impl Profile {
    /// Capacity of a device for runs, if nothing else is asked for.
    pub const RUN_BYTES: u64 = GIB;
    /// Capacity of a device for crash exploration, if nothing else is asked for.
    pub const CRASH_BYTES: u64 = 32 * MIB;

    /// The names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|(name, _)| *name)
    }

    /// The profile of that name.
    ///
    /// # Errors
    /// If there is none; the error lists those there are.
    pub fn load(name: &str) -> Result<Profile, Error> {
        let Some((_, text)) = PROFILES.iter().find(|(known, _)| *known == name) else {
            let known = Profile::names().collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownProfile { name: name.into(), known });
        };
        Profile::parse(name, text)
    }

    /// The profile that `text` describes, in the form of the built-in ones.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(name: &str, text: &str) -> Result<Profile, Error> {
        let refuse = |message: String| Error::Profile { name: name.into(), message };
        let mut profile: Profile = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        profile.name = name.into();
        match profile.refusal() {
            Some(message) => Err(refuse(message.into())),
            None => Ok(profile),
        }
    }

    fn refusal(&self) -> Option<&'static str> {
        let flash = &self.flash;
        let is_whole = flash.planes.is_power_of_two() && flash.pages_per_block.is_power_of_two();
        if !is_whole || flash.planes > flash.pages_per_block || flash.planes > 32 {
            return Some("planes (up to 32) and pages_per_block must be powers of two, planes the smaller one");
        }
        if !(1..=64).contains(&flash.dies) || !flash.dies.is_power_of_two() || flash.channels == 0 {
            return Some("dies must be a power of two up to 64, on at least one channel");
        }
        if flash.program_us.is_empty() || flash.collect_below_blocks < 2 {
            return Some("program_us needs a number, collect_below_blocks two blocks");
        }
        if flash.victim == Victim::Windowed && flash.victim_window_blocks == 0 {
            return Some("windowed victims need victim_window_blocks");
        }
        if self.buffer.eviction_certain_bytes < self.buffer.eviction_begins_bytes + 64 * PAGE_SIZE as u64 {
            return Some("eviction_certain_bytes must be 256 KiB beyond eviction_begins_bytes");
        }
        None
    }

    /// A device of this kind, blank and switched on; `capacity_bytes` defaults to [`Profile::RUN_BYTES`].
    ///
    /// # Errors
    /// If the capacity has no whole pages or is out of bounds.
    pub fn device(&self, capacity_bytes: Option<u64>) -> Result<Box<dyn PowerCut>, Error> {
        Ok(Box::new(self.ssd(capacity_bytes)?))
    }

    /// [`Profile::device`] as the SSD that it is, for those who look inside.
    ///
    /// # Errors
    /// As there.
    pub fn ssd(&self, capacity_bytes: Option<u64>) -> Result<Ssd, Error> {
        let flash = &self.flash;
        let plan = FlashPlan {
            channels: flash.channels,
            dies: flash.dies,
            planes: flash.planes,
            pages_per_block: flash.pages_per_block,
            spare_percent: flash.spare_percent,
        };
        let shape = Shape::new(plan, capacity_bytes.unwrap_or(Profile::RUN_BYTES))?;
        Ok(Ssd::new(Model {
            geometry: self.geometry(shape),
            shape,
            timing: self.timing(),
            eviction_begins: self.buffer.eviction_begins_bytes / PAGE_SIZE as u64,
            eviction_certain: self.buffer.eviction_certain_bytes / PAGE_SIZE as u64,
            has_capacitor: self.buffer.capacitor,
            collect_below: flash.collect_below_blocks,
            victim_policy: match flash.victim {
                Victim::Greedy => VictimPolicy::Greedy,
                Victim::CostBenefit => VictimPolicy::CostBenefit,
                Victim::Windowed => VictimPolicy::Windowed(flash.victim_window_blocks),
            },
            wear_spread_max: (flash.wear_spread_max > 0).then_some(flash.wear_spread_max),
        }))
    }

    fn geometry(&self, shape: Shape) -> Geometry {
        let buffer = WriteBuffer {
            bytes: self.buffer.eviction_certain_bytes,
            eviction_order: EvictionOrder::LeastRecentlyWritten,
            eviction_begins_bytes: self.buffer.eviction_begins_bytes,
            eviction_certain_bytes: self.buffer.eviction_certain_bytes,
        };
        Geometry {
            transfer_pages_max: self.host.transfer_pages_max,
            queue_depth: self.host.queue_depth,
            fua: self.host.fua,
            trim_read: TrimRead::Zeros,
            share_pairs_max: if self.host.share { share_pairs_max(&shape) } else { 0 },
            share_atomic: self.host.share,
            write_buffer: Some(buffer),
            on_power_loss: if self.buffer.capacitor { PowerLoss::KeepsCompleted } else { PowerLoss::AnySubset },
            oob_hints: true,
            ..Geometry::plain(self.name.clone(), u64::from(shape.logical_pages))
        }
    }

    fn timing(&self) -> Timing {
        Timing {
            command: nanos(self.host.command_us),
            command_interval: nanos(self.host.command_interval_us),
            link_page: page_nanos(self.host.link_mb_s),
            link_is_duplex: self.host.link_is_duplex,
            read: nanos(self.flash.read_us),
            program: self.flash.program_us.iter().copied().map(nanos).collect(),
            suspend: (self.flash.suspend_us > 0.0).then(|| nanos(self.flash.suspend_us)),
            erase: nanos(self.flash.erase_us),
            channel_page: page_nanos(self.flash.channel_mb_s),
            trim: nanos(self.host.trim_us),
            flush: nanos(self.host.flush_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_builds_a_device_at_every_size() {
        for name in Profile::names() {
            for bytes in [4 * MIB, Profile::CRASH_BYTES, Profile::RUN_BYTES, 32 * GIB] {
                let device = Profile::load(name).unwrap().device(Some(bytes)).unwrap();
                assert_eq!(device.geometry().pages * PAGE_SIZE as u64, bytes);
                device.check().unwrap();
            }
        }
    }

    #[test]
    fn an_unknown_profile_is_refused_with_the_known_ones() {
        let error = Profile::load("sata-851").unwrap_err().to_string();
        assert!(error.contains("sata-851") && error.contains("sata-850pro") && error.contains("ideal"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let text = PROFILES[0].1.replace("queue_depth", "queue_depht");
        assert!(Profile::parse("mine", &text).unwrap_err().to_string().contains("queue_depht"));
    }
}
