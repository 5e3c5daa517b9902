//! FUSE: mounts a file system of Onewrite in the host's tree, for unmodified programs.
//!
//! Its one idea: FUSE's own thread decodes requests and sends each as a letter to the core. The core answers every
//! request in its own task. So requests of many programs overlap, and their syncs share commits. While the core waits,
//! FUSE's thread carries it on itself.
//!
//! ```text
//!   kernel ──/dev/fuse──► Door (thread) ──letter──► Inbox ──► Server (core) ──► FileSystem
//!      ▲                                                         │
//!      └───────────────────────── reply ─────────────────────────┘
//! ```
//!
//! # What the kernel caches
//! Only the kernel changes a mounted file system, so names, attributes and content stay in the kernel's caches until it
//! drops them. The kernel does not cache writes: `write` returns when the file system has the bytes. So a mode's
//! promise about the order of writes holds for programs too. Only stores to shared mappings wait in the kernel, until
//! `msync`, `fsync`, `munmap` or its own writeback. Files on which a program asked for atomic files pass the cache
//! ([`handles`]).
//!
//! # Invariants
//! - If an inode that the kernel knows loses its last name, it exists until the kernel forgets it ([`known`]).
//! - When the mount ends, every request is answered, every such inode is released, and the file system is unmounted.

mod acl;
mod atomic;
mod convert;
mod directories;
mod door;
mod error;
mod files;
mod handles;
mod inodes;
mod kernel;
mod known;
mod line_file;
mod marks;
mod names;
mod pattern;
mod point;
mod recorded_file;
mod server;
mod share;
mod stats;
mod table;

pub use error::MountError;
pub use kernel::{Access, KernelMount, MountFlag, MountRequest};
pub use line_file::LineFile;
pub use pattern::NamePattern;
pub use point::{Ended, Ending, MountPoint, detach, end_mount, read_stats};
pub use recorded_file::RecordedFile;
pub use server::{Names, Server, serve};
pub use stats::{Latency, Stats};
pub use table::is_mounted;

/// The extended attribute of the mount's root with [`Stats`] as JSON. It is not listed; only root and the owner of the
/// mount can read it.
pub const STATS_ATTRIBUTE: &str = "system.onewrite.stats";

/// The extended attribute of a mount's root whose reading writes everything to the disk, for who may end the mount. It
/// has no bytes; what cannot be written is the error.
const SYNC_ATTRIBUTE: &str = "system.onewrite.sync";
