//! The result of a check.

use std::fmt::{self, Display};

use crate::f2fs::format::{FormatError, Place};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub problem: String,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Faults in the order of discovery; at most `findings_max`.
    pub findings: Vec<Finding>,
    /// What harms nothing by itself, at most `findings_max`: a damaged copy of the superblock, a pack that no
    /// checkpoint completed, versions in summaries that differ from the NAT's.
    pub notes: Vec<Finding>,
    /// Number of findings, with those not kept.
    pub finding_count: u64,
    /// Whether all findings are about the staging area, which fsck.f2fs does not know.
    pub is_of_stage_alone: bool,
    /// Inodes that were found.
    pub used_inodes: u64,
    /// Unlinked inodes that wait for removal.
    pub orphans: u64,
    /// Blocks of the main area that were found, reserved ones included.
    pub used_blocks: u64,
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

    pub(super) fn add(&mut self, place: Place, problem: impl Display) {
        self.finding_count += 1;
        if self.findings.len() < self.findings_max {
            self.findings.push(Finding { place, problem: problem.to_string() });
        }
    }

    pub(super) fn note(&mut self, place: Place, problem: impl Display) {
        if self.notes.len() < self.findings_max {
            self.notes.push(Finding { place, problem: problem.to_string() });
        }
    }

    /// Adds what a decoder found, or `place` and the text of another error.
    pub(super) fn add_error(&mut self, place: Place, error: &FormatError) {
        match error {
            FormatError::Damaged { place, problem } => self.add(*place, problem),
            FormatError::Unsupported { .. } => self.add(place, error),
        }
    }
}
