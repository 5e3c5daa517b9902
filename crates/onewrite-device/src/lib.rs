//! Devices for the contract of `onewrite-block`: the emulated SSD, memory cards, hard disk, and disks of the host.
//!
//! [`Profile`] describes a device: `Profile::load("sata-850pro")?.device(None)?` builds it, switched on and blank.
//! [`FileDisk`] is a file or block device of the host.
//!
//! ```
//! use onewrite_block::{Device, MIB};
//! use onewrite_device::Profile;
//!
//! let profile = Profile::load("sata-850pro")?;
//! let device = profile.device(Some(32 * MIB))?;
//! assert_eq!(device.geometry().pages, 8192);
//! # Ok::<(), onewrite_device::Error>(())
//! ```

#![deny(unreachable_pub)]

mod address;
mod age;
mod error;
mod file;
pub mod ftl;
mod gate;
mod hdd;
mod latency;
pub mod micro;
mod profile;
mod ssd;
pub mod waf;

pub use age::Age;
pub use error::Error;
pub use file::{Access, FileDisk, Hold, Submission, loops_on};
pub use hdd::HardDisk;
pub use latency::{Latencies, Latency, LatencyBucket};
pub use profile::{
    BufferSide, DiskSide, Eviction, FlashSide, FtlKind, HostSide, Layer, MapLogKind, Profile, Queues, Victim,
};
pub use ssd::{
    DieOperation, MediumFaults, MediumOperation, OperationKind, OperationLatency, Rules, Shape, Sound, Ssd, UnderWay,
    Wear,
};
