//! Extents: the tree that maps a file's blocks to the image's.
//!
//! A node is a header of 12 bytes and entries of 12 bytes: extents at depth 0, indexes above. The root lies in the
//! inode (60 bytes, 4 entries). Every other node fills a block (340 entries and a checksum in the last 4 bytes).
//!
//! [`Node`] reads a node, [`NodeMut`] changes it. Both check the header when they are made; after that every index
//! below [`Node::len`] lies inside the bytes. [`Node::check_entries`] checks the entries, once, when a block is read
//! from the image. Invariant: entries are sorted by `logical`, extents do not overlap.
//!
//! Source: `filesystems/ext4/ifork.rst` of the Linux documentation.

use onewrite_block::crc32c;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{FormatError, Place, Problem, expect_checksum};
use super::layout::Layout;
use crate::block::{BlockNo, BlockRange};

/// The number that marks a node.
pub const EXTENT_MAGIC: u16 = 0xf30a;
/// Levels of indexes above the extents that a tree may have.
pub const DEPTH_MAX: u16 = 5;
/// Entries in the root.
pub const ROOT_CAPACITY: usize = 4;
/// Longest written extent, in blocks.
pub const WRITTEN_LENGTH_MAX: u32 = 32_768;
/// Longest unwritten extent, in blocks.
pub const UNWRITTEN_LENGTH_MAX: u32 = 32_767;

const HEADER: usize = size_of::<RawHeader>();
const ENTRY: usize = 12;
const TAIL: usize = 4;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U16,
    entries: U16,
    max: U16,
    depth: U16,
    generation: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawExtent {
    block: U32,
    len: U16,
    start_hi: U16,
    start_lo: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawIndex {
    block: U32,
    leaf_lo: U32,
    leaf_hi: U16,
    unused: U16,
}

const _: () = {
    assert!(HEADER == 12);
    assert!(size_of::<RawExtent>() == ENTRY);
    assert!(size_of::<RawIndex>() == ENTRY);
    assert!(HEADER + ROOT_CAPACITY * ENTRY == 60);
};

/// A contiguous run of a file's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block of the file.
    pub logical: u32,
    /// Block of the image that holds it.
    pub physical: BlockNo,
    /// Length in blocks: at most [`WRITTEN_LENGTH_MAX`] or [`UNWRITTEN_LENGTH_MAX`].
    pub length: u32,
    /// Allocated but never written: reads as zeros.
    pub unwritten: bool,
}

impl Extent {
    /// The file's block after the extent's last.
    pub(crate) const fn logical_end(&self) -> u64 {
        self.logical as u64 + self.length as u64
    }

    /// The blocks of the image.
    pub const fn blocks(&self) -> BlockRange {
        self.physical.run(self.length as u64)
    }

    /// Block of the image for the file's block `logical`, which must lie in the extent.
    pub fn physical_of(&self, logical: u32) -> BlockNo {
        self.physical + u64::from(logical - self.logical)
    }
}

/// One entry of an inner node: the file's blocks from `logical` on are mapped below `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// First block of the file that the child maps.
    pub logical: u32,
    /// Block of the child.
    pub node: BlockNo,
}

impl From<RawExtent> for Extent {
    fn from(raw: RawExtent) -> Extent {
        let length = u32::from(raw.len.get());
        let unwritten = length > WRITTEN_LENGTH_MAX;
        Extent {
            logical: raw.block.get(),
            physical: BlockNo(u64::from(raw.start_lo.get()) | u64::from(raw.start_hi.get()) << 32),
            length: if unwritten { length - WRITTEN_LENGTH_MAX } else { length },
            unwritten,
        }
    }
}

impl From<Extent> for RawExtent {
    fn from(extent: Extent) -> RawExtent {
        let length_max = if extent.unwritten { UNWRITTEN_LENGTH_MAX } else { WRITTEN_LENGTH_MAX };
        assert!(extent.length >= 1 && extent.length <= length_max, "length of {extent:?}");
        RawExtent {
            block: U32::new(extent.logical),
            len: U16::new((extent.length + if extent.unwritten { WRITTEN_LENGTH_MAX } else { 0 }) as u16),
            start_hi: U16::new((extent.physical.0 >> 32) as u16),
            start_lo: U32::new(extent.physical.0 as u32),
        }
    }
}

impl From<RawIndex> for Index {
    fn from(raw: RawIndex) -> Index {
        let node = BlockNo(u64::from(raw.leaf_lo.get()) | u64::from(raw.leaf_hi.get()) << 32);
        Index { logical: raw.block.get(), node }
    }
}

impl From<Index> for RawIndex {
    fn from(index: Index) -> RawIndex {
        RawIndex {
            block: U32::new(index.logical),
            leaf_lo: U32::new(index.node.0 as u32),
            leaf_hi: U16::new((index.node.0 >> 32) as u16),
            unused: U16::ZERO,
        }
    }
}

/// A node to read. Copying it is free.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    bytes: &'a [u8],
    header: RawHeader,
}

impl<'a> Node<'a> {
    /// Takes the 60 bytes of an inode or the 4096 of a block as a node and checks the header.
    ///
    /// # Errors
    /// A wrong magic number, more entries than fit, too deep a tree.
    pub fn parse(bytes: &'a [u8], place: Place) -> Result<Node<'a>, FormatError> {
        let Ok((&header, _)) = RawHeader::ref_from_prefix(bytes) else {
            return Err(damaged(place, Problem::Short { length: bytes.len(), needed: HEADER }));
        };
        check_header(&header, bytes.len(), place)?;
        Ok(Node { bytes, header })
    }

    /// Levels from this node down to the extents: 0 for a leaf.
    pub fn depth(&self) -> u16 {
        self.header.depth.get()
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.header.entries.get().into()
    }

    /// Whether no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that fit.
    pub fn capacity(&self) -> usize {
        self.header.max.get().into()
    }

    /// Entry `index` of a leaf.
    ///
    /// # Panics
    /// If the node is no leaf or has no such entry.
    pub fn extent(&self, index: usize) -> Extent {
        self.raw_extents()[index].into()
    }

    /// Entry `index` of an inner node.
    ///
    /// # Panics
    /// If the node is a leaf or has no such entry.
    pub fn index(&self, index: usize) -> Index {
        self.raw_indexes()[index].into()
    }

    /// The extents of a leaf, in order; none in an inner node.
    pub fn extents(&self) -> impl ExactSizeIterator<Item = Extent> + DoubleEndedIterator + use<'a> {
        let raw = if self.depth() == 0 { self.raw_extents() } else { &[] };
        raw.iter().map(|&raw| raw.into())
    }

    /// The indexes of an inner node, in order; none in a leaf.
    pub fn indexes(&self) -> impl ExactSizeIterator<Item = Index> + DoubleEndedIterator + use<'a> {
        let raw = if self.depth() > 0 { self.raw_indexes() } else { &[] };
        raw.iter().map(|&raw| raw.into())
    }

    /// Number of entries that begin at or before the file's block `logical`. The entry before this number may map the
    /// block; a new entry for the block belongs at this number.
    pub fn position(&self, logical: u32) -> usize {
        // The first word of extents and indexes is the same.
        self.raw_extents_or_indexes().partition_point(|raw| raw.block.get() <= logical)
    }

    /// The extent of a leaf that holds the file's block `logical`.
    pub fn find(&self, logical: u32) -> Option<Extent> {
        let extent = self.extent(self.position(logical).checked_sub(1)?);
        (u64::from(logical) < extent.logical_end()).then_some(extent)
    }

    /// The child of an inner node that maps the file's block `logical`, if the tree maps it at all.
    pub fn child(&self, logical: u32) -> Option<Index> {
        Some(self.index(self.position(logical).checked_sub(1)?))
    }

    /// Checks the entries: order, overlap, length, and that everything lies inside the image.
    ///
    /// # Errors
    /// The first entry that is wrong, by its offset.
    pub fn check_entries(&self, layout: &Layout, place: Place) -> Result<(), FormatError> {
        match self.depth() {
            0 => self.check_extents(layout, place),
            _ => self.check_indexes(layout, place),
        }
    }

    fn check_extents(&self, layout: &Layout, place: Place) -> Result<(), FormatError> {
        let mut next = 0;
        for (index, extent) in self.extents().enumerate() {
            let wrong = |field, value, rule| Err(entry_error(place, index, field, value, rule));
            if extent.length == 0 {
                return wrong("len", 0, "must not be 0");
            }
            if u64::from(extent.logical) < next {
                return wrong("block", extent.logical.into(), "begins before the extent before it ends");
            }
            next = extent.logical_end();
            if next > 1 << 32 {
                return wrong("block", extent.logical.into(), "reaches beyond the last block a file can have");
            }
            let is_inside = extent.blocks().ends_by(layout.end());
            if !layout.contains_block(extent.physical) || extent.physical.is_none() || !is_inside {
                return wrong("start", extent.physical.0, "reaches beyond the image");
            }
        }
        Ok(())
    }

    fn check_indexes(&self, layout: &Layout, place: Place) -> Result<(), FormatError> {
        let mut next = 0;
        for (entry, index) in self.indexes().enumerate() {
            if u64::from(index.logical) < next {
                return Err(entry_error(place, entry, "block", index.logical.into(), "is not in order"));
            }
            next = u64::from(index.logical) + 1;
            if !layout.contains_block(index.node) || index.node.is_none() {
                return Err(entry_error(place, entry, "leaf", index.node.0, "lies beyond the image"));
            }
        }
        Ok(())
    }

    fn entry_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER..HEADER + self.len() * ENTRY]
    }

    fn raw_extents_or_indexes(&self) -> &'a [RawExtent] {
        <[RawExtent]>::ref_from_bytes(self.entry_bytes()).expect("whole entries")
    }

    fn raw_extents(&self) -> &'a [RawExtent] {
        assert_eq!(self.depth(), 0, "extents lie in leaves");
        self.raw_extents_or_indexes()
    }

    fn raw_indexes(&self) -> &'a [RawIndex] {
        assert!(self.depth() > 0, "indexes lie in inner nodes");
        <[RawIndex]>::ref_from_bytes(self.entry_bytes()).expect("whole entries")
    }
}

/// A node to change. Every change keeps the header true; the caller keeps order and checksum.
#[derive(Debug)]
pub struct NodeMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> NodeMut<'a> {
    /// Takes bytes as a node, as [`Node::parse`] does.
    ///
    /// # Errors
    /// As `Node::parse`.
    pub fn parse(bytes: &'a mut [u8], place: Place) -> Result<NodeMut<'a>, FormatError> {
        Node::parse(bytes, place)?;
        Ok(NodeMut { bytes })
    }

    /// Makes an empty node out of the 60 bytes of an inode or the 4096 of a block.
    pub fn init(bytes: &'a mut [u8], depth: u16) -> NodeMut<'a> {
        let max = U16::new(capacity_of(bytes.len()) as u16);
        let header = RawHeader {
            magic: U16::new(EXTENT_MAGIC),
            entries: U16::ZERO,
            max,
            depth: U16::new(depth),
            generation: U32::ZERO,
        };
        bytes.fill(0);
        bytes[..HEADER].copy_from_slice(header.as_bytes());
        NodeMut { bytes }
    }

    /// The node to read.
    pub fn node(&self) -> Node<'_> {
        let (&header, _) = RawHeader::ref_from_prefix(self.bytes).expect("checked when taken");
        Node { bytes: self.bytes, header }
    }

    /// Inserts `extent` as entry `index` of a leaf. Returns false and changes nothing if the node is full.
    #[must_use]
    pub fn insert_extent(&mut self, index: usize, extent: Extent) -> bool {
        assert_eq!(self.node().depth(), 0, "extents lie in leaves");
        self.insert(index, RawExtent::from(extent).as_bytes())
    }

    /// Inserts `child` as entry `index` of an inner node. Returns false and changes nothing if the node is full.
    #[must_use]
    pub fn insert_index(&mut self, index: usize, child: Index) -> bool {
        assert!(self.node().depth() > 0, "indexes lie in inner nodes");
        self.insert(index, RawIndex::from(child).as_bytes())
    }

    /// Replaces entry `index` of a leaf.
    pub fn set_extent(&mut self, index: usize, extent: Extent) {
        assert_eq!(self.node().depth(), 0, "extents lie in leaves");
        self.set(index, RawExtent::from(extent).as_bytes());
    }

    /// Replaces entry `index` of an inner node.
    pub fn set_index(&mut self, index: usize, child: Index) {
        assert!(self.node().depth() > 0, "indexes lie in inner nodes");
        self.set(index, RawIndex::from(child).as_bytes());
    }

    /// Removes entry `index`.
    pub fn remove(&mut self, index: usize) {
        let length = self.node().len();
        assert!(index < length, "entry {index} of {length}");
        self.bytes.copy_within(offset(index + 1)..offset(length), offset(index));
        self.set_len(length - 1);
    }

    /// Keeps the first `length` entries.
    pub fn truncate(&mut self, length: usize) {
        assert!(length <= self.node().len(), "a node is not made longer");
        self.set_len(length);
    }

    /// Moves the entries from `index` on into `right` (a block), which becomes a new node of the same depth.
    pub fn split_into<'b>(&mut self, index: usize, right: &'b mut [u8]) -> NodeMut<'b> {
        let node = self.node();
        assert!(index <= node.len(), "entry {index} of {}", node.len());
        let moved = &node.entry_bytes()[index * ENTRY..];
        let mut other = NodeMut::init(right, node.depth());
        other.bytes[HEADER..HEADER + moved.len()].copy_from_slice(moved);
        other.set_len(moved.len() / ENTRY);
        self.set_len(index);
        other
    }

    /// Makes the tree one level deeper: moves all entries of this root into `child`, block `child_block` of the image.
    /// `child` becomes the root's only child.
    pub fn grow<'b>(&mut self, child_block: BlockNo, child: &'b mut [u8]) -> NodeMut<'b> {
        let depth = self.node().depth();
        let logical = match self.node().is_empty() {
            true => 0,
            false => self.node().raw_extents_or_indexes()[0].block.get(),
        };
        let moved = self.split_into(0, child);
        self.bytes[6..8].copy_from_slice(&(depth + 1).to_le_bytes());
        assert!(self.insert_index(0, Index { logical, node: child_block }), "an empty root has room");
        moved
    }

    fn insert(&mut self, index: usize, entry: &[u8]) -> bool {
        let (length, capacity) = (self.node().len(), self.node().capacity());
        assert!(index <= length, "entry {index} of {length}");
        if length == capacity {
            return false;
        }
        self.bytes.copy_within(offset(index)..offset(length), offset(index + 1));
        self.set_len(length + 1);
        self.set(index, entry);
        true
    }

    fn set(&mut self, index: usize, entry: &[u8]) {
        assert!(index < self.node().len(), "entry {index} of {}", self.node().len());
        self.bytes[offset(index)..offset(index + 1)].copy_from_slice(entry);
    }

    fn set_len(&mut self, length: usize) {
        self.bytes[2..4].copy_from_slice(&(length as u16).to_le_bytes());
    }
}

/// Stores the checksum of a node in a block, if the file system has checksums; `seed` is [`Layout::inode_seed`].
pub fn set_checksum(block: &mut [u8], seed: u32, layout: &Layout) {
    if layout.features.metadata_csum()
        && let Some(tail) = tail_offset(block)
    {
        let checksum = crc32c(seed, &block[..tail]);
        block[tail..tail + TAIL].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Compares the checksum of a node in a block, if the file system has checksums; `seed` is [`Layout::inode_seed`].
///
/// # Errors
/// If it disagrees.
pub fn verify_checksum(block: &[u8], seed: u32, layout: &Layout, place: Place) -> Result<(), FormatError> {
    if !layout.features.metadata_csum() {
        return Ok(());
    }
    let Some(tail) = tail_offset(block) else {
        return Err(damaged(place, Problem::Short { length: block.len(), needed: HEADER }));
    };
    let found = u32::from_le_bytes([block[tail], block[tail + 1], block[tail + 2], block[tail + 3]]);
    expect_checksum("extent node", place, found, crc32c(seed, &block[..tail]))
}

/// Offset of the tail: behind the last entry that fits, by the header's capacity.
fn tail_offset(block: &[u8]) -> Option<usize> {
    let (header, _) = RawHeader::ref_from_prefix(block).ok()?;
    let tail = offset(header.max.get().into());
    (tail + TAIL <= block.len()).then_some(tail)
}

fn offset(index: usize) -> usize {
    HEADER + index * ENTRY
}

fn capacity_of(length: usize) -> usize {
    (length - HEADER) / ENTRY
}

fn check_header(header: &RawHeader, length: usize, place: Place) -> Result<(), FormatError> {
    let (magic, entries, max) = (header.magic.get(), header.entries.get(), header.max.get());
    if magic != EXTENT_MAGIC {
        return Err(damaged(place, Problem::Magic { found: magic.into(), expected: EXTENT_MAGIC.into() }));
    }
    let wrong = |field, value: u16, rule| Err(FormatError::field("extent node", place, field, value, rule));
    if max == 0 || usize::from(max) > capacity_of(length) {
        return wrong("max", max, "must be from 1 to the entries that fit");
    }
    if entries > max {
        return wrong("entries", entries, "must be at most max");
    }
    match header.depth.get() {
        depth if depth > DEPTH_MAX => wrong("depth", depth, "must be at most 5"),
        _ => Ok(()),
    }
}

fn damaged(place: Place, problem: Problem) -> FormatError {
    FormatError::new("extent node", place, problem)
}

fn entry_error(place: Place, index: usize, field: &'static str, value: u64, rule: &'static str) -> FormatError {
    damaged(place, Problem::Entry { offset: offset(index) as u32, field, value, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_extents_of_both_kinds_come_back() {
        for (length, unwritten) in [(WRITTEN_LENGTH_MAX, false), (UNWRITTEN_LENGTH_MAX, true), (1, false), (1, true)] {
            let extent = Extent { logical: 7, physical: BlockNo(1 << 33), length, unwritten };
            assert_eq!(Extent::from(RawExtent::from(extent)), extent);
        }
    }
}
