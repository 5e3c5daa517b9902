//! Backing: what ext4 tells the page layer of its files.
//!
//! A page lies where the extent tree says, or newer in the journal; it goes to the block that it has. So
//! [`Backing::target`] looks the block up, and [`Backing::assign`] only adds.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Page;

use super::inodes::Node;
use super::map::Mapping;
use super::mode::Scope;
use super::volume::Volume;
use crate::api::FsResult;
use crate::block::BlockNo;
use crate::pages::{Backing, FilePages, Lookup, Outcome, PagedFile, Route, Run, Target};

/// The extent, or the part of one, that dirty pages are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Page that was looked up, and its block.
    index: u64,
    block: BlockNo,
    /// Whether the map says that the blocks hold nothing.
    is_unwritten: bool,
}

impl PagedFile for Node {
    fn number(&self) -> u64 {
        u64::from(self.number)
    }

    fn size(&self) -> u64 {
        Node::size(self)
    }

    fn pages(&self) -> &FilePages {
        &self.pages
    }
}

impl Backing for Volume {
    type File = Node;
    type Found = Found;

    fn file(&self, number: u64) -> Option<Rc<Node>> {
        self.inodes.get(number as u32)
    }

    fn allows_direct(&self) -> bool {
        self.scope != Scope::Full
    }

    async fn lookup(&self, node: &Node, index: u64) -> FsResult<Lookup> {
        Ok(match self.extents().map(node, index as u32).await? {
            Mapping::Mapped(extent) if extent.unwritten => Lookup::Nothing { count: extent.length.into() },
            Mapping::Mapped(extent) => Lookup::At { block: extent.physical, count: extent.length.into() },
            Mapping::Hole(count) => Lookup::Nothing { count },
        })
    }

    async fn newest(&self, block: BlockNo, count: u64) -> FsResult<Vec<Page>> {
        self.journal.newest_run(block, count).await
    }

    fn has_newer(&self, block: BlockNo) -> bool {
        self.journal.has_newer(block)
    }

    async fn prepare(&self, node: &Node, pages: Range<u64>) -> FsResult<()> {
        self.contents().allocate_delayed(node, pages).await
    }

    async fn target(&self, node: &Node, pages: Range<u64>) -> FsResult<Target<Found>> {
        let version = node.map_version.get();
        let mapping = self.extents().map(node, pages.start as u32).await?;
        if node.map_version.get() != version {
            return Ok(Target::Changed);
        }
        // A hole: being cut around the page, or of a file that is going; its owner knows. Or the page is delayed and
        // came since the batch began.
        let Mapping::Mapped(extent) = mapping else { return Ok(Target::Nowhere) };
        let found = Found { index: pages.start, block: extent.physical, is_unwritten: extent.unwritten };
        Ok(Target::Room { count: extent.length.into(), found })
    }

    fn assign(&self, _node: &Node, run: Range<u64>, found: &Found) -> BlockNo {
        found.block + (run.start - found.index)
    }

    fn finished(&self, node: &Node, run: &Run<Found>, outcome: Outcome) {
        let count = run.pages.end - run.pages.start;
        if outcome == Outcome::Arrived || run.route == Route::Direct {
            self.journal.note_data(run.block.run(count));
        }
        if outcome == Outcome::Arrived && run.route == Route::Buffered {
            self.contents().content_arrived(node, run.pages.clone(), run.file_size, run.found.is_unwritten);
        }
    }
}
