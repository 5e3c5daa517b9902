//! Timestamps as an inode stores them: 34 bits of seconds and 30 of nanoseconds, or 32 bits of seconds without the
//! extra word.

use crate::api::Timestamp;

/// The room that an inode has for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeRoom {
    /// A word of seconds.
    Seconds,
    /// The extra word, too.
    WithExtra,
}

impl TimeRoom {
    /// The room of a time whose extra word ends at byte `end` of the inode's extra part, which has `extra_bytes`.
    pub(crate) const fn of(extra_bytes: u16, end: u16) -> TimeRoom {
        if extra_bytes >= end { TimeRoom::WithExtra } else { TimeRoom::Seconds }
    }
}

/// How ext4 stores times: seconds from -2³¹ to 2³⁴ - 2³¹ - 1 (the year 2446).
impl Timestamp {
    /// The last moment that an inode can hold.
    pub const MAX: Timestamp = Timestamp { seconds: (1 << 34) - (1 << 31) - 1, nanoseconds: 999_999_999 };

    /// The last second that an inode without the extra word can hold: in 2038.
    const SECONDS_MAX_SHORT: i64 = i32::MAX as i64;
    /// The first second that any inode can hold: in 1901.
    const SECONDS_MIN: i64 = i32::MIN as i64;

    /// The time that an inode stores for this one, as in Linux: the nearest in its range. Nanoseconds are 0 at the ends
    /// of the range and without the extra word.
    pub(crate) const fn storable(self, room: TimeRoom) -> Timestamp {
        let has_extra = matches!(room, TimeRoom::WithExtra);
        let last = if has_extra { Timestamp::MAX.seconds } else { Timestamp::SECONDS_MAX_SHORT };
        if self.seconds <= Timestamp::SECONDS_MIN {
            return Timestamp { seconds: Timestamp::SECONDS_MIN, nanoseconds: 0 };
        }
        if self.seconds >= last {
            return Timestamp { seconds: last, nanoseconds: 0 };
        }
        Timestamp { seconds: self.seconds, nanoseconds: if has_extra { self.nanoseconds } else { 0 } }
    }

    /// Decodes the word of seconds and the extra word (2 bits of epoch, 30 of nanoseconds).
    pub const fn from_disk(low: u32, extra: u32) -> Timestamp {
        let epoch = (extra & 3) as i64;
        Timestamp { seconds: low as i32 as i64 + (epoch << 32), nanoseconds: extra >> 2 }
    }

    /// The word of seconds.
    pub(crate) const fn low_word(self) -> u32 {
        self.seconds as u32
    }

    /// The extra word.
    pub(crate) const fn high_word(self) -> u32 {
        let epoch = (self.seconds - self.low_word() as i32 as i64) >> 32;
        self.nanoseconds << 2 | (epoch & 3) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_clamped_as_linux_clamps_it() {
        let time = |seconds| Timestamp { seconds, nanoseconds: 5 };
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        let (first, short, last) = (-0x8000_0000, 0x7fff_ffff, 0x3_7fff_ffff);
        assert_eq!(
            [i64::MIN, first - 1, first].map(|seconds| time(seconds).storable(TimeRoom::WithExtra)),
            [at(first); 3]
        );
        assert_eq!(
            [last, last + 1, i64::MAX].map(|seconds| time(seconds).storable(TimeRoom::WithExtra)),
            [at(last); 3]
        );
        assert_eq!([short, short + 1, last].map(|seconds| time(seconds).storable(TimeRoom::Seconds)), [at(short); 3]);
        assert_eq!(
            (time(short + 1).storable(TimeRoom::WithExtra), time(9).storable(TimeRoom::Seconds)),
            (time(short + 1), at(9))
        );
    }

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
