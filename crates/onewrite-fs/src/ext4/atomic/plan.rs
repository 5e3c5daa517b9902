//! Plan: what the commit of a file does to its map.

use crate::ext4::inodes::Node;
use crate::runs::Runs;

/// The drafts of a volume.
pub(in crate::ext4) type Drafts = crate::drafts::Drafts<Node, Plan>;

/// What the commit of a file does to its map.
#[derive(Clone, Default)]
pub(in crate::ext4) struct Plan {
    /// Extents that it frees for the dropped pages.
    pub(super) dropped_extents: usize,
    /// Private pages that need a block.
    pub(super) new: Runs,
    /// Private pages whose block the map calls unwritten.
    pub(super) unwritten: Runs,
}
