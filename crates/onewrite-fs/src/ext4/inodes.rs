//! Inodes in memory, and their way to and from the inode table.
//!
//! All tasks share one [`Node`] per inode, which is loaded at first use. Each change writes it to its table block
//! inside the same transaction, so it never differs from the cache.
//!
//! # Invariants
//! - At most one node exists for an inode number.
//! - A task holds `lock` exclusively to change content, size or entries, and shared to rely on them.
//! - The task that leaves a node without links and without openers deletes it.

mod load;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use onewrite_block::sync::RwLock;
use onewrite_block::{PAGE_SIZE, Runtime};
use rustc_hash::FxHashMap;

use super::delayed::pending::Pending;
use super::format::{Extent, FormatError, Inode, InodeNo};
use crate::api::{Attributes, DeviceNumber, FileKind, FsError, FsResult, Ino, Timestamp};
use crate::atomic::DraftId;
use crate::journal::TransactionId;
use crate::pages::{FilePages, PagedFile};

/// Number of nodes in memory above which unused nodes are dropped.
const NODES_MAX: usize = 65_536;

/// Result of decoding, for callers that verify while loading.
pub(super) type Verified = Result<(), FormatError>;

/// Units of 512 bytes in a block, as an inode counts its blocks.
const SECTORS_PER_BLOCK: u64 = (PAGE_SIZE / 512) as u64;

/// An inode in memory.
pub(super) struct Node {
    number: InodeNo,
    inode: RefCell<Inode>,
    lock: RwLock,
    /// The last transaction that changed the inode or its content.
    changed_in: Cell<TransactionId>,
    /// The last transaction that changed anything needed to read its content.
    data_changed_in: Cell<TransactionId>,
    /// The last transaction of a draft whose commit has returned.
    committed_in: Cell<TransactionId>,
    /// Number of openers; see `FileSystem::open`.
    openers: Cell<u32>,
    /// Its content in memory.
    pages: FilePages,
    /// Increases with every change of the content map.
    map_version: Cell<u64>,
    /// Extents as this version of the content map stored them: the one at block 0, and the last other one. Most lookups
    /// ask again for what the last one found: a direct write asks whether it overwrites, and then where; each name in a
    /// hash tree asks for the root and a leaf.
    known_extents: Cell<(u64, [Option<Extent>; 2])>,
    map_lock: RwLock,
    pending: Pending,
    /// Whether the inode was freed.
    is_deleted: Cell<bool>,
    /// The draft that alone may change its content.
    claimant: Cell<Option<DraftId>>,
}

impl Node {
    pub(super) fn new(runtime: &Runtime, number: InodeNo, inode: Inode) -> Rc<Node> {
        Rc::new(Node {
            number,
            inode: RefCell::new(inode),
            lock: RwLock::new(runtime),
            changed_in: Cell::default(),
            data_changed_in: Cell::default(),
            committed_in: Cell::default(),
            openers: Cell::new(0),
            pages: FilePages::default(),
            map_version: Cell::new(0),
            known_extents: Cell::default(),
            map_lock: RwLock::new(runtime),
            pending: Pending::default(),
            is_deleted: Cell::new(false),
            claimant: Cell::new(None),
        })
    }

    pub(super) fn number(&self) -> InodeNo {
        self.number
    }

    /// The inode as the next commit will have it.
    pub(super) fn inode(&self) -> Ref<'_, Inode> {
        self.inode.borrow()
    }

    /// The inode, to change it. The caller saves it in the same transaction ([`Volume::save`]).
    ///
    /// [`Volume::save`]: super::volume::Volume::save
    pub(super) fn inode_mut(&self) -> RefMut<'_, Inode> {
        self.inode.borrow_mut()
    }

    /// Held exclusively to change content, size or entries, and shared to rely on them.
    pub(super) fn lock(&self) -> &RwLock {
        &self.lock
    }

    /// Held exclusively to change the file's content map; taken inside a handle.
    pub(super) fn map_lock(&self) -> &RwLock {
        &self.map_lock
    }

    /// What the inode and the map do not show yet.
    pub(super) fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Whether the file has dirty pages, or pages under way.
    pub(super) fn is_dirty(&self) -> bool {
        self.pages.is_dirty()
    }

    /// The last transaction that changed the inode or its content.
    pub(super) fn changed_in(&self) -> TransactionId {
        self.changed_in.get()
    }

    /// The last transaction that changed anything needed to read its content.
    pub(super) fn data_changed_in(&self) -> TransactionId {
        self.data_changed_in.get()
    }

    /// Notes that transaction `tid` changed something that is needed to read the content.
    pub(super) fn note_data_change(&self, tid: TransactionId) {
        self.data_changed_in.set(tid);
    }

    /// Notes that transaction `tid` changed the content, perhaps without the inode.
    pub(super) fn note_content_change(&self, tid: TransactionId) {
        self.changed_in.set(tid);
        self.data_changed_in.set(tid);
    }

    /// Notes that transaction `tid` of a draft is durable.
    pub(super) fn note_committed(&self, tid: TransactionId) {
        self.committed_in.set(tid);
    }

    /// Whether nothing changed since the last commit of a draft, which is durable.
    pub(super) fn is_as_committed(&self) -> bool {
        self.committed_in.get() > TransactionId::default() && self.changed_in.get() <= self.committed_in.get()
    }

    /// Whether somebody has it open.
    pub(super) fn is_open(&self) -> bool {
        self.openers.get() > 0
    }

    /// Counts one more opener.
    pub(super) fn add_opener(&self) {
        self.openers.set(self.openers.get() + 1);
    }

    /// Counts one opener less; no-op if there is none.
    pub(super) fn drop_opener(&self) {
        self.openers.set(self.openers.get().saturating_sub(1));
    }

    /// Whether the inode was freed.
    pub(super) fn is_deleted(&self) -> bool {
        self.is_deleted.get()
    }

    /// Notes that the inode was freed.
    pub(super) fn note_deleted(&self) {
        self.is_deleted.set(true);
    }

    /// The draft that alone may change its content.
    pub(super) fn claimant(&self) -> Option<DraftId> {
        self.claimant.get()
    }

    /// Gives the right to change its content to a draft, or to everybody.
    pub(super) fn set_claimant(&self, draft: Option<DraftId>) {
        self.claimant.set(draft);
    }

    pub(super) fn ino(&self) -> Ino {
        self.number.into()
    }

    /// Its number for the page layer and the journal.
    pub(super) fn file_number(&self) -> u64 {
        self.number.0.into()
    }

    pub(super) fn kind(&self) -> FileKind {
        self.inode.borrow().kind().unwrap_or(FileKind::Regular)
    }

    pub(super) fn size(&self) -> u64 {
        self.inode.borrow().size.max(self.pending.grown_to())
    }

    /// Sets the size in memory and in the inode.
    pub(super) fn set_size(&self, size: u64) {
        self.inode.borrow_mut().size = size;
        self.pending.note_size(size);
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind() == FileKind::Directory
    }

    /// # Errors
    /// If it is no directory.
    pub(super) fn expect_directory(&self) -> FsResult<()> {
        match self.is_directory() {
            true => Ok(()),
            false => Err(FsError::NotDirectory(self.ino().to_string())),
        }
    }

    /// # Errors
    /// If it is no regular file.
    pub(super) fn expect_file(&self) -> FsResult<()> {
        match self.kind() {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(FsError::IsDirectory(self.ino().to_string())),
            _ => Err(FsError::Invalid(format!("{} is no regular file", self.ino()))),
        }
    }

    /// # Errors
    /// If the inode was deleted while the caller waited for its lock. Another inode may use its table slot by now.
    pub(super) fn expect_undeleted(&self) -> FsResult<()> {
        match self.is_deleted() {
            true => Err(FsError::NotFound(self.ino().to_string())),
            false => Ok(()),
        }
    }

    /// Subtracts `count` blocks from the inode's block count. Stops at zero if the stored count was too small; the
    /// checker finds such damage.
    pub(super) fn drop_blocks(&self, count: u64) {
        let mut inode = self.inode.borrow_mut();
        inode.sectors = inode.sectors.saturating_sub(count * SECTORS_PER_BLOCK);
    }

    /// Adds `count` blocks to the inode's block count.
    pub(super) fn add_blocks(&self, count: u64) {
        self.inode.borrow_mut().sectors += count * SECTORS_PER_BLOCK;
    }

    /// Stamps the file's content as modified.
    pub(super) fn stamp_modified(&self, stamp: Timestamp) {
        let mut inode = self.inode.borrow_mut();
        (inode.mtime, inode.ctime) = (stamp, stamp);
    }

    /// Lets the inode's size grow to at least `end`.
    pub(super) fn keep_size(&self, end: u64) {
        let mut inode = self.inode.borrow_mut();
        inode.size = inode.size.max(end);
    }

    /// Number that increases with every change of the content map.
    pub(super) fn map_version(&self) -> u64 {
        self.map_version.get()
    }

    /// The extent that holds `logical`, if a lookup found it not long ago and the map has not changed since.
    pub(super) fn known_extent(&self, logical: u32) -> Option<Extent> {
        let (version, extents) = self.known_extents.get();
        let holds = |extent: &Extent| extent.logical <= logical && u64::from(logical) < extent.logical_end();
        extents.into_iter().flatten().find(holds).filter(|_| version == self.map_version())
    }

    /// Keeps an extent of the content map as it is now.
    pub(super) fn keep_extent(&self, extent: Extent) {
        let (version, extents) = self.known_extents.get();
        let mut extents = if version == self.map_version() { extents } else { [None; 2] };
        extents[usize::from(extent.logical > 0)] = Some(extent);
        self.known_extents.set((self.map_version(), extents));
    }

    /// Notes that the content map changes.
    pub(super) fn map_changed(&self) {
        self.map_version.set(self.map_version.get() + 1);
    }

    pub(super) fn attributes(&self) -> Attributes {
        let inode = self.inode.borrow();
        let kind = inode.kind().unwrap_or(FileKind::Regular);
        Attributes {
            ino: self.ino(),
            kind,
            permissions: inode.mode & 0o7777,
            links: u32::from(inode.links),
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size.max(self.pending.grown_to()),
            sectors: inode.sectors + self.pending.delayed_count() * SECTORS_PER_BLOCK,
            accessed: inode.atime,
            modified: inode.mtime,
            changed: inode.ctime,
            created: inode.created(),
            device: device_number(kind, &inode.block),
            generation: inode.generation,
        }
    }
}

impl PagedFile for Node {
    fn number(&self) -> u64 {
        self.file_number()
    }

    fn size(&self) -> u64 {
        Node::size(self)
    }

    fn pages(&self) -> &FilePages {
        &self.pages
    }
}

/// Major and minor number as Linux keeps them in `i_block`: old form in the first word, new form in the second.
pub(super) fn device_number(kind: FileKind, block: &[u8; 60]) -> DeviceNumber {
    if !matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        return DeviceNumber::NONE;
    }
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    match (word(0), word(4)) {
        (0, new) => DeviceNumber::new((new >> 8) & 0xfff, (new & 0xff) | ((new >> 12) & 0xf_ff00)),
        (old, _) => DeviceNumber::new((old >> 8) & 0xff, old & 0xff),
    }
}

/// The reverse of [`device_number`].
pub(super) fn encode_device_number(device: DeviceNumber) -> [u8; 60] {
    let DeviceNumber { major, minor } = device;
    let mut block = [0; 60];
    if major < 256 && minor < 256 {
        block[..4].copy_from_slice(&(major << 8 | minor).to_le_bytes());
    } else {
        let new = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
        block[4..8].copy_from_slice(&new.to_le_bytes());
    }
    block
}

/// The nodes in memory.
#[derive(Default)]
pub(super) struct Inodes {
    nodes: RefCell<FxHashMap<InodeNo, Rc<Node>>>,
    /// Inode numbers, in the order in which their nodes may be dropped.
    queue: RefCell<VecDeque<InodeNo>>,
}

impl Inodes {
    pub(super) fn get(&self, number: InodeNo) -> Option<Rc<Node>> {
        self.nodes.borrow().get(&number).cloned()
    }

    /// Adds a node. May drop other nodes that are unused and whose changes are durable.
    pub(super) fn insert(&self, node: Rc<Node>, is_committed: impl Fn(TransactionId) -> bool) {
        self.queue.borrow_mut().push_back(node.number);
        self.nodes.borrow_mut().insert(node.number, node);
        self.forget_some(is_committed);
    }

    /// Delayed pages of all files.
    pub(super) fn delayed_pages(&self) -> u64 {
        self.nodes.borrow().values().map(|node| node.pending.delayed_count()).sum()
    }

    /// Pages of all files that wait for the conversion of their blocks.
    pub(super) fn unwritten_pages(&self) -> u64 {
        self.nodes.borrow().values().map(|node| node.pending.unwritten_count()).sum()
    }

    pub(super) fn remove(&self, number: InodeNo) {
        self.nodes.borrow_mut().remove(&number);
    }

    /// Drops a few nodes that nobody uses, if there are too many.
    fn forget_some(&self, is_committed: impl Fn(TransactionId) -> bool) {
        let (mut nodes, mut queue) = (self.nodes.borrow_mut(), self.queue.borrow_mut());
        for _ in 0..if nodes.len() > NODES_MAX { 8 } else { 0 } {
            let Some(number) = queue.pop_front() else { return };
            let in_use = nodes.get(&number).is_some_and(|node| {
                let is_held = Rc::strong_count(node) > 1 || node.is_open();
                let is_known = is_committed(node.changed_in.get()) && !node.pages.has_hidden_tail();
                is_held || node.is_dirty() || node.pending.is_needed() || !is_known
            });
            if in_use {
                queue.push_back(number);
            } else {
                nodes.remove(&number);
            }
        }
    }
}
