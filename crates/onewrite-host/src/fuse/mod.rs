//! FUSE: a file system of Onewrite, mounted in the host's tree, for unmodified programs.
//!
//! Its one idea: FUSE's own thread decodes requests and sends each as a letter to the core, which is one thread. The
//! core answers every request in a task of its own, so that requests of many programs overlap, and that their syncs
//! share commits.
//!
//! ```text
//!   kernel ──/dev/fuse──► Door (thread) ──letter──► Inbox ──► Server (core) ──► FileSystem
//!      ▲                                                         │
//!      └───────────────────────── reply ─────────────────────────┘
//! ```
//!
//! # What the kernel caches
//! Nobody but the kernel changes a mounted file system, so names, attributes and content stay in the kernel's caches
//! until it drops them. Writes are not cached: `write` returns when the file system has taken the bytes, so a mode's
//! promise about the order of writes holds for programs, too. Only stores to shared mappings wait in the kernel, until
//! `msync`, `fsync`, `munmap` or its own writeback.
//!
//! # Invariants
//! - An inode that the kernel knows lives on when its last name goes, until the kernel forgets it ([`known`]).
//! - When the mount ends, every request is answered, every such inode is let go, and the file system is unmounted.

mod acl;
mod convert;
mod directories;
mod door;
mod files;
mod inodes;
mod kernel;
mod known;
mod names;
mod server;
mod stats;

pub use kernel::{Access, KernelMount, MountError, MountFlag, MountRequest};
pub use server::{Letter, Server, Stop, serve};
pub use stats::{Latency, Stats};

/// The extended attribute of the mount's root that holds [`Stats`] as JSON. It is not listed; only the owner of the
/// mount and root can read it.
pub const STATS_ATTRIBUTE: &str = "system.onewrite.stats";
