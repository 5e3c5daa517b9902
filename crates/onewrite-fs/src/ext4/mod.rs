//! The ext4 file system: real images, real logs, the modes of DESIGN §4.
//!
//! [`Ext4::mount`] gives the file-system API on a device; [`mkfs`] makes an image; [`format`](mod@format) is the layout.
//! Inside, from the top: `ops`, `rename` and `create` (operations), `write`, `read`, `truncate`, `writeback`, `evict` and `delayed` (content), `dir`
//! (names), `map` (extents), `balloc`, `ialloc` and `inodes` (allocation), `guard` (what may be referred to), `volume` (blocks and their cache), `mount`.
//! Beside it stands [`view`], which only reads, and reads more.

mod attributes;
mod backing;
mod balloc;
mod create;
mod delayed;
mod dir;
pub mod format;
mod guard;
mod ialloc;
mod inodes;
mod look;
pub(crate) mod lost;
mod map;
pub mod mkfs;
mod mode;
mod mount;
mod open;
mod ops;
mod options;
mod rename;
mod runs;
mod shift;
mod survey;
mod sync;
mod tasks;
mod truncate;
pub mod view;
mod views;
mod volume;
mod write;

pub use mode::{Mode, ModeError, Promise, Scope};
pub use mount::{Ext4, replay};
pub use onewrite_cache::PolicyKind;
pub use options::MountOptions;
