//! File: an inode in memory.
//!
//! All tasks share one [`File`] for each inode. Its fields change here first; the node gets them before it is written
//! (`save_inode`). Addresses, names and content inside the inode lie in the node.

use std::cell::{Cell, Ref, RefCell, RefMut};

use onewrite_block::Runtime;
use onewrite_block::sync::RwLock;

use super::name_index::NameIndex;
use crate::api::{Attributes, DeviceNumber, FileKind, FsError, FsResult, Ino, Timestamp};
use crate::atomic::DraftId;
use crate::f2fs::format::inode::{Head, RawInode, Shape, inline, put_times};
use crate::f2fs::format::{DataAddress, Nid};
use crate::f2fs::view::stat;
use crate::pages::{FilePages, PagedFile};

/// Blocks of a file in memory whose addresses are known without its node.
const FEW_BLOCKS: usize = 4;

/// See the module's head.
pub(in crate::f2fs) struct File {
    number: Nid,
    kind: FileKind,
    shape: Shape,
    raw: RefCell<RawInode>,
    created: Option<Timestamp>,
    device: DeviceNumber,
    lock: RwLock,
    pages: FilePages,
    openers: Cell<u32>,
    is_deleted: Cell<bool>,
    /// Whether the fields differ from those in the node.
    is_unsaved: Cell<bool>,
    /// Whether fields other than times differ from those in the node.
    is_changed: Cell<bool>,
    /// Version of the checkpoint behind which an fsync cannot be rolled forward.
    bound_to: Cell<Option<u64>>,
    /// Syncs under way that write pages over their blocks.
    in_place_syncs: Cell<u32>,
    /// The draft that alone may change its content.
    claimant: Cell<Option<DraftId>>,
    /// Where the names of a large directory lie.
    names: RefCell<NameIndex>,
    /// All that the inode says of blocks, if that is known: words of its first slots.
    blocks: Cell<Option<[u32; FEW_BLOCKS]>>,
}

impl File {
    pub(super) fn new(runtime: &Runtime, inode: &Head) -> File {
        let mut raw = inode.raw.clone();
        // Linux's hint of a run of blocks: nothing here keeps it right.
        raw.i_ext_len.set(0);
        File {
            number: inode.number,
            kind: inode.kind,
            shape: inode.shape(),
            raw: RefCell::new(raw),
            created: inode.created,
            device: inode.device,
            lock: RwLock::new(runtime),
            pages: FilePages::default(),
            openers: Cell::new(0),
            is_deleted: Cell::new(false),
            is_unsaved: Cell::new(false),
            is_changed: Cell::new(false),
            bound_to: Cell::new(None),
            in_place_syncs: Cell::new(0),
            claimant: Cell::new(None),
            names: RefCell::default(),
            blocks: Cell::new(None),
        }
    }

    pub(super) fn number(&self) -> Nid {
        self.number
    }

    pub(super) fn ino(&self) -> Ino {
        self.number.into()
    }

    pub(super) fn kind(&self) -> FileKind {
        self.kind
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn raw(&self) -> Ref<'_, RawInode> {
        self.raw.borrow()
    }

    /// Changes fields. The caller notes the inode as unsaved (`Volume::note_unsaved`).
    pub(super) fn change_raw<R>(&self, change: impl FnOnce(&mut RawInode) -> R) -> R {
        self.is_changed.set(true);
        change(&mut self.raw.borrow_mut())
    }

    /// Stamps content or names as modified.
    pub(super) fn stamp_modified(&self, now: Timestamp) {
        put_times(&mut self.raw.borrow_mut(), None, Some(now), Some(now));
    }

    /// Whether that stamp is there.
    pub(super) fn is_stamped(&self, now: Timestamp) -> bool {
        let raw = self.raw.borrow();
        let time = |seconds: u64, nanoseconds| Timestamp { seconds: seconds as i64, nanoseconds } == now;
        time(raw.i_mtime.get(), raw.i_mtime_nsec.get()) && time(raw.i_ctime.get(), raw.i_ctime_nsec.get())
    }

    /// Stamps the inode as changed.
    pub(super) fn stamp_changed(&self, now: Timestamp) {
        put_times(&mut self.raw.borrow_mut(), None, None, Some(now));
    }

    /// Held alone to change content, size, names or attributes, and shared to rely on them.
    pub(super) fn lock(&self) -> &RwLock {
        &self.lock
    }

    pub(super) fn links(&self) -> u32 {
        self.raw.borrow().i_links.get()
    }

    pub(super) fn has_inline(&self, bit: u8) -> bool {
        self.raw.borrow().i_inline & bit != 0
    }

    /// Whether content or names lie in the inode.
    pub(super) fn is_inline(&self) -> bool {
        self.has_inline(inline::DATA) || self.has_inline(inline::DENTRY)
    }

    pub(super) fn is_inline_data(&self) -> bool {
        self.has_inline(inline::DATA)
    }

    pub(super) fn is_open(&self) -> bool {
        self.openers.get() > 0
    }

    pub(super) fn add_opener(&self) {
        self.openers.set(self.openers.get() + 1);
    }

    pub(super) fn drop_opener(&self) {
        self.openers.set(self.openers.get().saturating_sub(1));
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.is_deleted.get()
    }

    pub(super) fn note_deleted(&self) {
        self.is_deleted.set(true);
    }

    pub(super) fn is_unsaved(&self) -> bool {
        self.is_unsaved.get()
    }

    pub(super) fn note_unsaved(&self) {
        self.is_unsaved.set(true);
    }

    /// Whether fields other than times differ from those in the node.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed.get()
    }

    /// Notes that the node has the fields as they are.
    pub(super) fn note_saved(&self) {
        self.is_unsaved.set(false);
        self.is_changed.set(false);
    }

    /// Notes that only a checkpoint makes it durable, while `version` is the last one.
    pub(super) fn bind_to(&self, version: u64) {
        self.bound_to.set(Some(version));
    }

    /// Whether only a checkpoint makes it durable, while `version` is the last one.
    pub(super) fn is_bound_to(&self, version: u64) -> bool {
        self.bound_to.get() == Some(version)
    }

    /// Lets writeback write pages over their blocks until the guard is dropped.
    pub(super) fn begin_in_place(&self) -> InPlace<'_> {
        self.in_place_syncs.set(self.in_place_syncs.get() + 1);
        InPlace(self)
    }

    /// Whether writeback writes pages over their blocks now.
    pub(super) fn is_in_place(&self) -> bool {
        self.in_place_syncs.get() > 0
    }

    /// The draft that alone may change its content.
    pub(super) fn claimant(&self) -> Option<DraftId> {
        self.claimant.get()
    }

    /// Gives the right to change its content to a draft, or to everybody.
    pub(super) fn set_claimant(&self, draft: Option<DraftId>) {
        self.claimant.set(draft);
    }

    /// All blocks and reservations that the inode names, if it names no nodes and that is known: so a small new file
    /// goes away again without a look into its node, which may have left memory.
    pub(super) fn few_addresses(&self) -> Option<Vec<DataAddress>> {
        let addresses = self.blocks.get()?.map(DataAddress::from_disk);
        Some(addresses.into_iter().filter(|address| *address != DataAddress::Hole).collect())
    }

    /// Notes that the inode names nothing: it is new.
    pub(super) fn note_blank(&self) {
        self.blocks.set(Some([0; FEW_BLOCKS]));
    }

    /// Notes what a slot of the inode says from now on.
    pub(super) fn note_address(&self, slot: usize, address: DataAddress) {
        let mut blocks = self.blocks.get();
        match blocks.as_mut().and_then(|blocks| blocks.get_mut(slot)) {
            Some(word) => *word = address.to_disk(),
            None => blocks = None,
        }
        self.blocks.set(blocks);
    }

    /// Notes that the inode names a node.
    pub(super) fn note_node(&self) {
        self.blocks.set(None);
    }

    /// Where the names of a large directory lie.
    pub(super) fn names(&self) -> RefMut<'_, NameIndex> {
        self.names.borrow_mut()
    }

    pub(super) fn attributes(&self) -> Attributes {
        stat::of(self.number, self.kind, &self.raw.borrow(), self.created, self.device)
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
    pub(super) fn expect_regular(&self) -> FsResult<()> {
        match self.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(FsError::IsDirectory(self.ino().to_string())),
            _ => Err(FsError::Invalid(format!("{} is no regular file", self.ino()))),
        }
    }

    /// # Errors
    /// If it was deleted while the caller waited for its lock.
    pub(super) fn expect_undeleted(&self) -> FsResult<()> {
        match self.is_deleted() {
            true => Err(FsError::NotFound(self.ino().to_string())),
            false => Ok(()),
        }
    }

    /// # Errors
    /// If the directory was removed while the caller waited for its lock.
    pub(super) fn expect_named(&self) -> FsResult<()> {
        match self.links() {
            0 => Err(FsError::NotFound(self.ino().to_string())),
            _ => self.expect_undeleted(),
        }
    }
}

/// See [`File::begin_in_place`].
pub(super) struct InPlace<'f>(&'f File);

impl Drop for InPlace<'_> {
    fn drop(&mut self) {
        self.0.in_place_syncs.set(self.0.in_place_syncs.get() - 1);
    }
}

impl PagedFile for File {
    fn number(&self) -> u64 {
        self.number.0.into()
    }

    fn size(&self) -> u64 {
        self.raw.borrow().i_size.get()
    }

    fn pages(&self) -> &FilePages {
        &self.pages
    }
}
