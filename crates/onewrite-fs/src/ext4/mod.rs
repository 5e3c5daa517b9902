//! The ext4 file system.
