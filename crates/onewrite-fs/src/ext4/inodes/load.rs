//! Inodes on their way from and to the inode table.

use std::rc::Rc;

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::Node;
use crate::api::FileKind;
use crate::api::{FsError, FsResult, Ino};
use crate::block::BlockNo;
use crate::ext4::balloc::{Bit, set_bits};
use crate::ext4::format::extent::Node as Tree;
use crate::ext4::format::group::INODE_UNINIT;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, Layout, Place};
use crate::ext4::guard::check_size;
use crate::ext4::views::Allocator;
use crate::ext4::volume::Volume;
use crate::journal::Handle;

impl Volume {
    /// The node of `ino`, read from the inode table if need be.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the number is out of range or the inode is free or an orphan of an earlier mount.
    pub(in crate::ext4) async fn node(&self, ino: Ino) -> FsResult<Rc<Node>> {
        let node = self.node_or_orphan(ino).await?;
        let is_gone = node.inode().links == 0 && !node.is_open();
        if is_gone { Err(FsError::NotFound(ino.to_string())) } else { Ok(node) }
    }

    /// As [`Volume::node`], but also gives inodes that have lost their last name.
    pub(in crate::ext4) async fn node_or_orphan(&self, ino: Ino) -> FsResult<Rc<Node>> {
        let number = InodeNo::from_ino(ino);
        if let Some(node) = self.inodes().get(number) {
            return self.living(node);
        }
        if !self.layout().contains_inode(number) {
            return Err(FsError::NotFound(ino.to_string()));
        }
        self.check_number(number)?;
        let (block, offset) = self.inode_position(number);
        if !self.is_inode_scanned(number) {
            return Err(FsError::NotFound(ino.to_string()));
        }
        let page = self.block(block, |_| Ok(())).await?;
        if let Some(node) = self.inodes().get(number) {
            return self.living(node);
        }
        let inode = Inode::decode(&page.bytes()[offset..offset + self.slot_size()], number, self.layout())?;
        if inode.mode == 0 {
            return Err(FsError::NotFound(ino.to_string()));
        }
        check_supported(number, &inode)?;
        check_size(number, &inode, self.layout())?;
        if inode.has(flags::EXTENTS) {
            Tree::parse(&inode.block, Place::Inode(number))?.check_entries(self.layout(), Place::Inode(number))?;
        }
        let node = Node::new(self.runtime(), number, inode);
        self.inodes().insert(Rc::clone(&node), |tid| self.journal().is_committed(tid));
        Ok(node)
    }

    fn living(&self, node: Rc<Node>) -> FsResult<Rc<Node>> {
        node.expect_undeleted()?;
        Ok(node)
    }

    fn slot_size(&self) -> usize {
        usize::from(self.layout().inode_size)
    }

    /// The inode's block in the inode table and its byte offset in that block.
    pub(in crate::ext4) fn inode_position(&self, number: InodeNo) -> (BlockNo, usize) {
        let position = self.layout().position_of_inode(number);
        let table = self.groups().descriptor(position.group).inode_table();
        (table + u64::from(position.table_block), position.offset)
    }

    /// Whether the inode lies in the part of its table that was ever used.
    fn is_inode_scanned(&self, number: InodeNo) -> bool {
        let position = self.layout().position_of_inode(number);
        position.index < self.groups().descriptor(position.group).scanned_inodes(self.layout())
    }

    /// Brings the inode-table block that holds `number` into memory. A block whose inodes were never used may hold
    /// anything: it is taken as zeros and not read.
    pub(in crate::ext4) async fn load_inode_block(&self, number: InodeNo) -> FsResult<()> {
        let (block, _) = self.inode_position(number);
        let unused = || (!self.is_inode_block_scanned(number)).then_some([0; PAGE_SIZE]);
        onewrite_block::reached!(
            "inode table block made in memory",
            unused().is_some() && !self.allocator().is_loaded(block)
        );
        self.load_or_make(block, unused, |_| Ok(())).await
    }

    /// Whether the block of the inode table that holds `number` lies in the part that was ever used.
    fn is_inode_block_scanned(&self, number: InodeNo) -> bool {
        let position = self.layout().position_of_inode(number);
        let scanned = self.groups().descriptor(position.group).scanned_inodes(self.layout());
        scanned > position.table_block * self.layout().inodes_per_block()
    }

    /// Writes the node to its table block as part of a transaction. The block must be in memory. Does not wait.
    pub(in crate::ext4) fn save(&self, handle: &mut Handle, node: &Node) {
        self.save_with(handle, node, Inode::encode_into);
    }

    /// As [`Volume::save`], for an inode that was free before.
    pub(in crate::ext4) fn save_new(&self, handle: &mut Handle, node: &Node) {
        self.save_with(handle, node, Inode::encode_new);
    }

    fn save_with(&self, handle: &mut Handle, node: &Node, encode: fn(&Inode, &mut [u8], InodeNo, &Layout)) {
        let (block, offset) = self.inode_position(node.number());
        let inode = node.inode();
        let slot = offset..offset + self.slot_size();
        self.change(handle, block, |bytes| encode(&inode, &mut bytes[slot], node.number(), self.layout()));
        node.changed_in.set(handle.tid());
    }

    /// Checksum seed of the blocks that belong to the node.
    pub(in crate::ext4) fn node_seed(&self, node: &Node) -> u32 {
        self.layout().inode_seed(node.number(), node.inode().generation)
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

impl Allocator<'_> {
    /// Loads or computes the inode bitmap of a group.
    pub(in crate::ext4) async fn load_inode_bitmap(&self, group: u32) -> FsResult<BlockNo> {
        let descriptor = || self.groups().descriptor(group).clone();
        let block = descriptor().inode_bitmap();
        let unused = || {
            let mut initial = [0; PAGE_SIZE];
            let (inodes, bits) = (self.layout().inodes_per_group, 8 * PAGE_SIZE as u32);
            set_bits(&mut initial, inodes..bits, Bit::Taken);
            descriptor().has(INODE_UNINIT, self.layout()).then_some(initial)
        };
        let verify = |bytes: &PageBytes| descriptor().verify_inode_bitmap(bytes, group, self.layout());
        self.load_or_make(block, unused, verify).await?;
        Ok(block)
    }
}
