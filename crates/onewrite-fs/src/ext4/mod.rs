//! The ext4 file system: real images, real logs, the modes of [`Mode`].
//!
//! [`Ext4::mount`] gives the file-system API on a device. [`mkfs`] makes an image. [`format`](mod@format) is the
//! layout. The layers of a mounted image, from the top: `ops` and `look` (operations); six views of a volume
//! (`views`): directories (`dir`, `create`, `rename`), contents (`write`, `truncate`, `shift`, `delayed`), extents
//! (`map`, `survey`), the allocator (`balloc`, `ialloc`, `orphans`), drafts of atomic files (`atomic`),
//! extended attributes (`attributes`); then `inodes`, `volume` (metadata blocks) and `guard` (which blocks a reference
//! may name). `backing` connects the file system to the page layer. `mount`, `open`, `tasks` and `sync` handle mount,
//! background work, sync and unmount. [`view`] is a separate read-only path that accepts more images.

mod atomic;
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
mod orphans;
mod rename;
#[cfg(test)]
mod self_checks;
mod share;
mod shift;
mod survey;
mod sync;
mod tasks;
mod truncate;
pub mod view;
mod views;
mod volume;
mod write;

pub use crate::transfer::step_end;
pub use mode::{Mode, ModeError, Promise, Scope};
pub use mount::{Ext4, replay, replay_with};
pub use onewrite_cache::PolicyKind;
pub use options::MountOptions;
