//! The jbd2 log on disk: superblock, descriptor, revoke and commit blocks. Bytes only, no I/O.
//!
//! All numbers are big-endian. Source: the kernel's documentation, `filesystems/ext4/journal.rst`.
//!
//! ```text
//!   log:          superblock | … transaction | transaction | …          (a ring from block `first` to `length`)
//!   transaction:  descriptor, its blocks, descriptor, its blocks, …, revoke …, commit block
//!   header (12):  magic C03B3998 | kind u32 | sequence u32
//!   descriptor:   header | tags … | [checksum u32 in the last 4 bytes, version 3]
//!   tag, v3 (16): block_lo u32 | flags u32 | block_hi u32 | crc32c(uuid, sequence, block) u32
//!   tag, else:    block_lo u32 | checksum u16 (0 unless version 2) | flags u16 | [block_hi u32 with 64BIT]
//!                 the first tag of a descriptor is followed by the 16 bytes of the UUID
//!   revoke:       header | bytes used u32 | block u64 (u32 without 64BIT) … | [checksum]
//!   commit:       header | kind u8 | size u8 | 0 u16 | checksum [u32; 8] | seconds u64 | nanoseconds u32
//! ```
//!
//! Two kinds of log blocks are ours: [`frame`]s, and streams that recovery finds by their length alone
//! ([`incompat::STREAMS`]). A log that holds them has an incompatible bit set.
//!
//! Onewrite writes two kinds of checksums. **Version 3** covers each structure and each block with a CRC32C.
//! **Version 1** is one CRC32 in the commit block, over the descriptors and their blocks. Only with version 1 do the
//! kernel and e2fsck accept a torn block as the end of the log. So only then may a transaction go to the log together
//! with its commit block (async commit).

pub mod frame;
mod sequence;
mod superblock;

use onewrite_block::{PAGE_SIZE, Page, PageBytes, crc32_be, crc32c};

use crate::block::BlockNo;

pub use sequence::Sequence;
pub use superblock::JournalSuperblock;

/// First four bytes of every log block that is not a copy of a block.
pub const MAGIC: u32 = 0xc03b_3998;
/// Bytes of the header.
pub const HEADER_SIZE: usize = 12;

const COMMIT_CHECKSUM_OFFSET: usize = 16;
const COMMIT_TIME_OFFSET: usize = 48;
const UUID_SIZE: usize = 16;
const TAG_ESCAPED: u32 = 1;
const TAG_SAME_UUID: u32 = 2;
const TAG_LAST: u32 = 8;
/// Bytes of the largest tag.
const TAG_SIZE_MAX: usize = 16;
const CRC32: u8 = 1;

const _: () = {
    assert!(HEADER_SIZE == 2 * size_of::<u32>() + size_of::<Sequence>());
    // The tag of a version 3 log: home block, flags, checksum.
    assert!(TAG_SIZE_MAX == size_of::<BlockNo>() + 2 * size_of::<u32>());
    // After the header: kind, size, two bytes of padding, then eight words of checksums.
    assert!(COMMIT_CHECKSUM_OFFSET == HEADER_SIZE + 4);
    assert!(COMMIT_TIME_OFFSET == COMMIT_CHECKSUM_OFFSET + size_of::<[u32; 8]>());
    assert!(COMMIT_TIME_OFFSET + 12 <= PAGE_SIZE);
    assert!(UUID_SIZE == size_of::<u128>());
};

/// Bits of the superblock's compatible features.
pub mod compat {
    /// Commit blocks carry a version 1 checksum.
    pub const CHECKSUM: u32 = 1;
}

/// Bits of the superblock's incompatible features.
pub mod incompat {
    /// There are revoke blocks.
    pub const REVOKE: u32 = 1;
    /// Block numbers have 64 bits.
    pub const BITS_64: u32 = 2;
    /// A commit block may reach the log before its transaction.
    pub const ASYNC_COMMIT: u32 = 4;
    /// Version 2 checksums.
    pub const CHECKSUM_V2: u32 = 8;
    /// Version 3 checksums.
    pub const CHECKSUM_V3: u32 = 0x10;
    /// The end of the log is a fast-commit area, which may hold something.
    pub const FAST_COMMIT: u32 = 0x20;

    /// Ours: transactions are compressed [`frame`](super::frame)s. jbd2 does not know this bit, so the kernel and
    /// e2fsck refuse the log. It is set while the log may hold frames.
    pub const FRAMES: u32 = 0x4000_0000;
    /// Ours: each transaction is one compressed stream behind its length, as in the LDJ papers.
    pub const STREAMS: u32 = 0x2000_0000;

    /// What recovery understands.
    pub const KNOWN: u32 = REVOKE | BITS_64 | ASYNC_COMMIT | CHECKSUM_V2 | CHECKSUM_V3 | FRAMES | STREAMS;
}

/// What a log block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names the blocks that follow it.
    Descriptor,
    /// Ends a transaction.
    Commit,
    /// Superblock of version 2 (1 is refused).
    Superblock,
    /// Names blocks whose earlier copies must not be replayed.
    Revoke,
    /// A whole transaction, compressed; ours.
    Frame,
}

impl Kind {
    const fn number(self) -> u32 {
        match self {
            Kind::Descriptor => 1,
            Kind::Commit => 2,
            Kind::Superblock => 4,
            Kind::Revoke => 5,
            Kind::Frame => 0x4f57_0001,
        }
    }

    const fn from_number(number: u32) -> Option<Kind> {
        Some(match number {
            1 => Kind::Descriptor,
            2 => Kind::Commit,
            4 => Kind::Superblock,
            5 => Kind::Revoke,
            0x4f57_0001 => Kind::Frame,
            _ => return None,
        })
    }
}

/// Which checksums a log carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// None.
    No,
    /// One CRC32 for each transaction, in its commit block.
    V1,
    /// CRC32C of each block; its tag holds the lower half.
    V2,
    /// CRC32C of each block, in its tag.
    V3,
}

/// Layout of the blocks of one log, for recovery and commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Bytes of a log block, at most a page. In memory a log block is a page; only its first `block_size` bytes count.
    pub block_size: usize,
    /// 64-bit block numbers.
    pub is_64bit: bool,
    /// Checksums.
    pub checksums: Checksums,
    /// CRC32C register after the log's UUID; checksums of versions 2 and 3 start from it.
    pub seed: u32,
    /// The log's UUID.
    pub uuid: [u8; UUID_SIZE],
}

fn be32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn put32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
}

/// Kind and sequence of a log block; `None` if the magic number is absent or the kind unknown.
pub fn header(bytes: &PageBytes) -> Option<(Kind, Sequence)> {
    (be32(bytes, 0) == MAGIC).then_some(())?;
    Some((Kind::from_number(be32(bytes, 4))?, Sequence(be32(bytes, 8))))
}

fn new_block(kind: Kind, sequence: Sequence) -> PageBytes {
    let mut bytes = [0; PAGE_SIZE];
    put_header(&mut bytes, kind, sequence);
    bytes
}

fn put_header(bytes: &mut [u8], kind: Kind, sequence: Sequence) {
    put32(bytes, 0, MAGIC);
    put32(bytes, 4, kind.number());
    put32(bytes, 8, sequence.0);
}

/// One block named by a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Where the block belongs.
    pub home_block: BlockNo,
    /// Its first four bytes are the magic number; the log holds zeros instead.
    pub is_escaped: bool,
    /// Checksum of the block as it lies in the log; 0 if the log has no such checksums.
    pub checksum: u32,
}

/// The log's copy of `page`, and whether it is escaped: a magic number at its start becomes zeros.
pub fn escape(page: &Page) -> (Page, bool) {
    if u32::from_be_bytes(page.first_bytes()) != MAGIC {
        return (page.clone(), false);
    }
    let mut escaped = page.clone();
    escaped.write(0, &[0; 4]);
    (escaped, true)
}

/// Undoes [`escape`].
pub(crate) fn unescape(mut page: Page) -> Page {
    page.write(0, &MAGIC.to_be_bytes());
    page
}

impl Style {
    fn has_tail(&self) -> bool {
        matches!(self.checksums, Checksums::V2 | Checksums::V3)
    }

    fn end(&self) -> usize {
        if self.has_tail() { self.checksum_offset() } else { self.block_size }
    }

    fn checksum_offset(&self) -> usize {
        self.block_size - 4
    }

    /// The part of a page that is the log block.
    pub fn content<'a>(&self, bytes: &'a PageBytes) -> &'a [u8] {
        &bytes[..self.block_size]
    }

    fn tag_size(&self) -> usize {
        match (self.checksums, self.is_64bit) {
            (Checksums::V3, _) => TAG_SIZE_MAX,
            (Checksums::V2, true) => 14,
            (Checksums::V2, false) => 10,
            (_, true) => 12,
            (_, false) => 8,
        }
    }

    /// Maximum number of blocks that one descriptor can name.
    pub(crate) fn tags_max(&self) -> usize {
        (self.end() - HEADER_SIZE - UUID_SIZE) / self.tag_size()
    }

    /// Maximum number of blocks that one revoke block can name.
    pub(crate) fn revokes_max(&self) -> usize {
        (self.end() - HEADER_SIZE - 4) / self.number_size()
    }

    fn number_size(&self) -> usize {
        if self.is_64bit { 8 } else { 4 }
    }

    /// Whether each block has its own checksum, in its tag.
    pub fn sums_each_block(&self) -> bool {
        self.has_tail()
    }

    /// Checksum for the tag of a block of transaction `sequence`; `page` is as in the log.
    pub fn block_checksum(&self, sequence: Sequence, page: &Page) -> u32 {
        match self.checksums {
            Checksums::No | Checksums::V1 => 0,
            Checksums::V2 => self.crc(sequence, page) & 0xffff,
            Checksums::V3 => self.crc(sequence, page),
        }
    }

    fn crc(&self, sequence: Sequence, page: &Page) -> u32 {
        let register = crc32c(self.seed, &sequence.0.to_be_bytes());
        match self.block_size {
            PAGE_SIZE => page.crc32c(register),
            _ => page.with_bytes(|bytes| crc32c(register, self.content(bytes))),
        }
    }

    /// A descriptor that names `tags`.
    ///
    /// # Panics
    /// If there are none or more than [`Style::tags_max`].
    pub fn descriptor(&self, sequence: Sequence, tags: &[Tag]) -> PageBytes {
        assert!(!tags.is_empty() && tags.len() <= self.tags_max(), "{} tags", tags.len());
        let mut bytes = new_block(Kind::Descriptor, sequence);
        let mut offset = HEADER_SIZE;
        for (index, tag) in tags.iter().enumerate() {
            let same_uuid = if index == 0 { 0 } else { TAG_SAME_UUID };
            let last = if index + 1 == tags.len() { TAG_LAST } else { 0 };
            self.put_tag(&mut bytes[offset..], tag, same_uuid | last);
            offset += self.tag_size();
            if index == 0 {
                bytes[offset..offset + UUID_SIZE].copy_from_slice(&self.uuid);
                offset += UUID_SIZE;
            }
        }
        self.put_tail(&mut bytes);
        bytes
    }

    /// Writes a tag with these flags, and the flag of an escaped block.
    fn put_tag(&self, bytes: &mut [u8], tag: &Tag, flags: u32) {
        let flags = if tag.is_escaped { flags | TAG_ESCAPED } else { flags };
        let high = (tag.home_block.0 >> 32) as u32;
        put32(bytes, 0, tag.home_block.0 as u32);
        if self.checksums == Checksums::V3 {
            put32(bytes, 4, flags);
            put32(bytes, 8, high);
            put32(bytes, 12, tag.checksum);
            return;
        }
        put32(bytes, 4, (tag.checksum & 0xffff) << 16 | flags);
        if self.is_64bit {
            put32(bytes, 8, high);
        }
    }

    /// The tags of a descriptor; stops at the end of the block if none is marked as the last.
    pub fn tags(&self, bytes: &PageBytes) -> Vec<Tag> {
        let mut tags = Vec::new();
        let mut offset = HEADER_SIZE;
        while offset + self.tag_size() <= self.end() {
            let (tag, flags) = self.tag_at(&bytes[offset..]);
            tags.push(tag);
            offset += self.tag_size() + if flags & TAG_SAME_UUID == 0 { UUID_SIZE } else { 0 };
            if flags & TAG_LAST != 0 {
                break;
            }
        }
        tags
    }

    fn tag_at(&self, bytes: &[u8]) -> (Tag, u32) {
        let (flags, checksum) = match self.checksums {
            Checksums::V3 => (be32(bytes, 4), be32(bytes, 12)),
            _ => (be32(bytes, 4) & 0xffff, be32(bytes, 4) >> 16),
        };
        let high = if self.is_64bit || self.checksums == Checksums::V3 { be32(bytes, 8) } else { 0 };
        let high = if self.is_64bit { high } else { 0 };
        let home_block = BlockNo(u64::from(high) << 32 | u64::from(be32(bytes, 0)));
        (Tag { home_block, is_escaped: flags & TAG_ESCAPED != 0, checksum }, flags)
    }

    fn put_tail(&self, bytes: &mut PageBytes) {
        if self.has_tail() {
            let sum = crc32c(self.seed, self.content(bytes));
            put32(bytes, self.checksum_offset(), sum);
        }
    }

    /// Whether the checksum at the end of a descriptor or revoke block is right; true if the log has none.
    pub(crate) fn tail_holds(&self, bytes: &PageBytes) -> bool {
        if !self.has_tail() {
            return true;
        }
        let offset = self.checksum_offset();
        let sum = crc32c(crc32c(self.seed, &bytes[..offset]), &[0; 4]);
        sum == be32(bytes, offset)
    }

    /// A block that revokes `blocks`.
    ///
    /// # Panics
    /// If there are more than [`Style::revokes_max`].
    pub fn revoke(&self, sequence: Sequence, blocks: &[BlockNo]) -> PageBytes {
        assert!(blocks.len() <= self.revokes_max(), "{} revokes", blocks.len());
        let mut bytes = new_block(Kind::Revoke, sequence);
        let size = self.number_size();
        for (block, place) in blocks.iter().zip(bytes[HEADER_SIZE + 4..].chunks_mut(size)) {
            place.copy_from_slice(&block.0.to_be_bytes()[8 - size..]);
        }
        put32(&mut bytes, HEADER_SIZE, (HEADER_SIZE + 4 + blocks.len() * size) as u32);
        self.put_tail(&mut bytes);
        bytes
    }

    /// The blocks that a revoke block names.
    pub(crate) fn revoked(&self, bytes: &PageBytes) -> Vec<BlockNo> {
        let used = (be32(bytes, HEADER_SIZE) as usize).min(self.end());
        let numbers = bytes.get(HEADER_SIZE + 4..used).unwrap_or_default();
        let size = self.number_size();
        numbers
            .chunks_exact(size)
            .map(|chunk| BlockNo(chunk.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))))
            .collect()
    }

    /// A commit block. Only version 1 logs use `sum`.
    pub fn commit(&self, sequence: Sequence, civil_ns: u64, sum: VersionOneSum) -> PageBytes {
        let mut bytes = new_block(Kind::Commit, sequence);
        bytes[COMMIT_TIME_OFFSET..COMMIT_TIME_OFFSET + 8].copy_from_slice(&(civil_ns / 1_000_000_000).to_be_bytes());
        put32(&mut bytes, COMMIT_TIME_OFFSET + 8, (civil_ns % 1_000_000_000) as u32);
        match self.checksums {
            Checksums::No => (),
            Checksums::V1 => {
                (bytes[HEADER_SIZE], bytes[HEADER_SIZE + 1]) = (CRC32, 4);
                put32(&mut bytes, COMMIT_CHECKSUM_OFFSET, sum.0);
            }
            Checksums::V2 | Checksums::V3 => {
                let sum = crc32c(self.seed, self.content(&bytes));
                put32(&mut bytes, COMMIT_CHECKSUM_OFFSET, sum);
            }
        }
        bytes
    }

    /// Whether the checksum of a commit block is right. In a version 1 log it covers the transaction too (`sum` as for
    /// [`Style::commit`]).
    pub(crate) fn commit_holds(&self, bytes: &PageBytes, sum: VersionOneSum) -> bool {
        let stored = be32(bytes, COMMIT_CHECKSUM_OFFSET);
        match self.checksums {
            Checksums::No => true,
            Checksums::V1 => match (bytes[HEADER_SIZE], bytes[HEADER_SIZE + 1]) {
                (CRC32, 4) => stored == sum.0,
                (0, 0) => stored == 0,
                _ => false,
            },
            Checksums::V2 | Checksums::V3 => {
                let mut zeroed = *bytes;
                put32(&mut zeroed, COMMIT_CHECKSUM_OFFSET, 0);
                stored == crc32c(self.seed, self.content(&zeroed))
            }
        }
    }
}

/// Version 1's running checksum over the descriptors and blocks of a transaction, in log order.
#[derive(Clone, Copy, Debug)]
pub struct VersionOneSum(pub u32);

impl VersionOneSum {
    /// Before the first block.
    pub const START: VersionOneSum = VersionOneSum(!0);

    /// Adds one more block.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = crc32_be(self.0, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(is_64bit: bool, checksums: Checksums) -> Style {
        Style { block_size: PAGE_SIZE, is_64bit, checksums, seed: 77, uuid: [9; 16] }
    }

    fn sized(mut style: Style, block_size: usize) -> Style {
        style.block_size = block_size;
        style
    }

    fn styles() -> impl Iterator<Item = Style> {
        let all = [Checksums::No, Checksums::V1, Checksums::V2, Checksums::V3];
        all.into_iter()
            .flat_map(|checksums| [false, true].map(|is_64bit| style(is_64bit, checksums)))
            .flat_map(|style| [1024, PAGE_SIZE].map(|block_size| sized(style, block_size)))
    }

    #[test]
    fn tags_come_back_in_every_style() {
        for style in styles() {
            let block = |index: u64| BlockNo(if style.is_64bit { index << 33 | 5 } else { index + 5 });
            let sum = |index: u64| if style.has_tail() { index as u32 } else { 0 };
            let tags: Vec<Tag> = (0..style.tags_max() as u64)
                .map(|index| Tag { home_block: block(index), is_escaped: index % 3 == 0, checksum: sum(index) })
                .collect();
            let bytes = style.descriptor(Sequence(42), &tags);
            assert_eq!(header(&bytes), Some((Kind::Descriptor, Sequence(42))));
            assert!(style.tail_holds(&bytes));
            assert_eq!(style.tags(&bytes), tags, "{style:?}");
        }
    }

    #[test]
    fn revokes_come_back_in_every_style() {
        for style in styles() {
            let blocks: Vec<BlockNo> = (0..style.revokes_max() as u64).map(|index| BlockNo(index * 3)).collect();
            let bytes = style.revoke(Sequence(7), &blocks);
            assert!(style.tail_holds(&bytes));
            assert_eq!(style.revoked(&bytes), blocks);
        }
    }

    #[test]
    fn a_changed_bit_breaks_the_checksum() {
        for style in styles().filter(Style::has_tail) {
            let mut bytes =
                style.descriptor(Sequence(1), &[Tag { home_block: BlockNo(9), is_escaped: false, checksum: 1 }]);
            bytes[style.block_size / 2] ^= 1;
            assert!(!style.tail_holds(&bytes));
            let mut commit = style.commit(Sequence(1), 5, VersionOneSum(0));
            assert!(style.commit_holds(&commit, VersionOneSum(0)));
            commit[100] ^= 1;
            assert!(!style.commit_holds(&commit, VersionOneSum(0)));
        }
    }

    #[test]
    fn version_one_commits_hold_with_the_right_sum_only() {
        let style = style(true, Checksums::V1);
        let commit = style.commit(Sequence(3), 0, VersionOneSum(0x1234));
        assert!(style.commit_holds(&commit, VersionOneSum(0x1234)));
        assert!(!style.commit_holds(&commit, VersionOneSum(0x1235)));
    }

    #[test]
    fn the_magic_number_is_escaped_and_comes_back() {
        let page = Page::from_slice(&[&MAGIC.to_be_bytes()[..], b"rest"].concat());
        let (escaped, is_escaped) = escape(&page);
        assert!(is_escaped && escaped != page);
        assert_eq!(unescape(escaped), page);
        assert!(!escape(&Page::ZEROS).1);
    }
}
