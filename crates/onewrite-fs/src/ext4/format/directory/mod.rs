//! Directories: files of entries, one after the other in each block, with a hash tree over them where they are large.
//!
//! [`block`] reads and changes one block of entries, [`htree`] the index blocks, [`hash`] computes the tree's keys. A
//! reader that knows no tree sees index blocks as empty ones, so listing a directory never needs it.
//!
//! Source: `filesystems/ext4/directory.rst` of the Linux documentation.

pub mod block;
pub mod hash;
pub mod htree;

pub use block::{Entries, Entry, NAME_LENGTH_MAX};
pub use hash::{HashVersion, NameHash};
