//! The two checksums that ext4 and jbd2 use, as raw register updates: no bit inversion before or after.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, Digest};

use crate::units::PAGE_SIZE;

/// What becomes of each bit of the register over a page of zeros. A register over other bytes differs from it by the
/// bytes alone, for CRC is linear.
static BITS_OVER_A_PAGE: LazyLock<[u32; 32]> =
    LazyLock::new(|| std::array::from_fn(|bit| crc32c(1 << bit, &[0; PAGE_SIZE])));

/// CRC32C (Castagnoli, reflected) of `bytes`, continued from the register `seed`; ext4 starts with `!0`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    update(CrcAlgorithm::Crc32Iscsi, seed, bytes) ^ !0
}

/// CRC32C of a page whose CRC32C from `!0` on is `digest`, continued from `register` instead.
pub(crate) fn crc32c_of_page(register: u32, digest: u32) -> u32 {
    let mut changed = register ^ !0;
    let mut sum = digest;
    while changed != 0 {
        sum ^= BITS_OVER_A_PAGE[changed.trailing_zeros() as usize];
        changed &= changed - 1;
    }
    sum
}

/// CRC32, most significant bit first (polynomial 04C11DB7), of `bytes`, continued from the register `seed`. jbd2's
/// version 1 checksum starts with `!0`.
pub fn crc32_be(seed: u32, bytes: &[u8]) -> u32 {
    update(CrcAlgorithm::Crc32Mpeg2, seed, bytes)
}

fn update(algorithm: CrcAlgorithm, seed: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(algorithm, u64::from(seed));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_check_values_hold() {
        assert_eq!(crc32c(!0, b"123456789") ^ !0, 0xe306_9283);
        assert_eq!(crc32_be(!0, b"123456789"), 0x0376_e6e7);
    }

    #[test]
    fn a_checksum_goes_on_from_where_it_stopped() {
        assert_eq!(crc32c(crc32c(!0, b"1234"), b"56789"), crc32c(!0, b"123456789"));
        assert_eq!(crc32_be(crc32_be(!0, b"1234"), b"56789"), crc32_be(!0, b"123456789"));
    }
}
