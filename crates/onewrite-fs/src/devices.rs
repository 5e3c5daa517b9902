//! Devices: the named devices of a mount.

use onewrite_block::DevicePort;

use crate::api::{FsError, FsResult};

/// The devices of one mount. Every file system has an image; each one states which other devices it uses.
#[derive(Clone)]
pub struct Devices {
    /// The device with the image.
    pub image: DevicePort,
    /// A log outside the image.
    pub log: Option<DevicePort>,
    /// A device that holds writes before they reach the image.
    pub staging: Option<DevicePort>,
}

impl Devices {
    /// The image, for a file system that uses no other device.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] with the name of a device that `file_system` does not use.
    pub fn image_only(self, file_system: &str) -> FsResult<DevicePort> {
        refuse("staging", self.staging.is_some(), file_system)?;
        Ok(self.without_log(file_system)?.image)
    }

    /// The devices of a file system that has no log of its own.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if there is a device for a log.
    pub fn without_log(self, file_system: &str) -> FsResult<Devices> {
        refuse("log", self.log.is_some(), file_system)?;
        Ok(self)
    }
}

fn refuse(name: &str, is_given: bool, file_system: &str) -> FsResult<()> {
    let what = || format!("a {name} device of its own, which {file_system} has no use for; leave it out");
    if is_given { Err(FsError::Unsupported(what())) } else { Ok(()) }
}

impl From<DevicePort> for Devices {
    /// An image alone.
    fn from(image: DevicePort) -> Devices {
        Devices { image, log: None, staging: None }
    }
}
