//! Pass 3: the journal, and the blocks reserved for descriptors.

use onewrite_block::{PAGE_SIZE, Page};

use super::content::push;
use super::views::SpecialPass;
use crate::api::FileKind;
use crate::block::{BlockNo, BlockRange};
use crate::check::ReadBlocks;
use crate::check::indirect::entry;
use crate::check::special::{ResizeNumbers, resize_numbers};
use crate::ext4::format::extent::Extent;
use crate::ext4::format::features::{Compat, Features, Incompat};
use crate::ext4::format::{Inode, InodeNo, Place, RESIZE_INODE};
use crate::journal::format::{JournalSuperblock, Sequence};

const DIND: usize = 13;
/// Blocks of a new journal, by preference: 4 MiB, then the minimum of a log.
const JOURNAL_BLOCKS: [u32; 2] = [1_024, 256];

impl<R: ReadBlocks> SpecialPass<'_, '_, R> {
    /// Empties a journal with an unusable superblock. If the journal is missing, makes one or removes the feature.
    ///
    /// # Errors
    /// If the log holds changes that only other software can replay.
    pub(super) async fn mend_journal(&mut self) -> Result<(), String> {
        let is_internal = self.raw.journal_dev.get() == 0;
        if !self.layout.features.compat.contains(Compat::HAS_JOURNAL) || !is_internal {
            return Ok(());
        }
        let number = self.layout.journal_inode;
        let place = Place::Inode(number);
        if self.look(number).kind != Some(FileKind::Regular) {
            self.make_journal(number).await;
            return Ok(());
        }
        let Some(mut inode) = self.inode(number).await else { return Ok(()) };
        if inode.links != 1 {
            inode.links = 1;
            self.put_inode(number, &inode).await;
            self.note_loss(place, "the journal counts one name");
        }
        let content = self.map_pass().content(number, &mut inode).await;
        let first = content.pieces.first().filter(|piece| piece.extent.logical == 0).map(|piece| piece.extent.physical);
        let blocks = content.data_blocks() as u32;
        let Some(first) = first.filter(|_| blocks >= JOURNAL_BLOCKS[1]) else {
            self.map_pass().give_up(&content);
            self.make_journal(number).await;
            return Ok(());
        };
        let Some(page) = self.read(first).await else { return Ok(()) };
        let stored = JournalSuperblock::decode(&page.bytes());
        if let Some(refusal) = stored.as_ref().ok().and_then(JournalSuperblock::replay_refusal) {
            return Err(refusal);
        }
        let is_sound = stored.as_ref().is_ok_and(|own| {
            own.length <= blocks && own.users == 1 && own.compat & !1 == 0 && own.error == 0 && own.start == 0
        });
        let rest_is_sound = page.bytes()[0x2c..0x30] == [0; 4];
        if is_sound && rest_is_sound {
            if self.raw.features().incompat.contains(Incompat::RECOVER) {
                self.clear_recovery();
                self.note(Place::Superblock, "the log is empty");
            }
            return Ok(());
        }
        let sequence = stored.map_or(Sequence(1), |own| own.sequence.skip(1 << 16));
        self.put_journal_superblock(first, blocks, sequence);
        self.clear_recovery();
        self.note_loss(place, "the log is emptied: what it held could not be replayed");
        Ok(())
    }

    fn put_journal_superblock(&mut self, block: BlockNo, blocks: u32, sequence: Sequence) {
        let mut bytes = [0; PAGE_SIZE];
        let mut own = JournalSuperblock::empty(blocks, self.layout.uuid);
        own.sequence = Sequence(sequence.0.max(1));
        own.encode_into(&mut bytes);
        self.image.put(block, Page::new(bytes));
    }

    fn clear_recovery(&mut self) {
        let Features { compat, incompat, ro_compat } = self.raw.features();
        self.raw.set_features(Features { compat, incompat: incompat.without(Incompat::RECOVER), ro_compat });
    }

    async fn make_journal(&mut self, number: InodeNo) {
        let place = Place::Inode(number);
        let mut run = None;
        for blocks in JOURNAL_BLOCKS {
            run = run.or_else(|| self.free_run(blocks).map(|start| (start, blocks)));
        }
        let Some((start, blocks)) = run.filter(|_| number < self.layout.first_inode) else {
            let Features { compat, incompat, ro_compat } = self.raw.features();
            let compat = compat.without(Compat::HAS_JOURNAL);
            self.raw.set_features(Features { compat, incompat: incompat.without(Incompat::RECOVER), ro_compat });
            self.raw.journal_inum.set(0);
            return self.note_loss(
                Place::Superblock,
                "the journal is gone and there is no room for another: `tune2fs -j` makes one",
            );
        };
        self.used.claim(start.run(blocks.into()));
        let mut inode = self.new_inode(FileKind::Regular.mode_bits() | 0o600);
        inode.size = u64::from(blocks) * PAGE_SIZE as u64;
        let slot = vec![0; usize::from(self.layout.inode_size)];
        self.put_slot(number, &slot).await;
        let mut extents = Vec::new();
        push(&mut extents, Extent { logical: 0, physical: start, length: blocks, unwritten: false });
        self.map_pass().replace_map(number, &mut inode, extents, Vec::new()).await;
        // Recovery could take old content there for a log.
        (1..u64::from(blocks)).for_each(|at| self.image.put(start + at, Page::ZEROS));
        self.put_journal_superblock(start, blocks, Sequence(1));
        self.clear_recovery();
        if let Some(inode) = self.inode(number).await {
            self.raw.keep_journal(&inode.block, inode.size);
        }
        if let Some(file) = self.file(number) {
            (file.used, file.kind) = (true, Some(FileKind::Regular));
        }
        self.note_loss(place, format!("a journal of {blocks} blocks is made"));
    }

    /// Free blocks in one piece.
    fn free_run(&self, length: u32) -> Option<BlockNo> {
        let mut start = BlockNo(1);
        for block in BlockRange::between(start, self.layout.end()).blocks() {
            if self.used.is_used(block) {
                start = block + 1;
            } else if block + 1 - start == u64::from(length) {
                return Some(start);
            }
        }
        None
    }

    /// Makes inode 7 list the reserved blocks again, if it does not.
    pub(super) async fn mend_resize_inode(&mut self) {
        let expected = self.layout.features.compat.contains(Compat::RESIZE_INODE);
        let Some(inode) = self.inode(RESIZE_INODE).await else { return };
        let unused = inode.links == 0 && inode.sectors == 0 && inode.file_acl.is_none();
        let empty = inode.block.iter().all(|&byte| byte == 0) && unused;
        // An image without room to grow also has the inode, with an empty list.
        if !expected || self.layout.reserved_descriptor_blocks == 0 && empty {
            if !empty {
                self.clear_inode(RESIZE_INODE, "no blocks are kept").await;
            }
            return;
        }
        let stored = entry(&inode.block, DIND);
        let is_free = stored.is_some() && stored < self.layout.end() && !self.used.is_used(stored);
        let double = if is_free { Some(stored) } else { self.allocate() };
        let Some(double) = double else { return };
        self.used.claim(double.alone());
        let mut changed = self.put_if_other(double, self.double_table()).await;
        for (block, table) in self.kept_tables() {
            changed |= self.put_if_other(block, table).await;
        }
        let ResizeNumbers { size, sectors } = resize_numbers(&self.layout);
        let mut map = [0; 60];
        map[DIND * 4..DIND * 4 + 4].copy_from_slice(&(double.0 as u32).to_le_bytes());
        let is_sound = inode.kind() == Some(FileKind::Regular) && inode.links == 1 && inode.block == map;
        let right =
            Inode { block: map, sectors, file_acl: BlockNo::FIRST, size: inode.size.max(size), ..inode.clone() };
        let is_right = is_sound && right == inode && inode.flags == 0 && inode.size >> 44 == 0 && inode.dtime == 0;
        if !is_right {
            let mut right = Inode { mode: 0o100_600, links: 1, flags: 0, dtime: 0, ..right };
            right.size = if right.size >> 44 == 0 { right.size } else { size };
            self.put_inode(RESIZE_INODE, &right).await;
        }
        if changed || !is_right {
            self.note(Place::Inode(RESIZE_INODE), "lists the blocks kept for descriptors again");
        }
        if let Some(file) = self.file(RESIZE_INODE) {
            (file.used, file.kind) = (true, Some(FileKind::Regular));
        }
    }

    async fn put_if_other(&mut self, block: BlockNo, table: Vec<BlockNo>) -> bool {
        let words = table.iter().flat_map(|&block| (block.0 as u32).to_le_bytes());
        let page = Page::from_slice(&words.collect::<Vec<u8>>());
        let is_same = self.read(block).await.is_some_and(|stored| stored.bytes() == page.bytes());
        if !is_same {
            self.image.put(block, page);
        }
        !is_same
    }

    /// The double indirect block: each reserved block at its index in the descriptor table.
    fn double_table(&self) -> Vec<BlockNo> {
        let per_block = PAGE_SIZE / 4;
        let descriptor_blocks = self.layout.descriptor_blocks();
        let first = self.layout.superblock_block() + 1 + u64::from(descriptor_blocks);
        let mut table = vec![BlockNo::FIRST; per_block];
        for index in 0..u32::from(self.layout.reserved_descriptor_blocks) {
            table[(descriptor_blocks + index) as usize % per_block] = first + u64::from(index);
        }
        table
    }

    /// Each reserved block with the list of its copies.
    fn kept_tables(&self) -> Vec<(BlockNo, Vec<BlockNo>)> {
        let first = self.layout.superblock_block() + 1 + u64::from(self.layout.descriptor_blocks());
        let backups: Vec<u32> =
            (1..self.layout.group_count).filter(|&group| self.layout.has_superblock(group)).collect();
        let kept = first.run(self.layout.reserved_descriptor_blocks.into());
        let table = |block: BlockNo| {
            let mut table: Vec<BlockNo> =
                backups.iter().map(|&group| block + self.layout.first_block_of_group(group).0).collect();
            table.resize(PAGE_SIZE / 4, BlockNo::FIRST);
            (block, table)
        };
        kept.blocks().map(table).collect()
    }
}
