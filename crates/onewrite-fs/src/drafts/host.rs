//! Host: what a mounted file system tells and does for its drafts.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Page;
use onewrite_block::sync::RwLock;

use super::table::{Cost, Draft, DraftFile, Drafts};
use crate::api::{FsResult, Ino, NewNode};
use crate::atomic::DraftId;
use crate::pages::{Backing, PagedFile, Pages};

/// A file that drafts can claim, or a directory whose names they change.
pub(crate) trait Claimable: PagedFile + Sized + 'static {
    /// Its number for callers.
    fn ino(&self) -> Ino {
        Ino(self.number())
    }

    /// Held alone to change content, size or names, and shared to rely on them.
    fn lock(&self) -> &RwLock;

    /// The draft that alone may change its content.
    fn claimant(&self) -> Option<DraftId>;

    /// Gives the right to change its content to a draft, or to everybody.
    fn set_claimant(&self, draft: Option<DraftId>);

    /// Counts one more opener.
    fn add_opener(&self);

    /// Counts one opener less.
    fn drop_opener(&self);

    /// Whether it is a directory.
    fn is_directory(&self) -> bool;

    /// # Errors
    /// If it is no regular file.
    fn expect_regular(&self) -> FsResult<()>;

    /// # Errors
    /// If it was deleted.
    fn expect_undeleted(&self) -> FsResult<()>;

    /// # Errors
    /// If it is a directory that was removed.
    fn expect_alive(&self) -> FsResult<()>;
}

/// The drafts of a file system.
pub(crate) type DraftsOf<H> = Drafts<<H as Backing>::File, <H as DraftHost>::Plan>;
/// A file of its drafts.
pub(crate) type FileOf<H> = DraftFile<<H as Backing>::File, <H as DraftHost>::Plan>;

/// A mounted file system with drafts.
pub(crate) trait DraftHost: Backing<File: Claimable> + Sized {
    /// What it notes of a file in a draft, to know what the commit takes.
    type Plan: Clone + Default + PlansSpill<Self::File>;

    /// Where private pages go that find no more room in memory.
    type Spills<'a>: Spills<Self> + From<&'a Self>
    where
        Self: 'a;

    /// What the commit of one change of a name takes.
    const NAME_COST: Cost;

    /// Its page layer.
    fn page_layer(&self) -> &Pages;

    /// Its drafts.
    fn drafts(&self) -> &DraftsOf<Self>;

    /// # Errors
    /// If nothing can be changed.
    fn expect_writable(&self) -> FsResult<()>;

    /// # Errors
    /// If a commit could not be atomic; the text names the cure.
    fn expect_drafts(&self) -> FsResult<()>;

    /// The file or directory with this number.
    async fn existing(&self, ino: Ino) -> FsResult<Rc<Self::File>>;

    /// # Errors
    /// If no file can reach byte `end`.
    fn expect_end(&self, file: &Self::File, end: u64) -> FsResult<()>;

    /// Brings a file whose lock the caller holds alone into a form that drafts know.
    ///
    /// # Errors
    /// No space; device errors and damage.
    async fn prepare_claim(&self, _file: &Rc<Self::File>) -> FsResult<()> {
        Ok(())
    }

    /// Ends one open of a file.
    async fn end_open(&self, file: &Rc<Self::File>) -> FsResult<()>;

    /// What the commit of a file takes.
    fn cost(&self, file: &FileOf<Self>) -> Cost;

    /// Blocks that one commit may change.
    fn changed_max(&self) -> usize;

    /// # Errors
    /// If as many more blocks cannot be reserved.
    fn expect_room(&self, more: u64) -> FsResult<()>;

    /// Notes that drafts reserve `after` blocks in place of `before`.
    fn note_reserved(&self, before: u64, after: u64);

    /// Notes what it takes that page `index`, which is not private yet, becomes private.
    async fn plan_page(&self, file: &mut FileOf<Self>, index: u64) -> FsResult<()>;

    /// Notes what it takes that `pages` are dropped; `file.dropped` has them already, the others do not.
    async fn plan_dropped(&self, file: &mut FileOf<Self>, pages: Range<u64>) -> FsResult<()>;

    /// What a name in a directory names. The caller holds the directory's lock.
    async fn name_in(&self, directory: &Rc<Self::File>, name: &[u8]) -> FsResult<Option<Ino>>;

    /// Makes a regular file without a name that nobody sees, and opens it once. `name` will be its name.
    async fn create_unnamed(&self, directory: &Rc<Self::File>, name: &[u8], node: NewNode) -> FsResult<Rc<Self::File>>;
}

/// A plan that may name a file with spilled pages, and pages that are promised.
pub(crate) trait PlansSpill<F> {
    /// Whether pages of a file are promised.
    fn has_promise(&self) -> bool {
        false
    }

    /// Takes the file that holds the spilled pages out of a plan that comes to its end.
    fn take_spill(&mut self) -> Option<Rc<F>> {
        None
    }
}

/// A place on the device for private pages. The methods that are here are those of a file system that has none.
pub(crate) trait Spills<H: DraftHost> {
    /// Waits until blocks that a change freed can be had, and returns whether a change that found no space may try
    /// again. `available` is `None` before the first try.
    ///
    /// # Errors
    /// Device errors.
    async fn wait_for_space(&self, _available: &mut Option<u64>) -> FsResult<bool> {
        Ok(false)
    }

    /// Most pages of a write that is tried as a whole before it is carried out in steps; `None` if there are no steps.
    fn step_pages(&self) -> Option<u64> {
        None
    }

    /// Promises `pages` of a file to a write in steps: from now on they count. The caller holds the file's lock alone.
    ///
    /// # Errors
    /// No space; too many changes; device errors and damage. Nothing is promised then.
    async fn promise(&self, _draft: DraftId, _file: &Rc<H::File>, _pages: Range<u64>) -> FsResult<()> {
        Ok(())
    }

    /// Ends the promise to a file, if its draft still has one. Does not wait.
    fn end_promise(&self, _draft: DraftId, _file: &H::File) {}

    /// Puts the private pages of a file on the device, where they wait for the commit or the abort. Returns 0 if that
    /// gives no room in memory and in the commit. The caller holds the file's lock alone.
    ///
    /// # Errors
    /// No space; device errors and damage. The pages are private or spilled then.
    async fn spill(&self, _draft: DraftId, _file: &Rc<H::File>) -> FsResult<usize> {
        Ok(0)
    }

    /// Frees what the device holds of spilled pages that the draft dropped. The caller holds the file's lock alone.
    ///
    /// # Errors
    /// Device errors and damage.
    async fn free_unused(&self, _draft: DraftId, _file: &Rc<H::File>) -> FsResult<()> {
        Ok(())
    }

    /// A page that was spilled; reads those behind it, before `stop`, with it.
    async fn spilled_page(&self, file: &FileOf<H>, index: u64, _stop: u64) -> FsResult<Page> {
        unreachable!("page {index} of {} was spilled by nobody", file.node.ino())
    }
}

/// No such place: what finds no room in memory is refused.
pub(crate) struct NoSpills;

impl<H> From<&H> for NoSpills {
    fn from(_: &H) -> NoSpills {
        NoSpills
    }
}

impl<H: DraftHost> Spills<H> for NoSpills {}

impl<F: PagedFile, P: Default> Draft<F, P> {
    /// What its commit takes on `host`.
    pub(crate) fn cost<H: DraftHost<File = F, Plan = P>>(&self, host: &H) -> Cost {
        let names = self.names.iter().map(|_| H::NAME_COST);
        self.files.values().map(|file| host.cost(file)).chain(names).sum()
    }

    /// Takes the files that hold spilled pages, which come to their end.
    pub(crate) fn take_spills(&mut self) -> Vec<Rc<F>>
    where
        P: PlansSpill<F>,
    {
        self.files.values_mut().filter_map(|file| file.plan.take_spill()).collect()
    }
}

/// What the commit of all drafts of `host` together takes.
pub(crate) fn cost_of_all<H: DraftHost>(host: &H) -> Cost {
    let drafts: &DraftsOf<H> = host.drafts();
    drafts.all.borrow().values().map(|draft| draft.cost(host)).sum()
}
