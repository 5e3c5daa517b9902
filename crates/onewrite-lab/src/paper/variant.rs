//! Variant: seed and threads of a cell, which should not decide a row.

/// A change of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) seed: u64,
    /// Threads more than the cell says.
    pub(super) threads: i32,
}

impl Variant {
    /// The cell as it stands.
    pub(super) const PLAIN: Variant = Variant { seed: 1, threads: 0 };

    /// Of so many threads.
    pub(super) fn of(self, threads: u32) -> u32 {
        threads.saturating_add_signed(self.threads).max(1)
    }
}
