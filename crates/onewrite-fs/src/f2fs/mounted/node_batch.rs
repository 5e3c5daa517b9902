//! Node batch: nodes on their way to the device.

use onewrite_block::Page;

use crate::block::BlockNo;
use crate::f2fs::format::Nid;

/// A node and the inode that it belongs to; nodes of one inode stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedNode {
    pub(super) owner: Nid,
    pub(super) nid: Nid,
}

/// Nodes on their way to the device, in the order of their log.
#[derive(Default)]
pub(super) struct NodeBatch {
    runs: Vec<(BlockNo, Vec<Page>)>,
    nodes: Vec<(OwnedNode, BlockNo)>,
}

impl NodeBatch {
    pub(super) fn add(&mut self, node: OwnedNode, block: BlockNo, page: Page) {
        self.nodes.push((node, block));
        match self.runs.iter_mut().find(|(start, pages)| *start + pages.len() as u64 == block) {
            Some((_, pages)) => pages.push(page),
            None => self.runs.push((block, vec![page])),
        }
    }

    /// Its nodes, with their blocks.
    pub(super) fn nodes(&self) -> &[(OwnedNode, BlockNo)] {
        &self.nodes
    }

    /// The blocks to write, in runs.
    pub(super) fn take_runs(&mut self) -> Vec<(BlockNo, Vec<Page>)> {
        std::mem::take(&mut self.runs)
    }

    /// Requests that it takes, if each run fits one.
    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }
}
