//! Runs: where content of a file lies.

use crate::block::BlockNo;

/// What a file has from a given block on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// `count` contiguous blocks of content from `block` on.
    Data { block: BlockNo, count: u64 },
    /// `count` blocks that read as zeros: a hole, or allocated and never written.
    Zeros { count: u64 },
}

impl Run {
    pub(super) fn count(&self) -> u64 {
        match *self {
            Run::Data { count, .. } | Run::Zeros { count } => count,
        }
    }
}
