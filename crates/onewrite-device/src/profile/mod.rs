//! Profiles: descriptions of devices in TOML, one file for each. Every number names its source there.
//!
//! A profile is fitted to the calibration rows of the scoreboard; the other numbers are from data sheets and published
//! measurements. An uncertain number has its range as a comment, so that a sweep can vary it.

mod layers;
mod sides;

use std::fs::OpenOptions;
use std::path::Path;

use onewrite_block::{GIB, Geometry, MIB, PAGE_SIZE, PowerCut, PowerLoss, RecoveryReport, TrimRead, WriteBuffer};
use serde::Deserialize;

use crate::age::Age;
use crate::error::Error;
use crate::hdd::{DiskModel, HardDisk};
use crate::ssd::backing::Backing;
pub use crate::ssd::model::MapLogKind;
use crate::ssd::model::{Model, Timing};
use crate::ssd::shape::Shape;
use crate::ssd::{Ssd, share_pairs_max};
pub use layers::Layer;
pub use sides::{BufferSide, DiskSide, Eviction, FlashSide, FtlKind, HostSide, Queues, Victim};
use sides::{nanos, page_nanos};

/// Name and text of every profile, in the order of lists.
const PROFILES: &[(&str, &str)] = &[
    ("sata-850pro", include_str!("../../profiles/sata-850pro.toml")),
    ("nvme-960pro", include_str!("../../profiles/nvme-960pro.toml")),
    ("nvme-750", include_str!("../../profiles/nvme-750.toml")),
    ("nvme-p3600", include_str!("../../profiles/nvme-p3600.toml")),
    ("sata-530", include_str!("../../profiles/sata-530.toml")),
    ("ssd-tlc-120g", include_str!("../../profiles/ssd-tlc-120g.toml")),
    ("microsd-patriot", include_str!("../../profiles/microsd-patriot.toml")),
    ("microsd-adata", include_str!("../../profiles/microsd-adata.toml")),
    ("hdd-barracuda", include_str!("../../profiles/hdd-barracuda.toml")),
    ("nvme-share", include_str!("../../profiles/nvme-share.toml")),
    ("ocssd-huawei", include_str!("../../profiles/ocssd-huawei.toml")),
    ("zns", include_str!("../../profiles/zns.toml")),
    ("ftl-16g", include_str!("../../profiles/ftl-16g.toml")),
    ("ideal", include_str!("../../profiles/ideal.toml")),
];

/// The description of a device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name for [`Profile::load`].
    #[serde(skip)]
    pub name: String,
    /// The real device that it models, in one sentence.
    pub description: String,
    /// The host interface.
    pub host: HostSide,
    /// The write buffer of an SSD.
    pub buffer: Option<BufferSide>,
    /// The flash of an SSD.
    pub flash: Option<FlashSide>,
    /// The mechanics of a hard disk. A profile has either flash and a buffer, or these.
    pub disk: Option<DiskSide>,
}

impl Profile {
    /// Default capacity of a device for runs.
    pub const RUN_BYTES: u64 = GIB;

    /// The names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|(name, _)| *name)
    }

    /// The profile named `name`.
    ///
    /// # Errors
    /// If there is none; the error lists the known names.
    pub fn load(name: &str) -> Result<Profile, Error> {
        let Some((_, text)) = PROFILES.iter().find(|(known, _)| *known == name) else {
            let known = Profile::names().collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownProfile { name: name.into(), known });
        };
        Profile::parse(name, text)
    }

    /// The profile named `name`; if the name ends in `.toml`, the profile in that file.
    ///
    /// # Errors
    /// If there is none, or the file cannot be read or is not a profile.
    pub fn named(name: &str) -> Result<Profile, Error> {
        if !name.ends_with(".toml") {
            return Profile::load(name);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Profile::parse(name, &text),
            Err(error) => {
                let cure = "name a profile, or a file like those in crates/onewrite-device/profiles";
                let (kind, message) = (error.kind(), error.to_string());
                Err(Error::Host { path: name.into(), operation: "read", kind, message, cure })
            }
        }
    }

    /// The profile in `text`, which has the format of the built-in ones.
    ///
    /// # Errors
    /// The problem, and its place.
    pub fn parse(name: &str, text: &str) -> Result<Profile, Error> {
        let refuse = |message: String| Error::Profile { name: name.into(), message };
        let mut profile: Profile = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        profile.name = name.into();
        match profile.out_of_range().or_else(|| profile.refusal().map(String::from)) {
            Some(message) => Err(refuse(message)),
            None => Ok(profile),
        }
    }

    /// The first number that no device has, by its key.
    fn out_of_range(&self) -> Option<String> {
        let flash = self.flash.as_ref().map(FlashSide::numbers).unwrap_or_default();
        let mut numbers = self.host.numbers().into_iter().chain(flash);
        let wrong = numbers.find(|(_, value, range)| !range.contains(value));
        wrong.map(|(key, value, range)| format!("{key} = {value}: take {} to {}", range.start(), range.end()))
    }

    fn refusal(&self) -> Option<&'static str> {
        match (&self.flash, &self.buffer, &self.disk) {
            (Some(flash), Some(buffer), None) => flash.refusal().or_else(|| buffer.refusal()),
            (None, None, Some(disk)) => disk.refusal(),
            _ => Some("a profile has either [flash] and [buffer] or [disk]"),
        }
    }

    /// A device of this kind, blank and switched on; `capacity_bytes` defaults to [`Profile::RUN_BYTES`].
    ///
    /// # Errors
    /// If the capacity has no whole pages or is out of range.
    pub fn device(&self, capacity_bytes: Option<u64>) -> Result<Box<dyn PowerCut>, Error> {
        Ok(match (&self.disk, self.own_layer()) {
            (Some(_), _) => Box::new(self.hard_disk(capacity_bytes)?),
            (None, None) => Box::new(self.ssd(capacity_bytes)?),
            (None, Some(_)) => Box::new(self.ftl_device(capacity_bytes)?),
        })
    }

    /// [`Profile::device`] with a past. Counters and time start after it.
    ///
    /// # Errors
    /// As [`Profile::device`], or if a hard disk should be aged.
    pub fn device_of_age(&self, capacity_bytes: Option<u64>, age: Age) -> Result<Box<dyn PowerCut>, Error> {
        if age == Age::New {
            return self.device(capacity_bytes);
        }
        if matches!(self.own_layer(), Some(Layer::Open { .. })) {
            let message = "the host writes its flash as zones and erases it, so a new one is like an old one; leave \
                           --age out, or take --ftl dftl";
            return Err(Error::Profile { name: self.name.clone(), message: message.into() });
        }
        if self.disk.is_some() {
            let message = "it is a hard disk, whose speed does not depend on what was written before; leave --age out";
            return Err(Error::Profile { name: self.name.clone(), message: message.into() });
        }
        Ok(match self.own_layer() {
            None => Box::new(self.ssd(capacity_bytes)?.aged(age)),
            Some(_) => Box::new(self.ftl_device(capacity_bytes)?.aged(age)),
        })
    }

    /// [`Profile::device`] as its concrete type, an SSD, for callers that look inside.
    ///
    /// # Errors
    /// As [`Profile::device`], or if the profile is a hard disk or has another translation layer than the page-level
    /// one.
    pub fn ssd(&self, capacity_bytes: Option<u64>) -> Result<Ssd, Error> {
        let (Some(flash), Some(buffer)) = (&self.flash, &self.buffer) else {
            let message = "it is a hard disk, not an SSD".into();
            return Err(Error::Profile { name: self.name.clone(), message });
        };
        if self.own_layer().is_some() {
            let message = format!("its translation layer is {}; the event-driven SSD has --ftl page", flash.ftl.name());
            return Err(Error::Profile { name: self.name.clone(), message });
        }
        let mut ssd = Ssd::new(self.model(flash, buffer, capacity_bytes)?);
        if let Some(faults) = flash.faults() {
            ssd.set_faults(faults);
        }
        Ok(ssd)
    }

    /// An SSD with its flash in the file at `path`. Makes the file if there is none. Otherwise the device has the state
    /// of its last process, even if `kill -9` ended that one; then it returns a report of the recovery. Reads and
    /// programs use the file, so memory stays small.
    ///
    /// # Errors
    /// If the file is in use, damaged, of another profile or size, or cannot be read and written. If the profile has a
    /// capacitor: a killed process cannot keep its promise.
    pub fn ssd_in_file(
        &self,
        path: impl AsRef<Path>,
        capacity_bytes: Option<u64>,
    ) -> Result<(Ssd, Option<RecoveryReport>), Error> {
        let (Some(flash), Some(buffer), false) = (&self.flash, &self.buffer, self.has_capacitor()) else {
            let message = "only an SSD without a capacitor can keep its flash in a file".into();
            return Err(Error::Profile { name: self.name.clone(), message });
        };
        let path = path.as_ref();
        let refuse = |operation, message: String, cure| {
            let (path, kind) = (path.display().to_string(), std::io::ErrorKind::Other);
            Err(Error::Host { path, operation, kind, message, cure })
        };
        let file = match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
            Ok(file) => file,
            Err(error) => return refuse("open", error.to_string(), "name a file that you may read and write"),
        };
        if let Err(error) = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            return refuse("lock", error.to_string(), "another process uses it; stop that one first");
        }
        let model = self.model(flash, buffer, capacity_bytes)?;
        let backing = match Backing::new(file, &model.shape, &self.name) {
            Ok(backing) => backing,
            Err(error) => {
                return refuse("open", error.to_string(), "name a new file, or the profile and size it was made with");
            }
        };
        match Ssd::with_backing(model, backing) {
            Ok(opened) => Ok(opened),
            Err(message) => refuse("recover", message, "restore the file from a copy"),
        }
    }

    fn has_capacitor(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.capacitor)
    }

    fn model(&self, flash: &FlashSide, buffer: &BufferSide, capacity_bytes: Option<u64>) -> Result<Model, Error> {
        let shape = Shape::new(flash.plan(), capacity_bytes.unwrap_or(Profile::RUN_BYTES))?;
        Ok(Model {
            geometry: Geometry { oob_hints: flash.oob_hints, ..self.geometry(shape, buffer) },
            shape,
            timing: self.timing(flash),
            queuing: self.host.queues.into(),
            reads_first: flash.reads_first.unwrap_or(self.host.queue_depth > 1),
            map_log: flash.map_log,
            eviction_begins: buffer.eviction_begins_bytes / PAGE_SIZE as u64,
            eviction_certain: buffer.eviction_certain_bytes / PAGE_SIZE as u64,
            has_capacitor: buffer.capacitor,
            collect_below: flash.collect_below_blocks,
            victim_policy: flash.victim_policy(),
            wear_spread_max: (flash.wear_spread_max > 0).then_some(flash.wear_spread_max),
        })
    }

    /// The shape of the flash of a device of this kind.
    ///
    /// # Errors
    /// As for [`Profile::device`], or if the profile is a hard disk.
    pub fn shape(&self, capacity_bytes: Option<u64>) -> Result<Shape, Error> {
        let flash = self.flash.as_ref().ok_or_else(|| self.lacks_flash())?;
        Shape::new(flash.plan(), capacity_bytes.unwrap_or(Profile::RUN_BYTES))
    }

    /// [`Profile::device`] as its concrete type, a hard disk.
    ///
    /// # Errors
    /// As [`Profile::device`], or if the profile is an SSD.
    pub fn hard_disk(&self, capacity_bytes: Option<u64>) -> Result<HardDisk, Error> {
        let Some(disk) = &self.disk else {
            return Err(Error::Profile { name: self.name.clone(), message: "it is an SSD, not a hard disk".into() });
        };
        Ok(HardDisk::new(self.disk_model(disk, capacity_bytes)?))
    }

    fn disk_model(&self, disk: &DiskSide, capacity_bytes: Option<u64>) -> Result<DiskModel, Error> {
        let bytes = capacity_bytes.unwrap_or(Profile::RUN_BYTES);
        if bytes < 4 * MIB || !bytes.is_multiple_of(PAGE_SIZE as u64) || bytes > disk.full_bytes {
            return Err(Error::Capacity { bytes });
        }
        let pages = bytes / PAGE_SIZE as u64;
        let geometry = Geometry {
            transfer_pages_max: self.host.transfer_pages_max,
            queue_depth: self.host.queue_depth,
            ..Geometry::plain(self.name.clone(), pages)
        };
        Ok(DiskModel {
            geometry,
            mechanics: disk.mechanics(pages),
            command: nanos(self.host.command_us),
            flush: nanos(self.host.flush_us),
            link_page: page_nanos(self.host.link_mb_s),
            cache_pages: (disk.cache_bytes / PAGE_SIZE as u64) as usize,
            queuing: self.host.queues.into(),
        })
    }

    fn geometry(&self, shape: Shape, side: &BufferSide) -> Geometry {
        let buffer = WriteBuffer {
            bytes: side.eviction_certain_bytes,
            eviction_order: side.eviction_order.into(),
            eviction_begins_bytes: side.eviction_begins_bytes,
            eviction_certain_bytes: side.eviction_certain_bytes,
        };
        Geometry {
            transfer_pages_max: self.host.transfer_pages_max,
            queue_depth: self.host.queue_depth,
            fua: self.host.fua,
            trim_read: TrimRead::Zeros,
            share_pairs_max: if self.host.share { share_pairs_max(&shape) } else { 0 },
            share_atomic: self.host.share,
            write_buffer: Some(buffer),
            on_power_loss: if side.capacitor { PowerLoss::KeepsCompleted } else { PowerLoss::AnySubset },
            oob_hints: true,
            ..Geometry::plain(self.name.clone(), u64::from(shape.logical_pages))
        }
    }

    fn timing(&self, flash: &FlashSide) -> Timing {
        Timing {
            command: nanos(self.host.command_us),
            command_interval: nanos(self.host.command_interval_us),
            write_interval: nanos(self.host.write_interval_us.max(self.host.command_interval_us)),
            link_page: page_nanos(self.host.link_mb_s),
            link_is_duplex: self.host.link_is_duplex,
            read: nanos(flash.read_us),
            program: flash.program_us.iter().copied().map(nanos).collect(),
            suspend: (flash.suspend_us > 0.0).then(|| nanos(flash.suspend_us)),
            erase: nanos(flash.erase_us),
            channel_page: page_nanos(flash.channel_mb_s),
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
            for bytes in [4 * MIB, 32 * MIB, Profile::RUN_BYTES, 32 * GIB] {
                let device = Profile::load(name).unwrap().translated().device(Some(bytes)).unwrap();
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
    fn a_number_that_no_device_has_is_refused_by_its_key() {
        let text = PROFILES.iter().find(|(name, _)| *name == "sata-850pro").unwrap().1;
        let with = |key: &str, value: &str| {
            let lines = text.lines().map(|line| match line.starts_with(&format!("{key} =")) {
                true => format!("{key} = {value}"),
                false => line.to_owned(),
            });
            Profile::parse("mine", &lines.collect::<Vec<_>>().join("\n"))
        };
        assert!(with("flush_us", "5600.0").is_ok() && with("link_mb_s", "0.0").is_ok());
        let wrong = [
            ("flush_us", "-5.0"),
            ("flush_us", "nan"),
            ("flush_us", "inf"),
            ("read_us", "1e18"),
            ("program_us", "[-5.0, 100.0]"),
            ("link_mb_s", "-550.0"),
            ("spare_percent", "1e9"),
            ("queue_depth", "0"),
            ("transfer_pages_max", "0"),
            ("channels", "1000000"),
            ("pages_per_block", "4294967292"),
            ("collect_below_blocks", "1"),
        ];
        for (key, value) in wrong {
            let said = with(key, value).unwrap_err().to_string();
            assert!(said.contains(&format!("{key} =")) && said.contains(" to "), "{key} = {value}: {said}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let text = PROFILES[0].1.replace("queue_depth", "queue_depht");
        assert!(Profile::parse("mine", &text).unwrap_err().to_string().contains("queue_depht"));
    }
}
