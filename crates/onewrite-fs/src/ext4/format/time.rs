//! Timestamps as an inode keeps them: 34 bits of seconds, 30 of nanoseconds.

use crate::api::Timestamp;

/// How ext4 writes moments down: seconds from -2³¹ to 2³⁴ - 2³¹ - 1 (the year 2446).
impl Timestamp {
    /// The last moment that an inode can hold.
    pub const MAX: Timestamp = Timestamp { seconds: (1 << 34) - (1 << 31) - 1, nanoseconds: 999_999_999 };

    /// From the word of seconds and the extra word: two bits of epoch, thirty of nanoseconds.
    pub const fn from_disk(low: u32, extra: u32) -> Timestamp {
        let epoch = (extra & 3) as i64;
        Timestamp { seconds: low as i32 as i64 + (epoch << 32), nanoseconds: extra >> 2 }
    }

    /// The word of seconds.
    pub const fn low_word(self) -> u32 {
        self.seconds as u32
    }

    /// The extra word.
    pub const fn high_word(self) -> u32 {
        let epoch = (self.seconds - self.low_word() as i32 as i64) >> 32;
        self.nanoseconds << 2 | (epoch & 3) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_the_specification_hold() {
        let rows = [
            (-0x8000_0000, 0, 0x8000_0000),
            (-1, 0, 0xffff_ffff),
            (0, 0, 0),
            (0x7fff_ffff, 0, 0x7fff_ffff),
            (0x8000_0000, 1, 0x8000_0000),
            (0x1_7fff_ffff, 1, 0x7fff_ffff),
            (0x1_8000_0000, 2, 0x8000_0000),
            (0x3_7fff_ffff, 3, 0x7fff_ffff),
        ];
        for (seconds, epoch, low) in rows {
            let time = Timestamp { seconds, nanoseconds: 999_999_999 };
            assert_eq!((time.low_word(), time.high_word()), (low, 999_999_999 << 2 | epoch));
            assert_eq!(Timestamp::from_disk(time.low_word(), time.high_word()), time);
        }
        assert_eq!(Timestamp::MAX.seconds, 0x3_7fff_ffff);
    }
}
