//! Blocks with two owners: the first owner found keeps them, the others get copies.
//!
//! The repair plans copies after all blocks in use are known and before other changes, so a copy has the original
//! content. If the first owner has been cleared by then, the next owner takes the block itself.

use onewrite_block::Page;

use super::content::{Piece, Rebuild, push, runs};
use super::views::MapPass;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::ext4::format::extent::{self, Extent, Node};
use crate::ext4::format::{Place, attribute};

impl<R: ReadBlocks> MapPass<'_, '_, R> {
    /// Whether the repair may accept one more shared block. The limit keeps a repair finite if maps name each other
    /// many times.
    pub(super) fn takes_shared(&mut self) -> bool {
        let is_left = self.shared_left > 0;
        self.shared_left = self.shared_left.saturating_sub(1);
        is_left
    }

    /// Whether a block of another owner is a node of the map with checksum seed `seed`.
    pub(super) fn is_node_too(&mut self, block: BlockNo, page: &Page, seed: u32) -> bool {
        let (bytes, place) = (page.bytes(), Place::Block(block));
        let is_node = !self.fixed.is_used(block) && Node::parse(&bytes[..], place).is_ok();
        is_node && extent::verify_checksum(&bytes[..], seed, &self.layout, place).is_ok() && self.takes_shared()
    }

    /// Claims shared blocks whose first owner no longer uses them.
    pub(super) fn reclaim(&mut self) {
        let mut rebuilds = std::mem::take(&mut self.rebuilds);
        for piece in rebuilds.iter_mut().map(|rebuild| &mut rebuild.content.pieces) {
            for Piece { extent, is_shared } in std::mem::take(piece) {
                for (run, is_taken) in runs(extent, |block| is_shared && self.used.is_used(block)) {
                    if is_shared && !is_taken {
                        self.used.claim(run.blocks());
                    }
                    piece.push(Piece { extent: run, is_shared: is_taken });
                }
            }
        }
        self.rebuilds = rebuilds;
    }

    /// Rebuilds all damaged maps, with copies of blocks that belong to others.
    pub(super) async fn make_rebuilds(&mut self) {
        self.reclaim();
        let mut planned = Vec::new();
        for rebuild in std::mem::take(&mut self.rebuilds) {
            let extents = self.extents_of_its_own(&rebuild).await;
            planned.push((rebuild, extents));
        }
        self.copy_attributes().await;
        self.seal_nodes().await;
        for (Rebuild { number, content }, extents) in planned {
            let Some(mut inode) = self.inode(number).await else { continue };
            self.replace_map(number, &mut inode, extents, content.nodes).await;
        }
    }

    /// The extents of a file. Copies replace blocks of other owners while there is room.
    async fn extents_of_its_own(&mut self, rebuild: &Rebuild) -> Vec<Extent> {
        let (mut extents, mut copied, mut lost) = (Vec::new(), 0_u64, 0_u64);
        for &Piece { extent, is_shared } in &rebuild.content.pieces {
            if !is_shared {
                push(&mut extents, extent);
                continue;
            }
            for at in 0..extent.length {
                let source = extent.physical + u64::from(at);
                match self.copy_of(source).await {
                    Some(physical) => {
                        push(&mut extents, Extent { logical: extent.logical + at, physical, length: 1, ..extent });
                        copied += 1;
                    }
                    None => lost += 1,
                }
            }
        }
        if copied + lost > 0 {
            let what = format!("of blocks that something else has, {copied} are copied and {lost} lost");
            self.note_loss(Place::Inode(rebuild.number), what);
        }
        extents
    }

    /// A block with the content of another; `None` if there is no room.
    async fn copy_of(&mut self, source: BlockNo) -> Option<BlockNo> {
        let block = self.allocate()?;
        if self.image.copy(block, source).await {
            return Some(block);
        }
        self.release(block);
        None
    }

    /// Gives a copy of the attribute block to each inode whose attribute block has another owner.
    async fn copy_attributes(&mut self) {
        for (source, users) in std::mem::take(&mut self.shared_attributes) {
            let copy = self.copy_of(source).await;
            if let Some(block) = copy
                && let Some(page) = self.read(block).await
            {
                let mut bytes = *page.bytes();
                attribute::set_checksum(&mut bytes, block, &self.layout);
                self.image.put(block, Page::new(bytes));
                self.attribute_blocks.insert(block, users.len() as u32);
            }
            for number in users {
                let Some(mut inode) = self.inode(number).await else { continue };
                inode.file_acl = copy.unwrap_or(BlockNo::FIRST);
                if copy.is_none() {
                    inode.sectors = inode.sectors.saturating_sub(u64::from(self.layout.block_size / 512));
                }
                self.put_inode(number, &inode).await;
                let what = if copy.is_some() { "copied" } else { "lost" };
                self.note_loss(
                    Place::Inode(number),
                    format!("its block of attributes, which something else has, is {what}"),
                );
            }
        }
    }

    /// Corrects the checksums of nodes that are otherwise sound.
    async fn seal_nodes(&mut self) {
        for (block, seed) in std::mem::take(&mut self.unsealed) {
            let Some(page) = self.read(block).await else { continue };
            let mut bytes = *page.bytes();
            extent::set_checksum(&mut bytes, seed, &self.layout);
            self.image.put(block, Page::new(bytes));
            self.note(Place::Block(block), "the checksum of a node of extents is made anew");
        }
    }
}
