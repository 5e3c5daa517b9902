//! The Tiny Encryption Algorithm as the hash of names in directories of ext4 and F2FS.

/// MD4's initial state, where hashes begin.
pub(crate) const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The first bytes of `rest` as words; each byte, widened by `widen`, shifts into its word from the right. The
/// remaining length pads the words.
pub(crate) fn words<const COUNT: usize>(rest: &[u8], widen: impl Fn(u8) -> u32) -> [u32; COUNT] {
    let padding = (rest.len() as u32 & 0xff) * 0x0101_0101;
    let rest = &rest[..rest.len().min(COUNT * 4)];
    let mut words = [padding; COUNT];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        *word = bytes.iter().fold(padding, |word, &byte| (word << 8).wrapping_add(widen(byte)));
    }
    words
}

/// Sixteen cycles of the Tiny Encryption Algorithm (Wheeler and Needham, 1994) on the first two words of the state,
/// keyed by `key`.
pub(crate) fn tea_rounds(state: &mut [u32; 4], key: [u32; 4]) {
    let half = |other: u32, sum: u32, first: u32, second: u32| {
        (other << 4).wrapping_add(first) ^ other.wrapping_add(sum) ^ (other >> 5).wrapping_add(second)
    };
    let (mut left, mut right, mut sum) = (state[0], state[1], 0_u32);
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        left = left.wrapping_add(half(right, sum, key[0], key[1]));
        right = right.wrapping_add(half(left, sum, key[2], key[3]));
    }
    state[0] = state[0].wrapping_add(left);
    state[1] = state[1].wrapping_add(right);
}
