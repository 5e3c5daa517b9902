//! Backing: the flash of an emulated SSD in a file of the host, so that the device outlives its process.
//!
//! ```text
//!   0                4096                          … by 32 bytes                 … by 4096 bytes
//!   │ header         │ block table, 16 bytes each  │ out-of-band areas           │ content
//!   │ magic, version, shape, profile, CRC          │ one for each page           │ one for each page
//!
//!   block: u32 erase count, u32 1 if bad, u32 0, u32 CRC32C of what precedes
//!   area:  u32 logical page, u32 erase count of its block, u64 sequence, u32 page number, u32 0, u32 0, u32 CRC32C
//! ```
//!
//! A program writes the content and then the area. The area counts only if it has the present erase count of its block.
//! So an erase writes one entry, and a page is whole or blank whenever the process is killed. All numbers are
//! little-endian. Every FLUSH, FUA and SHARE ends with `fdatasync`, because the host itself may lose power.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use onewrite_block::{PAGE_SIZE, Page, crc32c};

use super::oob::{Holds, Oob};
use super::shape::Shape;
use crate::address::FlashBlock;

const MAGIC: &[u8; 8] = b"1WNAND\0\x01";
const HEADER_BYTES: u64 = PAGE_SIZE as u64;
const BLOCK_BYTES: u64 = 16;
const AREA_BYTES: u64 = 32;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    blocks: u64,
    pages_per_block: u64,
    is_blank: bool,
    error: RefCell<Option<String>>,
}

/// An entry of the block table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    pub(crate) erase_count: u32,
    pub(crate) is_bad: bool,
}

fn sealed<const SIZE: usize>(words: &[u32]) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let checksum = crc32c(!0, &bytes[..SIZE - 4]);
    bytes[SIZE - 4..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn unsealed<const SIZE: usize>(bytes: &[u8]) -> Option<Vec<u32>> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect();
    (crc32c(!0, &bytes[..SIZE - 4]) == words[SIZE / 4 - 1]).then_some(words)
}

fn header(shape: &Shape, profile: &str) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES as usize];
    bytes[..8].copy_from_slice(MAGIC);
    let numbers = [
        shape.channels,
        shape.dies,
        shape.planes,
        shape.pages_per_block,
        shape.data_blocks,
        shape.log_blocks,
        shape.logical_pages,
    ];
    for (chunk, number) in bytes[8..].chunks_exact_mut(4).zip(numbers) {
        chunk.copy_from_slice(&number.to_le_bytes());
    }
    bytes[64..64 + profile.len()].copy_from_slice(profile.as_bytes());
    let checksum = crc32c(!0, &bytes[..PAGE_SIZE - 4]);
    bytes[PAGE_SIZE - 4..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

impl Backing {
    /// Uses `file` as the flash of a device of this shape; lays it out if it is blank.
    ///
    /// # Errors
    /// The system's error, or that the file has other content.
    pub(crate) fn new(file: File, shape: &Shape, profile: &str) -> io::Result<Backing> {
        let (blocks, pages_per_block) = (u64::from(shape.blocks()), u64::from(shape.pages_per_block));
        let is_blank = file.metadata()?.len() == 0;
        let backing = Backing { file, blocks, pages_per_block, is_blank, error: RefCell::new(None) };
        let wanted = header(shape, profile);
        if is_blank {
            backing.file.set_len(backing.content_offset(blocks * pages_per_block))?;
            backing.file.write_all_at(&wanted, 0)?;
            return Ok(backing);
        }
        let mut found = vec![0; HEADER_BYTES as usize];
        backing.file.read_exact_at(&mut found, 0)?;
        if found != wanted {
            return Err(io::Error::other("it holds something else, or flash of another profile or size"));
        }
        Ok(backing)
    }

    /// Whether the file was blank when it was opened. Then the device needs a format.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_blank
    }

    fn area_offset(&self, page: u64) -> u64 {
        HEADER_BYTES + self.blocks * BLOCK_BYTES + page * AREA_BYTES
    }

    fn content_offset(&self, page: u64) -> u64 {
        self.area_offset(self.blocks * self.pages_per_block).next_multiple_of(HEADER_BYTES) + page * PAGE_SIZE as u64
    }

    fn page_number(&self, block: FlashBlock, page: u32) -> u64 {
        u64::from(block.0) * self.pages_per_block + u64::from(page)
    }

    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.borrow_mut().get_or_insert(error.to_string());
        }
    }

    /// The first error of the file; a second call returns `None`.
    pub(crate) fn take_error(&self) -> Option<String> {
        self.error.borrow_mut().take()
    }

    /// Writes a page: content first, then the area that makes it count.
    pub(crate) fn program(&self, block: FlashBlock, page: u32, erase_count: u32, content: &Page, oob: Oob) {
        let number = self.page_number(block, page);
        let sequence = [oob.sequence as u32, (oob.sequence >> 32) as u32];
        let area: [u8; 32] = sealed(&[oob.holds.word(), erase_count, sequence[0], sequence[1], number as u32, 0, 0]);
        let written = self.file.write_all_at(&content.bytes()[..], self.content_offset(number));
        self.note(written.and_then(|()| self.file.write_all_at(&area, self.area_offset(number))));
    }

    /// Writes the table entry of a block.
    pub(crate) fn set_block(&self, block: FlashBlock, entry: BlockEntry) {
        let bytes: [u8; 16] = sealed(&[entry.erase_count, u32::from(entry.is_bad), 0]);
        self.note(self.file.write_all_at(&bytes, HEADER_BYTES + u64::from(block.0) * BLOCK_BYTES));
    }

    /// Reads the content of a page. If the file cannot give it, notes the error and returns zeros.
    pub(crate) fn content(&self, block: FlashBlock, page: u32) -> Page {
        let mut bytes = [0; PAGE_SIZE];
        let offset = self.content_offset(self.page_number(block, page));
        self.note(self.file.read_exact_at(&mut bytes, offset));
        if bytes.iter().all(|&byte| byte == 0) { Page::ZEROS } else { Page::new(bytes) }
    }

    /// Makes all writes so far survive a crash of the host.
    pub(crate) fn sync(&self) {
        self.note(self.file.sync_data());
    }

    /// The table entries of all blocks.
    pub(crate) fn blocks(&self) -> io::Result<Vec<BlockEntry>> {
        let mut bytes = vec![0; (self.blocks * BLOCK_BYTES) as usize];
        self.file.read_exact_at(&mut bytes, HEADER_BYTES)?;
        let entry = |bytes: &[u8]| match unsealed::<16>(bytes) {
            Some(words) => Ok(BlockEntry { erase_count: words[0], is_bad: words[1] == 1 }),
            None if bytes.iter().all(|&byte| byte == 0) => Ok(BlockEntry::default()),
            None => Err(io::Error::other("its block table is damaged")),
        };
        bytes.chunks_exact(BLOCK_BYTES as usize).map(entry).collect()
    }

    /// The areas of a block's pages that were programmed since its last erase.
    pub(crate) fn areas(&self, block: FlashBlock, entry: BlockEntry) -> io::Result<Vec<Oob>> {
        let mut bytes = vec![0; (self.pages_per_block * AREA_BYTES) as usize];
        self.file.read_exact_at(&mut bytes, self.area_offset(self.page_number(block, 0)))?;
        let mut areas = Vec::new();
        for (page, bytes) in (0..).zip(bytes.chunks_exact(AREA_BYTES as usize)) {
            let Some(words) = unsealed::<32>(bytes) else { break };
            if words[1] != entry.erase_count || words[4] != self.page_number(block, page) as u32 {
                break;
            }
            let sequence = u64::from(words[2]) | u64::from(words[3]) << 32;
            areas.push(Oob { holds: Holds::of_word(words[0]), sequence });
        }
        Ok(areas)
    }
}
