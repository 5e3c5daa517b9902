//! SQLite in an image: a VFS over [`onewrite_host::Volume`]. `docs/sqlite.md` shows it in use, `vfs.rs` how it works.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use onewrite_fs::ext4::{Mode, MountOptions};
//! use onewrite_host::Volume;
//! use rusqlite::{Connection, OpenFlags};
//!
//! let volume = Volume::open("disk.img", MountOptions::new(Mode::DataAsync))?;
//! let registered = onewrite_sqlite::register("onewrite", &volume)?;
//! let database = Connection::open_with_flags_and_vfs("/orders.db", OpenFlags::default(), "onewrite")?;
//! database.pragma_update(None, "journal_mode", "MEMORY")?; // safe here: commits are atomic without a journal
//! database.execute_batch("ATTACH '/stock.db' AS stock")?; // its changes commit together with those of orders.db
//! # drop(database);
//! drop(registered);
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! The library is also a loadable extension: any SQLite shell loads it and opens
//! `file:disk.img:/orders.db?vfs=onewrite` ([`images`]).
//!
//! The functions of [`door`] turn C's pointers into Rust's references and call safe code; no other module has unsafe
//! code.
#![deny(unreachable_pub)]

pub mod door;
mod failure;
mod file;
pub mod images;
mod locks;
mod memory;
mod names;
pub mod storage;
mod vfs;
pub mod volume;

use onewrite_host::Volume;

pub use door::chance::Seeded;
pub use door::{Registered, register_storage};

use crate::storage::Result;
use crate::volume::VolumeStorage;

/// Gives the SQLite of this program a VFS called `name`, whose paths are those of `volume`.
///
/// # Errors
/// A name with a zero byte; a SQLite that does not start.
pub fn register(name: &str, volume: &Volume) -> Result<Registered<VolumeStorage>> {
    register_storage(name, VolumeStorage::new(volume.clone()))
}
