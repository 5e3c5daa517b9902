//! F2FS: real images. [`view`] shows the tree, [`F2fs`] mounts and changes it, [`check`] finds what is wrong, [`mkfs`]
//! makes empty ones.
//!
//! ```text
//!   mounted (FileSystem) ─ space: segments, logs ─┐
//!   view (FileView)                               ├─ tables: superblock, checkpoint, NAT, SIT ─ blocks ─► device
//!   check                                         │
//!   mkfs                                          └─ format: bytes ↔ structures, no I/O
//!   stage: a log of changed bytes behind the image, or on a device of its own
//! ```
//!
//! `docs/f2fs.md` says what is read and written, and what is refused.

mod blocks;
pub mod check;
pub mod format;
pub mod mkfs;
mod mounted;
mod space;
mod stage;
mod summaries;
mod tables;
pub mod view;

pub use mounted::{Clean, F2fs, F2fsOptions, FsyncMode, LogMode, Recovered};
pub use tables::marked_copies;
