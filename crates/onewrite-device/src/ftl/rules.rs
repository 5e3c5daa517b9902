//! Rules: what recovery of the translation layers hangs on, each one line, so that a test can break one of them.

use std::fmt::Debug;

/// Decisions that durability depends on.
pub trait FtlRules: Debug + Send + Sync {
    /// Whether a page of version `candidate` beats one of version `known`.
    fn is_newer(&self, candidate: u64, known: u64) -> bool {
        candidate > known
    }

    /// Whether what the flash says of trims counts.
    fn trims_count(&self) -> bool {
        true
    }

    /// Whether recovery takes pages that are newer than the map on flash.
    fn areas_count(&self) -> bool {
        true
    }

    /// Whether a log block is erased only after all that it held is elsewhere, records of trims included.
    fn supersedes_before_erase(&self) -> bool {
        true
    }
}

/// The rules as they must be.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoundFtl;

impl FtlRules for SoundFtl {}
