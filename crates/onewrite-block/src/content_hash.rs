//! Content hash: 64 bits of any bytes, fast, the same on every machine. Not against people who want collisions.

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const ODD: u64 = 0xe703_7ed1_a0b4_28db;
/// One for each word of a chunk, because a product ignores the order of its factors.
const SECRETS: [u64; 4] = [0xa076_1d64_78bd_642f, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3, 0x1d8e_4e27_c47d_124f];

/// Hash of a page of zeros.
pub const HASH_OF_ZEROS: u64 = 0x6f6e_6577_7269_7465;

/// The XOR of the two halves of the 128-bit product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of any bytes.
pub fn hash_of(bytes: &[u8]) -> u64 {
    let mut lanes = [SEED, ODD];
    let mut take = |words: [u64; 4]| {
        lanes[0] = fold(words[0] ^ lanes[0] ^ SECRETS[0], words[1] ^ SECRETS[1]);
        lanes[1] = fold(words[2] ^ lanes[1] ^ SECRETS[2], words[3] ^ SECRETS[3]);
    };
    let (chunks, rest) = bytes.as_chunks::<32>();
    let words = |chunk: &[u8; 32]| {
        let (words, _) = chunk.as_chunks::<8>();
        [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]))
    };
    chunks.iter().for_each(|chunk| take(words(chunk)));
    if !rest.is_empty() {
        let mut last = [0; 32];
        last[..rest.len()].copy_from_slice(rest);
        take(words(&last));
    }
    mix(lanes[0] ^ bytes.len() as u64, lanes[1])
}

/// Mixes two numbers into one.
pub fn mix(a: u64, b: u64) -> u64 {
    fold(fold(a ^ ODD, SEED) ^ b, ODD ^ a.rotate_left(32)) ^ b.rotate_left(17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_bytes_never_changes() {
        let bytes: Vec<u8> = (0..77).collect();
        let expected = [0x0af3_8c40_28df_bfdd, 0xae9b_f92a_b101_9526, 0xeeca_ceb0_0632_4870, 0x398b_93ef_4ecc_9c17_u64];
        assert_eq!([0, 1, 32, 77].map(|length| hash_of(&bytes[..length])), expected);
    }

    #[test]
    fn one_bit_anywhere_changes_the_hash() {
        let mut bytes = [0; 4096];
        let mut seen = std::collections::BTreeSet::from([hash_of(&bytes)]);
        for at in 0..4096 {
            bytes[at] = 1 << (at % 8);
            assert!(seen.insert(hash_of(&bytes)), "byte {at}");
            bytes[at] = 0;
        }
    }
}
