//! Device: the device of a run: an emulated one by the name of its profile, or a real disk by path.

use std::path::{Path, PathBuf};

use onewrite_block::layer::Overlay;
use onewrite_block::{Device, MIB, PAGE_SIZE};
use onewrite_device::{Age, Error, FileDisk, FtlKind, Layer, Profile};

use super::stack::Stack;
use crate::error::LabError;
use crate::results::DeviceSetup;

/// Bytes of an emulated device, or of a new image, if no size is given.
pub const DEFAULT_BYTES: u64 = 1024 * MIB;

/// The value of `--device`.
#[derive(Clone, Debug)]
pub enum DeviceChoice {
    /// An emulated device.
    Emulated {
        /// The profile of the device.
        profile: Box<Profile>,
        /// Writes done to it before the run.
        age: Age,
    },
    /// A file or block device of the host.
    Disk(PathBuf),
}

impl DeviceChoice {
    /// A new device. A `text` that ends in `.toml` is a profile in a file. One that holds a slash or names an existing
    /// file is a path. Any other is the name of a profile.
    ///
    /// # Errors
    /// If there is no such profile; the error lists the known ones, and says how a new file is named.
    pub fn named(text: &str) -> Result<DeviceChoice, LabError> {
        if !text.ends_with(".toml") && (text.contains('/') || Path::new(text).exists()) {
            return Ok(DeviceChoice::Disk(PathBuf::from(text)));
        }
        let profile = Profile::named(text).map_err(|error| match error {
            Error::UnknownProfile { .. } => LabError::Option(format!("{error}; a new file has a slash: ./{text}")),
            other => other.into(),
        })?;
        Ok(DeviceChoice::Emulated { profile: Box::new(profile), age: Age::New })
    }

    /// The same device with an age.
    ///
    /// # Errors
    /// If it is a real disk, because its age is unknown.
    pub fn of_age(self, age: Age) -> Result<DeviceChoice, LabError> {
        match self {
            DeviceChoice::Emulated { profile, .. } => Ok(DeviceChoice::Emulated { profile, age }),
            disk if age == Age::New => Ok(disk),
            DeviceChoice::Disk(path) => Err(LabError::Option(format!(
                "--age {} is for emulated devices; what {} went through is not known, write to it before instead",
                age.name(),
                path.display()
            ))),
        }
    }

    /// Whether `stack` writes zones of the device itself.
    pub fn has_zones_for(&self, stack: Stack) -> bool {
        let DeviceChoice::Emulated { profile, .. } = self else { return false };
        matches!(stack, Stack::F2fs(_)) && matches!(profile.own_layer(), Some(Layer::Open { .. }))
    }

    /// The device as `stack` uses it. On an open-channel or zoned device F2FS writes zones, with its staging area on
    /// conventional pages behind them; everything else has a translation layer of the host below it.
    #[must_use]
    pub fn under(&self, stack: Stack) -> DeviceChoice {
        match (self, stack) {
            (DeviceChoice::Emulated { profile, age }, Stack::F2fs(f2fs)) => {
                let profile = Box::new((**profile).clone().with_tail(f2fs.stage_bytes));
                DeviceChoice::Emulated { profile, age: *age }
            }
            (DeviceChoice::Emulated { profile, age }, _) => {
                DeviceChoice::Emulated { profile: Box::new((**profile).clone().translated()), age: *age }
            }
            (disk, _) => disk.clone(),
        }
    }

    /// Other properties of the device for reports.
    pub fn setup(&self) -> DeviceSetup {
        let DeviceChoice::Emulated { profile, age } = self else { return DeviceSetup::default() };
        let ftl =
            profile.flash.as_ref().map(|_| profile.own_layer().as_ref().map_or(FtlKind::Page.name(), Layer::name));
        DeviceSetup { ftl: ftl.map(str::to_owned), age: Some(age.name().to_owned()) }
    }

    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            DeviceChoice::Emulated { profile, .. } => profile.name.clone(),
            DeviceChoice::Disk(path) => path.display().to_string(),
        }
    }

    /// Whether time is virtual.
    pub fn is_emulated(&self) -> bool {
        matches!(self, DeviceChoice::Emulated { .. })
    }

    /// Opens the device; an emulated one is blank or has its age. `bytes` is its size; an existing disk has its own.
    ///
    /// # Errors
    /// If it cannot be made or opened; if `bytes` contradicts the size of an existing disk.
    pub fn open(&self, bytes: Option<u64>) -> Result<Box<dyn Device>, LabError> {
        match self {
            DeviceChoice::Emulated { profile, age } => {
                Ok(profile.device_of_age(Some(bytes.unwrap_or(DEFAULT_BYTES)), *age)?)
            }
            DeviceChoice::Disk(path) if path.exists() => existing(path, bytes),
            DeviceChoice::Disk(path) => {
                let bytes = bytes.unwrap_or(DEFAULT_BYTES);
                Ok(Box::new(FileDisk::create(path, bytes)?))
            }
        }
    }
}

fn existing(path: &Path, bytes: Option<u64>) -> Result<Box<dyn Device>, LabError> {
    let disk = FileDisk::open(path)?;
    let has = disk.geometry().pages * PAGE_SIZE as u64;
    match bytes {
        Some(bytes) if bytes / PAGE_SIZE as u64 * PAGE_SIZE as u64 != has => {
            let path = path.display();
            Err(LabError::Option(format!(
                "{path} has {has} bytes already; leave --size out, or name a file that does not exist"
            )))
        }
        _ => Ok(Box::new(disk)),
    }
}

/// Opens the image or disk at `path` for changes, with exclusive use.
///
/// # Errors
/// If it cannot be opened, or others use it.
pub fn open_disk(path: &Path) -> Result<Box<dyn Device>, LabError> {
    Ok(Box::new(FileDisk::open(path)?))
}

/// Opens the image or disk at `path` for reading; others may read it too. Writes to it stay in memory and are lost.
/// Needs no permission to write.
///
/// # Errors
/// If it cannot be opened, or others are changing it.
pub fn view_disk(path: &Path) -> Result<Box<dyn Device>, LabError> {
    Ok(Box::new(Overlay::new(Box::new(FileDisk::view(path)?))))
}
