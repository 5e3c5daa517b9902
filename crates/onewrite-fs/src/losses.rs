//! Losses: what a view could not read and left out.

/// Losses kept in words; further ones are only counted.
const LOSSES_MAX: usize = 1_000;

/// What a view could not read and left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Each in words, in the order in which the view met them; at most a thousand.
    pub told: Vec<String>,
    /// Number of all losses.
    pub count: u64,
}

impl Losses {
    /// Notes a loss; ignores repeats of those in words.
    pub(crate) fn note(&mut self, what: String) {
        let is_full = self.told.len() >= LOSSES_MAX;
        if !is_full && self.told.contains(&what) {
            return;
        }
        self.count += 1;
        if !is_full {
            self.told.push(what);
        }
    }
}
