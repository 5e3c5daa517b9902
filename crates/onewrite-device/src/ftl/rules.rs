//! Rules: the decisions on which recovery of the translation layers depends. Each is one line, so that a test can break
//! it.

use std::fmt::Debug;

/// Decisions that durability depends on.
pub trait FtlRules: Debug + Send + Sync {
    /// Whether a page of version `candidate` replaces one of version `known`.
    fn is_newer(&self, candidate: u64, known: u64) -> bool {
        candidate > known
    }

    /// Whether recovery uses the trims on flash.
    fn trims_count(&self) -> bool {
        true
    }

    /// Whether recovery uses pages that are newer than the map on flash.
    fn areas_count(&self) -> bool {
        true
    }

    /// Whether a log block is erased only after all its content is elsewhere, records of trims included.
    fn supersedes_before_erase(&self) -> bool {
        true
    }
}

/// The correct rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoundFtl;

impl FtlRules for SoundFtl {}
