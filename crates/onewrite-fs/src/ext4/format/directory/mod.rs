//! Directories: files of entries, one after the other in each block. Large directories have a hash tree over them.
//!
//! [`block`] reads and changes one block of entries, [`htree`] the index blocks; [`hash`] computes the tree's keys. A
//! reader without hash trees sees index blocks as empty blocks, so it can still list the directory.
//!
//! Source: `filesystems/ext4/directory.rst` of the Linux documentation.

pub mod block;
pub mod hash;
pub mod htree;

pub use block::{Entries, Entry, NAME_LENGTH_MAX};
pub use hash::{HashVersion, HashedBytes, NameHash};
