//! The checksums of ext4, jbd2 and F2FS, as raw register updates: no bit inversion before or after.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, Digest};

use crate::units::PAGE_SIZE;

/// What becomes of each bit of the register over a page of zeros. A register over other bytes differs from it by the
/// bytes alone, for CRC is linear.
static BITS_OVER_A_PAGE: LazyLock<[u32; 32]> =
    LazyLock::new(|| std::array::from_fn(|bit| crc32c(1 << bit, &[0; PAGE_SIZE])));

/// The longest input that goes through a table, in bytes: a number, a field of zeros. The library begins more slowly.
const SHORT: usize = 8;
/// What a byte makes of a CRC32C register that is else 0.
const BYTES: [u32; 256] = bytes_of(CASTAGNOLI);
/// The same of a CRC32.
const BYTES_OF_CRC32: [u32; 256] = bytes_of(0xedb8_8320);

/// The polynomial of CRC32C, reflected: the highest power is left out, the lowest bit is the power 31.
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// CRC32C (Castagnoli, reflected) of `bytes`, continued from the register `seed`; ext4 starts with `!0`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    match bytes.len() <= SHORT {
        true => by_table(&BYTES, seed, bytes),
        false => update(CrcAlgorithm::Crc32Iscsi, seed, bytes) ^ !0,
    }
}

/// CRC32 (polynomial 04C11DB7, reflected) of `bytes`, continued from the register `seed`; F2FS starts with its magic
/// number, or for inodes with a value from the UUID.
pub fn crc32_le(seed: u32, bytes: &[u8]) -> u32 {
    match bytes.len() <= SHORT {
        true => by_table(&BYTES_OF_CRC32, seed, bytes),
        false => update(CrcAlgorithm::Crc32IsoHdlc, seed, bytes) ^ !0,
    }
}

fn by_table(table: &[u32; 256], seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |register, byte| (register >> 8) ^ table[usize::from(register as u8 ^ byte)])
}

/// The table of a reflected polynomial.
const fn bytes_of(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ ((register & 1) * polynomial);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
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

/// What `length` bytes of zeros make of the register x⁰, modulo the polynomial: x to the power of 8 · `length`.
static ZEROS: LazyLock<Box<[u32]>> = LazyLock::new(|| {
    let longer = |shorter: &u32| Some(crc32c(*shorter, &[0]));
    std::iter::successors(Some(1 << 31), longer).take(PAGE_SIZE + 1).collect()
});

/// CRC32C of bytes of which some have changed: `sum` before, `changed` is the exclusive or of old and new bytes there,
/// `behind` bytes follow unchanged. Takes time for `changed` alone, since CRC is linear.
///
/// # Panics
/// If `behind` is more than a page.
pub fn crc32c_changed(sum: u32, changed: &[u8], behind: usize) -> u32 {
    sum ^ product(crc32c(0, changed), ZEROS[behind])
}

/// The product of two polynomials modulo [`CASTAGNOLI`], the power 0 in the highest bit.
fn product(mut one: u32, mut other: u32) -> u32 {
    let mut sum = 0;
    while one != 0 {
        sum ^= other & 0u32.wrapping_sub(one >> 31);
        one <<= 1;
        other = (other >> 1) ^ (CASTAGNOLI & 0u32.wrapping_sub(other & 1));
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
        assert_eq!(crc32_le(!0, b"123456789") ^ !0, 0xcbf4_3926);
    }

    #[test]
    fn short_inputs_have_the_checksums_of_long_ones() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (start, length) in (0..200).flat_map(|start| (0..=SHORT).map(move |length| (start, length))) {
            let (seed, short) = (start as u32 * 0x0101_0173, &bytes[start..start + length]);
            assert_eq!(crc32c(seed, short), update(CrcAlgorithm::Crc32Iscsi, seed, short) ^ !0);
            assert_eq!(crc32_le(seed, short), update(CrcAlgorithm::Crc32IsoHdlc, seed, short) ^ !0);
        }
    }

    #[test]
    fn a_change_of_some_bytes_has_the_checksum_of_all() {
        let mut bytes: Vec<u8> = (0..PAGE_SIZE).map(|index| (index * 7) as u8).collect();
        for (start, length) in [(0, 1), (0, PAGE_SIZE), (1, 9), (4095, 1), (2047, 3), (4000, 96)] {
            let (seed, before) = (start as u32 ^ 0x1234_5678, bytes.clone());
            bytes[start..start + length].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3) ^ 0x55);
            let changed: Vec<u8> = before.iter().zip(&bytes).map(|(old, new)| old ^ new).collect();
            let behind = PAGE_SIZE - start - length;
            let sum = crc32c_changed(crc32c(seed, &before), &changed[start..start + length], behind);
            assert_eq!(sum, crc32c(seed, &bytes), "{length} bytes at {start}");
        }
    }

    #[test]
    fn a_checksum_goes_on_from_where_it_stopped() {
        assert_eq!(crc32c(crc32c(!0, b"1234"), b"56789"), crc32c(!0, b"123456789"));
        assert_eq!(crc32_be(crc32_be(!0, b"1234"), b"56789"), crc32_be(!0, b"123456789"));
        assert_eq!(crc32_le(crc32_le(7, b"1234"), b"56789"), crc32_le(7, b"123456789"));
    }
}
