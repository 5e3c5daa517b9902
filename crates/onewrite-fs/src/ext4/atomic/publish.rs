//! Publishing by a new map: spilled pages come into a file, and dropped ones leave it, by one map that is written anew.

use std::rc::Rc;

use crate::api::FsResult;
use crate::drafts::FileOf;
use crate::ext4::format::Extent;
use crate::ext4::inodes::Node;
use crate::ext4::map::replace::{divided, tree_blocks, united};
use crate::ext4::views::Atomics;
use crate::ext4::volume::Volume;
use crate::journal::Handle;
use crate::runs::Runs;

impl Atomics<'_> {
    /// Moves the spilled pages of a file into its map, and frees what they replace and what the draft dropped. The
    /// caller holds the file's lock alone and saves its inode.
    pub(super) async fn publish_spilled(
        &self,
        handle: &mut Handle,
        file: &FileOf<Volume>,
        spill: &Rc<Node>,
    ) -> FsResult<()> {
        let (moved, unused) = divided(&self.extents().all(spill).await?, &file.spilled);
        let blocks = blocks_of(&moved);
        debug_assert_eq!(blocks, file.spilled.count(), "all spilled pages have blocks");
        debug_assert!(unused.is_empty(), "they were freed before");
        onewrite_block::reached!("commit moves spilled pages");
        self.pages().discard(spill.file_number(), 0..u64::MAX);
        let tree = self.extents().tree_blocks_of(spill).await?;
        self.extents().replace(handle, spill, &unused, &tree).await?;
        spill.drop_blocks(blocks);
        self.load_inode_block(spill.number()).await?;
        self.save(handle, spill);
        file.node.add_blocks(blocks);
        let mut gone = file.dropped.clone();
        for run in file.spilled.runs() {
            gone.insert(run);
        }
        self.rewrite_map(handle, &file.node, &gone, moved).await
    }

    /// Replaces what a file has at the pages `gone` by `moved`, whose blocks count as the file's already. The caller
    /// holds the file's lock alone and saves its inode.
    pub(super) async fn rewrite_map(
        &self,
        handle: &mut Handle,
        node: &Rc<Node>,
        gone: &Runs,
        moved: Vec<Extent>,
    ) -> FsResult<()> {
        let _map = node.map_lock().write().await;
        let (replaced, kept) = divided(&self.extents().all(node).await?, gone);
        onewrite_block::reached!("spilled page replaces a block", !moved.is_empty() && !replaced.is_empty());
        onewrite_block::reached!("dropped pages freed by a new map", moved.is_empty());
        let extents = united(kept, moved);
        onewrite_block::reached!("map of several leaves written anew", tree_blocks(extents.len()) > 1);
        let tree = self.extents().tree_blocks_of(node).await?;
        self.extents().replace(handle, node, &extents, &tree).await?;
        gone.runs().for_each(|run| self.pages().discard(node.file_number(), run));
        self.free_extents(handle, node, &replaced).await
    }

    async fn free_extents(&self, handle: &mut Handle, node: &Node, extents: &[Extent]) -> FsResult<()> {
        node.drop_blocks(blocks_of(extents));
        for extent in extents {
            self.allocator().free_blocks(handle, extent.blocks()).await?;
        }
        Ok(())
    }
}

fn blocks_of(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.length)).sum()
}
