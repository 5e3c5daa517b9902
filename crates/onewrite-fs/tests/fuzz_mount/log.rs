//! The log of a specimen: the role of each block, and correct checksums after a mutation.

use onewrite_block::{Image, Lpn, Page, PageBytes, crc32c};
use onewrite_fs::journal::format::{self, Checksums, JournalSuperblock, Kind, Sequence, Style, VersionOneSum};

use crate::specimen::bytes;

/// A block of the log that recovery reads.
#[derive(Clone, Debug)]
pub struct LogItem {
    /// Its place on the device.
    pub place: u64,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Superblock,
    Descriptor {
        sequence: Sequence,
        /// Offset of each tag in the block, and the place of the tag's copy.
        tags: Vec<(usize, u64)>,
    },
    /// A copy of the block `home`.
    Copy {
        home: u64,
    },
    Revoke,
    Commit,
}

/// The items of a log after a power cut.
pub fn items(image: &Image, log: &[u64]) -> Vec<LogItem> {
    let superblock = JournalSuperblock::decode(&bytes(image, log[0])).expect("log superblock");
    let mut items = vec![LogItem { place: log[0], what: What::Superblock }];
    let (style, mut sequence, mut at) = (superblock.style(), superblock.sequence, superblock.start as usize);
    while at != 0 && at < log.len() {
        let (place, block) = (log[at], bytes(image, log[at]));
        match format::header(&block) {
            Some((Kind::Descriptor, found)) if found == sequence => {
                let homes: Vec<u64> = style.tags(&block).iter().map(|tag| tag.home_block.0).collect();
                let copies: Vec<u64> = log[at + 1..].iter().copied().take(homes.len()).collect();
                let tags = tag_offsets(&style, copies.len()).into_iter().zip(copies.clone()).collect();
                items.push(LogItem { place, what: What::Descriptor { sequence, tags } });
                at += copies.len();
                let copy = |(place, home)| LogItem { place, what: What::Copy { home } };
                items.extend(copies.into_iter().zip(homes).map(copy));
            }
            Some((Kind::Revoke, found)) if found == sequence => items.push(LogItem { place, what: What::Revoke }),
            Some((Kind::Commit, found)) if found == sequence => {
                items.push(LogItem { place, what: What::Commit });
                sequence = sequence.next();
            }
            _ => break,
        }
        at += 1;
    }
    items
}

fn tag_size(style: &Style) -> usize {
    match (style.checksums, style.is_64bit) {
        (Checksums::V3, _) => 16,
        (Checksums::V2, true) => 14,
        (Checksums::V2, false) => 10,
        (_, true) => 12,
        (_, false) => 8,
    }
}

/// Offsets of the tags of a descriptor: the UUID follows the first.
fn tag_offsets(style: &Style, count: usize) -> Vec<usize> {
    let size = tag_size(style);
    (0..count).map(|tag| format::HEADER_SIZE + tag * size + if tag == 0 { 0 } else { 16 }).collect()
}

/// Corrects all checksums of the log.
pub fn seal(image: &mut Image, items: &[LogItem]) {
    let Some(superblock) = seal_superblock(image, items[0].place) else { return };
    let style = superblock.style();
    let mut sum = VersionOneSum::START;
    for item in items {
        let mut block = bytes(image, item.place);
        match &item.what {
            What::Superblock => continue,
            What::Copy { .. } => sum.add(&block),
            What::Descriptor { sequence, tags } => {
                for (offset, copy) in tags {
                    let copy = style.block_checksum(*sequence, image.page(Lpn(*copy)));
                    match style.checksums {
                        Checksums::V3 => block[offset + 12..offset + 16].copy_from_slice(&copy.to_be_bytes()),
                        _ => block[offset + 4..offset + 6].copy_from_slice(&(copy as u16).to_be_bytes()),
                    }
                }
                seal_tail(&style, &mut block);
                sum.add(&block);
            }
            What::Revoke => seal_tail(&style, &mut block),
            What::Commit => {
                seal_commit(&style, &mut block, sum.0);
                sum = VersionOneSum::START;
            }
        }
        image.set(Lpn(item.place), Page::new(block));
    }
}

/// Corrects the checksum of the log's superblock; returns the superblock if it can be decoded.
fn seal_superblock(image: &mut Image, place: u64) -> Option<JournalSuperblock> {
    let mut block = bytes(image, place);
    let sum = crc32c(crc32c(crc32c(!0, &block[..0xfc]), &[0; 4]), &block[0x100..1024]);
    block[0xfc..0x100].copy_from_slice(&sum.to_be_bytes());
    image.set(Lpn(place), Page::new(block));
    JournalSuperblock::decode(&block).ok()
}

fn seal_tail(style: &Style, block: &mut PageBytes) {
    if style.sums_each_block() {
        let sum = crc32c(crc32c(style.seed, &block[..4092]), &[0; 4]);
        block[4092..].copy_from_slice(&sum.to_be_bytes());
    }
}

fn seal_commit(style: &Style, block: &mut PageBytes, version_one: u32) {
    match style.checksums {
        Checksums::No => (),
        Checksums::V1 => block[16..20].copy_from_slice(&version_one.to_be_bytes()),
        Checksums::V2 | Checksums::V3 => {
            block[16..20].fill(0);
            let sum = crc32c(style.seed, block);
            block[16..20].copy_from_slice(&sum.to_be_bytes());
        }
    }
}
