//! Inodes: a node that says what a file is, and holds its first addresses or, if it is small, its content.
//!
//! ```text
//!   fields (360) │ [extra attributes] addresses [room for extended attributes] (923 words) │ nids (5 words) │ footer
//!                                     or [unused word] content or names
//! ```
//!
//! Extra attributes take the first words of the addresses, extended attributes the last ones.

use std::ops::Deref;

use onewrite_block::crc32_le;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::{DataAddress, Nid};
use super::error::{FormatError, Place, expect_checksum};
use super::features::Features;
use super::layout::Layout;
use super::path::blocks_max;
use crate::api::{DeviceNumber, FileKind, Timestamp};

/// Words of an inode for addresses, or what takes their place.
pub const ADDRESS_WORDS: usize = 923;
/// Node numbers of an inode.
pub const NODE_NUMBERS: usize = 5;
/// Byte at which the addresses begin.
pub const ADDRESSES: usize = size_of::<RawInode>();
/// Byte at which the node numbers begin.
pub const NUMBERS: usize = ADDRESSES + ADDRESS_WORDS * 4;
/// Most bytes of extra attributes that are known.
pub const EXTRA_SIZE_MAX: usize = 36;
/// Byte of the checksum of an inode that has one.
pub const CHECKSUM: std::ops::Range<usize> = ADDRESSES + 8..ADDRESSES + 12;
/// Words for extended attributes in an inode that does not say how many.
const XATTR_WORDS: usize = 50;
/// Most levels of a directory.
pub const DEPTH_MAX: u32 = 63;

/// Bits of `i_inline`.
pub mod inline {
    /// Room for extended attributes.
    pub const XATTR: u8 = 0x01;
    /// Content in the inode.
    pub const DATA: u8 = 0x02;
    /// Names in the inode.
    pub const DENTRY: u8 = 0x04;
    /// The content in the inode exists.
    pub const DATA_EXIST: u8 = 0x08;
    /// The directory lacks `.` and `..`.
    pub const DOTS: u8 = 0x10;
    /// Extra attributes.
    pub const EXTRA_ATTR: u8 = 0x20;
}

/// Bits of `i_advise`.
pub mod advise {
    /// Encrypted.
    pub const ENCRYPT: u8 = 0x04;
    /// Sealed by a hash tree.
    pub const VERITY: u8 = 0x40;
}

/// Bits of `i_flags`.
pub mod flags {
    /// Compressed.
    pub const COMPRESSED: u32 = 0x4;
    /// A directory that folds case.
    pub const CASEFOLD: u32 = 0x4000_0000;
}

/// The fields of an inode as they lie on disk; names are those that `dump.f2fs` prints.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "docs/f2fs.md says what the fields mean")]
pub struct RawInode {
    pub i_mode: U16,
    pub i_advise: u8,
    pub i_inline: u8,
    pub i_uid: U32,
    pub i_gid: U32,
    pub i_links: U32,
    pub i_size: U64,
    pub i_blocks: U64,
    pub i_atime: U64,
    pub i_ctime: U64,
    pub i_mtime: U64,
    pub i_atime_nsec: U32,
    pub i_ctime_nsec: U32,
    pub i_mtime_nsec: U32,
    pub i_generation: U32,
    pub i_current_depth: U32,
    pub i_xattr_nid: U32,
    pub i_flags: U32,
    pub i_pino: U32,
    pub i_namelen: U32,
    pub i_name: [u8; 255],
    pub i_dir_level: u8,
    pub i_ext_fofs: U32,
    pub i_ext_blkaddr: U32,
    pub i_ext_len: U32,
}

/// Extra attributes as they lie on disk, as many bytes of them as `i_extra_isize` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "docs/f2fs.md says what the fields mean")]
pub struct RawExtra {
    pub i_extra_isize: U16,
    pub i_inline_xattr_size: U16,
    pub i_projid: U32,
    pub i_inode_checksum: U32,
    pub i_crtime: U64,
    pub i_crtime_nsec: U32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(ADDRESSES == 360);
    assert!(NUMBERS + NODE_NUMBERS * 4 == super::node::FOOTER_OFFSET);
    assert!(offset_of!(RawInode, i_generation) == 68);
    assert!(offset_of!(RawInode, i_name) == 92);
    assert!(offset_of!(RawInode, i_ext_fofs) == 348);
    assert!(size_of::<RawExtra>() == 24);
    assert!(ADDRESSES + offset_of!(RawExtra, i_inode_checksum) == CHECKSUM.start);
};

/// How an inode shares out the words of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    extra_words: usize,
    xattr_words: usize,
}

impl Shape {
    /// Blocks of content that the inode itself can name.
    pub const fn address_count(self) -> usize {
        ADDRESS_WORDS - self.extra_words - self.xattr_words
    }

    /// Byte of the address of block `slot`.
    ///
    /// # Panics
    /// If `slot` is not below [`Shape::address_count`].
    pub fn address_at(self, slot: usize) -> usize {
        assert!(slot < self.address_count(), "address {slot} of an inode");
        ADDRESSES + (self.extra_words + slot) * 4
    }

    /// Bytes of content or names in the inode.
    pub const fn inline_range(self) -> std::ops::Range<usize> {
        ADDRESSES + (self.extra_words + 1) * 4..NUMBERS - self.xattr_words * 4
    }

    /// Bytes of extended attributes in the inode.
    pub const fn xattr_range(self) -> std::ops::Range<usize> {
        NUMBERS - self.xattr_words * 4..NUMBERS
    }

    /// Bytes of addresses, names or content, and extended attributes: all that follows the extra attributes.
    pub const fn content_range(self) -> std::ops::Range<usize> {
        ADDRESSES + self.extra_words * 4..NUMBERS
    }
}

/// What an inode says but for addresses and content.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its number.
    pub number: Nid,
    /// The fields.
    pub raw: RawInode,
    /// What it is.
    pub kind: FileKind,
    /// Creation, if it keeps one.
    pub created: Option<Timestamp>,
    /// The device that a device node names.
    pub device: DeviceNumber,
    shape: Shape,
}

/// A decoded inode: its head, and its block for addresses and inline content.
#[derive(Clone, Debug)]
pub struct Inode {
    head: Head,
    block: Vec<u8>,
}

impl Deref for Inode {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

/// Whether the block of inode `number` has the right checksum; true where the image has none. A block that is torn or
/// garbage has a wrong one.
///
/// # Panics
/// If `block` has not 4096 bytes.
pub fn is_whole(block: &[u8], number: Nid, layout: &Layout) -> bool {
    let found = u32::from_le_bytes(block[CHECKSUM].try_into().expect("four bytes"));
    !layout.features.contains(Features::INODE_CHECKSUM) || found == checksum(block, number, layout)
}

impl Head {
    /// Decodes the block of an inode, with its footer. Verifies the checksum if the image has them.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] if numbers contradict each other, [`FormatError::Unsupported`] for files that are
    /// encrypted, compressed, sealed or fold case.
    ///
    /// # Panics
    /// If `block` has not 4096 bytes.
    pub fn decode(block: &[u8], number: Nid, layout: &Layout) -> Result<Head, FormatError> {
        let head = Head::decode_unverified(block, number, layout)?;
        if head.has_checksum(layout) {
            let found = u32::from_le_bytes(block[CHECKSUM].try_into().expect("four bytes"));
            expect_checksum(Place::Inode(number), found, checksum(block, number, layout))?;
        }
        Ok(head)
    }

    /// As [`Head::decode`], without the checksum.
    ///
    /// # Errors
    /// As [`Head::decode`].
    ///
    /// # Panics
    /// If `block` has not 4096 bytes.
    pub fn decode_unverified(block: &[u8], number: Nid, layout: &Layout) -> Result<Head, FormatError> {
        assert_eq!(block.len(), 4096, "a block");
        let (raw, rest) = RawInode::read_from_prefix(block).expect("an inode fits");
        let place = Place::Inode(number);
        let wrong = |field, value: u64, rule| Err(FormatError::field(place, field, value, rule));
        let Some(kind) = kind_of_mode(raw.i_mode.get()) else {
            return wrong("i_mode", raw.i_mode.get().into(), "names no kind of file");
        };
        refuse_foreign(&raw, number)?;
        let (mut extra, mut extra_words) = (RawExtra::default(), 0);
        if raw.i_inline & inline::EXTRA_ATTR != 0 {
            extra = RawExtra::read_from_prefix(rest).expect("extra attributes fit").0;
            let size = extra.i_extra_isize.get();
            if !layout.features.contains(Features::EXTRA_ATTR) {
                return wrong("i_inline", raw.i_inline.into(), "the image has no extra attributes");
            }
            if usize::from(size) > EXTRA_SIZE_MAX || size % 4 != 0 || size < 4 {
                return wrong("i_extra_isize", size.into(), "a multiple of 4, 4 to 36");
            }
            extra_words = usize::from(size) / 4;
        }
        let is_flexible = layout.features.contains(Features::FLEXIBLE_INLINE_XATTR);
        let xattr_words = match is_flexible && extra_words > 0 {
            true => usize::from(extra.i_inline_xattr_size.get()),
            false if raw.i_inline & (inline::XATTR | inline::DENTRY) != 0 => XATTR_WORDS,
            false => 0,
        };
        if xattr_words > ADDRESS_WORDS - EXTRA_SIZE_MAX / 4 - 64 {
            return wrong("i_inline_xattr_size", xattr_words as u64, "too large for an inode");
        }
        let knows_birth = extra_words * 4 >= size_of::<RawExtra>() && layout.features.contains(Features::INODE_CRTIME);
        let created = knows_birth.then(|| timestamp(extra.i_crtime, extra.i_crtime_nsec));
        let shape = Shape { extra_words, xattr_words };
        let device = device_in(&block[shape.content_range()], kind);
        let head = Head { number, raw, kind, created, device, shape };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<(), FormatError> {
        let place = Place::Inode(self.number);
        let raw = &self.raw;
        let size_max = match self.is_inline_data() {
            true => self.shape.inline_range().len() as u64,
            false => blocks_max(self.address_count() as u64) * 4096,
        };
        if raw.i_size.get() > size_max {
            return Err(FormatError::field(
                place,
                "i_size",
                raw.i_size.get(),
                "more than its map or the inode can hold",
            ));
        }
        if self.is_inline_data() && self.is_inline_dentry() {
            return Err(FormatError::field(
                place,
                "i_inline",
                raw.i_inline,
                "content and names cannot share the inode",
            ));
        }
        if self.is_inline_data() && !matches!(self.kind, FileKind::Regular | FileKind::Symlink) {
            return Err(FormatError::field(
                place,
                "i_inline",
                raw.i_inline,
                "only files and links have inline content",
            ));
        }
        if self.is_inline_dentry() && self.kind != FileKind::Directory {
            return Err(FormatError::field(place, "i_inline", raw.i_inline, "only directories have inline names"));
        }
        if self.kind == FileKind::Directory && raw.i_current_depth.get() > DEPTH_MAX {
            let depth = raw.i_current_depth.get();
            return Err(FormatError::field(place, "i_current_depth", depth, "a directory has at most 63 levels"));
        }
        Ok(())
    }

    /// Whether the inode has a checksum.
    pub fn has_checksum(&self, layout: &Layout) -> bool {
        layout.features.contains(Features::INODE_CHECKSUM) && ADDRESSES + self.shape.extra_words * 4 >= CHECKSUM.end
    }

    /// Whether its content lies in the inode.
    pub fn is_inline_data(&self) -> bool {
        self.raw.i_inline & inline::DATA != 0
    }

    /// Whether its names lie in the inode.
    pub fn is_inline_dentry(&self) -> bool {
        self.raw.i_inline & inline::DENTRY != 0
    }

    /// Blocks of content that the inode itself can name.
    pub fn address_count(&self) -> usize {
        self.shape.address_count()
    }

    /// How it shares out the words of its addresses.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The node of further extended attributes.
    pub fn xattr_node(&self) -> Nid {
        Nid(self.raw.i_xattr_nid.get())
    }
}

impl Inode {
    /// As [`Head::decode`].
    ///
    /// # Errors
    /// As [`Head::decode`].
    ///
    /// # Panics
    /// If `block` has not 4096 bytes.
    pub fn decode(block: &[u8], number: Nid, layout: &Layout) -> Result<Inode, FormatError> {
        Ok(Inode { head: Head::decode(block, number, layout)?, block: block.to_vec() })
    }

    /// As [`Head::decode_unverified`].
    ///
    /// # Errors
    /// As [`Head::decode`].
    ///
    /// # Panics
    /// If `block` has not 4096 bytes.
    pub fn decode_unverified(block: &[u8], number: Nid, layout: &Layout) -> Result<Inode, FormatError> {
        Ok(Inode { head: Head::decode_unverified(block, number, layout)?, block: block.to_vec() })
    }

    /// What the inode says about block `index` of its content.
    ///
    /// # Panics
    /// If `index` is not below [`Shape::address_count`].
    pub fn address(&self, index: usize) -> DataAddress {
        DataAddress::from_disk(self.word(self.shape.address_at(index)))
    }

    /// Node number `slot` of the inode, 0 to 4.
    ///
    /// # Panics
    /// If `slot` is larger.
    pub fn node(&self, slot: usize) -> Nid {
        assert!(slot < NODE_NUMBERS, "node number {slot} of an inode");
        Nid(self.word(NUMBERS + slot * 4))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.block[at..at + 4].try_into().expect("four bytes"))
    }

    /// Content or names in the inode, with the unused rest.
    pub fn inline_bytes(&self) -> &[u8] {
        &self.block[self.shape.inline_range()]
    }

    /// Extended attributes in the inode; empty if there is no room for them.
    pub fn inline_xattr(&self) -> &[u8] {
        match self.raw.i_inline & inline::XATTR != 0 {
            true => &self.block[self.shape.xattr_range()],
            false => &[],
        }
    }
}

/// The device that a device node names: the first words of its `content`, in Linux's old or new form.
fn device_in(content: &[u8], kind: FileKind) -> DeviceNumber {
    if !matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        return DeviceNumber::NONE;
    }
    let word = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
    match (word(0), word(4)) {
        (0, new) => DeviceNumber::new(new >> 8 & 0xfff, new & 0xff | new >> 12 & 0xf_ff00),
        (old, _) => DeviceNumber::new(old >> 8 & 0xff, old & 0xff),
    }
}

/// Whether the block of an inode has a checksum, as [`Head::has_checksum`] says of a decoded one.
///
/// # Panics
/// If `block` has not 4096 bytes.
pub fn has_checksum(block: &[u8], layout: &Layout) -> bool {
    let (raw, rest) = RawInode::ref_from_prefix(block).expect("an inode fits");
    let (extra, _) = RawExtra::ref_from_prefix(rest).expect("extra attributes fit");
    let has_extra = raw.i_inline & inline::EXTRA_ATTR != 0;
    let end = ADDRESSES + usize::from(extra.i_extra_isize.get());
    layout.features.contains(Features::INODE_CHECKSUM) && has_extra && end >= CHECKSUM.end
}

/// The checksum of an inode: over UUID, number, generation, and the block without the checksum itself.
pub fn checksum(block: &[u8], number: Nid, layout: &Layout) -> u32 {
    let start = crc32_le(layout.inode_seed, &number.0.to_le_bytes());
    let start = crc32_le(start, &block[68..72]);
    let before = crc32_le(start, &block[..CHECKSUM.start]);
    crc32_le(crc32_le(before, &[0; 4]), &block[CHECKSUM.end..])
}

fn refuse_foreign(raw: &RawInode, number: Nid) -> Result<(), FormatError> {
    let what = match () {
        () if raw.i_advise & advise::ENCRYPT != 0 => "is encrypted; read it with Linux and its key",
        () if raw.i_advise & advise::VERITY != 0 => "is sealed by verity; read it with Linux",
        () if raw.i_flags.get() & flags::COMPRESSED != 0 => "is compressed; read it with Linux",
        () if raw.i_flags.get() & flags::CASEFOLD != 0 => "folds case; read it with Linux",
        () => return Ok(()),
    };
    Err(FormatError::Unsupported { what: format!("inode {number} {what}") })
}

fn kind_of_mode(mode: u16) -> Option<FileKind> {
    use FileKind::{BlockDevice, CharacterDevice, Directory, Fifo, Regular, Socket, Symlink};
    let kinds = [Fifo, CharacterDevice, Directory, BlockDevice, Regular, Symlink, Socket];
    kinds.into_iter().find(|kind| kind.type_bits() == u32::from(mode) & 0o170_000)
}

/// Time of the last read, of the last change of content, and of the last change.
pub fn times(raw: &RawInode) -> [Timestamp; 3] {
    [
        timestamp(raw.i_atime, raw.i_atime_nsec),
        timestamp(raw.i_mtime, raw.i_mtime_nsec),
        timestamp(raw.i_ctime, raw.i_ctime_nsec),
    ]
}

/// Sets the times that are given: of the last read, of the last change of content, and of the last change.
pub fn put_times(
    raw: &mut RawInode,
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
    changed: Option<Timestamp>,
) {
    let fields = [
        (accessed, &mut raw.i_atime, &mut raw.i_atime_nsec),
        (modified, &mut raw.i_mtime, &mut raw.i_mtime_nsec),
        (changed, &mut raw.i_ctime, &mut raw.i_ctime_nsec),
    ];
    for (time, seconds, nanoseconds) in fields {
        if let Some(time) = time {
            seconds.set(time.seconds as u64);
            nanoseconds.set(time.nanoseconds);
        }
    }
}

fn timestamp(seconds: U64, nanoseconds: U32) -> Timestamp {
    Timestamp { seconds: seconds.get() as i64, nanoseconds: nanoseconds.get().min(999_999_999) }
}
