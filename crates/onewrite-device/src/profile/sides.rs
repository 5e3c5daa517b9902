//! Sides: what a profile says of a device: host interface, write buffer, flash, mechanics.

use std::ops::RangeInclusive;

use onewrite_block::{EvictionOrder, MIB, PAGE_SIZE};
use serde::Deserialize;

use crate::gate::Queuing;
use crate::hdd::Mechanics;
use crate::ssd::MediumFaults;
use crate::ssd::model::{MapLogKind, VictimPolicy};
use crate::ssd::shape::FlashPlan;

/// The mechanics of a hard disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSide {
    /// Capacity of the real disk. A smaller disk is its outer edge.
    pub full_bytes: u64,
    /// Turns of the platter per minute.
    pub turns_per_minute: f64,
    /// A seek to the next track, in microseconds.
    pub track_seek_us: f64,
    /// A seek over all tracks, in microseconds.
    pub full_seek_us: f64,
    /// Speed of the platter under the head in MB/s.
    pub media_mb_s: f64,
    /// Bytes of the write cache.
    pub cache_bytes: u64,
}

/// The host interface.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSide {
    /// Requests that may be under way at once.
    pub queue_depth: u32,
    /// Most pages in one read or write.
    pub transfer_pages_max: u32,
    /// Time from submission until the controller understands a command, in microseconds.
    pub command_us: f64,
    /// Least time between two commands, in microseconds.
    pub command_interval_us: f64,
    /// Speed of the link in MB/s; 0 for infinite.
    pub link_mb_s: f64,
    /// Whether the link carries both directions at once.
    pub link_is_duplex: bool,
    /// Whether writes may carry FUA.
    pub fua: bool,
    /// Whether the device supports SHARE.
    pub share: bool,
    /// Least time between two writes, in microseconds, where the controller takes longer for them; 0 where not.
    #[serde(default)]
    pub write_interval_us: f64,
    /// Time of a TRIM, in microseconds.
    pub trim_us: f64,
    /// Time of a FLUSH without its programs, in microseconds.
    pub flush_us: f64,
    /// Which commands may be under way beside others.
    #[serde(default)]
    pub queues: Queues,
}

/// Which commands a device queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// All of them, as NVMe does.
    #[default]
    All,
    /// Reads and writes, as SATA does: FLUSH and TRIM wait for all before them, and all behind wait for them.
    Transfers,
}

impl From<Queues> for Queuing {
    fn from(queues: Queues) -> Queuing {
        match queues {
            Queues::All => Queuing::All,
            Queues::Transfers => Queuing::Transfers,
        }
    }
}

/// The write buffer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSide {
    /// The first page may leave the buffer after this many bytes written.
    pub eviction_begins_bytes: u64,
    /// All earlier pages have left after this many bytes written.
    pub eviction_certain_bytes: u64,
    /// Whether a capacitor saves the buffer in a power cut.
    pub capacitor: bool,
    /// Which page leaves first.
    #[serde(default)]
    pub eviction_order: Eviction,
}

/// Which page leaves the write buffer first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// The page written longest ago, as in the papers' device.
    #[default]
    LeastRecentlyWritten,
    /// Any page.
    Unspecified,
}

impl From<Eviction> for EvictionOrder {
    fn from(eviction: Eviction) -> EvictionOrder {
        match eviction {
            Eviction::LeastRecentlyWritten => EvictionOrder::LeastRecentlyWritten,
            Eviction::Unspecified => EvictionOrder::Unspecified,
        }
    }
}

/// The translation layer of a profile's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FtlKind {
    /// The page-level layer of the event-driven SSD.
    #[default]
    Page,
    /// [`Fast`](crate::ftl::Fast).
    Fast,
    /// [`Bast`](crate::ftl::Bast).
    Bast,
    /// [`Dftl`](crate::ftl::Dftl).
    Dftl,
    /// None: [`Open`](crate::ftl::Open).
    Open,
}

impl FtlKind {
    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            FtlKind::Page => "page",
            FtlKind::Fast => "fast",
            FtlKind::Bast => "bast",
            FtlKind::Dftl => "dftl",
            FtlKind::Open => "open",
        }
    }
}

/// The flash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSide {
    /// Channels between controller and dies.
    pub channels: u32,
    /// Number of dies.
    pub dies: u32,
    /// Pages of 4 KiB that a die programs at once: planes times size of the flash page.
    pub planes: u32,
    /// Pages of 4 KiB in an erase block over all planes; a multiple of the planes.
    pub pages_per_block: u32,
    /// Spare share of the logical capacity.
    pub spare_percent: f64,
    /// Time to sense a page, in microseconds.
    pub read_us: f64,
    /// Times to program a page, in microseconds, for each kind of page in turn (SLC 1, MLC 2, TLC 3, QLC 4 numbers).
    pub program_us: Vec<f64>,
    /// Time to erase a block, in microseconds.
    pub erase_us: f64,
    /// Speed of a channel in MB/s; 0 for infinite.
    pub channel_mb_s: f64,
    /// The layer that translates pages to flash.
    #[serde(default)]
    pub ftl: FtlKind,
    /// Bytes of the mapping cache of [`super::Layer::Dftl`]; `None` for a share of the device,
    /// [`super::Layer::CAPACITY_PER_CACHE`].
    pub map_cache_bytes: Option<u64>,
    /// Conventional bytes behind the zones of [`super::Layer::Open`].
    #[serde(skip)]
    pub(crate) tail_bytes: u64,
    /// Most zones of [`super::Layer::Open`] that are open at once.
    #[serde(default = "any_number")]
    pub open_zones_max: u32,
    /// Log blocks of a hybrid layer ([`super::Layer::Fast`], [`super::Layer::Bast`]); `None` for as many as the spare
    /// blocks allow.
    pub log_blocks: Option<u32>,
    /// Whether the caller requested that number; if not, fewer spare blocks reduce it.
    #[serde(skip)]
    pub(crate) is_log_asked: bool,
    /// A die collects while it has fewer free blocks than this.
    pub collect_below_blocks: usize,
    /// How a die chooses its victim.
    #[serde(default)]
    pub victim: Victim,
    /// Number of blocks that `windowed` compares.
    #[serde(default)]
    pub victim_window_blocks: usize,
    /// Static wear levelling starts if the erase counts of a die differ by more than this; 0 for none.
    #[serde(default)]
    pub wear_spread_max: u32,
    /// Time to interrupt a program or erase for a read, in microseconds; 0 if the flash cannot.
    #[serde(default)]
    pub suspend_us: f64,
    /// Whether reads of the host go before programs and erases that wait at a die, with a layer of its own; `None`:
    /// where the device queues more than one command. The event-driven SSD always does so.
    pub reads_first: Option<bool>,
    /// One program in this many fails on average; 0 for none. With the layers `page` and `open` (there: in zones).
    #[serde(default)]
    pub program_fails_one_in: u64,
    /// One erase in this many fails on average; 0 for none. As for programs.
    #[serde(default)]
    pub erase_fails_one_in: u64,
    /// How the map log makes changes of the map durable.
    #[serde(default)]
    pub map_log: MapLogKind,
    /// Whether recovery finds pages by their out-of-band areas if the map log does not name them yet (`papers/003`
    /// §2.1).
    #[serde(default = "yes")]
    pub oob_hints: bool,
}

fn any_number() -> u32 {
    u32::MAX
}

fn yes() -> bool {
    true
}

/// How a die chooses its victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// Fewest valid pages.
    #[default]
    Greedy,
    /// Best ratio of gain to cost (Kawaguchi et al., USENIX 1995).
    CostBenefit,
    /// Fewest valid pages among the blocks closed first (Hu et al., SYSTOR 2009).
    Windowed,
}

/// Microseconds as whole nanoseconds.
pub(super) fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}

/// Time of a page at a speed in MB/s, in whole nanoseconds.
pub(super) fn page_nanos(mb_s: f64) -> u64 {
    if mb_s > 0.0 { (PAGE_SIZE as f64 * 1000.0 / mb_s).round() as u64 } else { 0 }
}

/// A number of a profile: its key, its value, and what it may be.
pub(super) type Number = (&'static str, f64, RangeInclusive<f64>);

/// Times in microseconds, to a quarter of an hour.
const MICROS: RangeInclusive<f64> = 0.0..=1e9;
/// Speeds in MB/s.
const SPEEDS: RangeInclusive<f64> = 0.0..=1e6;

impl HostSide {
    pub(super) fn numbers(&self) -> Vec<Number> {
        vec![
            ("queue_depth", self.queue_depth.into(), 1.0..=65_536.0),
            ("transfer_pages_max", self.transfer_pages_max.into(), 1.0..=1_048_576.0),
            ("command_us", self.command_us, MICROS),
            ("command_interval_us", self.command_interval_us, MICROS),
            ("link_mb_s", self.link_mb_s, SPEEDS),
            ("write_interval_us", self.write_interval_us, MICROS),
            ("trim_us", self.trim_us, MICROS),
            ("flush_us", self.flush_us, MICROS),
        ]
    }
}

impl FlashSide {
    pub(super) fn numbers(&self) -> Vec<Number> {
        let programs = self.program_us.iter().map(|micros| ("program_us", *micros, MICROS));
        let others = [
            ("read_us", self.read_us, MICROS),
            ("erase_us", self.erase_us, MICROS),
            ("suspend_us", self.suspend_us, MICROS),
            ("channel_mb_s", self.channel_mb_s, SPEEDS),
            ("spare_percent", self.spare_percent, 0.0..=1_000.0),
            ("channels", self.channels.into(), 1.0..=64.0),
            ("pages_per_block", self.pages_per_block.into(), 1.0..=65_536.0),
            ("collect_below_blocks", self.collect_below_blocks as f64, 2.0..=1_024.0),
        ];
        programs.chain(others).collect()
    }

    pub(super) fn refusal(&self) -> Option<&'static str> {
        let is_whole = self.planes.is_power_of_two() && self.pages_per_block.is_multiple_of(self.planes);
        if !is_whole || self.planes > self.pages_per_block || self.planes > 32 {
            return Some("planes must be a power of two up to 32, pages_per_block a multiple of them");
        }
        if !(1..=64).contains(&self.dies) || !self.dies.is_power_of_two() {
            return Some("dies must be a power of two up to 64");
        }
        if self.program_us.is_empty() {
            return Some("program_us needs a number");
        }
        let lacks_window = self.victim == Victim::Windowed && self.victim_window_blocks == 0;
        lacks_window.then_some("windowed victims need victim_window_blocks")
    }

    /// The random failures that the profile asks for.
    pub(super) fn faults(&self) -> Option<MediumFaults> {
        let (program_one_in, erase_one_in) = (self.program_fails_one_in, self.erase_fails_one_in);
        let mut faults = MediumFaults::new(1);
        (faults.program_one_in, faults.erase_one_in) = (program_one_in, erase_one_in);
        (program_one_in > 0 || erase_one_in > 0).then_some(faults)
    }

    pub(super) fn plan(&self) -> FlashPlan {
        FlashPlan {
            channels: self.channels,
            dies: self.dies,
            planes: self.planes,
            pages_per_block: self.pages_per_block,
            spare_percent: self.spare_percent,
        }
    }

    pub(super) fn victim_policy(&self) -> VictimPolicy {
        match self.victim {
            Victim::Greedy => VictimPolicy::Greedy,
            Victim::CostBenefit => VictimPolicy::CostBenefit,
            Victim::Windowed => VictimPolicy::Windowed(self.victim_window_blocks),
        }
    }
}

impl BufferSide {
    pub(super) fn refusal(&self) -> Option<&'static str> {
        let is_narrow = self.eviction_certain_bytes < self.eviction_begins_bytes + 64 * PAGE_SIZE as u64;
        is_narrow.then_some("eviction_certain_bytes must be 256 KiB beyond eviction_begins_bytes")
    }
}

impl DiskSide {
    pub(super) fn refusal(&self) -> Option<&'static str> {
        let positive = self.turns_per_minute > 0.0 && self.media_mb_s > 0.0 && self.track_seek_us > 0.0;
        let has_track = positive && self.mechanics(1024).track_pages > 1;
        let is_whole = has_track && self.full_seek_us >= self.track_seek_us && self.cache_bytes >= MIB;
        (!is_whole).then_some("turns, speeds and seeks must be positive, the cache at least 1 MiB")
    }

    pub(super) fn mechanics(&self, pages: u64) -> Mechanics {
        let turn = nanos(60.0e6 / self.turns_per_minute);
        Mechanics {
            turn,
            track_seek: nanos(self.track_seek_us),
            full_seek: nanos(self.full_seek_us),
            track_pages: turn / page_nanos(self.media_mb_s).max(1),
            pages,
            stroke: (pages * PAGE_SIZE as u64) as f64 / self.full_bytes as f64,
        }
    }
}
