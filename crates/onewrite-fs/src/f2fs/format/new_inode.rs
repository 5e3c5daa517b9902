//! New inodes: the block of an inode without content.

use onewrite_block::Page;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

use super::address::Nid;
use super::features::Features;
use super::inode::{ADDRESSES, RawExtra, RawInode, inline, put_times};
use super::layout::Layout;
use crate::api::{DeviceNumber, FileKind, NewNode, Timestamp};

/// Words for extended attributes, where an inode says how many.
const XATTR_WORDS: u16 = 50;

/// A new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode<'a> {
    /// What it is, and whose.
    pub node: NewNode,
    /// The directory of its first name.
    pub parent: Nid,
    /// The first name.
    pub name: &'a [u8],
    /// Tells apart the users of one number.
    pub generation: u32,
    /// The time of its creation.
    pub now: Timestamp,
}

impl NewInode<'_> {
    /// The block, without footer and checksum. Its content lies in blocks of its own; a directory has no block yet.
    pub fn block(&self, layout: &Layout) -> Page {
        let mut raw = RawInode::new_zeroed();
        let NewNode { kind, permissions, uid, gid, device } = self.node;
        raw.i_mode = U16::new(kind.type_bits() as u16 | permissions & 0o7777);
        (raw.i_uid, raw.i_gid) = (U32::new(uid), U32::new(gid));
        raw.i_links = U32::new(if kind == FileKind::Directory { 2 } else { 1 });
        raw.i_blocks.set(1);
        put_times(&mut raw, Some(self.now), Some(self.now), Some(self.now));
        raw.i_generation = U32::new(self.generation);
        put_name(&mut raw, self.parent, self.name);
        raw.i_inline = inline::XATTR;
        let mut page = Page::ZEROS;
        let block = page.bytes_mut();
        let mut words = 0;
        if layout.features.contains(Features::EXTRA_ATTR) {
            raw.i_inline |= inline::EXTRA_ATTR;
            words = size_of::<RawExtra>() / 4;
            block[ADDRESSES..][..size_of::<RawExtra>()].copy_from_slice(self.extra(layout).as_bytes());
        }
        block[..ADDRESSES].copy_from_slice(raw.as_bytes());
        if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
            let at = ADDRESSES + words * 4;
            block[at..at + 8].copy_from_slice(&device_words(device));
        }
        page
    }

    fn extra(&self, layout: &Layout) -> RawExtra {
        let mut extra = RawExtra { i_extra_isize: U16::new(size_of::<RawExtra>() as u16), ..RawExtra::default() };
        if layout.features.contains(Features::FLEXIBLE_INLINE_XATTR) {
            extra.i_inline_xattr_size = U16::new(XATTR_WORDS);
        }
        if layout.features.contains(Features::INODE_CRTIME) {
            extra.i_crtime.set(self.now.seconds as u64);
            extra.i_crtime_nsec.set(self.now.nanoseconds);
        }
        extra
    }
}

/// Sets the name that an inode keeps of itself, for roll-forward.
pub fn put_name(raw: &mut RawInode, parent: Nid, name: &[u8]) {
    raw.i_pino = U32::new(parent.0);
    raw.i_namelen = U32::new(name.len() as u32);
    raw.i_name = [0; 255];
    raw.i_name[..name.len()].copy_from_slice(name);
}

/// Major and minor number in Linux's old form, in the first word, or else its new form, in the second.
fn device_words(device: DeviceNumber) -> [u8; 8] {
    let DeviceNumber { major, minor } = device;
    let (old, new) = match major < 256 && minor < 256 {
        true => (major << 8 | minor, 0),
        false => (0, minor & 0xff | major << 8 | (minor & !0xff) << 12),
    };
    let mut words = [0; 8];
    words[..4].copy_from_slice(&old.to_le_bytes());
    words[4..].copy_from_slice(&new.to_le_bytes());
    words
}
