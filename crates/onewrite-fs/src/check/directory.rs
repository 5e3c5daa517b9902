//! What the check records about a directory.

use crate::block::BlockNo;
use crate::ext4::format::InodeNo;

/// A directory found in the inode tables.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub inode: InodeNo,
    /// Checksum seed of its blocks.
    pub seed: u32,
    pub indexed: bool,
    /// Its blocks, as a range of `directory_blocks`.
    pub blocks: std::ops::Range<usize>,
    /// Inode that its `..` names; [`InodeNo::NONE`] until found.
    pub dotdot: InodeNo,
}

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryBlock {
    pub logical: u32,
    pub physical: BlockNo,
}
