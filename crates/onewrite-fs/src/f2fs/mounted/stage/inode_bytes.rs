//! Inode bytes: what of an inode's block is content. The rest says where content lies; recovery makes it anew.

use onewrite_block::PageBytes;
use zerocopy::{FromBytes, IntoBytes};

use crate::api::FsResult;
use crate::f2fs::format::inode::{ADDRESSES, CHECKSUM, NUMBERS, RawInode};
use crate::f2fs::format::{Inode, Layout, Nid};

/// The block of an inode with zeros for all that is no content.
///
/// # Errors
/// Damage of the block.
pub(super) fn content_of(block: &PageBytes, nid: Nid, layout: &Layout) -> FsResult<PageBytes> {
    let inode = Inode::decode_unverified(&block[..], nid, layout)?;
    let mut bytes = *block;
    let (mut raw, _) = RawInode::read_from_prefix(&bytes[..]).expect("an inode fits a block");
    raw.i_blocks.set(0);
    raw.i_xattr_nid.set(0);
    [raw.i_ext_fofs, raw.i_ext_blkaddr, raw.i_ext_len] = Default::default();
    bytes[..ADDRESSES].copy_from_slice(raw.as_bytes());
    if inode.has_checksum(layout) {
        bytes[CHECKSUM].fill(0);
    }
    let (room, attributes) = (inode.shape().content_range(), inode.shape().xattr_range());
    if !inode.is_inline_data() && !inode.is_inline_dentry() {
        bytes[room.start..attributes.start].fill(0);
    }
    bytes[NUMBERS..].fill(0);
    Ok(bytes)
}
