//! Tally: a trace while it is made. Counts what it has against the volumes and the range that it must have.

use onewrite_block::Choices;
use onewrite_cache::PageRequest;

/// Volumes and range that a trace must have, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Distance from the lowest page written to the highest.
    pub range: u64,
}

/// A trace while it is made; takes no more than its targets.
pub(super) struct Tally {
    targets: Targets,
    reads: u64,
    writes: u64,
    pub(super) requests: Vec<PageRequest>,
}

impl Tally {
    /// A trace that holds only one write at each end of its range.
    pub(super) fn new(targets: Targets) -> Tally {
        let requests = Vec::with_capacity((targets.reads + targets.writes) as usize);
        let mut tally = Tally { targets, reads: 0, writes: 0, requests };
        tally.write(0);
        tally.write(targets.range - 1);
        tally
    }

    pub(super) fn read(&mut self, page: u64) {
        if self.reads < self.targets.reads {
            self.reads += 1;
            self.requests.push(PageRequest::read(page));
        }
    }

    pub(super) fn write(&mut self, page: u64) {
        debug_assert!(page < self.targets.range, "page {page} is written outside of the range");
        if self.writes < self.targets.writes {
            self.writes += 1;
            self.requests.push(PageRequest::write(page));
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.reads == self.targets.reads && self.writes == self.targets.writes
    }

    /// Whether reads lag behind writes.
    pub(super) fn wants_reads(&self) -> bool {
        u128::from(self.reads) * u128::from(self.targets.writes)
            < u128::from(self.writes) * u128::from(self.targets.reads)
    }
}

/// Draws a number below `count`, small ones more often: Zipf's law by inversion, with exponent one.
pub(super) fn skewed(choices: &mut Choices, count: u64) -> u64 {
    let rank = ((count + 1) as f64).powf(choices.fraction()) as u64;
    rank.clamp(1, count) - 1
}
