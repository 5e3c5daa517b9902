//! Verdict: what the judge of the mounted tree says of a run.

use crate::judge::Breach;

/// The verdict on a mounted tree.
pub(crate) enum Verdict {
    /// It is as the workload left it.
    Sound,
    /// It has what nobody did, or lacks what somebody did.
    Broken(Box<Breach>),
    /// An operation failed halfway, and what it left is not known.
    Unknown,
}
