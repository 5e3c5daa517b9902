//! Plan: what the commit of a file does to its map.

use std::rc::Rc;

use crate::drafts::PlansSpill;
use crate::ext4::inodes::Node;
use crate::runs::Runs;

/// The drafts of a volume.
pub(in crate::ext4) type Drafts = crate::drafts::Drafts<Node, Plan>;

/// What the commit of a file does to its map.
#[derive(Clone, Default)]
pub(in crate::ext4) struct Plan {
    /// Extents of the file as it was committed; counted once pages are dropped or spilled.
    pub(super) extents_before: usize,
    /// Blocks of its tree, as it was committed; counted with them.
    pub(super) tree_before: usize,
    /// Extents that it frees for the dropped pages; not counted for a file with a spill file.
    pub(super) dropped_extents: usize,
    /// Private pages that need a block: in the file, or in its spill file if it has one.
    pub(super) new: Runs,
    /// Private pages whose block the map calls unwritten; none in a file with a spill file.
    pub(super) unwritten: Runs,
    /// Where private pages go that leave memory before the commit.
    pub(super) spill: Option<Spill>,
}

/// The spill file of a file (`spill`).
#[derive(Clone)]
pub(in crate::ext4) struct Spill {
    pub(super) node: Rc<Node>,
    /// Extents of the spilled pages, or more.
    pub(super) extents_max: usize,
    /// How many there were when they were counted last.
    pub(super) extents_counted: usize,
    /// Blocks of its tree.
    pub(super) tree_blocks: usize,
    /// Whether it may hold pages that the draft dropped.
    pub(super) has_unused: bool,
    /// Pages that a write in steps will make private.
    pub(super) promised: Runs,
    /// Those of them that need a block in the spill file.
    pub(super) promised_new: Runs,
}

impl Spill {
    pub(super) fn new(node: Rc<Node>) -> Spill {
        let (promised, promised_new) = (Runs::default(), Runs::default());
        let (extents_max, extents_counted, tree_blocks, has_unused) = (0, 0, 0, false);
        Spill { node, extents_max, extents_counted, tree_blocks, has_unused, promised, promised_new }
    }
}

impl PlansSpill<Node> for Plan {
    fn has_promise(&self) -> bool {
        self.spill.as_ref().is_some_and(|spill| !spill.promised.is_empty())
    }

    fn take_spill(&mut self) -> Option<Rc<Node>> {
        self.spill.take().map(|spill| spill.node)
    }
}
