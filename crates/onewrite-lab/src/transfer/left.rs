//! Left: what a transfer could not copy or keep. The rest is copied; this is told at the end.

/// Lines that are kept; the others are only counted.
const KEPT_MAX: usize = 20;

/// What was left out, in the order in which it was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The first of them.
    pub first: Vec<LeftOut>,
    /// How many there were in all.
    pub count: u64,
}

/// Something that was not copied, or not kept of what was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path; raw bytes, to be escaped where they are shown.
    pub path: Vec<u8>,
    /// What was left out, why, and what helps.
    pub problem: String,
}

impl Left {
    /// Whether all was copied and kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What was left out elsewhere, too.
    pub fn append(&mut self, other: Left) {
        let room = KEPT_MAX.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
        self.count += other.count;
    }

    /// One more.
    pub fn add(&mut self, path: Vec<u8>, problem: String) {
        self.count += 1;
        if self.first.len() < KEPT_MAX {
            self.first.push(LeftOut { path, problem });
        }
    }
}
