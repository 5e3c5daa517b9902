//! Inode: a file's attributes and the root of its content map.
//!
//! [`RawInode`] is the record on disk, [`Inode`] its decoded form. Encoding writes only the fields of `Inode`. It keeps
//! every other byte of the slot: attributes behind the fields, obsolete fields, the project. A new inode therefore
//! starts with [`Inode::encode_new`], which clears the slot first.
//!
//! Source: `filesystems/ext4/inodes.rst` of the Linux documentation.

use onewrite_block::crc32c;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{FormatError, Place, Problem, expect_checksum};
use super::features::RoCompat;
use super::inode_no::InodeNo;
use super::layout::{BASE_INODE_SIZE, Layout};
use super::time::TimeRoom;
use crate::api::{FileKind, Timestamp};
use crate::block::BlockNo;

/// Bits of `flags`.
pub mod flags {
    /// The file may not change.
    pub const IMMUTABLE: u32 = 0x10;
    /// The file may only grow.
    pub const APPEND: u32 = 0x20;
    /// Reads do not update the access time.
    pub const NOATIME: u32 = 0x80;
    /// Encrypted.
    pub const ENCRYPT: u32 = 0x800;
    /// The directory has a hash tree.
    pub const INDEX: u32 = 0x1000;
    /// Made by AFS.
    pub const IMAGIC: u32 = 0x2000;
    /// Block counts are in file-system blocks.
    pub const HUGE_FILE: u32 = 0x4_0000;
    /// `block` is the root of an extent tree.
    pub const EXTENTS: u32 = 0x8_0000;
    /// A hash tree protects the content.
    pub const VERITY: u32 = 0x10_0000;
    /// Holds the value of an attribute.
    pub const EA_INODE: u32 = 0x20_0000;
    /// The content lies in the inode.
    pub const INLINE_DATA: u32 = 0x1000_0000;
    /// The directory folds case.
    pub const CASEFOLD: u32 = 0x4000_0000;
}

/// How ext4 stores kinds.
impl FileKind {
    /// The kind in the upper bits of `mode`; `None` for unknown bits.
    pub const fn from_mode(mode: u16) -> Option<FileKind> {
        Some(match mode >> 12 {
            0x1 => FileKind::Fifo,
            0x2 => FileKind::CharacterDevice,
            0x4 => FileKind::Directory,
            0x6 => FileKind::BlockDevice,
            0x8 => FileKind::Regular,
            0xa => FileKind::Symlink,
            0xc => FileKind::Socket,
            _ => return None,
        })
    }

    /// The upper bits of `mode`.
    pub(crate) const fn mode_bits(self) -> u16 {
        match self {
            FileKind::Fifo => 0x1000,
            FileKind::CharacterDevice => 0x2000,
            FileKind::Directory => 0x4000,
            FileKind::BlockDevice => 0x6000,
            FileKind::Regular => 0x8000,
            FileKind::Symlink => 0xa000,
            FileKind::Socket => 0xc000,
        }
    }

    /// The byte of this kind in a directory entry.
    pub(crate) const fn entry_byte(self) -> u8 {
        match self {
            FileKind::Regular => 1,
            FileKind::Directory => 2,
            FileKind::CharacterDevice => 3,
            FileKind::BlockDevice => 4,
            FileKind::Fifo => 5,
            FileKind::Socket => 6,
            FileKind::Symlink => 7,
        }
    }

    /// The kind for a byte of a directory entry; `None` for 0 (unknown) and for invalid bytes.
    pub(crate) const fn from_entry_byte(byte: u8) -> Option<FileKind> {
        Some(match byte {
            1 => FileKind::Regular,
            2 => FileKind::Directory,
            3 => FileKind::CharacterDevice,
            4 => FileKind::BlockDevice,
            5 => FileKind::Fifo,
            6 => FileKind::Socket,
            7 => FileKind::Symlink,
            _ => return None,
        })
    }
}

/// The fields of an inode as they lie on disk. Field names are those of the specification without their `i_` and `l_`.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the specification documents each field under the same name")]
pub struct RawInode {
    pub mode: U16,
    pub uid: U16,
    pub size_lo: U32,
    pub atime: U32,
    pub ctime: U32,
    pub mtime: U32,
    pub dtime: U32,
    pub gid: U16,
    pub links_count: U16,
    pub blocks_lo: U32,
    pub flags: U32,
    pub version: U32,
    pub block: [u8; 60],
    pub generation: U32,
    pub file_acl_lo: U32,
    pub size_high: U32,
    pub obso_faddr: U32,
    pub blocks_high: U16,
    pub file_acl_high: U16,
    pub uid_high: U16,
    pub gid_high: U16,
    pub checksum_lo: U16,
    pub reserved: U16,
}

/// The fields behind the first 128 bytes of a larger inode; `extra_isize` says how many bytes of them exist.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the specification documents each field under the same name")]
pub struct RawInodeExtra {
    pub extra_isize: U16,
    pub checksum_hi: U16,
    pub ctime_extra: U32,
    pub mtime_extra: U32,
    pub atime_extra: U32,
    pub crtime: U32,
    pub crtime_extra: U32,
    pub version_hi: U32,
    pub projid: U32,
}

const BASE: usize = BASE_INODE_SIZE as usize;
const CHECKSUM_LO: usize = 0x7c;
const CHECKSUM_HI: usize = 0x82;
const EXTRA: usize = size_of::<RawInodeExtra>();

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<RawInode>() == BASE);
    assert!(offset_of!(RawInode, block) == 0x28);
    assert!(offset_of!(RawInode, generation) == 0x64);
    assert!(offset_of!(RawInode, blocks_high) == 0x74);
    assert!(offset_of!(RawInode, checksum_lo) == CHECKSUM_LO);
    assert!(EXTRA == 32);
    assert!(BASE + offset_of!(RawInodeExtra, checksum_hi) == CHECKSUM_HI);
    assert!(BASE + offset_of!(RawInodeExtra, projid) == 0x9c);
};

/// A decoded inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// File kind and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of content.
    pub size: u64,
    /// Number of names (hard links).
    pub links: u16,
    /// 512-byte sectors of content, content map and attribute block.
    pub sectors: u64,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub crtime: Timestamp,
    /// Time of deletion in seconds; on the orphan list, the number of the next orphan.
    pub dtime: u32,
    /// Distinguishes files that had the same inode number at different times.
    pub generation: u32,
    /// Counts changes.
    pub version: u64,
    /// Root of the extent tree, target of a short symbolic link, or device number.
    pub block: [u8; 60],
    /// Block of extended attributes; 0 for none.
    pub file_acl: BlockNo,
    /// Bytes of fields behind the first 128.
    pub extra_isize: u16,
}

impl Inode {
    /// Time of creation; `None` if the inode is too small for it.
    pub fn created(&self) -> Option<Timestamp> {
        (self.extra_isize >= 20).then_some(self.crtime)
    }

    /// A new inode with time `now`: owner root, one name, no content.
    pub const fn new(mode: u16, now: Timestamp, layout: &Layout) -> Inode {
        Inode {
            mode,
            uid: 0,
            gid: 0,
            size: 0,
            links: 1,
            sectors: 0,
            flags: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            dtime: 0,
            generation: 0,
            version: 0,
            block: [0; 60],
            file_acl: BlockNo::FIRST,
            extra_isize: layout.new_extra_isize,
        }
    }

    /// The file's kind; `None` if the mode names no kind.
    pub const fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode)
    }

    /// For an orphan: the next inode of the list, which `dtime` names.
    pub(crate) const fn next_orphan(&self) -> InodeNo {
        InodeNo(self.dtime)
    }

    /// Whether all bits of `flag` are set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }

    /// Decodes and verifies the slot of inode number `inode`.
    ///
    /// # Errors
    /// A wrong checksum or impossible `extra_isize`. A free inode of zeros decodes only if its checksum is right; a
    /// slot that was never written has none. So look at the bitmap first.
    pub fn decode(slot: &[u8], inode: InodeNo, layout: &Layout) -> Result<Inode, FormatError> {
        let decoded = Inode::decode_unverified(slot, inode, layout)?;
        verify_checksum(slot, inode, &decoded, layout)?;
        Ok(decoded)
    }

    /// Decodes without verifying the checksum.
    ///
    /// # Errors
    /// A short slot or an impossible `extra_isize`.
    pub fn decode_unverified(slot: &[u8], inode: InodeNo, layout: &Layout) -> Result<Inode, FormatError> {
        let (raw, extra) = parse(slot, inode, layout)?;
        let none = RawInodeExtra::new_zeroed_const();
        let room = extra.map_or(0, |extra| extra.extra_isize.get());
        let extra = extra.unwrap_or(&none);
        let wide = |end: u16, field: U32| if room >= end { field.get() } else { 0 };
        Ok(Inode {
            mode: raw.mode.get(),
            uid: join(raw.uid, raw.uid_high),
            gid: join(raw.gid, raw.gid_high),
            size: u64::from(raw.size_lo.get()) | u64::from(raw.size_high.get()) << 32,
            links: raw.links_count.get(),
            sectors: sectors(raw, layout),
            flags: raw.flags.get(),
            atime: Timestamp::from_disk(raw.atime.get(), wide(16, extra.atime_extra)),
            mtime: Timestamp::from_disk(raw.mtime.get(), wide(12, extra.mtime_extra)),
            ctime: Timestamp::from_disk(raw.ctime.get(), wide(8, extra.ctime_extra)),
            crtime: Timestamp::from_disk(wide(20, extra.crtime), wide(24, extra.crtime_extra)),
            dtime: raw.dtime.get(),
            generation: raw.generation.get(),
            version: u64::from(raw.version.get()) | u64::from(wide(28, extra.version_hi)) << 32,
            block: raw.block,
            file_acl: BlockNo(u64::from(raw.file_acl_lo.get()) | u64::from(raw.file_acl_high.get()) << 32),
            extra_isize: room,
        })
    }

    /// Writes the inode into its slot, with its checksum. All bytes outside the fields of `Inode` stay as they are.
    ///
    /// # Panics
    /// If the slot is not `layout.inode_size` bytes long or `extra_isize` does not fit it.
    pub fn encode_into(&self, slot: &mut [u8], inode: InodeNo, layout: &Layout) {
        assert_eq!(slot.len(), usize::from(layout.inode_size), "slot of inode {inode}");
        assert!(usize::from(self.extra_isize) <= slot.len() - BASE, "extra_isize of inode {inode}");
        let (base, rest) = slot.split_at_mut(BASE);
        let raw = RawInode::mut_from_bytes(base).expect("128 bytes");
        self.encode_base(raw, layout);
        if let Ok((extra, _)) = RawInodeExtra::mut_from_prefix(rest) {
            self.encode_extra(extra);
        }
        self.store_checksum(slot, inode, layout);
        debug_assert!(self.is_in(slot, inode, layout), "inode {inode} reads otherwise than it was written");
    }

    /// Whether the slot decodes to this inode. Compares only fields that fit every `extra_isize`.
    fn is_in(&self, slot: &[u8], inode: InodeNo, layout: &Layout) -> bool {
        let fixed = |inode: &Inode| {
            let Inode { mode, uid, gid, size, links, flags, dtime, generation, file_acl, extra_isize, .. } = *inode;
            ((mode, uid, gid, size, links, flags), (dtime, generation, file_acl, extra_isize), inode.block)
        };
        Inode::decode(slot, inode, layout).is_ok_and(|found| fixed(&found) == fixed(self))
    }

    /// Clears the slot, then writes the inode into it as [`Inode::encode_into`] does.
    ///
    /// # Panics
    /// As `encode_into`.
    pub fn encode_new(&self, slot: &mut [u8], inode: InodeNo, layout: &Layout) {
        slot.fill(0);
        self.encode_into(slot, inode, layout);
    }

    fn encode_base(&self, raw: &mut RawInode, layout: &Layout) {
        raw.mode.set(self.mode);
        (raw.uid, raw.uid_high) = split(self.uid);
        (raw.gid, raw.gid_high) = split(self.gid);
        raw.size_lo.set(self.size as u32);
        raw.size_high.set((self.size >> 32) as u32);
        raw.atime.set(self.atime.storable(TimeRoom::of(self.extra_isize, 16)).low_word());
        raw.ctime.set(self.ctime.storable(TimeRoom::of(self.extra_isize, 8)).low_word());
        raw.mtime.set(self.mtime.storable(TimeRoom::of(self.extra_isize, 12)).low_word());
        raw.dtime.set(self.dtime);
        raw.links_count.set(self.links);
        raw.flags.set(self.flags);
        let blocks = if self.has(flags::HUGE_FILE) { self.sectors / sectors_per_block(layout) } else { self.sectors };
        raw.blocks_lo.set(blocks as u32);
        raw.blocks_high.set((blocks >> 32) as u16);
        raw.version.set(self.version as u32);
        raw.block = self.block;
        raw.generation.set(self.generation);
        raw.file_acl_lo.set(self.file_acl.0 as u32);
        raw.file_acl_high.set((self.file_acl.0 >> 32) as u16);
    }

    fn encode_extra(&self, extra: &mut RawInodeExtra) {
        let mut fields = extra.clone();
        fields.extra_isize.set(self.extra_isize);
        fields.ctime_extra.set(self.ctime.storable(TimeRoom::WithExtra).high_word());
        fields.mtime_extra.set(self.mtime.storable(TimeRoom::WithExtra).high_word());
        fields.atime_extra.set(self.atime.storable(TimeRoom::WithExtra).high_word());
        let crtime = self.crtime.storable(TimeRoom::of(self.extra_isize, 24));
        fields.crtime.set(crtime.low_word());
        fields.crtime_extra.set(crtime.high_word());
        fields.version_hi.set((self.version >> 32) as u32);
        // `extra_isize` itself is always there; attributes may follow it.
        let length = usize::from(self.extra_isize).clamp(2, EXTRA);
        extra.as_mut_bytes()[..length].copy_from_slice(&fields.as_bytes()[..length]);
    }

    fn store_checksum(&self, slot: &mut [u8], inode: InodeNo, layout: &Layout) {
        if !layout.features.metadata_csum() {
            return;
        }
        let checksum = clear_checksum(slot, inode, self, layout);
        slot[CHECKSUM_LO..CHECKSUM_LO + 2].copy_from_slice(&(checksum as u16).to_le_bytes());
        if self.extra_isize >= 4 {
            slot[CHECKSUM_HI..CHECKSUM_HI + 2].copy_from_slice(&((checksum >> 16) as u16).to_le_bytes());
        }
    }
}

/// The bytes of a slot behind the inode's fields; attributes may lie there.
pub fn attribute_area<'a>(slot: &'a [u8], inode: &Inode) -> &'a [u8] {
    slot.get(BASE + usize::from(inode.extra_isize)..).unwrap_or_default()
}

/// The same bytes to change. Call [`Inode::encode_into`] afterwards, because the checksum covers them.
pub(crate) fn attribute_area_mut<'a>(slot: &'a mut [u8], inode: &Inode) -> &'a mut [u8] {
    slot.get_mut(BASE + usize::from(inode.extra_isize)..).unwrap_or_default()
}

/// Compares the checksum of the slot of the decoded `inode`, if the file system has checksums.
///
/// # Errors
/// If it disagrees.
pub fn verify_checksum(slot: &[u8], number: InodeNo, inode: &Inode, layout: &Layout) -> Result<(), FormatError> {
    if !layout.features.metadata_csum() {
        return Ok(());
    }
    let half = |offset: usize| u32::from(u16::from_le_bytes([slot[offset], slot[offset + 1]]));
    let expected = clear_checksum(&mut slot.to_vec(), number, inode, layout);
    match inode.extra_isize >= 4 {
        true => {
            let found = half(CHECKSUM_LO) | half(CHECKSUM_HI) << 16;
            expect_checksum("inode", Place::Inode(number), found, expected)
        }
        false => expect_checksum("inode", Place::Inode(number), half(CHECKSUM_LO), expected & 0xffff),
    }
}

/// Sets the checksum's own fields to zero and returns the checksum of the slot.
fn clear_checksum(slot: &mut [u8], number: InodeNo, inode: &Inode, layout: &Layout) -> u32 {
    slot[CHECKSUM_LO..CHECKSUM_LO + 2].fill(0);
    if inode.extra_isize >= 4 {
        slot[CHECKSUM_HI..CHECKSUM_HI + 2].fill(0);
    }
    crc32c(layout.inode_seed(number, inode.generation), slot)
}

fn parse<'a>(
    slot: &'a [u8],
    inode: InodeNo,
    layout: &Layout,
) -> Result<(&'a RawInode, Option<&'a RawInodeExtra>), FormatError> {
    let (place, needed) = (Place::Inode(inode), usize::from(layout.inode_size));
    if slot.len() < needed {
        return Err(FormatError::new("inode", place, Problem::Short { length: slot.len(), needed }));
    }
    let (base, rest) = slot[..needed].split_at(BASE);
    let raw = RawInode::ref_from_bytes(base).expect("128 bytes");
    let Ok((extra, _)) = RawInodeExtra::ref_from_prefix(rest) else { return Ok((raw, None)) };
    let size = extra.extra_isize.get();
    if usize::from(size) > rest.len() || !size.is_multiple_of(4) {
        let rule = "must be a multiple of 4 that fits the inode";
        return Err(FormatError::field("inode", place, "extra_isize", size, rule));
    }
    Ok((raw, Some(extra)))
}

impl RawInodeExtra {
    const fn new_zeroed_const() -> RawInodeExtra {
        RawInodeExtra {
            extra_isize: U16::ZERO,
            checksum_hi: U16::ZERO,
            ctime_extra: U32::ZERO,
            mtime_extra: U32::ZERO,
            atime_extra: U32::ZERO,
            crtime: U32::ZERO,
            crtime_extra: U32::ZERO,
            version_hi: U32::ZERO,
            projid: U32::ZERO,
        }
    }
}

fn sectors(raw: &RawInode, layout: &Layout) -> u64 {
    let low = u64::from(raw.blocks_lo.get());
    if !layout.features.ro_compat.contains(RoCompat::HUGE_FILE) {
        return low;
    }
    let count = low | u64::from(raw.blocks_high.get()) << 32;
    if raw.flags.get() & flags::HUGE_FILE != 0 { count * sectors_per_block(layout) } else { count }
}

fn sectors_per_block(layout: &Layout) -> u64 {
    u64::from(layout.block_size / 512)
}

fn join(low: U16, high: U16) -> u32 {
    u32::from(low.get()) | u32::from(high.get()) << 16
}

fn split(value: u32) -> (U16, U16) {
    (U16::new(value as u16), U16::new((value >> 16) as u16))
}
