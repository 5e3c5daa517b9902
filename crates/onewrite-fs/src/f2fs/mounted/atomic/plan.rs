//! Plan: what the commit of a file does to its map.

use std::collections::BTreeSet;

use super::super::file::File;
use crate::runs::Runs;

/// The drafts of a volume.
pub(in crate::f2fs::mounted) type Drafts = crate::drafts::Drafts<File, Plan>;

/// What the commit of a file does to its map.
#[derive(Clone, Default)]
pub(in crate::f2fs) struct Plan {
    /// Private pages without a block.
    pub(super) new: Runs,
    /// Positions of the nodes that are made for them.
    pub(super) missing: BTreeSet<u32>,
    /// Positions of the nodes that name private pages.
    pub(super) touched: BTreeSet<u32>,
}
