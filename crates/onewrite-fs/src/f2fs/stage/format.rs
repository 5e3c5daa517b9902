//! Format of the staging area: pages with a head, and records that run through them.
//!
//! ```text
//!   label (page 0):        magic u32 │ crc32c u32 │ pages u64 │ id u32
//!   end (pages 1 and 2):   magic u32 │ crc32c u32 │ version u64 │ digest u32
//!   page:                  magic u32 │ crc32c u32 │ version u64 │ transaction u32 │ durable u32 │ index u16 │
//!                          flags u16 │ 0 u32, then 4064 bytes of records
//!   record:                kind u8 │ 0 u8 │ length u16 │ inode u32 │ offset u64, then `length` bytes
//! ```
//!
//! Numbers are little-endian. A checksum covers its page but for its own four bytes; it starts with a value of the
//! image's UUID, so a page of another image has a wrong one. `version` is that of the checkpoint that the transaction
//! continues, `durable` the number of the last transaction that was durable when this one was written. An end says that
//! what continues checkpoint `version` is in the next one, whose head has the CRC32C `digest`; ends of even and of odd
//! versions have a page each, so that a torn one leaves the one before. A checkpoint's head names the area's `id`.

use std::ops::Range;

use onewrite_block::{PAGE_SIZE, Page, PageBytes, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::BlockNo;
use crate::f2fs::format::Nid;

const LABEL_MAGIC: u32 = 0x4c53_574f;
const PAGE_MAGIC: u32 = 0x5053_574f;
const END_MAGIC: u32 = 0x4553_574f;
/// Set in the head of a transaction's last page.
const LAST: u16 = 1;
/// Bytes of a page's head.
const HEAD: usize = size_of::<RawHead>();
/// Bytes of records in a page.
pub(in crate::f2fs) const PAYLOAD: usize = PAGE_SIZE - HEAD;
/// Bytes of a record's head.
pub(in crate::f2fs) const RECORD_HEAD: usize = size_of::<RawRecord>();
/// Bytes of a page in a mapping record.
const MAPPED: usize = 8;
/// Most pages of a mapping record.
pub(in crate::f2fs) const MAPPED_MAX: usize = 500;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLabel {
    magic: U32,
    checksum: U32,
    pages: U64,
    id: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEnd {
    magic: U32,
    checksum: U32,
    version: U64,
    digest: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    magic: U32,
    checksum: U32,
    version: U64,
    transaction: U32,
    durable: U32,
    index: U16,
    flags: U16,
    zero: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRecord {
    kind: u8,
    zero: u8,
    length: U16,
    ino: U32,
    offset: U64,
}

/// The head of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) struct Head {
    /// Version of the checkpoint that the transaction continues.
    pub(in crate::f2fs) version: u64,
    /// Number of the transaction.
    pub(in crate::f2fs) transaction: u32,
    /// The last transaction that was durable when this one was written.
    pub(in crate::f2fs) durable: u32,
    /// Place of the page in its transaction.
    pub(in crate::f2fs) index: u16,
    /// Whether the transaction ends with this page.
    pub(in crate::f2fs) is_last: bool,
}

/// A page of content in the image, which no node names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) struct Mapped {
    /// Where it lies.
    pub(in crate::f2fs) block: BlockNo,
    /// CRC32C of its bytes.
    pub(in crate::f2fs) digest: u32,
}

/// One change. Offsets in files and lengths are bytes unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::f2fs) enum Record<'a> {
    /// The inode is new: what follows says all of it.
    New(Nid),
    /// Bytes of the inode's block.
    Inode(Nid, u16, &'a [u8]),
    /// Bytes of the file.
    Data(Nid, u64, &'a [u8]),
    /// From this page on, the file's pages lie in these blocks.
    Mapping(Nid, u64, Vec<Mapped>),
    /// These bytes of the file are a hole; a part of a page is zeros. Up to `u64::MAX`, all that follow.
    Hole(Nid, Range<u64>),
    /// These pages of the file have blocks reserved.
    Reserved(Nid, Range<u64>),
    /// The extended attributes that the inode has no room for; none if empty.
    Attributes(Nid, &'a [u8]),
    /// The inode is gone.
    Gone(Nid),
}

mod kind {
    pub(super) const PADDING: u8 = 0;
    pub(super) const NEW: u8 = 1;
    pub(super) const INODE: u8 = 2;
    pub(super) const DATA: u8 = 3;
    pub(super) const MAPPING: u8 = 4;
    pub(super) const HOLE: u8 = 5;
    pub(super) const RESERVED: u8 = 6;
    pub(super) const ATTRIBUTES: u8 = 7;
    pub(super) const GONE: u8 = 8;
}

/// A transaction that is being put together.
#[derive(Clone, Debug, Default)]
pub(in crate::f2fs) struct Transaction {
    stream: Vec<u8>,
}

impl Transaction {
    pub(in crate::f2fs) fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// Adds a change.
    ///
    /// # Panics
    /// If it has more than 65,535 bytes.
    pub(in crate::f2fs) fn push(&mut self, record: &Record<'_>) {
        let end = |range: &Range<u64>| range.end.to_le_bytes();
        match record {
            Record::New(ino) => self.put(kind::NEW, *ino, 0, &[]),
            Record::Inode(ino, offset, bytes) => self.put(kind::INODE, *ino, u64::from(*offset), bytes),
            Record::Data(ino, offset, bytes) => self.put(kind::DATA, *ino, *offset, bytes),
            Record::Mapping(ino, index, pages) => {
                let words = pages.iter().flat_map(|page| [page.block.0 as u32, page.digest]);
                let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
                self.put(kind::MAPPING, *ino, *index, &bytes);
            }
            Record::Hole(ino, bytes) => self.put(kind::HOLE, *ino, bytes.start, &end(bytes)),
            Record::Reserved(ino, pages) => self.put(kind::RESERVED, *ino, pages.start, &end(pages)),
            Record::Attributes(ino, list) => self.put(kind::ATTRIBUTES, *ino, 0, list),
            Record::Gone(ino) => self.put(kind::GONE, *ino, 0, &[]),
        }
    }

    fn put(&mut self, kind: u8, ino: Nid, offset: u64, bytes: &[u8]) {
        let length = U16::new(u16::try_from(bytes.len()).expect("a record fits 16 bits"));
        let head = RawRecord { kind, zero: 0, length, ino: U32::new(ino.0), offset: U64::new(offset) };
        self.stream.extend_from_slice(head.as_bytes());
        self.stream.extend_from_slice(bytes);
    }

    /// Bytes of the padding record: up to the end of the page, or of the next one if its head has no room.
    fn padding(&self) -> usize {
        let room = PAYLOAD - self.stream.len() % PAYLOAD;
        if room < RECORD_HEAD { room + PAYLOAD } else { room }
    }

    /// Number of pages that it takes.
    pub(in crate::f2fs) fn page_count(&self) -> u64 {
        ((self.stream.len() + self.padding()) / PAYLOAD) as u64
    }

    /// Its pages. `head` is that of the first.
    pub(in crate::f2fs) fn pages(mut self, head: Head, seed: u32) -> Vec<Page> {
        let padding = self.padding();
        self.put(kind::PADDING, Nid::NONE, 0, &vec![0; padding - RECORD_HEAD]);
        let count = self.stream.len() / PAYLOAD;
        let page = |(index, payload): (usize, &[u8])| {
            encode_page(Head { index: index as u16, is_last: index + 1 == count, ..head }, payload, seed)
        };
        self.stream.chunks(PAYLOAD).enumerate().map(page).collect()
    }
}

fn sum_of(bytes: &PageBytes, seed: u32) -> u32 {
    crc32c(crc32c(seed, &bytes[..4]), &bytes[8..])
}

fn encode_page(head: Head, payload: &[u8], seed: u32) -> Page {
    let mut raw = RawHead::new_zeroed();
    raw.magic.set(PAGE_MAGIC);
    raw.version.set(head.version);
    raw.transaction.set(head.transaction);
    raw.durable.set(head.durable);
    raw.index.set(head.index);
    raw.flags.set(if head.is_last { LAST } else { 0 });
    let mut bytes = [0; PAGE_SIZE];
    bytes[HEAD..HEAD + payload.len()].copy_from_slice(payload);
    bytes[..HEAD].copy_from_slice(raw.as_bytes());
    raw.checksum.set(sum_of(&bytes, seed));
    bytes[..HEAD].copy_from_slice(raw.as_bytes());
    Page::new(bytes)
}

/// The head of a page and its records; `None` if it is no page of a transaction, or a torn one.
pub(in crate::f2fs) fn decode_page(page: &Page, seed: u32) -> Option<(Head, Vec<u8>)> {
    let bytes = page.bytes();
    let (raw, payload) = RawHead::read_from_prefix(&bytes[..]).expect("a head fits a page");
    if raw.magic.get() != PAGE_MAGIC || raw.checksum.get() != sum_of(&bytes, seed) {
        return None;
    }
    let head = Head {
        version: raw.version.get(),
        transaction: raw.transaction.get(),
        durable: raw.durable.get(),
        index: raw.index.get(),
        is_last: raw.flags.get() & LAST != 0,
    };
    Some((head, payload.to_vec()))
}

/// The version that a page of the log says it has, whether it is sound or not; 0 for a page that is none.
pub(in crate::f2fs) fn version_of(page: &Page) -> u64 {
    let bytes = page.bytes();
    let (raw, _) = RawHead::read_from_prefix(&bytes[..]).expect("a head fits a page");
    if raw.magic.get() == PAGE_MAGIC { raw.version.get() } else { 0 }
}

/// What continues one checkpoint is in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) struct End {
    /// Version of the checkpoint that was continued.
    pub(in crate::f2fs) version: u64,
    /// CRC32C of the head of the next one.
    pub(in crate::f2fs) digest: u32,
}

impl End {
    /// Its page.
    pub(in crate::f2fs) fn page(self, seed: u32) -> Page {
        let mut raw = RawEnd::new_zeroed();
        raw.magic.set(END_MAGIC);
        raw.version.set(self.version);
        raw.digest.set(self.digest);
        let mut bytes = [0; PAGE_SIZE];
        bytes[..size_of::<RawEnd>()].copy_from_slice(raw.as_bytes());
        raw.checksum.set(sum_of(&bytes, seed));
        bytes[..size_of::<RawEnd>()].copy_from_slice(raw.as_bytes());
        Page::new(bytes)
    }

    /// What a page says; `None` if it is no end, or a torn one.
    pub(in crate::f2fs) fn decode(page: &Page, seed: u32) -> Option<End> {
        let bytes = page.bytes();
        let (raw, _) = RawEnd::read_from_prefix(&bytes[..]).expect("an end fits a page");
        let is_sound = raw.magic.get() == END_MAGIC && raw.checksum.get() == sum_of(&bytes, seed);
        is_sound.then(|| End { version: raw.version.get(), digest: raw.digest.get() })
    }
}

/// The label of area `id` of `pages` pages, itself included.
pub(in crate::f2fs) fn label(pages: u64, id: u32, seed: u32) -> Page {
    let (magic, pages) = (U32::new(LABEL_MAGIC), U64::new(pages));
    let mut raw = RawLabel { magic, checksum: U32::ZERO, pages, id: U32::new(id) };
    let mut bytes = [0; PAGE_SIZE];
    bytes[..size_of::<RawLabel>()].copy_from_slice(raw.as_bytes());
    raw.checksum.set(sum_of(&bytes, seed));
    bytes[..size_of::<RawLabel>()].copy_from_slice(raw.as_bytes());
    Page::new(bytes)
}

/// What a page says as the label of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) enum Label {
    /// It is none.
    None,
    /// It belongs to another image, or is damaged.
    Foreign,
    /// An area.
    Area {
        /// Pages, the label included.
        pages: u64,
        /// What tells it from other areas of the image.
        id: u32,
    },
}

/// Reads the label of an area.
pub(in crate::f2fs) fn decode_label(page: &Page, seed: u32) -> Label {
    let bytes = page.bytes();
    let (raw, _) = RawLabel::read_from_prefix(&bytes[..]).expect("a label fits a page");
    match raw.magic.get() == LABEL_MAGIC {
        false => Label::None,
        true if raw.checksum.get() == sum_of(&bytes, seed) => Label::Area { pages: raw.pages.get(), id: raw.id.get() },
        true => Label::Foreign,
    }
}

/// The changes of a transaction, from its records up to the padding.
///
/// # Errors
/// What is wrong with a record. Checksums were right, so nobody wrote this by accident.
pub(in crate::f2fs) fn decode(stream: &[u8]) -> Result<Vec<Record<'_>>, String> {
    let mut records = Vec::new();
    let mut rest = stream;
    loop {
        let Ok((raw, behind)) = RawRecord::read_from_prefix(rest) else {
            return Err("it ends without padding".into());
        };
        let length = usize::from(raw.length.get());
        if behind.len() < length {
            return Err(format!("a record of {length} bytes has {}", behind.len()));
        }
        let (bytes, behind) = behind.split_at(length);
        if raw.kind == kind::PADDING {
            return if behind.is_empty() { Ok(records) } else { Err("records follow its padding".into()) };
        }
        records.push(record(&raw, bytes)?);
        rest = behind;
    }
}

fn record<'a>(raw: &RawRecord, bytes: &'a [u8]) -> Result<Record<'a>, String> {
    let (ino, offset) = (Nid(raw.ino.get()), raw.offset.get());
    let wrong = || format!("a record of kind {} at {offset} with {} bytes", raw.kind, bytes.len());
    let range = || {
        let end = u64::from_le_bytes(bytes.try_into().map_err(|_| wrong())?);
        if offset <= end { Ok(offset..end) } else { Err(wrong()) }
    };
    let fits = |room: usize| offset as usize <= room && bytes.len() <= room - offset as usize;
    Ok(match raw.kind {
        kind::NEW => Record::New(ino),
        kind::INODE if offset < PAGE_SIZE as u64 && fits(PAGE_SIZE) => Record::Inode(ino, offset as u16, bytes),
        kind::DATA if fits_page(offset, bytes.len()) => Record::Data(ino, offset, bytes),
        kind::MAPPING if bytes.len().is_multiple_of(MAPPED) && offset.checked_add(MAPPED_MAX as u64).is_some() => {
            let word = |at: &[u8]| u32::from_le_bytes(at.try_into().expect("four bytes"));
            let page = |at: &[u8]| Mapped { block: BlockNo(word(&at[..4]).into()), digest: word(&at[4..]) };
            Record::Mapping(ino, offset, bytes.chunks(MAPPED).map(page).collect())
        }
        kind::HOLE => Record::Hole(ino, range()?),
        kind::RESERVED => Record::Reserved(ino, range()?),
        kind::ATTRIBUTES if bytes.len() < PAGE_SIZE => Record::Attributes(ino, bytes),
        kind::GONE => Record::Gone(ino),
        _ => return Err(wrong()),
    })
}

/// Whether bytes of a file lie in one page of it.
fn fits_page(offset: u64, length: usize) -> bool {
    (offset % PAGE_SIZE as u64) as usize + length <= PAGE_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: Head = Head { version: 7, transaction: 3, durable: 2, index: 0, is_last: false };

    fn records(data: &[u8]) -> Vec<Record<'_>> {
        let mapped = vec![Mapped { block: BlockNo(9), digest: 1 }, Mapped { block: BlockNo(12), digest: 2 }];
        vec![
            Record::Gone(Nid(4)),
            Record::New(Nid(5)),
            Record::Inode(Nid(5), 40, &data[..16]),
            Record::Attributes(Nid(5), &data[..3]),
            Record::Hole(Nid(5), 100..u64::MAX),
            Record::Reserved(Nid(5), 3..9),
            Record::Mapping(Nid(5), 3, mapped),
            Record::Data(Nid(5), 4096, data),
        ]
    }

    fn read_back(pages: &[Page]) -> Vec<u8> {
        let mut stream = Vec::new();
        for (index, page) in pages.iter().enumerate() {
            let (head, payload) = decode_page(page, 5).expect("a page");
            assert_eq!(head, Head { index: index as u16, is_last: index + 1 == pages.len(), ..HEADS });
            stream.extend(payload);
        }
        stream
    }

    #[test]
    fn a_transaction_is_read_as_it_was_put_together() {
        let data: Vec<u8> = (0..4096).map(|byte| byte as u8).collect();
        for length in [0, 1, 3000, 4096] {
            let mut transaction = Transaction::default();
            records(&data[..length.max(16)]).iter().for_each(|record| transaction.push(record));
            let count = transaction.page_count();
            let pages = transaction.pages(HEADS, 5);
            assert_eq!(pages.len() as u64, count);
            assert_eq!(decode(&read_back(&pages)).expect("records"), records(&data[..length.max(16)]));
        }
    }

    #[test]
    fn padding_ends_each_transaction_even_if_its_records_fill_a_page() {
        for short in 0..=RECORD_HEAD {
            let mut transaction = Transaction::default();
            transaction.push(&Record::Data(Nid(5), 0, &vec![1; PAYLOAD - RECORD_HEAD - short]));
            let pages = transaction.pages(HEADS, 5);
            assert_eq!(pages.len(), if short < RECORD_HEAD { 2 } else { 1 }, "{short}");
            assert_eq!(decode(&read_back(&pages)).expect("records").len(), 1, "{short}");
        }
    }

    #[test]
    fn a_changed_byte_or_another_image_is_no_page() {
        let mut transaction = Transaction::default();
        transaction.push(&Record::Gone(Nid(4)));
        let page = transaction.pages(HEADS, 5).remove(0);
        assert!(decode_page(&page, 6).is_none());
        for at in [0, 5, 9, 30, HEAD, 4095] {
            let mut torn = page.clone();
            torn.bytes_mut()[at] ^= 1;
            assert!(decode_page(&torn, 5).is_none(), "byte {at}");
        }
    }

    #[test]
    fn an_end_is_read_as_it_was_written() {
        let end = End { version: 1 << 40, digest: 7 };
        assert_eq!(End::decode(&end.page(5), 5), Some(end));
        assert_eq!((End::decode(&end.page(5), 6), End::decode(&Page::ZEROS, 5)), (None, None));
    }

    #[test]
    fn a_label_says_whose_area_it_is() {
        assert_eq!(decode_label(&label(100, 7, 5), 5), Label::Area { pages: 100, id: 7 });
        assert_eq!(decode_label(&label(100, 7, 5), 6), Label::Foreign);
        assert_eq!(decode_label(&Page::ZEROS, 5), Label::None);
    }

    #[test]
    fn records_that_nobody_writes_are_refused_by_name() {
        for (kind, offset, length, said) in
            [(99, 0, 0, "kind 99"), (kind::DATA, 4000, 200, "kind 3"), (kind::HOLE, 0, 3, "kind 5")]
        {
            let mut transaction = Transaction::default();
            transaction.put(kind, Nid(5), offset, &vec![0; length]);
            let stream = read_back(&transaction.pages(HEADS, 5));
            assert!(decode(&stream).expect_err("refused").contains(said), "{said}");
        }
        assert!(decode(&[]).expect_err("refused").contains("without padding"));
    }
}
