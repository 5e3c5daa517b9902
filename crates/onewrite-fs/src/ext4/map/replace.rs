//! Replaces a whole map: what many changes at once leave of a file's content.
//!
//! The new tree is packed. So its number of blocks follows from the number of extents, which changes one by one do not
//! promise.

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::{Extent, Extents, FsResult, Handle, Index, Mapping, Node, NodeMut, Place, Tree, extent, join, part_of};
use crate::block::BlockNo;
use crate::ext4::format::extent::ROOT_CAPACITY;
use crate::runs::Runs;

/// Entries of a node that fills a block.
const NODE_ENTRIES: usize = (PAGE_SIZE - 16) / 12;

/// Blocks of a packed tree with this number of extents.
pub(in crate::ext4) fn tree_blocks(extents: usize) -> usize {
    let (mut entries, mut blocks) = (extents, 0);
    while entries > ROOT_CAPACITY {
        entries = entries.div_ceil(NODE_ENTRIES);
        blocks += entries;
    }
    blocks
}

impl Extents<'_> {
    /// All extents of the map, in order; one that a leaf splits counts once for each leaf.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn all(&self, node: &Node) -> FsResult<Vec<Extent>> {
        let (mut extents, mut index) = (Vec::new(), 0);
        while index < 1 << 32 {
            index = match self.map_as_stored(node, index as u32).await? {
                Mapping::Mapped(extent) => {
                    extents.push(extent);
                    extent.logical_end()
                }
                Mapping::Hole(length) => index + length,
            };
        }
        Ok(extents)
    }

    /// The blocks of the tree, without the root in the inode.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn tree_blocks_of(&self, node: &Node) -> FsResult<Vec<BlockNo>> {
        let root = node.inode().block;
        let tree = Tree::parse(&root, Place::Inode(node.number()))?;
        let mut below: Vec<_> = tree.indexes().map(|index| (index.node, tree.depth())).collect();
        let mut blocks = Vec::new();
        while let Some((block, depth)) = below.pop() {
            blocks.push(block);
            let page = self.block(block, |bytes| self.verify_node(node, block, bytes)).await?;
            let tree = self.parse_child(&page, block, depth)?;
            below.extend(tree.indexes().map(|index| (index.node, tree.depth())));
        }
        Ok(blocks)
    }

    /// Makes `extents`, in order, the map of a file; `old_tree` are the blocks of the tree that it has. Takes
    /// [`tree_blocks`] blocks and frees the old ones. Leaves the content's blocks to the caller, who holds the map's
    /// lock and saves the inode.
    ///
    /// # Errors
    /// No space, device errors and damage; a part may have changed then.
    pub(in crate::ext4) async fn replace(
        &self,
        handle: &mut Handle,
        node: &Node,
        extents: &[Extent],
        old_tree: &[BlockNo],
    ) -> FsResult<()> {
        let mut new_blocks = Vec::with_capacity(tree_blocks(extents.len()));
        for _ in 0..tree_blocks(extents.len()) {
            new_blocks.push(self.allocate_tree_block(handle, node).await?);
        }
        self.put_tree(handle, node, extents, new_blocks);
        for block in old_tree {
            node.drop_blocks(1);
            self.allocator().free_blocks(handle, block.alone()).await?;
        }
        Ok(())
    }

    /// Writes a packed tree into `blocks`. Does not wait.
    fn put_tree(&self, handle: &mut Handle, node: &Node, extents: &[Extent], blocks: Vec<BlockNo>) {
        node.map_changed();
        let (seed, mut blocks) = (self.node_seed(node), blocks.into_iter());
        let mut inode = node.inode_mut();
        if extents.len() <= ROOT_CAPACITY {
            fill(NodeMut::init(&mut inode.block, 0), extents, NodeMut::insert_extent);
            return;
        }
        let mut put = |fill: &dyn Fn(&mut PageBytes)| {
            let block = blocks.next().expect("there are as many as `tree_blocks` says");
            self.create_block(handle, block, |bytes| {
                fill(bytes);
                extent::set_checksum(&mut bytes[..], seed, self.layout());
            });
            block
        };
        let leaf = |part: &[Extent]| {
            let block = put(&|bytes| fill(NodeMut::init(&mut bytes[..], 0), part, NodeMut::insert_extent));
            Index { logical: part[0].logical, node: block }
        };
        let mut level: Vec<Index> = extents.chunks(NODE_ENTRIES).map(leaf).collect();
        let mut depth = 1;
        while level.len() > ROOT_CAPACITY {
            let inner = |part: &[Index]| {
                let block = put(&|bytes| fill(NodeMut::init(&mut bytes[..], depth), part, NodeMut::insert_index));
                Index { logical: part[0].logical, node: block }
            };
            level = level.chunks(NODE_ENTRIES).map(inner).collect();
            depth += 1;
        }
        fill(NodeMut::init(&mut inode.block, depth), &level, NodeMut::insert_index);
    }
}

/// Appends entries to a new node.
fn fill<'b, E: Copy>(mut node: NodeMut<'b>, entries: &[E], insert: impl Fn(&mut NodeMut<'b>, usize, E) -> bool) {
    for (at, entry) in entries.iter().enumerate() {
        assert!(insert(&mut node, at, *entry), "a packed node has room for its part");
    }
}

/// The part of sorted `extents` that lies in `pages`, and the part that does not, both in order.
pub(in crate::ext4) fn divided(extents: &[Extent], pages: &Runs) -> (Vec<Extent>, Vec<Extent>) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for extent in extents {
        let mut index = u64::from(extent.logical);
        while index < extent.logical_end() {
            let next = pages.first_from(index).filter(|run| run.start < extent.logical_end());
            let (start, end) = next.map_or((extent.logical_end(), 0), |run| (run.start.max(index), run.end));
            if start > index {
                outside.push(part_of(*extent, index, start));
                index = start;
            } else {
                let end = end.min(extent.logical_end());
                inside.push(part_of(*extent, index, end));
                index = end;
            }
        }
    }
    (inside, outside)
}

/// Both as one list in order, adjacent extents joined. They do not overlap.
pub(in crate::ext4) fn united(mut extents: Vec<Extent>, more: Vec<Extent>) -> Vec<Extent> {
    extents.extend(more);
    extents.sort_by_key(|extent| extent.logical);
    let mut all: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        match all.last_mut().and_then(|last| Some((join(*last, extent)?, last))) {
            Some((joined, last)) => *last = joined,
            None => all.push(extent),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u32, physical: u64, length: u32) -> Extent {
        Extent { logical, physical: BlockNo(physical), length, unwritten: false }
    }

    #[test]
    fn a_packed_tree_takes_a_block_for_340_entries_of_a_level() {
        let counts = [0, 4, 5, 340, 341, 4 * 340, 4 * 340 + 1, 340 * 340];
        assert_eq!(counts.map(tree_blocks), [0, 0, 1, 1, 2, 4, 6, 341]);
    }

    #[test]
    fn extents_are_divided_by_pages_and_united_again() {
        let extents = [extent(0, 100, 10), extent(20, 200, 5)];
        let mut pages = Runs::default();
        pages.insert(2..4);
        pages.insert(8..22);
        let (inside, outside) = divided(&extents, &pages);
        assert_eq!(inside, [extent(2, 102, 2), extent(8, 108, 2), extent(20, 200, 2)]);
        assert_eq!(outside, [extent(0, 100, 2), extent(4, 104, 4), extent(22, 202, 3)]);
        assert_eq!(united(outside, inside), extents);
    }

    #[test]
    fn pages_without_extents_divide_nothing() {
        let mut pages = Runs::default();
        pages.insert(50..60);
        assert_eq!(divided(&[extent(0, 9, 3)], &pages), (vec![], vec![extent(0, 9, 3)]));
    }
}
