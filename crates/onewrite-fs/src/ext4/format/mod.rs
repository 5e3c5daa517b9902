//! The ext4 disk format: bytes in, structures out, and back. No I/O, no state, no policy.
//!
//! Each module opens with the layout it knows. [`Layout`] is what the superblock says, checked once; every other
//! function takes it along. Bytes are never trusted: a damaged structure is a [`FormatError`] that names the structure,
//! the place and what is wrong. Checksums are set and verified by functions of their own, or inside encoding where a
//! structure always leaves with one (inodes, group descriptors).

pub mod acl;
pub mod attribute;
mod crc16;
pub mod directory;
pub(crate) mod error;
pub mod extent;
pub mod features;
pub mod group;
pub mod inode;
mod layout;
pub mod superblock;
mod time;

pub use error::{FormatError, Place, Problem};
pub use extent::Extent;
pub use features::Features;
pub use group::RawGroupDescriptor;
pub use inode::Inode;
pub use layout::{FIRST_INODE, InodePosition, JOURNAL_INODE, Layout, RESIZE_INODE, ROOT_INODE};
pub use superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
