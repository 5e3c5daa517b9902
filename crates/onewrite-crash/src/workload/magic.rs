//! Magic: seeds of content whose pages begin with the magic number of jbd2, which a log has to escape.

/// The first four bytes of every block of jbd2's own, as a little-endian number.
const MAGIC: u64 = 0x9839_3bc0;
/// What a page adds to the seed of the content for each page before it; see `onewrite_fs::pattern_page`.
const PAGE_STEP: u64 = 0xd134_2543_de82_ef95;

/// The seed of a content that has the magic number at the beginning of page `index` of its file; `rest` are the four
/// bytes behind it.
pub(super) const fn magic_seed(index: u64, rest: u32) -> u64 {
    seed_of_word((rest as u64) << 32 | MAGIC).wrapping_sub(index.wrapping_mul(PAGE_STEP))
}

/// The seed of SplitMix64 whose first word is `word`: its steps backwards, with the inverses of its factors.
const fn seed_of_word(word: u64) -> u64 {
    let mut z = unshifted(word, 31);
    z = unshifted(z.wrapping_mul(inverse(0x94d0_49bb_1331_11eb)), 27);
    z = unshifted(z.wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9)), 30);
    z.wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// The `x` with `x ^ (x >> shift) == y`, for a shift of at least 22.
const fn unshifted(y: u64, shift: u32) -> u64 {
    y ^ (y >> shift) ^ (y >> (2 * shift))
}

/// The inverse of an odd number modulo 2^64, by Newton's method.
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut round) = (odd, 0);
    while round < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::content;

    #[test]
    fn a_page_begins_with_the_magic_number() {
        for index in [0, 1, 7, 1 << 30] {
            let seed = magic_seed(index, 0x1234_5678 ^ index as u32);
            let page = content(seed, 4096).whole_page(index * 4096, index).expect("a whole page");
            assert_eq!(page.bytes()[..4], [0xc0, 0x3b, 0x39, 0x98], "page {index}");
        }
    }
}
