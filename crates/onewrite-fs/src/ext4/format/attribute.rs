//! Extended attributes: a list of names with values, behind the fields of an inode or in a block of its own.
//!
//! ```text
//!   inode:  magic │ entry │ entry │ 0 …      … value │ value      offsets count from the first entry
//!   block:  header (32) │ entry │ 0 …        … value │ value      offsets count from the block's start
//! ```
//!
//! Source: `filesystems/ext4/attributes.rst` of the Linux documentation.

use onewrite_block::crc32c;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{FormatError, Place, Problem, expect_checksum};
use super::inode_no::InodeNo;
use super::layout::Layout;
use crate::block::BlockNo;

/// The number that marks a list.
pub const ATTRIBUTE_MAGIC: u32 = 0xea02_0000;

/// Head of a block of attributes. Field names are those of the specification without their `h_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the specification documents each field under the same name")]
pub struct RawAttributeHeader {
    pub magic: U32,
    pub refcount: U32,
    pub blocks: U32,
    pub hash: U32,
    pub checksum: U32,
    pub reserved: [U32; 3],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    name_len: u8,
    name_index: u8,
    value_offs: U16,
    value_inum: U32,
    value_size: U32,
    hash: U32,
}

const HEADER: usize = size_of::<RawAttributeHeader>();
const ENTRY: usize = size_of::<RawEntry>();
const CHECKSUM: std::ops::Range<usize> = 16..20;

const _: () = {
    assert!(HEADER == 32);
    assert!(ENTRY == 16);
    assert!(std::mem::offset_of!(RawAttributeHeader, checksum) == CHECKSUM.start);
};

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Bytes of the list before the entry.
    pub offset: usize,
    /// Number of the prefix: 1 `user.`, 4 `trusted.`, 6 `security.`, …
    pub name_index: u8,
    /// The name behind the prefix.
    pub name: &'a [u8],
    /// Bytes of the list before the value.
    pub value_offset: usize,
    /// The value.
    pub value: &'a [u8],
    /// Stored hash; 0 if the list keeps none.
    pub hash: u32,
    /// The inode that holds the value, if it is another one; `value` is then empty.
    pub value_inode: Option<ValueInode>,
}

/// An inode that holds the value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueInode {
    /// The inode.
    pub number: InodeNo,
    /// Bytes of the value.
    pub size: u32,
}

impl Attribute<'_> {
    /// Whether the stored hash is the hash of name and value. Accepts both hashes: Linux takes the name's bytes as
    /// signed or unsigned, depending on the machine.
    pub(crate) fn hash_holds(&self) -> bool {
        let of = |byte: fn(u8) -> u32| hash(self.name, self.value, byte);
        self.hash == of(u32::from) || self.hash == of(|byte| byte as i8 as u32)
    }
}

fn hash(name: &[u8], value: &[u8], byte: fn(u8) -> u32) -> u32 {
    let named = name.iter().fold(0_u32, |hash, &next| hash.rotate_left(5) ^ byte(next));
    value.chunks(4).fold(named, |hash, bytes| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}

/// Where a list of attributes lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPlace {
    /// In a block of its own. It keeps hashes, and each name has a prefix.
    Block,
    /// Behind an inode's fields. It need not keep them.
    Inode,
}

/// Iterates over a list in order and checks each attribute first. An error ends the iteration.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    list: &'a [u8],
    next: usize,
    place: Place,
    list_place: ListPlace,
    /// Values may lie in inodes of their own (feature ea_inode).
    has_value_inodes: bool,
}

impl<'a> Attributes<'a> {
    /// The attributes of a block.
    ///
    /// # Errors
    /// If it is not a block of attributes, or its header counts more than one block.
    pub fn in_block(block: &'a [u8], place: Place) -> Result<Attributes<'a>, FormatError> {
        let header = header(block, place)?;
        if header.blocks.get() != 1 {
            let rule = "must be 1";
            return Err(FormatError::field("attribute block", place, "blocks", header.blocks.get(), rule));
        }
        Ok(Attributes { list: block, next: HEADER, place, list_place: ListPlace::Block, has_value_inodes: false })
    }

    /// The attributes in the area behind an inode's fields (see [`attribute_area`](super::inode::attribute_area)); none
    /// if the area does not begin as a list.
    pub fn in_inode(area: &'a [u8], place: Place) -> Attributes<'a> {
        let list = match area.split_first_chunk() {
            Some((magic, list)) if u32::from_le_bytes(*magic) == ATTRIBUTE_MAGIC => list,
            _ => &[],
        };
        Attributes { list, next: 0, place, list_place: ListPlace::Inode, has_value_inodes: false }
    }

    /// The same, but accepts values that lie in inodes of their own.
    pub(crate) fn with_value_inodes(self) -> Attributes<'a> {
        Attributes { has_value_inodes: true, ..self }
    }

    /// Checks the whole list: every entry, every hash, and that values overlap neither entries nor each other.
    ///
    /// # Errors
    /// The first entry that is wrong.
    pub fn check(self) -> Result<(), FormatError> {
        let mut end = self.clone();
        for attribute in end.by_ref() {
            attribute?;
        }
        let entries_end = end.next;
        for (index, attribute) in self.clone().flatten().enumerate() {
            let wrong = |field, value: usize, rule| Err(self.wrong(attribute.offset, field, value as u64, rule));
            let start = attribute.value_offset;
            if !attribute.value.is_empty() && start < entries_end {
                return wrong("value_offs", start, "lies on the entries");
            }
            let overlaps = |other: Attribute<'_>| {
                start < other.value_offset + other.value.len() && other.value_offset < start + attribute.value.len()
            };
            if self.clone().flatten().take(index).any(overlaps) {
                return wrong("value_offs", start, "lies on another value");
            }
            if attribute.name_index == 0 && self.list_place == ListPlace::Block {
                return wrong("name_index", 0, "names no prefix");
            }
            let unhashed = attribute.hash == 0 && self.list_place == ListPlace::Inode;
            if !unhashed && !attribute.hash_holds() {
                return wrong("hash", attribute.hash as usize, "is not that of name and value");
            }
        }
        Ok(())
    }

    fn parse(&self, raw: &RawEntry, after: &'a [u8]) -> Result<Attribute<'a>, FormatError> {
        let wrong = |field, value: u32, rule| Err(self.wrong(self.next, field, value.into(), rule));
        let Some(name) = after.get(..raw.name_len.into()) else {
            return wrong("name_len", raw.name_len.into(), "reaches beyond the list");
        };
        if raw.value_inum.get() != 0 && self.has_value_inodes {
            let value_inode = Some(ValueInode { number: InodeNo(raw.value_inum.get()), size: raw.value_size.get() });
            let (offset, name_index, hash) = (self.next, raw.name_index, raw.hash.get());
            return Ok(Attribute { offset, name_index, name, value_offset: 0, value: &[], hash, value_inode });
        }
        if raw.value_inum.get() != 0 {
            return wrong("value_inum", raw.value_inum.get(), "must be 0 without the feature ea_inode");
        }
        let (start, length) = (usize::from(raw.value_offs.get()), raw.value_size.get());
        let end = (start as u64 + u64::from(length)).min(self.list.len() as u64 + 1) as usize;
        let value = self.list.get(start..end);
        match value {
            Some(value) if length == 0 || start.is_multiple_of(4) => Ok(Attribute {
                offset: self.next,
                name_index: raw.name_index,
                name,
                value_offset: start,
                value,
                hash: raw.hash.get(),
                value_inode: None,
            }),
            Some(_) => wrong("value_offs", start as u32, "must be a multiple of 4"),
            None => wrong("value_size", length, "reaches beyond the list"),
        }
    }

    fn wrong(&self, offset: usize, field: &'static str, value: u64, rule: &'static str) -> FormatError {
        FormatError::new("attributes", self.place, Problem::Entry { offset: offset as u32, field, value, rule })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.list.get(self.next..)?;
        // Four zero bytes end the list, and so does its end.
        if rest.first_chunk::<4>().is_none_or(|word| *word == [0; 4]) {
            return None;
        }
        let result = match RawEntry::ref_from_prefix(rest) {
            Ok((raw, after)) => self.parse(raw, after),
            Err(_) => Err(self.wrong(self.next, "entry", rest.len() as u64, "reaches beyond the list")),
        };
        self.next = match &result {
            Ok(attribute) => self.next + (ENTRY + attribute.name.len()).next_multiple_of(4),
            Err(_) => self.list.len(),
        };
        Some(result)
    }
}

/// Attributes in memory, to change and write back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeList {
    /// Prefix number, name behind it, value. Sorted as in a block: by prefix, length of name, name.
    entries: Vec<(u8, Vec<u8>, Vec<u8>)>,
}

impl AttributeList {
    /// Adds all of `attributes`.
    ///
    /// # Errors
    /// The first entry that is wrong.
    pub fn read(&mut self, attributes: Attributes<'_>) -> Result<(), FormatError> {
        for attribute in attributes {
            let attribute = attribute?;
            self.set(attribute.name_index, attribute.name, attribute.value.to_vec());
        }
        Ok(())
    }

    /// The attributes: prefix number, name behind it, value.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8], &[u8])> {
        self.entries.iter().map(|(index, name, value)| (*index, &name[..], &value[..]))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a name.
    pub fn value(&self, name_index: u8, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|entry| (entry.0, entry.1) == (name_index, name)).map(|(.., value)| value)
    }

    /// Sets a value; adds the name if it is missing.
    pub fn set(&mut self, name_index: u8, name: &[u8], value: Vec<u8>) {
        self.remove(name_index, name);
        let key = (name_index, name.len(), name);
        let at = self.entries.partition_point(|(index, name, _)| (*index, name.len(), &name[..]) < key);
        self.entries.insert(at, (name_index, name.to_vec(), value));
    }

    /// Removes a name; false if there is none.
    pub fn remove(&mut self, name_index: u8, name: &[u8]) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(index, other, _)| (*index, &other[..]) != (name_index, name));
        self.entries.len() < before
    }

    /// Writes as many as fit, in order, to the area behind an inode's fields; returns the rest.
    pub(crate) fn write_in_inode(&self, area: &mut [u8]) -> AttributeList {
        area.fill(0);
        let Some((magic, list)) = area.split_first_chunk_mut::<4>() else { return self.clone() };
        let (mut inside, mut outside) = (AttributeList::default(), AttributeList::default());
        for entry in &self.entries {
            inside.entries.push(entry.clone());
            if inside.needed() > list.len() {
                outside.entries.extend(inside.entries.pop());
            }
        }
        if !inside.is_empty() {
            *magic = ATTRIBUTE_MAGIC.to_le_bytes();
            inside.write(list, 0, ListPlace::Inode);
        }
        outside
    }

    /// Fills `block` with these attributes, with a reference count of 1 and without checksum; false if they do not fit.
    #[must_use]
    pub(crate) fn write_in_block(&self, block: &mut [u8]) -> bool {
        if HEADER + self.needed() > block.len() {
            return false;
        }
        block.fill(0);
        let hash = self.write(block, HEADER, ListPlace::Block);
        let header = RawAttributeHeader {
            magic: U32::new(ATTRIBUTE_MAGIC),
            refcount: U32::new(1),
            blocks: U32::new(1),
            hash: U32::new(hash),
            checksum: U32::ZERO,
            reserved: [U32::ZERO; 3],
        };
        block[..HEADER].copy_from_slice(header.as_bytes());
        true
    }

    /// Bytes of entries, values and the end mark.
    fn needed(&self) -> usize {
        let entry = |(_, name, value): &(u8, Vec<u8>, Vec<u8>)| {
            (ENTRY + name.len()).next_multiple_of(4) + value.len().next_multiple_of(4)
        };
        self.entries.iter().map(entry).sum::<usize>() + 4
    }

    /// Writes entries from byte `at` on and values from the end backwards; returns the hash over all entries.
    fn write(&self, list: &mut [u8], mut at: usize, list_place: ListPlace) -> u32 {
        let (mut value_at, mut all) = (list.len() / 4 * 4, 0_u32);
        for (name_index, name, value) in &self.entries {
            value_at -= value.len().next_multiple_of(4);
            list[value_at..value_at + value.len()].copy_from_slice(value);
            let own = match list_place {
                ListPlace::Block => hash(name, value, u32::from),
                ListPlace::Inode => 0,
            };
            let raw = RawEntry {
                name_len: name.len() as u8,
                name_index: *name_index,
                value_offs: U16::new(if value.is_empty() { 0 } else { value_at as u16 }),
                value_inum: U32::ZERO,
                value_size: U32::new(value.len() as u32),
                hash: U32::new(own),
            };
            list[at..at + ENTRY].copy_from_slice(raw.as_bytes());
            list[at + ENTRY..at + ENTRY + name.len()].copy_from_slice(name);
            at += (ENTRY + name.len()).next_multiple_of(4);
            all = all.rotate_left(16) ^ own;
        }
        all
    }
}

/// The head of a block of attributes.
///
/// # Errors
/// If the block is not a block of attributes.
pub fn header(block: &[u8], place: Place) -> Result<&RawAttributeHeader, FormatError> {
    let wrong = |problem| FormatError::new("attribute block", place, problem);
    let Ok((header, _)) = RawAttributeHeader::ref_from_prefix(block) else {
        return Err(wrong(Problem::Short { length: block.len(), needed: HEADER }));
    };
    match header.magic.get() {
        ATTRIBUTE_MAGIC => Ok(header),
        found => Err(wrong(Problem::Magic { found, expected: ATTRIBUTE_MAGIC })),
    }
}

/// Stores the checksum of the attribute block `number`, if the file system has checksums.
pub fn set_checksum(block: &mut [u8], number: BlockNo, layout: &Layout) {
    if layout.features.metadata_csum() {
        let checksum = computed_checksum(block, number, layout);
        block[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Compares the checksum of the attribute block `number`, if the file system has checksums.
///
/// # Errors
/// If it disagrees, or the block is not a block of attributes.
pub fn verify_checksum(block: &[u8], number: BlockNo, layout: &Layout) -> Result<(), FormatError> {
    let place = Place::Block(number);
    let found = header(block, place)?.checksum.get();
    match layout.features.metadata_csum() {
        true => expect_checksum("attribute block", place, found, computed_checksum(block, number, layout)),
        false => Ok(()),
    }
}

fn computed_checksum(block: &[u8], number: BlockNo, layout: &Layout) -> u32 {
    let register = crc32c(layout.checksum_seed, &number.0.to_le_bytes());
    let register = crc32c(crc32c(register, &block[..CHECKSUM.start]), &[0; 4]);
    crc32c(register, &block[CHECKSUM.end..])
}
