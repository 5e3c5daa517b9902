//! Sequence numbers: transactions as the log numbers them, in a ring of 32 bits.

use std::fmt;

/// Number of a transaction in its log: the lower 32 bits of its [`TransactionId`](crate::journal::TransactionId). The
/// number after the largest is 0, so sequences have no order; see [`Sequence::is_after`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    /// The number of the next transaction.
    pub const fn next(self) -> Sequence {
        self.skip(1)
    }

    /// The number `count` transactions later.
    pub const fn skip(self, count: u32) -> Sequence {
        Sequence(self.0.wrapping_add(count))
    }

    /// Whether this transaction comes after `other`. Both are of one log, which holds fewer than 2³¹ transactions.
    pub(crate) const fn is_after(self, other: Sequence) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }
}

/// Writes the number.
impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_round() {
        let last = Sequence(u32::MAX);
        assert_eq!(last.next(), Sequence(0));
        assert!(last.next().is_after(last) && !last.is_after(last.next()) && !last.is_after(last));
        assert_eq!(last.skip(1 << 16), Sequence((1 << 16) - 1));
    }
}
