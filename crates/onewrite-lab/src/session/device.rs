//! Device: which device a run gets: a profile's by name, or a real disk by path.

use std::path::{Path, PathBuf};

use onewrite_block::{Device, MIB, PAGE_SIZE};
use onewrite_device::{Age, FileDisk, FtlKind, Layer, Profile};

use super::Overlay;
use crate::error::LabError;
use crate::results::DeviceSetup;

/// Bytes of an emulated device, or of an image that is made, if nothing else is asked for.
pub const DEFAULT_BYTES: u64 = 1024 * MIB;

/// What stands behind `--device`.
#[derive(Clone, Debug)]
pub enum DeviceChoice {
    /// An emulated device.
    Emulated {
        /// The device on paper.
        profile: Box<Profile>,
        /// What was written to it before.
        age: Age,
    },
    /// A file or block device of the host.
    Disk(PathBuf),
}

impl DeviceChoice {
    /// A new device: a profile in a file if `text` ends in `.toml`, a path if it holds a slash or names a file that
    /// exists, else a profile by name.
    ///
    /// # Errors
    /// If there is no such profile; the error lists those there are.
    pub fn named(text: &str) -> Result<DeviceChoice, LabError> {
        if !text.ends_with(".toml") && (text.contains('/') || Path::new(text).exists()) {
            return Ok(DeviceChoice::Disk(PathBuf::from(text)));
        }
        Ok(DeviceChoice::Emulated { profile: Box::new(Profile::named(text)?), age: Age::New })
    }

    /// The same with a past.
    ///
    /// # Errors
    /// If it is a real disk, whose past nobody knows.
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

    /// What else a report says of it.
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

    /// The device; an emulated one is blank, or of its age. `bytes` is its size; a disk that exists has its own.
    ///
    /// # Errors
    /// If it cannot be made or opened, or `bytes` contradicts what is there.
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

/// The image or disk at `path`, to be changed, with nobody beside.
///
/// # Errors
/// If it cannot be opened, or others have it in use.
pub fn open_disk(path: &Path) -> Result<Box<dyn Device>, LabError> {
    Ok(Box::new(FileDisk::open(path)?))
}

/// The image or disk at `path`, to be looked at, beside others that look: nothing that happens to it lasts. It takes no
/// permission to write.
///
/// # Errors
/// If it cannot be opened, or others change it.
pub fn view_disk(path: &Path) -> Result<Box<dyn Device>, LabError> {
    Ok(Box::new(Overlay::new(Box::new(FileDisk::view(path)?))))
}
