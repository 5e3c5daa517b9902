//! Node batch: nodes on their way to the device.

use onewrite_block::Page;

use crate::block::BlockNo;
use crate::f2fs::format::Nid;

/// Nodes on their way to the device, in the order of their log.
#[derive(Default)]
pub(super) struct NodeBatch {
    runs: Vec<(BlockNo, Vec<Page>)>,
    nodes: Vec<(Nid, Nid)>,
}

impl NodeBatch {
    pub(super) fn add(&mut self, node: (Nid, Nid), block: BlockNo, page: Page) {
        self.nodes.push(node);
        match self.runs.iter_mut().find(|(start, pages)| *start + pages.len() as u64 == block) {
            Some((_, pages)) => pages.push(page),
            None => self.runs.push((block, vec![page])),
        }
    }

    /// The nodes, each with the inode that it belongs to.
    pub(super) fn nodes(&self) -> &[(Nid, Nid)] {
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
