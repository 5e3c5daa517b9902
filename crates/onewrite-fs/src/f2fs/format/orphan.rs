//! Orphans: inodes without a name that were open when the checkpoint was made. A block has 1020 numbers and a footer.

use super::address::Nid;
use super::error::{FormatError, Place};

/// Numbers of a block.
pub const ENTRIES: usize = 1020;
/// Byte of the count of numbers.
const COUNT: usize = ENTRIES * 4 + 8;

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
