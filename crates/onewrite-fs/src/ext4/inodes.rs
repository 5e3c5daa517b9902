//! Inodes in memory, and their way to and from the inode table.
//!
//! All tasks share one [`Node`] per inode, which is loaded at first use. Each change writes it to its table block
//! inside the same transaction, so it never differs from the cache.
//!
//! # Invariants
//! - At most one node exists for an inode number.
//! - A task holds `lock` exclusively to change content, size or entries, and shared to rely on them.
//! - The task that leaves a node without links and without openers deletes it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use onewrite_block::sync::RwLock;
use onewrite_block::{PAGE_SIZE, PageBytes, Runtime};
use rustc_hash::FxHashMap;

use super::balloc::Bit;
use super::format::extent::Node as Tree;
use super::format::group::INODE_UNINIT;
use super::format::inode::flags;
use super::format::{FormatError, Inode, InodeNo, Layout, Place};
use super::guard::check_size;
use super::runs::Runs;
use super::volume::Volume;
use crate::api::{Attributes, DeviceNumber, FileKind, FsError, FsResult, Ino};
use crate::block::BlockNo;
use crate::journal::{Handle, TransactionId};
use crate::pages::FilePages;

/// Number of nodes in memory above which unused nodes are dropped.
const NODES_MAX: usize = 65_536;

/// An inode in memory.
pub(super) struct Node {
    pub(super) number: InodeNo,
    pub(super) inode: RefCell<Inode>,
    pub(super) lock: RwLock,
    /// The last transaction that changed the inode or its content.
    pub(super) changed_in: Cell<TransactionId>,
    /// The last transaction that changed anything needed to read its content.
    pub(super) data_changed_in: Cell<TransactionId>,
    /// Number of openers; see `FileSystem::open`.
    pub(super) openers: Cell<u32>,
    /// Its content in memory.
    pub(super) pages: FilePages,
    /// Increases with every change of the content map.
    pub(super) map_version: Cell<u64>,
    /// Held exclusively to change the file's content map; taken inside a handle.
    pub(super) map_lock: RwLock,
    /// Size in memory, if it is larger than the inode's; see `delayed`.
    pub(super) grown_to: Cell<u64>,
    /// Content up to this byte has reached the device.
    pub(super) arrived_to: Cell<u64>,
    /// Dirty pages over holes.
    pub(super) delayed: RefCell<Runs>,
    /// Pages over unwritten blocks whose content is on the device.
    pub(super) converting: RefCell<Runs>,
    /// Whether the node is in [`Inodes::to_convert`].
    pub(super) is_in_conversion_line: Cell<bool>,
    /// Whether the inode was freed.
    pub(super) is_deleted: Cell<bool>,
}

impl Node {
    pub(super) fn new(runtime: &Runtime, number: InodeNo, inode: Inode) -> Rc<Node> {
        Rc::new(Node {
            number,
            inode: RefCell::new(inode),
            lock: RwLock::new(runtime),
            changed_in: Cell::default(),
            data_changed_in: Cell::default(),
            openers: Cell::new(0),
            pages: FilePages::default(),
            map_version: Cell::new(0),
            map_lock: RwLock::new(runtime),
            grown_to: Cell::new(0),
            arrived_to: Cell::new(0),
            delayed: RefCell::default(),
            converting: RefCell::default(),
            is_in_conversion_line: Cell::new(false),
            is_deleted: Cell::new(false),
        })
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
        self.inode.borrow().size.max(self.grown_to.get())
    }

    /// Sets the size in memory and in the inode.
    pub(super) fn set_size(&self, size: u64) {
        self.inode.borrow_mut().size = size;
        self.grown_to.set(0);
        self.arrived_to.set(self.arrived_to.get().min(size));
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
        match self.is_deleted.get() {
            true => Err(FsError::NotFound(self.ino().to_string())),
            false => Ok(()),
        }
    }

    /// Subtracts `count` blocks from the inode's block count. Stops at zero if the stored count was too small; the
    /// checker finds such damage.
    pub(super) fn drop_blocks(&self, count: u64) {
        let mut inode = self.inode.borrow_mut();
        inode.sectors = inode.sectors.saturating_sub(count * super::map::SECTORS_PER_BLOCK);
    }

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
            size: inode.size.max(self.grown_to.get()),
            sectors: inode.sectors + self.delayed.borrow().count() * super::map::SECTORS_PER_BLOCK,
            accessed: inode.atime,
            modified: inode.mtime,
            changed: inode.ctime,
            created: inode.crtime,
            device: device_number(kind, &inode.block),
            generation: inode.generation,
        }
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
    /// Files with content on the device that their map or size does not show yet.
    pub(super) to_convert: RefCell<VecDeque<InodeNo>>,
    /// The orphan list, its head last.
    pub(super) orphans: RefCell<Vec<InodeNo>>,
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
        self.nodes.borrow().values().map(|node| node.delayed.borrow().count()).sum()
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
                let is_held = Rc::strong_count(node) > 1 || node.openers.get() > 0;
                is_held
                    || node.pages.is_dirty()
                    || !node.converting.borrow().is_empty()
                    || node.is_in_conversion_line.get()
                    || !is_committed(node.changed_in.get())
            });
            if in_use {
                queue.push_back(number);
            } else {
                nodes.remove(&number);
            }
        }
    }
}

impl Volume {
    /// The node of `ino`, read from the inode table if need be.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the number is out of range or the inode is free or an orphan of an earlier mount.
    pub(super) async fn node(&self, ino: Ino) -> FsResult<Rc<Node>> {
        let node = self.node_or_orphan(ino).await?;
        let is_gone = node.inode.borrow().links == 0 && node.openers.get() == 0;
        if is_gone { Err(FsError::NotFound(ino.to_string())) } else { Ok(node) }
    }

    /// As [`Volume::node`], but also gives inodes that have lost their last name.
    pub(super) async fn node_or_orphan(&self, ino: Ino) -> FsResult<Rc<Node>> {
        let number = InodeNo::from_ino(ino);
        if let Some(node) = self.inodes.get(number) {
            return self.living(node);
        }
        if !self.layout.contains_inode(number) {
            return Err(FsError::NotFound(ino.to_string()));
        }
        self.check_number(number)?;
        let (block, offset) = self.inode_position(number);
        if !self.is_inode_scanned(number) {
            return Err(FsError::NotFound(ino.to_string()));
        }
        let page = self.block(block, |_| Ok(())).await?;
        if let Some(node) = self.inodes.get(number) {
            return self.living(node);
        }
        let inode = Inode::decode(&page.bytes()[offset..offset + self.slot_size()], number, &self.layout)?;
        if inode.mode == 0 {
            return Err(FsError::NotFound(ino.to_string()));
        }
        check_supported(number, &inode)?;
        check_size(number, &inode, &self.layout)?;
        if inode.has(flags::EXTENTS) {
            Tree::parse(&inode.block, Place::Inode(number))?.check_entries(&self.layout, Place::Inode(number))?;
        }
        let node = Node::new(&self.runtime, number, inode);
        self.inodes.insert(Rc::clone(&node), |tid| self.journal.is_committed(tid));
        Ok(node)
    }

    fn living(&self, node: Rc<Node>) -> FsResult<Rc<Node>> {
        node.expect_undeleted()?;
        Ok(node)
    }

    fn slot_size(&self) -> usize {
        usize::from(self.layout.inode_size)
    }

    /// The inode's block in the inode table and its byte offset in that block.
    pub(super) fn inode_position(&self, number: InodeNo) -> (BlockNo, usize) {
        let position = self.layout.position_of_inode(number);
        let table = self.groups.descriptor(position.group).inode_table();
        (table + u64::from(position.table_block), position.offset)
    }

    /// Whether the inode lies in the part of its table that was ever used.
    fn is_inode_scanned(&self, number: InodeNo) -> bool {
        let position = self.layout.position_of_inode(number);
        position.index < self.groups.descriptor(position.group).scanned_inodes(&self.layout)
    }

    /// Brings the inode-table block that holds `number` into memory. A block whose inodes were never used may hold
    /// anything: it is taken as zeros and not read.
    pub(super) async fn load_inode_block(&self, number: InodeNo) -> FsResult<()> {
        let (block, _) = self.inode_position(number);
        let unused = || (!self.is_inode_block_scanned(number)).then_some([0; PAGE_SIZE]);
        self.load_or_make(block, unused, |_| Ok(())).await
    }

    /// Whether the block of the inode table that holds `number` lies in the part that was ever used.
    fn is_inode_block_scanned(&self, number: InodeNo) -> bool {
        let position = self.layout.position_of_inode(number);
        let scanned = self.groups.descriptor(position.group).scanned_inodes(&self.layout);
        scanned > position.table_block * self.layout.inodes_per_block()
    }

    /// Writes the node to its table block as part of a transaction. The block must be in memory. Does not wait.
    pub(super) fn save(&self, handle: &mut Handle, node: &Node) {
        self.save_with(handle, node, Inode::encode_into);
    }

    /// As [`Volume::save`], for an inode that was free before.
    pub(super) fn save_new(&self, handle: &mut Handle, node: &Node) {
        self.save_with(handle, node, Inode::encode_new);
    }

    fn save_with(&self, handle: &mut Handle, node: &Node, encode: fn(&Inode, &mut [u8], InodeNo, &Layout)) {
        let (block, offset) = self.inode_position(node.number);
        let inode = node.inode.borrow();
        let slot = offset..offset + self.slot_size();
        self.change(handle, block, |bytes| encode(&inode, &mut bytes[slot], node.number, &self.layout));
        node.changed_in.set(handle.tid());
    }

    /// Checksum seed of the blocks that belong to the node.
    pub(super) fn node_seed(&self, node: &Node) -> u32 {
        self.layout.inode_seed(node.number, node.inode.borrow().generation)
    }
}

/// Refuses an inode that this version cannot read.
fn check_supported(number: InodeNo, inode: &Inode) -> FsResult<()> {
    let refuse = |what: &str| Err(FsError::Unsupported(format!("inode {number} {what}")));
    let Some(kind) = inode.kind() else {
        let place = Place::Inode(number).to_string();
        return Err(FsError::Damaged { place, problem: format!("mode {:#o} names no kind of file", inode.mode) });
    };
    if inode.has(flags::INLINE_DATA) {
        return refuse("keeps its content in itself (inline_data)");
    }
    if inode.has(flags::ENCRYPT) {
        return refuse("is encrypted");
    }
    let mapped = matches!(kind, FileKind::Regular | FileKind::Directory);
    if mapped && !inode.has(flags::EXTENTS) && inode.sectors > 0 {
        return refuse("maps its blocks without extents");
    }
    Ok(())
}

/// Result of decoding, for callers that verify while loading.
pub(super) type Verified = Result<(), FormatError>;

/// The inode bitmap of a group: loads or computes it.
impl Volume {
    pub(super) async fn load_inode_bitmap(&self, group: u32) -> FsResult<BlockNo> {
        let descriptor = || self.groups.descriptor(group).clone();
        let block = descriptor().inode_bitmap();
        let unused = || {
            let mut initial = [0; PAGE_SIZE];
            let (inodes, bits) = (self.layout.inodes_per_group, 8 * PAGE_SIZE as u32);
            super::balloc::set_bits(&mut initial, inodes..bits, Bit::Taken);
            descriptor().has(INODE_UNINIT, &self.layout).then_some(initial)
        };
        let verify = |bytes: &PageBytes| descriptor().verify_inode_bitmap(bytes, group, &self.layout);
        self.load_or_make(block, unused, verify).await?;
        Ok(block)
    }
}
