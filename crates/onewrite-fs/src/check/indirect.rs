//! Block maps of files without extents: twelve direct blocks, then one, two and three levels of indirect ones.

use onewrite_block::Page;

use super::ReadBlocks;
use super::map::{Mapped, Owner};
use super::views::MapStage;
use crate::block::BlockNo;
use crate::ext4::format::extent::Extent;
use crate::ext4::format::{Inode, InodeNo, Place};

const CURE: &str = "e2fsck -f";
const DIRECT: usize = 12;

/// An indirect block on the way down.
struct Level {
    page: Page,
    next: usize,
    /// Levels of indirect blocks below this one.
    below: u32,
}

/// Current block number of the file in a walk over its map, in order.
struct Cursor(u64);

impl<R: ReadBlocks> MapStage<'_, '_, R> {
    /// Walks the block map of an inode.
    pub(super) async fn walk_block_map(&mut self, number: InodeNo, inode: &Inode) -> Mapped {
        let owner = Owner::new(number, inode, &self.layout);
        let mut mapped = Mapped::default();
        let (first, mut cursor) = (self.directory_blocks.len(), Cursor(0));
        for index in 0..15 {
            let block = entry(&inode.block, index);
            match index.checked_sub(DIRECT) {
                None => self.claim_mapped(block, owner, &mut cursor, &mut mapped),
                Some(below) => self.walk_indirect(block, below as u32, owner, &mut cursor, &mut mapped).await,
            }
        }
        if owner.is_directory {
            self.directory_stage().add_directory(number, inode, first);
        }
        mapped
    }

    async fn walk_indirect(
        &mut self,
        block: BlockNo,
        below: u32,
        owner: Owner,
        cursor: &mut Cursor,
        mapped: &mut Mapped,
    ) {
        let mut path = Vec::new();
        path.extend(self.enter_indirect(block, below, owner, cursor, mapped).await);
        while let Some(level) = path.last_mut() {
            if level.next == self.entries_per_block() as usize {
                path.pop();
                continue;
            }
            let block = entry(&level.page.bytes()[..], level.next);
            level.next += 1;
            let below = level.below;
            match below {
                0 => self.claim_mapped(block, owner, cursor, mapped),
                _ => path.extend(self.enter_indirect(block, below - 1, owner, cursor, mapped).await),
            }
        }
    }

    /// Claims and reads an indirect block. If it is missing or damaged, moves the cursor past the blocks that it would
    /// map.
    async fn enter_indirect(
        &mut self,
        block: BlockNo,
        below: u32,
        owner: Owner,
        cursor: &mut Cursor,
        mapped: &mut Mapped,
    ) -> Option<Level> {
        let place = Place::Inode(owner.number);
        if block.is_some() {
            mapped.blocks += 1;
            if self.claim(block.alone(), place)
                && let Some(page) = self.read(block, place).await
            {
                return Some(Level { page, next: 0, below });
            }
            mapped.sound = false;
        }
        cursor.0 += self.entries_per_block().pow(below + 1);
        None
    }

    fn claim_mapped(&mut self, block: BlockNo, owner: Owner, cursor: &mut Cursor, mapped: &mut Mapped) {
        let logical = cursor.0;
        cursor.0 += 1;
        if block.is_none() {
            return;
        }
        match u32::try_from(logical) {
            Ok(logical) => {
                self.claim_extent(Extent { logical, physical: block, length: 1, unwritten: false }, owner, mapped);
            }
            Err(_) => {
                mapped.sound = false;
                self.report.add(Place::Inode(owner.number), "maps blocks beyond what a file can have", CURE);
            }
        }
    }

    fn entries_per_block(&self) -> u64 {
        u64::from(self.layout.block_size) / 4
    }
}

/// Entry `index` of a table of block numbers.
pub(crate) fn entry(table: &[u8], index: usize) -> BlockNo {
    let bytes = table[index * 4..index * 4 + 4].try_into().expect("four bytes");
    BlockNo(u32::from_le_bytes(bytes).into())
}
