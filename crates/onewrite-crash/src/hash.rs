//! Hashes: of a page, and of an image without reading the whole image.
//!
//! An image's hash is the sum over its pages of `mixed(page number, hash of the page)`. Replacing a page subtracts one
//! term and adds another, so a state costs only the pages that differ. Among a million states, two different ones share
//! a 64-bit hash with probability 3 · 10⁻⁸.

use onewrite_block::{Lpn, Page};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const ODD: u64 = 0xe703_7ed1_a0b4_28db;
/// One for each word of a chunk, because a product ignores the order of its factors.
const SECRETS: [u64; 4] = [0xa076_1d64_78bd_642f, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3, 0x1d8e_4e27_c47d_124f];

/// Hash of a page of zeros.
pub(crate) const ZEROS: u64 = 0x6f6e_6577_7269_7465;

/// The XOR of the two halves of the 128-bit product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of a page's content.
pub(crate) fn page_hash(page: &Page) -> u64 {
    if page.is_zeros() {
        return ZEROS;
    }
    bytes_hash(&page.bytes()[..])
}

/// The hash of any bytes.
pub(crate) fn bytes_hash(bytes: &[u8]) -> u64 {
    let mut lanes = [SEED, ODD];
    for chunk in bytes.chunks(32) {
        let mut words = [0_u64; 4];
        for (word, part) in words.iter_mut().zip(chunk.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            *word = u64::from_le_bytes(whole);
        }
        lanes[0] = fold(words[0] ^ lanes[0] ^ SECRETS[0], words[1] ^ SECRETS[1]);
        lanes[1] = fold(words[2] ^ lanes[1] ^ SECRETS[2], words[3] ^ SECRETS[3]);
    }
    mixed(lanes[0] ^ bytes.len() as u64, lanes[1])
}

/// Mixes two numbers into one.
pub(crate) fn mixed(a: u64, b: u64) -> u64 {
    fold(fold(a ^ ODD, SEED) ^ b, ODD ^ a.rotate_left(32)) ^ b.rotate_left(17)
}

/// The term that page `lpn` with the hash `content` adds to the hash of its image.
pub(crate) fn term(lpn: Lpn, content: u64) -> u64 {
    mixed(lpn.0.wrapping_mul(SEED) ^ ODD, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onewrite_block::Pattern;

    #[test]
    fn equal_bytes_have_equal_hashes_whatever_the_handle() {
        let pattern = Pattern { seed: 3, compressible_percent: 20 };
        assert_eq!(page_hash(&Page::pattern(pattern)), page_hash(&Page::new(pattern.bytes())));
        assert_eq!(page_hash(&Page::ZEROS), page_hash(&Page::new([0; 4096])));
    }

    #[test]
    fn one_bit_anywhere_changes_the_hash() {
        let mut seen = std::collections::BTreeSet::from([page_hash(&Page::from_slice(b"x"))]);
        for at in 1..4096 {
            let mut page = Page::from_slice(b"x");
            page.write(at, &[1 << (at % 8)]);
            assert!(seen.insert(page_hash(&page)), "byte {at}");
        }
    }
}
