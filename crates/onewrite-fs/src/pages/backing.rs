//! What a file system has to say so that the page layer can keep its files' content.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Page;

use super::DirtyBytes;
use super::file::FilePages;
use crate::api::FsResult;
use crate::block::BlockNo;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = onewrite_block::PAGE_SIZE as u64;

/// A file whose pages lie in [`super::Pages`].
pub trait PagedFile {
    /// Its number: the `file` of its page keys. 0 is for the file system's own blocks.
    fn number(&self) -> u64;

    /// Its size in bytes, as readers see it.
    fn size(&self) -> u64;

    /// What the page layer keeps for it.
    fn pages(&self) -> &FilePages;
}

/// What lies on the device at a page of a file, and for how many pages it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Content, in consecutive blocks.
    At {
        /// Block of the page asked for.
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

/// Where dirty pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<F> {
    /// As many of them as `count`, to consecutive blocks; [`Backing::assign`] says which.
    Room {
        /// Pages, at least 1.
        count: u64,
        /// What [`Backing::assign`] and [`Backing::finished`] want to know again.
        found: F,
    },
    /// The first page goes nowhere now: it is being dropped, or its owner has not prepared it.
    Nowhere,
    /// The file changed while this was found out: look for dirty pages anew.
    Changed,
}

/// How pages reached the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// From the page cache, by writeback.
    Buffered,
    /// Past the page cache.
    Direct,
}

/// Whether pages reached the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They are there, durable after the next FLUSH.
    Arrived,
    /// The device refused at least one request of the batch. Buffered pages are dirty again.
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
    /// Which bytes of each page are dirty; empty unless the layer tracks them ([`super::Tracking::DirtyBytes`]).
    pub dirty: Vec<DirtyBytes>,
}

/// A file system under the page layer.
///
/// A read asks [`Backing::lookup`], then [`Backing::newest`]. Writeback asks [`Backing::prepare`] once for a range,
/// then for each run of dirty pages [`Backing::target`], [`Backing::assign`] and, when the device is done,
/// [`Backing::finished`]. A file system that overwrites in place finds the blocks in `target`; one that gives every
/// page a new address takes them in `assign`, which does not wait and knows exactly which pages go.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Backing {
    /// Its files.
    type File: PagedFile;
    /// What it finds out about the target of a run.
    type Found;

    /// The file of this number, if it is in memory. A file with dirty pages is.
    fn file(&self, number: u64) -> Option<Rc<Self::File>>;

    /// Whether direct transfers go past the page cache; else they are buffered.
    fn allows_direct(&self) -> bool;

    /// What lies on the device at page `index`.
    ///
    /// # Errors
    /// Device errors and damage.
    async fn lookup(&self, file: &Self::File, index: u64) -> FsResult<Lookup>;

    /// Versions newer than the device's of the blocks from `block` on, `count` at most; empty if the first has none.
    ///
    /// # Errors
    /// Device errors.
    async fn newest(&self, _block: BlockNo, _count: u64) -> FsResult<Vec<Page>> {
        Ok(Vec::new())
    }

    /// Whether a version of the block newer than the device's exists.
    fn has_newer(&self, _block: BlockNo) -> bool {
        false
    }

    /// Gets dirty pages of the range ready to be written: allocates what they need. The caller has no request under way
    /// and holds no transaction.
    ///
    /// # Errors
    /// Why the pages cannot be written.
    async fn prepare(&self, _file: &Self::File, _pages: Range<u64>) -> FsResult<()> {
        Ok(())
    }

    /// Where the dirty pages go that begin at `pages.start` and end before `pages.end`.
    ///
    /// # Errors
    /// Device errors and damage.
    async fn target(&self, file: &Self::File, pages: Range<u64>) -> FsResult<Target<Self::Found>>;

    /// The block of the first of `run`; the rest follows it. `run` is what goes of the room that was found.
    fn assign(&self, file: &Self::File, run: Range<u64>, found: &Self::Found) -> BlockNo;

    /// A run is on the device, or is not.
    fn finished(&self, file: &Self::File, run: &Run<Self::Found>, outcome: Outcome);
}
