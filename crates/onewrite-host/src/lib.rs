//! Doors: how programs reach a file system of Onewrite.
//!
//! - [`fuse`]: a mount in the host's tree, for unmodified programs.
//! - [`Volume`]: an image in this process, by blocking calls from any thread.
//! - [`acked()`]: what a program says that `onewrite crash --run` proves.
#![deny(unreachable_pub)]

mod acked;
pub mod fuse;
mod letters;
mod volume;

pub use acked::{ACKNOWLEDGE_TO, ACKNOWLEDGES, acked};
pub use letters::{Letter, Stop};
pub use volume::{Draft, DraftFile, File, Mapping, Metadata, SharedRange, Volume, VolumeError, make_image};
