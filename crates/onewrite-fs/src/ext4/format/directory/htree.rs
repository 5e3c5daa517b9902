//! Index blocks of a directory's hash tree.
//!
//! ```text
//!   root:  "." │ ".." over the rest │ 0, hash version, 8, levels, 0 │ limit count block₀ │ hash₁ block₁ │ … │ tail
//!   node:  free record over all     │                                 limit count block₀ │ hash₁ block₁ │ … │ tail
//! ```
//!
//! An index is a table of (hash, block of the directory) pairs in order of hash. The first pair has no hash: it takes
//! all hashes below the second. Its hash field holds `limit` (pairs that fit) and `count` (pairs in use) instead. If
//! the lowest bit of a hash is 1, names with that hash begin in the previous block.
//!
//! Functions that change a block do not update the checksum. Call [`IndexMut::set_checksum`] once after the last
//! change.

use onewrite_block::crc32c;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::{Dots, Entries, init_first};
use crate::ext4::format::error::{FormatError, Place, Problem, expect_checksum};
use crate::ext4::format::layout::Layout;

/// Bytes of a root before its pairs.
pub const ROOT_HEADER: usize = 0x20;
/// Bytes of an inner node before its pairs.
pub const NODE_HEADER: usize = 8;
/// Index levels below the root that a tree may have (without large_dir).
pub const LEVELS_MAX: u8 = 1;

const PAIR: usize = 8;
const TAIL: usize = 8;
const INFO: usize = 0x18;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPair {
    hash: U32,
    block: U32,
}

const _: () = {
    assert!(size_of::<RawPair>() == PAIR);
    // The root's numbers follow the records of `.` and `..`.
    assert!(INFO == super::block::record_length(1) + super::block::record_length(2));
};

/// What a root says about its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootInfo {
    /// Number of the hash; see [`HashVersion::from_disk`](super::HashVersion::from_disk).
    pub hash_version: u8,
    /// Index levels between the root and the blocks of entries.
    pub levels: u8,
}

/// Reads what the root block `block` says about its tree.
///
/// # Errors
/// If `.`, `..` or the fixed numbers are wrong.
pub fn root_info(block: &[u8], place: Place) -> Result<RootInfo, FormatError> {
    let wrong = |field, value: u32, rule| Err(FormatError::field("directory index root", place, field, value, rule));
    let mut entries = Entries::new(block, place);
    for name in [b".".as_slice(), b".."] {
        match entries.next().transpose()? {
            Some(entry) if entry.name == name => {}
            _ => return wrong("name", 0, "must be `.`, then `..`"),
        }
    }
    let Some(info) = block.get(INFO..ROOT_HEADER).filter(|_| block[4] == 12 && block[5] == 0) else {
        return wrong("rec_len", block.get(4).copied().unwrap_or(0).into(), "of `.` must be 12");
    };
    let reserved = u32::from_le_bytes([info[0], info[1], info[2], info[3]]);
    match (reserved, info[5], info[6]) {
        (0, 8, _) if info[7] & 1 != 0 => wrong("flags", info[7].into(), "must not have bit 0"),
        (0, 8, levels) if levels <= LEVELS_MAX => Ok(RootInfo { hash_version: info[4], levels }),
        (0, 8, levels) => wrong("indirect_levels", levels.into(), "must be at most 1"),
        (0, length, _) => wrong("info_length", length.into(), "must be 8"),
        (reserved, ..) => wrong("reserved_zero", reserved, "must be 0"),
    }
}

/// One pair: names with a hash of at least `hash` lie in or below the directory's block `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Lowest hash; always 0 for the first pair.
    pub hash: u32,
    /// Block number within the directory.
    pub block: u32,
}

/// An index block to read. Copying it is free.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    block: &'a [u8],
    header: usize,
}

impl<'a> Index<'a> {
    /// Takes a root block as an index and checks limit and count. [`root_info`] checks the rest.
    ///
    /// # Errors
    /// If limit or count are impossible.
    pub fn root(block: &'a [u8], layout: &Layout, place: Place) -> Result<Index<'a>, FormatError> {
        Index { block, header: ROOT_HEADER }.checked(layout, place)
    }

    /// Takes an inner node as an index and checks its free record, limit and count.
    ///
    /// # Errors
    /// If no free record spans the block, or limit or count are impossible.
    pub fn node(block: &'a [u8], layout: &Layout, place: Place) -> Result<Index<'a>, FormatError> {
        let fake = [0, 0, 0, 0, (block.len() & 0xff) as u8, (block.len() >> 8) as u8, 0, 0];
        match block.starts_with(&fake) {
            true => Index { block, header: NODE_HEADER }.checked(layout, place),
            false => Err(damaged(place, Problem::Magic { found: first_word(block), expected: 0 })),
        }
    }

    fn checked(self, layout: &Layout, place: Place) -> Result<Index<'a>, FormatError> {
        let needed = self.header + PAIR + TAIL;
        if self.block.len() < needed {
            return Err(damaged(place, Problem::Short { length: self.block.len(), needed }));
        }
        let (limit, count) = (self.limit(), self.len());
        let expected = capacity(self.block.len(), self.header, layout);
        let wrong =
            |field, value: usize, rule| Err(FormatError::field("directory index", place, field, value as u64, rule));
        match () {
            () if limit != expected => wrong("limit", limit, "must be the pairs that fit"),
            () if count == 0 || count > limit => wrong("count", count, "must be from 1 to limit"),
            () => Ok(self),
        }
    }

    /// Pairs that fit.
    pub fn limit(&self) -> usize {
        u16::from_le_bytes([self.block[self.header], self.block[self.header + 1]]).into()
    }

    /// Pairs in use; at least one.
    #[expect(clippy::len_without_is_empty, reason = "an index is never empty")]
    pub fn len(&self) -> usize {
        u16::from_le_bytes([self.block[self.header + 2], self.block[self.header + 3]]).into()
    }

    /// Pair `index`.
    ///
    /// # Panics
    /// If there is no such pair.
    pub fn pair(&self, index: usize) -> Pair {
        let raw = self.raw_pairs()[index];
        Pair { hash: if index == 0 { 0 } else { raw.hash.get() }, block: raw.block.get() }
    }

    /// The pairs in order.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = Pair> + use<'a> {
        let index = *self;
        (0..self.len()).map(move |number| index.pair(number))
    }

    /// Number of the pair for names with hash `major`: the last pair whose hash is not greater.
    pub fn position(&self, major: u32) -> usize {
        self.raw_pairs()[1..].partition_point(|pair| pair.hash.get() <= major)
    }

    /// Whether names with hash `major` may continue in the block of pair `index`.
    pub fn continues(&self, index: usize, major: u32) -> bool {
        index < self.len() && self.pair(index).hash == major | 1
    }

    /// Compares the checksum, if the file system has checksums; `seed` is [`Layout::inode_seed`] of the directory.
    ///
    /// # Errors
    /// If it disagrees.
    pub fn verify_checksum(&self, seed: u32, layout: &Layout, place: Place) -> Result<(), FormatError> {
        if !layout.features.metadata_csum() {
            return Ok(());
        }
        let tail = self.tail_offset();
        let found = u32::from_le_bytes(self.block[tail + 4..tail + 8].try_into().expect("four bytes"));
        expect_checksum("directory index", place, found, self.computed_checksum(seed))
    }

    fn computed_checksum(&self, seed: u32) -> u32 {
        let (used, tail) = (self.header + self.len() * PAIR, self.tail_offset());
        let register = crc32c(crc32c(seed, &self.block[..used]), &self.block[tail..tail + 4]);
        crc32c(register, &[0; 4])
    }

    fn tail_offset(&self) -> usize {
        self.header + self.limit() * PAIR
    }

    fn raw_pairs(&self) -> &'a [RawPair] {
        let bytes = &self.block[self.header..self.header + self.len() * PAIR];
        <[RawPair]>::ref_from_bytes(bytes).expect("whole pairs")
    }
}

/// An index block to change.
#[derive(Debug)]
pub struct IndexMut<'a> {
    block: &'a mut [u8],
    header: usize,
}

impl<'a> IndexMut<'a> {
    /// Makes the first block of a directory the root of a tree without inner levels. Its only pair names `child`.
    pub fn init_root(block: &'a mut [u8], dots: Dots, hash_version: u8, child: u32, layout: &Layout) -> IndexMut<'a> {
        init_first(block, dots, layout);
        let length = block.len() as u16 - 12;
        block[16..18].copy_from_slice(&length.to_le_bytes());
        block[INFO..].fill(0);
        (block[INFO + 4], block[INFO + 5]) = (hash_version, 8);
        IndexMut::init(block, ROOT_HEADER, child, layout)
    }

    /// Makes an inner node with one pair, which names `child`.
    pub fn init_node(block: &'a mut [u8], child: u32, layout: &Layout) -> IndexMut<'a> {
        block.fill(0);
        let length = block.len() as u16;
        block[4..6].copy_from_slice(&length.to_le_bytes());
        IndexMut::init(block, NODE_HEADER, child, layout)
    }

    fn init(block: &'a mut [u8], header: usize, child: u32, layout: &Layout) -> IndexMut<'a> {
        let limit = capacity(block.len(), header, layout) as u16;
        block[header..header + 2].copy_from_slice(&limit.to_le_bytes());
        let mut index = IndexMut { block, header };
        index.set_len(1);
        index.set_block(0, child);
        index
    }

    /// Takes a root block as an index, as [`Index::root`] does.
    ///
    /// # Errors
    /// As `Index::root`.
    pub fn root(block: &'a mut [u8], layout: &Layout, place: Place) -> Result<IndexMut<'a>, FormatError> {
        Index::root(block, layout, place)?;
        Ok(IndexMut { block, header: ROOT_HEADER })
    }

    /// Takes an inner node as an index, as [`Index::node`] does.
    ///
    /// # Errors
    /// As `Index::node`.
    pub fn node(block: &'a mut [u8], layout: &Layout, place: Place) -> Result<IndexMut<'a>, FormatError> {
        Index::node(block, layout, place)?;
        Ok(IndexMut { block, header: NODE_HEADER })
    }

    /// The index to read.
    pub fn index(&self) -> Index<'_> {
        Index { block: self.block, header: self.header }
    }

    /// Sets the number of index levels below this root.
    ///
    /// # Panics
    /// If the block is no root.
    pub(crate) fn set_levels(&mut self, levels: u8) {
        assert_eq!(self.header, ROOT_HEADER, "levels are kept in the root");
        self.block[INFO + 6] = levels;
    }

    /// Inserts `pair` as number `index` (not 0). Returns false and changes nothing if the index is full.
    #[must_use]
    pub fn insert(&mut self, index: usize, pair: Pair) -> bool {
        let (length, limit) = (self.index().len(), self.index().limit());
        assert!((1..=length).contains(&index), "pair {index} of {length}");
        if length == limit {
            return false;
        }
        self.block.copy_within(self.offset(index)..self.offset(length), self.offset(index + 1));
        self.set_len(length + 1);
        let at = self.offset(index);
        self.block[at..at + 4].copy_from_slice(&pair.hash.to_le_bytes());
        self.set_block(index, pair.block);
        true
    }

    /// Makes pair `index` name the directory's block `block`.
    pub fn set_block(&mut self, index: usize, block: u32) {
        assert!(index < self.index().len(), "pair {index} of {}", self.index().len());
        let at = self.offset(index) + 4;
        self.block[at..at + 4].copy_from_slice(&block.to_le_bytes());
    }

    /// Moves the pairs from `index` (not 0) on into `right`, which becomes a new inner node. Returns the hash of the
    /// first moved pair for the parent, because `right` does not keep it.
    pub fn split_into<'b>(&mut self, index: usize, right: &'b mut [u8], layout: &Layout) -> (u32, IndexMut<'b>) {
        let length = self.index().len();
        assert!(index > 0 && index < length, "pair {index} of {length}");
        let first = self.index().pair(index);
        let mut other = IndexMut::init_node(right, first.block, layout);
        let (from, to) = (self.offset(index + 1), self.offset(length));
        let at = other.offset(1);
        other.block[at..at + to - from].copy_from_slice(&self.block[from..to]);
        other.set_len(length - index);
        self.set_len(index);
        (first.hash, other)
    }

    /// Makes the tree one level deeper: moves all pairs of this root into `child`, which becomes a new inner node. The
    /// root's only pair then names `child_block`, the number of `child` in the directory.
    pub fn grow<'b>(&mut self, child_block: u32, child: &'b mut [u8], layout: &Layout) -> IndexMut<'b> {
        let length = self.index().len();
        let mut other = IndexMut::init_node(child, self.index().pair(0).block, layout);
        let (from, to) = (self.offset(1), self.offset(length));
        let at = other.offset(1);
        other.block[at..at + to - from].copy_from_slice(&self.block[from..to]);
        other.set_len(length);
        self.set_len(1);
        self.set_block(0, child_block);
        self.set_levels(self.block[INFO + 6] + 1);
        other
    }

    /// Stores the checksum, if the file system has checksums; `seed` is [`Layout::inode_seed`] of the directory.
    pub fn set_checksum(&mut self, seed: u32, layout: &Layout) {
        if layout.features.metadata_csum() {
            let tail = self.index().tail_offset();
            let checksum = self.index().computed_checksum(seed);
            self.block[tail + 4..tail + 8].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    fn offset(&self, index: usize) -> usize {
        self.header + index * PAIR
    }

    fn set_len(&mut self, length: usize) {
        let at = self.header + 2;
        self.block[at..at + 2].copy_from_slice(&(length as u16).to_le_bytes());
    }
}

fn capacity(block_length: usize, header: usize, layout: &Layout) -> usize {
    let tail = if layout.features.metadata_csum() { TAIL } else { 0 };
    (block_length - header - tail) / PAIR
}

fn first_word(block: &[u8]) -> u32 {
    block.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn damaged(place: Place, problem: Problem) -> FormatError {
    FormatError::new("directory index", place, problem)
}
