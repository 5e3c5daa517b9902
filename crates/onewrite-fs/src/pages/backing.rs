//! Backing: what a file system implements so that the page layer can keep its files' content.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Cause, Page};

use super::dirty_bytes::DirtyBytes;
use super::file::FilePages;
use crate::api::FsResult;
use crate::block::BlockNo;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = onewrite_block::PAGE_SIZE as u64;

/// A file whose pages lie in [`super::Pages`].
pub trait PagedFile {
    /// Its number, used as `file` in its page keys. 0 is for the file system's own blocks.
    fn number(&self) -> u64;

    /// Its size in bytes, as readers see it.
    fn size(&self) -> u64;

    /// The page layer's state for it.
    fn pages(&self) -> &FilePages;
}

/// What the device holds at a page of a file, and for how many pages this continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Content, in consecutive blocks.
    At {
        /// Block of the requested page.
        block: BlockNo,
        /// Pages, at least 1.
        count: u64,
    },
    /// Nothing: the pages read as zeros.
    Nothing {
        /// Pages, at least 1.
        count: u64,
    },
}

/// Where a run of dirty pages goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<F> {
    /// Up to `count` of the pages go to consecutive blocks; [`Backing::assign`] names the blocks.
    Room {
        /// Pages, at least 1.
        count: u64,
        /// Data that the file system gets back in [`Backing::assign`] and [`Backing::finished`].
        found: F,
    },
    /// The first page has no target now: it is being dropped, or its file system has not prepared it.
    Nowhere,
    /// As [`Target::Nowhere`], and the same goes for the pages that follow: there is no room.
    NoRoom,
    /// Nothing gets a target now. The caller waits for what it has under way, then for [`Backing::until_open`].
    Later,
}

/// How pages reached the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// From the page cache, by writeback.
    Buffered,
    /// Directly, bypassing the page cache.
    Direct,
}

/// Whether pages reached the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They reached it, and are durable after the next FLUSH.
    Arrived,
    /// At least one request of the batch failed. Buffered pages are dirty again.
    Failed,
}

/// Consecutive pages that were sent together.
#[derive(Clone, Debug)]
pub struct Run<F> {
    /// The pages.
    pub pages: Range<u64>,
    /// Block of the first.
    pub block: BlockNo,
    /// Size of the file when they were sent.
    pub file_size: u64,
    /// What [`Backing::target`] found.
    pub found: F,
    /// How they were sent.
    pub route: Route,
    /// Dirty bytes of each page; empty unless the layer tracks them ([`super::Tracking::DirtyBytes`]).
    pub dirty: Vec<DirtyBytes>,
}

/// A file system under the page layer.
///
/// A read calls [`Backing::lookup`], then [`Backing::newest`]. Writeback calls [`Backing::prepare`] for a range. Then,
/// for each run of dirty pages, it calls [`Backing::target`], [`Backing::assign`] and, when the device is done,
/// [`Backing::finished`]. A file system that overwrites in place finds the blocks in `target`. One that gives every
/// page a new address takes the blocks in `assign`, which does not wait and knows exactly which pages are written.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Backing {
    /// Its files.
    type File: PagedFile;
    /// What [`Backing::target`] finds out about a run.
    type Found;

    /// The file with this number, if it is in memory. A file with dirty pages always is.
    fn file(&self, number: u64) -> Option<Rc<Self::File>>;

    /// Whether direct transfers bypass the page cache; otherwise they are buffered.
    fn allows_direct(&self) -> bool;

    /// What the device holds at page `index`.
    ///
    /// # Errors
    /// Device errors and damage.
    async fn lookup(&self, file: &Self::File, index: u64) -> FsResult<Lookup>;

    /// Versions newer than the device's of at most `_count` blocks from `_block` on; stops at the first block without
    /// one.
    ///
    /// # Errors
    /// Device errors.
    async fn newest(&self, _block: BlockNo, _count: u64) -> FsResult<Vec<Page>> {
        Ok(Vec::new())
    }

    /// Whether there is a version of the block newer than the device's.
    fn has_newer(&self, _block: BlockNo) -> bool {
        false
    }

    /// Prepares the dirty pages of the range for writing: allocates what they need. The caller has no request under way
    /// and holds no transaction.
    ///
    /// # Errors
    /// Why the pages cannot be written.
    async fn prepare(&self, _file: &Self::File, _pages: Range<u64>) -> FsResult<()> {
        Ok(())
    }

    /// Target of the run of dirty pages that begins at `pages.start` and ends by `pages.end`.
    ///
    /// # Errors
    /// Device errors and damage.
    async fn target(&self, file: &Self::File, pages: Range<u64>) -> FsResult<Target<Self::Found>>;

    /// Waits until [`Backing::target`] has targets again.
    async fn until_open(&self) {}

    /// Block of the first page of `run`; the other pages follow it. `run` is the part of the target that is written.
    fn assign(&self, file: &Self::File, run: Range<u64>, found: &Self::Found) -> BlockNo;

    /// Called when the content of `run` is about to be sent. `dirty` is as in [`Run::dirty`].
    fn sending(
        &self,
        _file: &Self::File,
        _run: Range<u64>,
        _found: &Self::Found,
        (_content, _dirty): (&[Page], &[DirtyBytes]),
    ) {
    }

    /// Why the pages of a target are written.
    fn cause(&self, _found: &Self::Found) -> Cause {
        Cause::Data
    }

    /// Called when the write of `run` has ended.
    fn finished(&self, file: &Self::File, run: &Run<Self::Found>, outcome: Outcome);
}
