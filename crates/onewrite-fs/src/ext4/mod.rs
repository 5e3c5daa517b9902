//! The ext4 file system.

pub mod format;
pub mod mkfs;
