//! Left: what a transfer could not copy or keep. The transfer copies the rest and reports this at the end.

/// Most problems that are kept; the others are only counted.
const KEPT_MAX: usize = 20;

/// Problems of a transfer, in the order in which they occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The first ones.
    pub first: Vec<LeftOut>,
    /// Number of all.
    pub count: u64,
}

/// An entry that was not copied, or lost a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path: raw bytes, to be escaped when shown.
    pub path: Vec<u8>,
    /// What is missing, why, and what helps.
    pub problem: String,
}

impl Left {
    /// Whether everything was copied and kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the problems of another transfer.
    pub fn append(&mut self, other: Left) {
        let room = KEPT_MAX.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
        self.count += other.count;
    }

    /// Adds a problem.
    pub fn add(&mut self, path: Vec<u8>, problem: String) {
        self.count += 1;
        if self.first.len() < KEPT_MAX {
            self.first.push(LeftOut { path, problem });
        }
    }
}
