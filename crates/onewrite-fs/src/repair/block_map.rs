//! Maps of files without extents: claims their sound parts and rebuilds damaged maps.

use onewrite_block::{PAGE_SIZE, Page};

use super::content::{Content, Piece};
use super::maps::Purpose;
use super::views::MapPass;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::check::indirect::entry;
use crate::ext4::format::Inode;
use crate::ext4::format::extent::Extent;

const DIRECT: usize = 12;
const POINTERS: usize = 15;
const PER_BLOCK: u64 = PAGE_SIZE as u64 / 4;

/// Levels of indirect blocks below pointer `index` of an inode.
fn levels_below(index: usize) -> u32 {
    (index + 1).saturating_sub(DIRECT) as u32
}

/// The part of a map below one pointer.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    /// Levels of pointers in it; without any the pointer names content.
    below: u32,
    /// Its first block of the file.
    start: u64,
}

/// A block of the file and its block of the image.
type Mapped = (u64, BlockNo);

impl<R: ReadBlocks> MapPass<'_, '_, R> {
    /// Walks twelve direct blocks and three levels of indirect ones.
    pub(super) async fn walk_block_map(&mut self, inode: &Inode, purpose: Purpose) -> Content {
        let (mut content, mut logical) = (Content::default(), 0);
        for index in 0..POINTERS {
            let below = levels_below(index);
            self.walk_pointer(entry(&inode.block, index), (below, logical), purpose, &mut content).await;
            logical += PER_BLOCK.pow(below);
        }
        content
    }

    /// Adds a pointer with `below` levels of indirect blocks below it.
    async fn walk_pointer(
        &mut self,
        block: BlockNo,
        (below, logical): (u32, u64),
        purpose: Purpose,
        content: &mut Content,
    ) {
        if block.is_none() {
            return;
        }
        let is_inside = block < self.layout.end() && logical < 1 << 32;
        let is_taken = is_inside && purpose == Purpose::Claim && self.used.is_used(block);
        content.is_damaged |= !is_inside || is_taken;
        if !is_inside || is_taken && (self.fixed.is_used(block) || !self.takes_shared()) {
            content.is_damaged = true;
            return;
        }
        if below == 0 {
            let extent = Extent { logical: logical as u32, physical: block, length: 1, unwritten: false };
            content.pieces.push(Piece { extent, is_shared: is_taken });
            if purpose == Purpose::Claim && !is_taken {
                self.used.claim(block.alone());
            }
            return;
        }
        let Some(page) = self.read(block).await else {
            content.is_damaged = true;
            return;
        };
        let table = page.bytes();
        let pointers = || (0..PER_BLOCK as usize).map(|at| entry(&table[..], at));
        // Follows a block with another owner only if it looks like a table.
        if is_taken && pointers().any(|block| block >= self.layout.end()) {
            return;
        }
        if !is_taken {
            content.nodes.push(block);
            if purpose == Purpose::Claim {
                self.used.claim(block.alone());
            }
        }
        let step = PER_BLOCK.pow(below - 1);
        for (pointer, at) in pointers().zip(0..) {
            Box::pin(self.walk_pointer(pointer, (below - 1, logical + at * step), purpose, content)).await;
        }
    }

    /// Gives an inode a map of these extents. Takes the map's blocks from `pool` (those of the old map), then free
    /// ones. Returns the number of blocks of content and map.
    pub(super) fn make_block_map(&mut self, inode: &mut Inode, extents: &[Extent], pool: &mut Vec<BlockNo>) -> u64 {
        let each = |extent: &Extent| {
            let extent = *extent;
            (0..u64::from(extent.length)).map(move |at| (u64::from(extent.logical) + at, extent.physical + at))
        };
        let mapped: Vec<Mapped> = extents.iter().flat_map(each).collect();
        let (mut start, mut blocks) = (0, 0);
        for index in 0..POINTERS {
            let below = levels_below(index);
            let end = start + PER_BLOCK.pow(below);
            let range = mapped.partition_point(|own| own.0 < start)..mapped.partition_point(|own| own.0 < end);
            let (block, count) = self.make_table(&mapped[range], Subtree { below, start }, pool);
            inode.block[index * 4..index * 4 + 4].copy_from_slice(&(block.0 as u32).to_le_bytes());
            blocks += count;
            start = end;
        }
        blocks
    }

    /// Makes the block that maps `mapped`. Returns it and the number of blocks used. The
    /// block is 0 if there is nothing to map or no room.
    fn make_table(
        &mut self,
        mapped: &[Mapped],
        Subtree { below, start }: Subtree,
        pool: &mut Vec<BlockNo>,
    ) -> (BlockNo, u64) {
        let Some(&(_, first)) = mapped.first() else { return (BlockNo::FIRST, 0) };
        if below == 0 {
            return (first, 1);
        }
        let Some(block) = pool.pop().or_else(|| self.allocate()) else { return (BlockNo::FIRST, 0) };
        let step = PER_BLOCK.pow(below - 1);
        let (mut bytes, mut blocks) = ([0; PAGE_SIZE], 1);
        for part in mapped.chunk_by(|one, other| (one.0 - start) / step == (other.0 - start) / step) {
            let at = (part[0].0 - start) / step;
            let (child, count) = self.make_table(part, Subtree { below: below - 1, start: start + at * step }, pool);
            bytes[at as usize * 4..at as usize * 4 + 4].copy_from_slice(&(child.0 as u32).to_le_bytes());
            blocks += count;
        }
        self.image.put(block, Page::new(bytes));
        (block, blocks)
    }
}
