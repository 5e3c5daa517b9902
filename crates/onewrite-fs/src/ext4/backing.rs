//! Backing: how the page layer finds the blocks of ext4 files.
//!
//! The extent tree says where a page lies; the journal may hold a newer copy. A page is always written to the block
//! that it already has. So [`Backing::target`] looks the block up, and [`Backing::assign`] only adds an offset.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Page;

use super::inodes::Node;
use super::map::Mapping;
use super::mode::Scope;
use super::volume::Volume;
use crate::api::{FsResult, Ino};
use crate::block::BlockNo;
use crate::ext4::format::InodeNo;
use crate::pages::{Backing, Lookup, Outcome, Route, Run, Target};

/// The extent, or part of an extent, that receives dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The page that was looked up; `block` is its block.
    index: u64,
    block: BlockNo,
    /// Whether the extent is unwritten: its blocks read as zeros.
    pub(super) is_unwritten: bool,
}

impl Backing for Volume {
    type File = Node;
    type Found = Found;

    fn file(&self, number: u64) -> Option<Rc<Node>> {
        self.inodes().get(InodeNo::from_ino(Ino(number)))
    }

    fn allows_direct(&self) -> bool {
        self.scope() != Scope::Full
    }

    async fn lookup(&self, node: &Node, index: u64) -> FsResult<Lookup> {
        Ok(match self.extents().map(node, index as u32).await? {
            Mapping::Mapped(extent) if extent.unwritten => Lookup::Nothing { count: extent.length.into() },
            Mapping::Mapped(extent) => Lookup::At { block: extent.physical, count: extent.length.into() },
            Mapping::Hole(count) => Lookup::Nothing { count },
        })
    }

    async fn newest(&self, block: BlockNo, count: u64) -> FsResult<Vec<Page>> {
        self.journal().copies().newest_run(block, count).await
    }

    fn has_newer(&self, block: BlockNo) -> bool {
        self.journal().copies().has_newer(block)
    }

    async fn prepare(&self, node: &Node, pages: Range<u64>) -> FsResult<()> {
        self.contents().allocate_delayed(node, pages).await
    }

    async fn target(&self, node: &Node, pages: Range<u64>) -> FsResult<Target<Found>> {
        // The mapping holds until the caller waits; before that it takes the pages. A hole has one of two causes. A
        // truncation or deletion is removing the page, and its task drops the page. Or the page is delayed and became
        // dirty after the batch began.
        let mapping = self.extents().map(node, pages.start as u32).await?;
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
            self.journal().note_data(run.block.run(count));
        }
        if outcome == Outcome::Arrived && run.route == Route::Buffered {
            self.contents().content_arrived(node, run);
        }
    }
}
