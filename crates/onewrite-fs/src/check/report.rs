//! What a check found.

use std::fmt::{self, Display};

use crate::ext4::format::Place;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: String,
    /// What to do about it.
    pub cure: &'static str,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (cure: {})", self.place, self.problem, self.cure)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in the order in which it was found; at most `findings_max`.
    pub findings: Vec<Finding>,
    /// What is out of date and does no harm: mounting puts it right, and e2fsck does not call it an error.
    pub notes: Vec<Finding>,
    /// Findings, counting those not kept.
    pub finding_count: u64,
    /// The log waits for replay; until then the image need not be consistent.
    pub needs_recovery: bool,
    /// It has features of which nothing is known; nothing more was checked.
    pub has_unknown_features: bool,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use.
    pub used_blocks: u64,
    /// Unlinked inodes that wait for removal.
    pub orphans: u64,
    findings_max: usize,
}

impl Report {
    pub(super) fn new(findings_max: usize) -> Report {
        Report { findings_max, ..Report::default() }
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.finding_count == 0
    }

    pub(super) fn add(&mut self, place: Place, problem: impl Display, cure: &'static str) {
        self.finding_count += 1;
        if self.findings.len() < self.findings_max {
            self.findings.push(Finding { place, problem: problem.to_string(), cure });
        }
    }
}
