//! Device: which device a run gets: a profile's by name, or a real disk by path.

use std::path::{Path, PathBuf};

use onewrite_block::{Device, MIB, PAGE_SIZE};
use onewrite_device::{FileDisk, Profile};

use super::Overlay;
use crate::error::LabError;

/// Bytes of an emulated device, or of an image that is made, if nothing else is asked for.
pub const DEFAULT_BYTES: u64 = 1024 * MIB;

/// What stands behind `--device`.
#[derive(Clone, Debug)]
pub enum DeviceChoice {
    /// An emulated device.
    Emulated(Box<Profile>),
    /// A file or block device of the host.
    Disk(PathBuf),
}

impl DeviceChoice {
    /// A profile in a file if `text` ends in `.toml`, a path if it holds a slash or names a file that exists, else a
    /// profile by name.
    ///
    /// # Errors
    /// If there is no such profile; the error lists those there are.
    pub fn named(text: &str) -> Result<DeviceChoice, LabError> {
        if !text.ends_with(".toml") && (text.contains('/') || Path::new(text).exists()) {
            return Ok(DeviceChoice::Disk(PathBuf::from(text)));
        }
        Ok(DeviceChoice::Emulated(Box::new(Profile::named(text)?)))
    }

    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            DeviceChoice::Emulated(profile) => profile.name.clone(),
            DeviceChoice::Disk(path) => path.display().to_string(),
        }
    }

    /// Whether time is virtual.
    pub fn is_emulated(&self) -> bool {
        matches!(self, DeviceChoice::Emulated(_))
    }

    /// The device, blank if emulated. `bytes` is its size; a disk that exists has its own.
    ///
    /// # Errors
    /// If it cannot be made or opened, or `bytes` contradicts what is there.
    pub fn open(&self, bytes: Option<u64>) -> Result<Box<dyn Device>, LabError> {
        match self {
            DeviceChoice::Emulated(profile) => Ok(profile.device(Some(bytes.unwrap_or(DEFAULT_BYTES)))?),
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
        Some(bytes) if bytes != has => {
            let path = path.display();
            Err(LabError::Option(format!(
                "{path} has {has} bytes already; leave --size out, or name a file that does not exist"
            )))
        }
        _ => Ok(Box::new(disk)),
    }
}

/// The image or disk at `path`, to be changed.
///
/// # Errors
/// If it cannot be opened.
pub fn open_disk(path: &Path) -> Result<Box<dyn Device>, LabError> {
    Ok(Box::new(FileDisk::open(path)?))
}

/// The image or disk at `path`, to be looked at: nothing that happens to it lasts.
///
/// # Errors
/// If it cannot be opened.
pub fn view_disk(path: &Path) -> Result<Box<dyn Device>, LabError> {
    Ok(Box::new(Overlay::new(open_disk(path)?)))
}
