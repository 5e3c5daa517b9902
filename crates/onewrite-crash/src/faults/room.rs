//! Room: runs a workload with every small number of free blocks, until they are enough.

use std::rc::Rc;

use onewrite_block::layer::Fault;
use onewrite_block::{Executor, Image, PAGE_SIZE};
use onewrite_fs::{Allocation, AttributeChanges, FileSystem, FileView, FsError, FsResult, NewNode};

use crate::action::Workload;
use crate::ahead::{LookedFault, LookedFaults};
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::history::Operation;
use crate::model::{NewKind, NodeId, Step, Tree};
use crate::state_id::FaultId;
use crate::subject::{Purpose, Subject};

/// The file that fills the file system.
const FILLER: &str = "filler";
const FILLER_NODE: NodeId = NodeId(1 << 15);
/// Most blocks left free: more than a workload of some dozens of operations uses.
const ROOM_MAX: u64 = 2000;

/// A file system without a free block.
pub(super) struct Full {
    image: Image,
    tree: Tree,
    /// Size of the filler file in bytes; `tree` does not have this size.
    size: u64,
}

impl Full {
    /// # Errors
    /// If the file system never has so many free blocks.
    pub(super) fn expect_room(&self, blocks: u64) -> Result<(), CrashError> {
        match blocks <= self.size / PAGE_SIZE as u64 {
            true => Ok(()),
            false => Err(CrashError::no_such_state(&FaultId::Room(blocks).to_string())),
        }
    }
}

impl<S: Subject> Explorer<'_, S> {
    /// Runs with more and more free blocks until they are enough; returns whether the exploration is done.
    pub(super) fn explore_want_of_room(
        &mut self,
        workload: &Rc<Workload>,
        (image, tree): (Image, Tree),
        every: u64,
    ) -> Result<bool, CrashError> {
        let full = self.fill(image, tree)?;
        for blocks in (0..ROOM_MAX).step_by(every.max(1) as usize) {
            let (looked, were_too_few) = self.one_room(workload, &full, blocks)?;
            self.fault_backlog.push(LookedFaults::Group(Rc::clone(workload), vec![looked]));
            if self.enter_backlog() {
                return Ok(true);
            }
            if !were_too_few {
                break;
            }
        }
        Ok(false)
    }

    /// Runs with `blocks` blocks free; also returns whether they were too few.
    pub(super) fn one_room(
        &mut self,
        workload: &Workload,
        full: &Full,
        blocks: u64,
    ) -> Result<(LookedFault, bool), CrashError> {
        let (image, tree) = self.leave(full, blocks)?;
        let outcome = self.run_with((&image, &tree), workload, Fault::From(u64::MAX));
        let is_short = |operation: &Operation| matches!(operation.error, Some(FsError::NoSpace { .. }));
        let were_too_few = outcome.history.operations.iter().any(is_short);
        Ok((self.looked_at(workload, &image, &outcome, FaultId::Room(blocks)), were_too_few))
    }

    /// Fills the file system with one file of zeros.
    pub(super) fn fill(&self, image: Image, mut tree: Tree) -> Result<Full, CrashError> {
        let change = async |fs: &S::Fs| {
            let ino = fs.create(fs.root(), FILLER.as_bytes(), NewNode::FILE).await?;
            let mut size = 0;
            for length in [1024, 256, 64, 16, 4, 1].map(|blocks| blocks * PAGE_SIZE as u64) {
                loop {
                    match fs.allocate(ino, size, length, Allocation::Extend).await {
                        Ok(()) => size += length,
                        Err(FsError::NoSpace { .. }) => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(size)
        };
        let (image, size) = self.changed(&image, change)?;
        let create =
            Step::Create { directory: Tree::ROOT, name: FILLER.into(), node: FILLER_NODE, kind: NewKind::File };
        tree.apply(&create);
        Ok(Full { image, tree, size })
    }

    /// Shortens the filler file by `blocks` blocks.
    fn leave(&self, full: &Full, blocks: u64) -> Result<(Image, Tree), CrashError> {
        let size = full.size.saturating_sub(blocks * PAGE_SIZE as u64);
        let change = async move |fs: &S::Fs| {
            let ino = fs.lookup(fs.root(), FILLER.as_bytes()).await?;
            fs.set_attributes(ino, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
        };
        let (image, ()) = self.changed(&full.image, change)?;
        let mut tree = full.tree.clone();
        tree.apply(&Step::Truncate { node: FILLER_NODE, size });
        Ok((image, tree))
    }

    /// Mounts an image, changes it, unmounts it.
    fn changed<T: 'static>(
        &self,
        image: &Image,
        change: impl AsyncFnOnce(&S::Fs) -> FsResult<T> + 'static,
    ) -> Result<(Image, T), CrashError> {
        let medium = Medium::new(image.clone());
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &self.options.geometry)));
        let (subject, mount) = (Rc::clone(&self.subject), self.options.mounting(Purpose::Run));
        let work = async move {
            let fs = subject.mount(port, mount).await?;
            let changed = change(&fs).await;
            fs.unmount().await?;
            changed
        };
        let what = || "filling the file system".to_owned();
        let ended = executor.block_on(work).map_err(|halt| CrashError::Halted { what: what(), halt })?;
        drop(executor);
        let changed = ended.map_err(|error| CrashError::FileSystem { what: what(), error })?;
        let image = medium.borrow().image.clone();
        Ok((image, changed))
    }
}
