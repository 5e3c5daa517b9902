//! File systems: ext4 with its jbd2 journal, F2FS, their checkers and the public file-system API.
//!
//! Start with [`FileSystem`], the API for workloads and the FUSE mount. [`pages`] is the layer below every file
//! system.
#![deny(unreachable_pub)]

mod acl;
mod any;
mod any_fs;
pub mod api;
mod atomic;
mod bits;
mod block;
pub mod check;
pub mod content;
mod devices;
mod drafts;
pub mod ext4;
pub mod f2fs;
pub mod journal;
mod losses;
mod names;
pub mod pages;
mod problem;
pub mod repair;
mod runs;
mod share;
mod tea;
mod transfer;
mod uuid;
mod views;

pub use any::{AnyView, is_f2fs};
pub use any_fs::{AnyFs, F2fsChoices, Recovery};
pub use api::{
    Allocation, AttributeChanges, AttributeManner, Attributes, CleaningCounters, DeviceNumber, DirectoryEntry,
    FileKind, FileSystem, FileView, FsCounters, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner,
    SeekTarget, Space, Timestamp, WRITE_STEP_BYTES,
};
pub use atomic::{AtomicFiles, DraftId};
pub use block::{BlockNo, BlockRange};
pub use content::{Content, Data, pattern_page};
pub use devices::Devices;
pub use losses::Losses;
pub use onewrite_cache::PolicyKind;
pub use share::{ShareBy, SharePages, ShareRange, Sharing};
pub use transfer::step_end;
