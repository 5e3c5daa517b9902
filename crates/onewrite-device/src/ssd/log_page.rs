//! Map-log page: the byte format that makes the map durable. `docs/device-model.md` describes its use.
//!
//! ```text
//!    0  u32  magic "1WML"
//!    4  u32  CRC32C of bytes 8..4096
//!    8  u64  number of this log page; each page has one more than the page before
//!   16  u32  kind: 1 records, 2 sealed records, 3 segment
//!   20  u32  segment (kind 3)
//!   24  u64  sequence number that the next write will get
//!   32  u32  open blocks (kind 2)     36  u32  records or entries
//!   40       open blocks: u32 block, u32 pages covered;  then records: u32 logical page, u32 flash page
//!            or the entries of the segment: u32 flash page
//! ```
//!
//! All numbers are little-endian. *Sealed* means: this page and the pages before it hold every map change up to one
//! moment. At that moment the open blocks had as many pages as the page says. A flash page of all ones means that the
//! logical page holds nothing. All ones except the last bit means that its content is lost.

use onewrite_block::{PAGE_SIZE, Page, PageBytes, crc32c};

use super::mapping::Record;
use crate::address::{FlashBlock, Lpn, MapEntry};

const MAGIC: u32 = u32::from_le_bytes(*b"1WML");
const HEADER_BYTES: usize = 40;
const RECORD_BYTES: usize = 8;

/// Map entries in a segment.
pub(crate) const SEGMENT_ENTRIES: usize = (PAGE_SIZE - HEADER_BYTES) / 4;

/// Map records that fit a page beside `open_blocks` open blocks.
pub(crate) const fn records_max(open_blocks: usize) -> usize {
    (PAGE_SIZE - HEADER_BYTES) / RECORD_BYTES - open_blocks
}

/// A block that takes pages, and the number of its pages that the map covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenBlock {
    /// The block; `None` if this role has no block.
    pub(crate) block: Option<FlashBlock>,
    /// Pages below this index are in the map.
    pub(crate) covered: u32,
}

/// The content of a log page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Changes, in order; more follow before the next seal.
    Records(Vec<Record>),
    /// The last changes before a seal.
    Sealed(Vec<OpenBlock>, Vec<Record>),
    /// One segment of the map as a whole.
    Segment(u32, Vec<MapEntry>),
}

/// A page of the map log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogPage {
    /// Its number in the log.
    pub(crate) number: u64,
    /// The sequence number of the next write at that moment.
    pub(crate) sequence: u64,
    /// Its content.
    pub(crate) content: Content,
}

fn put(bytes: &mut PageBytes, offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_wide(bytes: &mut PageBytes, offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

fn word(bytes: &PageBytes, offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn wide(bytes: &PageBytes, offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

/// Puts words from byte `start` on; returns the offset after them.
fn put_words(bytes: &mut PageBytes, start: usize, words: impl Iterator<Item = u32>) -> usize {
    let mut offset = start;
    for word in words {
        put(bytes, offset, word);
        offset += 4;
    }
    offset
}

/// `count` pairs of words from byte `start` on; `None` if they exceed the page.
fn pairs(bytes: &PageBytes, start: usize, count: usize) -> Option<impl Iterator<Item = [u32; 2]>> {
    let area = bytes.get(start..start + count.checked_mul(RECORD_BYTES)?)?;
    let half = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().expect("four bytes"));
    Some(area.chunks_exact(RECORD_BYTES).map(move |pair| [half(&pair[..4]), half(&pair[4..])]))
}

impl OpenBlock {
    const NO_BLOCK: u32 = u32::MAX;

    fn words(&self) -> [u32; 2] {
        [self.block.map_or(OpenBlock::NO_BLOCK, |block| block.0), self.covered]
    }

    fn of_words([block, covered]: [u32; 2]) -> OpenBlock {
        OpenBlock { block: Some(FlashBlock(block)).filter(|block| block.0 != OpenBlock::NO_BLOCK), covered }
    }
}

impl Record {
    fn words(&self) -> [u32; 2] {
        [self.lpn.0, self.entry.word()]
    }

    fn of_words([lpn, entry]: [u32; 2]) -> Record {
        Record { lpn: Lpn(lpn), entry: MapEntry::of_word(entry) }
    }
}

impl LogPage {
    /// The bytes of the page.
    pub(crate) fn encode(&self) -> Page {
        let mut bytes = [0; PAGE_SIZE];
        put(&mut bytes, 0, MAGIC);
        put_wide(&mut bytes, 8, self.number);
        put_wide(&mut bytes, 24, self.sequence);
        match &self.content {
            Content::Records(records) => encode_records(&mut bytes, 1, &[], records),
            Content::Sealed(open, records) => encode_records(&mut bytes, 2, open, records),
            Content::Segment(segment, entries) => {
                put(&mut bytes, 16, 3);
                put(&mut bytes, 20, *segment);
                put(&mut bytes, 36, entries.len() as u32);
                put_words(&mut bytes, HEADER_BYTES, entries.iter().map(|entry| entry.word()));
            }
        }
        let checksum = crc32c(!0, &bytes[8..]);
        put(&mut bytes, 4, checksum);
        Page::new(bytes)
    }

    /// The page in `bytes`; `None` if they are not a whole log page.
    pub(crate) fn decode(bytes: &PageBytes) -> Option<LogPage> {
        if word(bytes, 0) != MAGIC || word(bytes, 4) != crc32c(!0, &bytes[8..]) {
            return None;
        }
        let (open_count, count) = (word(bytes, 32) as usize, word(bytes, 36) as usize);
        let content = match word(bytes, 16) {
            1 => Content::Records(pairs(bytes, HEADER_BYTES, count)?.map(Record::of_words).collect()),
            2 => {
                let open = pairs(bytes, HEADER_BYTES, open_count)?.map(OpenBlock::of_words).collect();
                let records = pairs(bytes, HEADER_BYTES + open_count * RECORD_BYTES, count)?;
                Content::Sealed(open, records.map(Record::of_words).collect())
            }
            3 if count <= SEGMENT_ENTRIES => {
                let entries =
                    (0..count).map(|index| MapEntry::of_word(word(bytes, HEADER_BYTES + 4 * index))).collect();
                Content::Segment(word(bytes, 20), entries)
            }
            _ => return None,
        };
        Some(LogPage { number: wide(bytes, 8), sequence: wide(bytes, 24), content })
    }
}

fn encode_records(bytes: &mut PageBytes, kind: u32, open: &[OpenBlock], records: &[Record]) {
    assert!(records.len() <= records_max(open.len()), "{} records do not fit a log page", records.len());
    put(bytes, 16, kind);
    put(bytes, 32, open.len() as u32);
    put(bytes, 36, records.len() as u32);
    let end = put_words(bytes, HEADER_BYTES, open.iter().flat_map(OpenBlock::words));
    put_words(bytes, end, records.iter().flat_map(Record::words));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ppn;

    fn record(lpn: u32, entry: MapEntry) -> Record {
        Record { lpn: Lpn(lpn), entry }
    }

    fn sealed() -> LogPage {
        let open = vec![OpenBlock { block: Some(FlashBlock(9)), covered: 3 }; 4];
        let records = (0..records_max(4) as u32).map(|lpn| record(lpn, MapEntry::at(Ppn(lpn + 1)))).collect();
        LogPage { number: 77, sequence: 1 << 40, content: Content::Sealed(open, records) }
    }

    #[test]
    fn every_kind_reads_back_as_it_was_written() {
        let entries = (0..SEGMENT_ENTRIES as u32).map(MapEntry::of_word).collect();
        let records = LogPage { content: Content::Records(vec![record(1, MapEntry::NONE)]), ..sealed() };
        let segment = LogPage { content: Content::Segment(5, entries), ..sealed() };
        let nothing_open = vec![OpenBlock { block: None, covered: 0 }; 4];
        let unopened = LogPage { content: Content::Sealed(nothing_open, Vec::new()), ..sealed() };
        for page in [sealed(), records, segment, unopened] {
            assert_eq!(LogPage::decode(&page.encode().bytes()).unwrap(), page);
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let good = sealed().encode();
        for offset in (0..PAGE_SIZE).step_by(97) {
            let mut page = good.clone();
            page.write(offset, &[page.bytes()[offset] ^ 0x40]);
            assert_eq!(LogPage::decode(&page.bytes()), None, "byte {offset}");
        }
    }
}
