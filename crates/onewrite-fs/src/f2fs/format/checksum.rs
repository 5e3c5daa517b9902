//! Checksum of F2FS: CRC-32 with the reflected polynomial 0xedb88320, without a final inversion. The start value is the
//! superblock's magic number, or for inodes a value from the UUID.

const POLYNOMIAL: u32 = 0xedb8_8320;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// Continues the checksum `start` over `bytes`.
pub fn crc32(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc_32_comes_out() {
        assert_eq!(!crc32(!0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(crc32(7, b"12345"), b"6789"), crc32(7, b"123456789"));
    }
}
