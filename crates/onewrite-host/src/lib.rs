//! Doors: how programs reach a file system of Onewrite.
//!
//! - [`fuse`]: a mount in the host's tree, for unmodified programs.
//! - [`Volume`]: an image in this process, by blocking calls from any thread.
#![deny(unreachable_pub)]

pub mod fuse;
mod letters;
mod volume;

pub use letters::{Letter, Stop};
pub use volume::{Draft, DraftFile, File, Mapping, Metadata, SharedRange, Volume, VolumeError, make_image};
