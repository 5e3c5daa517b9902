//! The ext4 disk format: bytes in, structures out, and back. No I/O, no state, no policy.
//!
//! Each module opens with the layout it knows. [`Layout`] holds the checked numbers of the superblock; the other
//! functions take it as an argument. No function trusts the bytes: a damaged structure gives a [`FormatError`] that
//! names the structure, the place and the problem. Separate functions set and verify checksums, except for inodes and
//! group descriptors: encoding always sets theirs.

pub mod attribute;
mod crc16;
pub mod directory;
pub(crate) mod error;
pub mod extent;
pub mod features;
pub mod group;
pub mod inode;
mod inode_no;
mod layout;
pub mod superblock;
pub(crate) mod time;

pub use error::{FormatError, Place, Problem};
pub use extent::Extent;
pub use features::Features;
pub use group::RawGroupDescriptor;
pub use inode::Inode;
pub use inode_no::InodeNo;
pub use layout::{FIRST_INODE, InodePosition, JOURNAL_INODE, Layout, RESIZE_INODE, ROOT_INODE};
pub use superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
