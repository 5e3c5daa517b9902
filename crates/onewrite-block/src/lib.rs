//! The contract below everything in Onewrite.
//!
//! Four types matter. [`Request`] is the only way to storage. A [`Device`] is a state machine: it takes requests in and
//! lets events happen. [`Page`] is content passed by reference. [`Runtime`] is time, tasks and cores.
//!
//! Nothing here knows a file system or a flash cell.
#![deny(unreachable_pub)]

mod bell;
mod checksum;
mod choices;
pub mod content_hash;
mod counters;
mod device;
pub mod layer;
pub mod mark;
mod page;
mod ram;
mod request;
mod runtime;
pub mod sync;
mod units;
mod zones;

pub use checksum::{crc32_be, crc32_le, crc32c, crc32c_changed};
pub use choices::Choices;
pub use counters::Counters;
pub use device::{
    Completion, Device, DeviceError, EvictionOrder, Geometry, NextEvent, Outcome, PowerCut, PowerLoss, RecoveryReport,
    TrimRead, WriteBuffer,
};
pub use page::{Page, PageBytes, Pattern, split_mix};
pub use ram::{Image, RamDisk};
pub use request::{Cause, Durable, Operation, Remap, Request, Stream, Token};
pub use runtime::{
    Bell, DevicePort, Executor, Halt, HostError, HostProfile, InFlight, Inbox, InboxSender, JobCost, Runtime, Started,
    TaskId, Time,
};
pub use units::{GIB, KIB, Lpn, MIB, Nanos, PAGE_SIZE};
pub use zones::Zones;
