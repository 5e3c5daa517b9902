//! Sizes: numbers of bytes, given as such or as shares.

/// Bytes, or a share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of the whole.
    Percent(u8),
}

impl Amount {
    /// The amount in bytes; a percentage refers to `whole`.
    pub const fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => (whole as u128 * percent as u128 / 100) as u64,
        }
    }
}

/// One size of a `bssplit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitPart {
    /// The size.
    pub bytes: u64,
    /// Its share of the accesses.
    pub percent: u8,
}
