//! Directories with a wrong mode. Their first block shows that they are directories.

use super::indirect::entry;
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::ext4::format::directory::block::Entries;
use crate::ext4::format::extent::Node;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, Layout, Place};

/// The first block of an inode that may be a directory with a wrong mode. Its mode is neither file nor directory.
pub(crate) fn block_to_look_at(inode: &Inode, layout: &Layout) -> Option<BlockNo> {
    if matches!(inode.kind(), Some(FileKind::Regular | FileKind::Directory)) {
        return None;
    }
    let block = if inode.has(flags::EXTENTS) {
        let node = Node::parse(&inode.block, Place::Block(BlockNo::FIRST)).ok()?;
        node.extents().next().filter(|extent| extent.logical == 0)?.physical
    } else {
        entry(&inode.block, 0)
    };
    (block.is_some() && layout.contains_block(block)).then_some(block)
}

/// Whether a block begins like the first block of directory `number`: with a `.` that names it, and `..`.
pub(crate) fn begins_as_directory(bytes: &[u8], number: InodeNo) -> bool {
    let mut entries = Entries::new(bytes, Place::Inode(number)).map_while(Result::ok);
    let own = entries.next().is_some_and(|entry| entry.name == b"." && entry.inode == number);
    own && entries.next().is_some_and(|entry| entry.name == b".." && entry.is_used())
}
