//! Volume: what all operations of a mounted F2FS share, and the way to its blocks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onewrite_block::sync::{RwLock, Signal};
use onewrite_block::{Cause, DevicePort, Nanos, Page, Request, Runtime};
use onewrite_cache::PageKey;
use rustc_hash::FxHashSet;

use super::atomic::Drafts;
use super::file::File;
use super::files::Files;
use super::gate::Gate;
use super::node_batch::OwnedNode;
use super::numbers::Numbers;
use super::options::F2fsOptions;
use super::orphans::Orphans;
use super::stage::Stage;
use super::sync_line::SyncLine;
use super::wanted::Wanted;
use crate::api::{FsCounters, FsError, FsResult, Timestamp};
use crate::block::BlockNo;
use crate::f2fs::format::sit::{SitEntry, test_bit};
use crate::f2fs::format::{Checkpoint, Layout, Nid, SegmentNo};
use crate::f2fs::space::Space;
use crate::pages::Pages;

/// File of the page cache that holds nodes, by number.
pub(super) const NODE_FILE: u64 = 1;
/// File of the page cache that holds blocks of NAT and SSA, by block.
const META_FILE: u64 = 2;

pub(super) fn node_key(nid: Nid) -> PageKey {
    PageKey { file: NODE_FILE, index: nid.0.into() }
}

/// What all operations of a mounted F2FS share; see [`super`].
pub(in crate::f2fs) struct Volume {
    pub(super) runtime: Runtime,
    pub(super) port: DevicePort,
    pub(super) layout: Layout,
    pub(super) options: F2fsOptions,
    pub(super) pages: Pages,
    /// The last durable checkpoint.
    pub(super) checkpoint: RefCell<Checkpoint>,
    pub(super) numbers: RefCell<Numbers>,
    pub(super) space: RefCell<Space>,
    pub(super) files: Files,
    /// Changed nodes, by the inode that they belong to.
    pub(super) dirty_nodes: RefCell<BTreeSet<OwnedNode>>,
    /// Directories and hashes of names that are gone since the last checkpoint.
    pub(super) names_gone: RefCell<FxHashSet<(Nid, u32)>>,
    /// Entries of the SIT that the last checkpoint's journal holds.
    pub(super) sit_journal: RefCell<BTreeMap<SegmentNo, SitEntry>>,
    pub(super) orphans: Orphans,
    pub(super) drafts: Drafts,
    pub(super) changes: RwLock,
    pub(super) renames: RwLock,
    pub(super) gate: Gate,
    /// Whether content arrived since the last FLUSH began.
    pub(super) is_unflushed: Cell<bool>,
    pub(super) failure: RefCell<Option<FsError>>,
    pub(super) sync_line: SyncLine,
    /// Where fsyncs write what changed, if there is a staging area.
    pub(super) stage: Option<Stage>,
    /// Nodes that fsyncs placed since the last checkpoint.
    pub(super) chained: Cell<usize>,
    /// The block in which recovery looks for the next node of the chain; `None` if it would find none.
    pub(super) chain_end: Cell<Option<BlockNo>>,
    /// Pages that cleaning moves.
    pub(super) moving: RefCell<BTreeSet<(Nid, u64)>>,
    pub(super) mounted_at: Nanos,
    /// Seconds that the file system had been mounted in its life before this mount.
    pub(super) age_at_mount: u64,
    pub(super) wanted: Wanted,
    /// Notified once, at unmount.
    pub(super) stopped: Signal,
    pub(super) is_unmounted: Cell<bool>,
    pub(super) counters: Cell<FsCounters>,
    pub(super) next_generation: Cell<u32>,
}

impl Volume {
    /// The current timestamp, in ticks.
    pub(super) fn timestamp(&self) -> Timestamp {
        let now = self.runtime.civil_now().0;
        Timestamp::from_nanos(Nanos(now - now % self.runtime.host().tick_ns))
    }

    /// Occupies a core for a system call that moves `bytes`.
    pub(super) async fn syscall(&self, bytes: u64) {
        self.runtime.cpu(self.runtime.host().syscall(bytes)).await;
    }

    /// # Errors
    /// [`FsError::ReadOnly`], or the error after which nothing changes any more.
    pub(super) fn check_writable(&self) -> FsResult<()> {
        if self.is_unmounted.get() {
            return Err(FsError::ReadOnly("it is unmounted".into()));
        }
        if self.options.read_only {
            return Err(FsError::ReadOnly("it was mounted so".into()));
        }
        self.check_failure()
    }

    /// # Errors
    /// The error after which nothing changes any more.
    pub(super) fn check_failure(&self) -> FsResult<()> {
        match &*self.failure.borrow() {
            Some(error) => Err(FsError::ReadOnly(format!("an earlier write failed: {error}; mount it again"))),
            None => Ok(()),
        }
    }

    /// Ends all changes until the next mount. The first reason counts.
    pub(super) fn fail(&self, error: &FsError) {
        self.failure.borrow_mut().get_or_insert_with(|| error.clone());
        self.pages.progress().notify_all();
    }

    /// The valid copy of block `index` of the NAT.
    pub(super) fn nat_block(&self, index: u64) -> BlockNo {
        self.layout.nat_copies(index)[usize::from(test_bit(&self.checkpoint.borrow().nat_bitmap, index as usize))]
    }

    /// A block of NAT or SSA, through the page cache.
    pub(super) async fn meta_block(&self, block: BlockNo) -> FsResult<Page> {
        let key = PageKey { file: META_FILE, index: block.0 };
        loop {
            if let Some(page) = self.pages.page(key) {
                return Ok(page);
            }
            self.pages.make_room(self).await?;
            let Some(_loading) = self.pages.begin_load(key).await else { continue };
            let page = self.read_block(block).await?;
            if !self.pages.holds(key) {
                self.pages.insert(key, page);
            }
        }
    }

    /// The cached copy of a block of NAT or SSA is this from now on.
    pub(super) fn keep_meta_block(&self, block: BlockNo, page: Page) {
        let key = PageKey { file: META_FILE, index: block.0 };
        if self.pages.holds(key) {
            self.pages.insert(key, page);
        }
    }

    /// A block, past the page cache.
    pub(super) async fn read_block(&self, block: BlockNo) -> FsResult<Page> {
        let mut pages = self.port.request(Request::read(block.page(), 1, Cause::Metadata)).await?;
        Ok(pages.pop().expect("a read of one page gives one"))
    }

    /// Version of the last durable checkpoint.
    pub(super) fn version(&self) -> u64 {
        self.checkpoint.borrow().version()
    }

    /// As [`Volume::stamp_modified`]. An inode that has the stamp of this tick is left alone, so that an fsync of pages
    /// that were written over need not write it.
    pub(super) fn stamp_written(&self, file: &File) {
        if !file.is_stamped(self.timestamp()) {
            self.stamp_modified(file);
        }
    }

    /// Stamps the file's content as modified.
    pub(super) fn stamp_modified(&self, file: &File) {
        file.stamp_modified(self.timestamp());
        self.nodes().note_unsaved(file);
    }

    /// Stamps the inode as changed.
    pub(super) fn stamp_changed(&self, file: &File) {
        file.stamp_changed(self.timestamp());
        self.nodes().note_unsaved(file);
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut FsCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// The file with this number, if it is in memory.
    pub(super) fn file_in_memory(&self, nid: Nid) -> Option<Rc<File>> {
        self.files.get(nid)
    }
}
