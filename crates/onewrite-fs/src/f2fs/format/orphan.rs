//! Orphans: inodes without a name that were open when the checkpoint was made. A block has 1020 numbers and a footer.

use onewrite_block::crc32_le;

use super::address::Nid;
use super::error::{FormatError, Place};
use super::superblock::SUPERBLOCK_MAGIC;

/// Numbers of a block.
pub const ENTRIES: usize = 1020;
/// Byte of the block's place among those of the list, from 1, and of their number.
const PLACE: usize = ENTRIES * 4 + 4;
/// Byte of the count of numbers.
const COUNT: usize = ENTRIES * 4 + 8;
/// Byte of the checksum.
const CHECKSUM: usize = ENTRIES * 4 + 12;

/// The blocks that list `inodes`.
pub fn blocks(inodes: &[Nid]) -> Vec<[u8; 4096]> {
    let count = inodes.len().div_ceil(ENTRIES) as u16;
    let block = |(index, part): (usize, &[Nid])| {
        let mut block = [0; 4096];
        for (at, nid) in part.iter().enumerate() {
            block[at * 4..at * 4 + 4].copy_from_slice(&nid.0.to_le_bytes());
        }
        block[PLACE..PLACE + 2].copy_from_slice(&(index as u16 + 1).to_le_bytes());
        block[PLACE + 2..PLACE + 4].copy_from_slice(&count.to_le_bytes());
        block[COUNT..COUNT + 4].copy_from_slice(&(part.len() as u32).to_le_bytes());
        let sum = crc32_le(SUPERBLOCK_MAGIC, &block[..CHECKSUM]);
        block[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
        block
    };
    inodes.chunks(ENTRIES).enumerate().map(block).collect()
}

/// The inodes of a block.
///
/// # Errors
/// If it says that it has more than fit.
pub fn inodes(block: &[u8], place: Place) -> Result<impl Iterator<Item = Nid>, FormatError> {
    let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let count = number(COUNT);
    if count as usize > ENTRIES {
        return Err(FormatError::field(place, "entry_count", count, "a block has 1020 numbers"));
    }
    Ok((0..count as usize).map(move |index| Nid(number(index * 4))))
}
