//! Hashes: of a page, and of an image without reading the whole image.
//!
//! An image's hash is the sum over its pages of `mixed(page number, hash of the page)`. Replacing a page subtracts one
//! term and adds another, so a state costs only the pages that differ. Among a million states, two different ones share
//! a 64-bit hash with probability 3 · 10⁻⁸. A page's handle keeps its hash (see [`Page`]).

use onewrite_block::content_hash::{HASH_OF_ZEROS, hash_of, mix};
use onewrite_block::{Lpn, Page, Pattern};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const ODD: u64 = 0xe703_7ed1_a0b4_28db;

/// Hash of a page of zeros.
pub(crate) const ZEROS: u64 = HASH_OF_ZEROS;

/// The hash of a page's content.
pub(crate) fn page_hash(page: &Page) -> u64 {
    page.content_hash()
}

/// The hash of a recipe, which is another than that of its bytes.
pub(crate) fn recipe_hash(recipe: Pattern) -> u64 {
    mixed(recipe.seed ^ ODD, SEED ^ u64::from(recipe.compressible_percent))
}

/// The hash of any bytes.
pub(crate) fn bytes_hash(bytes: &[u8]) -> u64 {
    hash_of(bytes)
}

/// Mixes two numbers into one.
pub(crate) fn mixed(a: u64, b: u64) -> u64 {
    mix(a, b)
}

/// The term that page `lpn` with the hash `content` adds to the hash of its image.
pub(crate) fn term(lpn: Lpn, content: u64) -> u64 {
    mixed(lpn.0.wrapping_mul(SEED) ^ ODD, content)
}
