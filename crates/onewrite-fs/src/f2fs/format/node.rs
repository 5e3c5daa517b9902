//! Nodes: a block with a footer that says whose it is. Inodes have their own module; direct nodes name blocks of
//! content, indirect nodes name nodes.
//!
//! ```text
//!   1018 numbers of 4 bytes (4072) │ footer (24)
//! ```

use onewrite_block::Page;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::Nid;
use crate::block::BlockNo;

/// Byte at which the footer begins.
pub const FOOTER_OFFSET: usize = 4096 - size_of::<RawFooter>();
/// Numbers of a direct or indirect node.
pub const POINTERS: usize = FOOTER_OFFSET / 4;
/// Position in the file's tree that the node of extended attributes has.
pub const XATTR_OFFSET: u32 = u32::MAX >> OFFSET_SHIFT;

const OFFSET_SHIFT: u32 = 3;
const COLD: u32 = 0x1;
const FSYNC: u32 = 0x2;
const DENTRY: u32 = 0x4;

/// A footer as it lies on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawFooter {
    /// Number of the node.
    pub nid: U32,
    /// The inode it belongs to.
    pub ino: U32,
    /// Marks, and above them the node's position in the file's tree.
    pub flag: U32,
    /// Version of the checkpoint after which the node was written.
    pub cp_ver: U64,
    /// The block that the node's log takes next.
    pub next_blkaddr: U32,
}

const _: () = {
    assert!(size_of::<RawFooter>() == 24);
    assert!(POINTERS == 1018);
};

/// What a node is to its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    /// The inode itself.
    Inode,
    /// A node that the inode names, directly or not.
    Other,
}

impl NodeRole {
    /// What node `nid` is to inode `owner`.
    pub fn of(nid: Nid, owner: Nid) -> NodeRole {
        if nid == owner { NodeRole::Inode } else { NodeRole::Other }
    }
}

/// What the footer of a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Number of the node.
    pub nid: Nid,
    /// The inode it belongs to.
    pub ino: Nid,
    /// Its position in the file's tree, counted in the order of logical content; 0 for the inode itself.
    pub offset: u32,
    /// Marked cold.
    pub is_cold: bool,
    /// Written by an fsync.
    pub is_fsynced: bool,
    /// An fsync of an inode whose name is newer than the checkpoint.
    pub has_new_name: bool,
    /// Version of the checkpoint after which the node was written; see
    /// [`Checkpoint::footer_version`](super::Checkpoint::footer_version).
    pub version: u64,
    /// The block that the node's log takes next.
    pub next: BlockNo,
}

impl Footer {
    /// The footer of a new node, before it has a place.
    pub const fn new(nid: Nid, ino: Nid, offset: u32) -> Footer {
        let (is_cold, is_fsynced, has_new_name) = (false, false, false);
        Footer { nid, ino, offset, is_cold, is_fsynced, has_new_name, version: 0, next: BlockNo::FIRST }
    }
}

/// The footer of a node.
///
/// # Panics
/// If `block` has not 4096 bytes.
pub fn footer(block: &[u8]) -> Footer {
    decoded(RawFooter::ref_from_bytes(&block[FOOTER_OFFSET..]).expect("the size of a footer"))
}

/// As [`footer`], of a page.
pub fn footer_of(page: &Page) -> Footer {
    let bytes = page.read_at::<{ size_of::<RawFooter>() }>(FOOTER_OFFSET);
    decoded(RawFooter::ref_from_bytes(&bytes).expect("the size of a footer"))
}

fn decoded(raw: &RawFooter) -> Footer {
    let flag = raw.flag.get();
    Footer {
        nid: Nid(raw.nid.get()),
        ino: Nid(raw.ino.get()),
        offset: flag >> OFFSET_SHIFT,
        is_cold: flag & COLD != 0,
        is_fsynced: flag & FSYNC != 0,
        has_new_name: flag & DENTRY != 0,
        version: raw.cp_ver.get(),
        next: BlockNo(raw.next_blkaddr.get().into()),
    }
}

/// Puts a footer into the block of a node.
///
/// # Panics
/// If `block` has not 4096 bytes.
pub fn put_footer(block: &mut [u8], footer: &Footer) {
    let marks = [(footer.is_cold, COLD), (footer.is_fsynced, FSYNC), (footer.has_new_name, DENTRY)];
    let marks = marks.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flag, (_, mark)| flag | mark);
    let raw = RawFooter {
        nid: U32::new(footer.nid.0),
        ino: U32::new(footer.ino.0),
        flag: U32::new(footer.offset << OFFSET_SHIFT | marks),
        cp_ver: U64::new(footer.version),
        next_blkaddr: U32::new(footer.next.0 as u32),
    };
    block[FOOTER_OFFSET..].copy_from_slice(raw.as_bytes());
}

/// Number `index` of a direct or indirect node.
///
/// # Panics
/// If `index` is not below [`POINTERS`].
pub fn pointer(block: &[u8], index: usize) -> u32 {
    assert!(index < POINTERS, "number {index} of a node");
    u32::from_le_bytes(block[index * 4..index * 4 + 4].try_into().expect("four bytes"))
}

/// Sets number `index` of a direct or indirect node.
///
/// # Panics
/// If `index` is not below [`POINTERS`].
pub fn put_pointer(block: &mut [u8], index: usize, number: u32) {
    assert!(index < POINTERS, "number {index} of a node");
    block[index * 4..index * 4 + 4].copy_from_slice(&number.to_le_bytes());
}
