//! The result of a check.

use std::borrow::Cow;
use std::fmt::{self, Display};

use crate::ext4::format::Place;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub problem: String,
    /// How to repair it.
    pub cure: Cow<'static, str>,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (cure: {})", self.place, self.problem, self.cure)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Faults in the order of discovery; at most `findings_max`.
    pub findings: Vec<Finding>,
    /// Outdated but harmless values. A mount corrects them, and e2fsck does not call them errors.
    pub notes: Vec<Finding>,
    /// Number of findings, with those not kept.
    pub finding_count: u64,
    /// The log waits for replay; until then the image need not be consistent.
    pub needs_recovery: bool,
    /// The image has unknown features, so the check ended early.
    pub has_unknown_features: bool,
    /// Inodes in use.
    pub used_inodes: u64,
    /// Directories in use.
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

    pub(super) fn add(&mut self, place: Place, problem: impl Display, cure: impl Into<Cow<'static, str>>) {
        self.finding_count += 1;
        if self.findings.len() < self.findings_max {
            let problem = without_place(problem.to_string(), place);
            self.findings.push(Finding { place, problem, cure: cure.into() });
        }
    }
}

/// Removes `place` from the start of a problem, because the report prints the place itself.
fn without_place(problem: String, place: Place) -> String {
    let name = place.to_string();
    let bare = name.strip_prefix("the ").unwrap_or(&name);
    if let Some(rest) = problem.strip_prefix(&format!("damaged {bare}: ")) {
        return rest.to_owned();
    }
    let structure =
        |of: &str| problem.starts_with("damaged ").then(|| problem.replacen(&format!(" {of} {bare}: "), ": ", 1));
    structure("at").filter(|said| *said != problem).or_else(|| structure("of")).unwrap_or(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext4::format::InodeNo;

    #[test]
    fn a_place_is_said_once() {
        let said = |problem: &str, place| without_place(problem.to_owned(), place);
        assert_eq!(said("damaged superblock: magic number", Place::Superblock), "magic number");
        assert_eq!(said("damaged inode 81: checksum", Place::Inode(InodeNo(81))), "checksum");
        assert_eq!(said("damaged descriptor of group 3: checksum", Place::Group(3)), "damaged descriptor: checksum");
        assert_eq!(
            said("damaged extent node at inode 5: depth", Place::Inode(InodeNo(5))),
            "damaged extent node: depth"
        );
        assert_eq!(said("block 7 lies beyond the image", Place::Inode(InodeNo(7))), "block 7 lies beyond the image");
    }
}
