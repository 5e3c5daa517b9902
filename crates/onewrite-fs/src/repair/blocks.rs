//! Reads and writes inodes, and finds free blocks and inodes.

use super::{File, Mender};
use crate::api::{FileKind, Timestamp};
use crate::block::{BlockNo, BlockRange};
use crate::check::ReadBlocks;
use crate::ext4::format::features::Incompat;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, Place};

impl<R: ReadBlocks> Mender<'_, R> {
    /// The bytes of an inode's slot.
    pub(super) async fn slot(&self, number: InodeNo) -> Option<Vec<u8>> {
        let (block, offset) = self.position(number)?;
        let page = self.read(block).await?;
        Some(page.bytes()[offset..offset + usize::from(self.layout.inode_size)].to_vec())
    }

    pub(super) async fn put_slot(&self, number: InodeNo, slot: &[u8]) {
        let Some((block, offset)) = self.position(number) else { return };
        let Some(mut page) = self.read(block).await else { return };
        page.write(offset, slot);
        self.image.put(block, page);
    }

    pub(super) async fn inode(&self, number: InodeNo) -> Option<Inode> {
        Inode::decode_unverified(&self.slot(number).await?, number, &self.layout).ok()
    }

    /// Writes the fields of an inode whose slot can be decoded.
    pub(super) async fn put_inode(&self, number: InodeNo, inode: &Inode) {
        if let Some(mut slot) = self.slot(number).await {
            inode.encode_into(&mut slot, number, &self.layout);
            self.put_slot(number, &slot).await;
        }
    }

    fn position(&self, number: InodeNo) -> Option<(BlockNo, usize)> {
        if !self.layout.contains_inode(number) {
            return None;
        }
        let position = self.layout.position_of_inode(number);
        let table = self.descriptors.get(position.group as usize)?.inode_table();
        Some((table + u64::from(position.table_block), position.offset))
    }

    /// Takes a free block. Call it only after all blocks in use are known.
    pub(super) fn allocate(&mut self) -> Option<BlockNo> {
        let block = self.allocate_in(BlockRange::between(self.next_free.max(BlockNo(1)), self.layout.end()))?;
        self.next_free = block + 1;
        Some(block)
    }

    /// Takes a free block in `room`.
    pub(super) fn allocate_in(&mut self, room: BlockRange) -> Option<BlockNo> {
        let block = room.blocks().find(|&block| !self.used.is_used(block))?;
        self.used.claim(block.alone());
        Some(block)
    }

    pub(super) fn release(&mut self, block: BlockNo) {
        self.used.release(block);
        self.next_free = self.next_free.min(block);
    }

    /// Takes a free inode for a directory, and makes its record.
    pub(super) fn allocate_inode(&mut self) -> Option<InodeNo> {
        let per_group = self.layout.inodes_per_group;
        for group in 0..self.layout.group_count {
            let known = self.files[group as usize].len() as u32;
            for index in 0..(known + 1).min(per_group) {
                let number = self.layout.inode_at(group, index);
                if self.layout.is_reserved(number) || self.look(number).used {
                    continue;
                }
                let file = File { used: true, kind: Some(FileKind::Directory), ..File::default() };
                let files = &mut self.files[group as usize];
                match files.get_mut(index as usize) {
                    Some(free) => *free = file,
                    None => files.push(file),
                }
                return Some(number);
            }
        }
        None
    }

    /// A new inode without content.
    pub(super) fn new_inode(&self, mode: u16) -> Inode {
        let now = Timestamp { seconds: self.options.unix_time.into(), nanoseconds: 0 };
        let flags = if self.has_extents() { flags::EXTENTS } else { 0 };
        Inode { flags, ..Inode::new(mode, now, &self.layout) }
    }

    /// Empties a slot.
    pub(super) async fn clear_inode(&mut self, number: InodeNo, why: &str) {
        self.note_loss(Place::Inode(number), format!("cleared: {why}"));
        let mut slot = vec![0; usize::from(self.layout.inode_size)];
        let mut inode = self.new_inode(0);
        (inode.links, inode.flags, inode.extra_isize) = (0, 0, 0);
        (inode.atime, inode.mtime) = (Timestamp::default(), Timestamp::default());
        (inode.ctime, inode.crtime) = (Timestamp::default(), Timestamp::default());
        inode.encode_into(&mut slot, number, &self.layout);
        self.put_slot(number, &slot).await;
        let reserved = self.layout.is_reserved(number);
        if let Some(file) = self.file(number) {
            *file = File { used: reserved, ..File::default() };
        }
    }

    pub(super) fn has_extents(&self) -> bool {
        self.layout.features.incompat.contains(Incompat::EXTENTS)
    }
}
