//! Moves extents along the file: their logical numbers change, their blocks stay.
//!
//! All entries from one block of the file on move by the same distance, so their order and their nodes stay the same.
//! The move does not wait once all nodes are in memory, so it is part of one transaction.

use super::{
    Extent, Extents, FsError, FsResult, Handle, Index, Node, NodeMut, PathNode, Place, Tree, check_child, part_of,
};
use crate::block::BlockNo;

/// Most nodes that one transaction shifts. With full leaves they hold about 21,000 extents.
const NODES_MAX: usize = 64;

/// Entries from block `from` of the file on move to block `to`.
#[derive(Clone, Copy, Debug)]
pub(in crate::ext4) struct Shift {
    pub(in crate::ext4) from: u32,
    pub(in crate::ext4) to: u32,
}

impl Shift {
    /// The new logical number of an entry. An index key may lie inside a gap that closes, before its child's first
    /// entry; such a key moves to the start of the gap.
    fn moved(self, logical: u32) -> u32 {
        match logical.checked_sub(self.from) {
            Some(behind) => self.to.saturating_add(behind),
            None => logical.min(self.to),
        }
    }

    fn apply(self, tree: &mut NodeMut<'_>) {
        for position in 0..tree.node().len() {
            if tree.node().depth() == 0 {
                let extent = tree.node().extent(position);
                tree.set_extent(position, Extent { logical: self.moved(extent.logical), ..extent });
            } else {
                let index = tree.node().index(position);
                tree.set_index(position, Index { logical: self.moved(index.logical), ..index });
            }
        }
    }
}

impl Extents<'_> {
    /// The nodes below the root that may hold entries from `from` on, each read and checked.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if there are more nodes than one transaction can shift; damage; device errors.
    pub(in crate::ext4) async fn nodes_behind(&self, node: &Node, from: u32) -> FsResult<Vec<BlockNo>> {
        let root = node.inode().block;
        let mut found = Vec::new();
        let mut pending = children(Tree::parse(&root, Place::Inode(node.number()))?, from, 1 << 32);
        while let Some((index, depth, end)) = pending.pop() {
            self.check_content("extent node", index.node.alone())?;
            let page = self.block(index.node, |bytes| self.verify_node(node, index.node, bytes)).await?;
            let tree = self.parse_child(&page, index.node, depth)?;
            check_child(tree, index, end)?;
            pending.extend(children(tree, from, end));
            found.push(index.node);
            if found.len() > NODES_MAX {
                let message = format!("{} has too many extents to be shifted in one transaction", node.ino());
                return Err(FsError::Unsupported(message + "; copy the file"));
            }
        }
        Ok(found)
    }

    /// Splits the extent that spans `logical`, so that an extent begins there.
    ///
    /// # Errors
    /// As [`Extents::insert_extent`]; then nothing has changed.
    pub(in crate::ext4) async fn split_extent(&self, handle: &mut Handle, node: &Node, logical: u32) -> FsResult<()> {
        loop {
            let path = self.path(node, logical).await?;
            let leaf = *path.last().expect("a path has a leaf");
            let before = self.with_tree(node, leaf, |tree| leaf.position.checked_sub(1).map(|at| tree.extent(at)))?;
            let Some(whole) = before.filter(|it| it.logical < logical && u64::from(logical) < it.logical_end()) else {
                return Ok(());
            };
            if self.with_tree(node, leaf, |tree| tree.len() == tree.capacity())? {
                onewrite_block::reached!("extent split in a full node");
                self.make_room_in_tree(handle, node, &path).await?;
                continue;
            }
            let (start, middle, end) = (u64::from(whole.logical), u64::from(logical), whole.logical_end());
            return self.change_tree(handle, node, leaf, |tree| {
                tree.set_extent(leaf.position - 1, part_of(whole, start, middle));
                let inserted = tree.insert_extent(leaf.position, part_of(whole, middle, end));
                assert!(inserted, "there was room");
            });
        }
    }

    /// Moves every entry from `shift.from` on. No extent spans that block, and none lies in a gap that closes. The
    /// caller saves the inode.
    pub(in crate::ext4) async fn shift_map(&self, handle: &mut Handle, node: &Node, shift: Shift) -> FsResult<()> {
        let blocks = loop {
            let blocks = self.nodes_behind(node, shift.from).await?;
            if blocks.iter().all(|block| self.allocator().is_loaded(*block)) {
                break blocks;
            }
        };
        onewrite_block::reached!("shift of a tree with nodes", !blocks.is_empty());
        for block in std::iter::once(None).chain(blocks.into_iter().map(Some)) {
            self.change_tree(handle, node, PathNode { block, position: 0 }, |tree| shift.apply(tree))?;
        }
        Ok(())
    }

    /// The block of the file behind its last extent.
    pub(in crate::ext4) async fn mapped_end(&self, node: &Node) -> FsResult<u64> {
        Ok(self.last_extent_in(node, 0..1 << 32).await?.map_or(0, |found| found.extent.logical_end()))
    }
}

/// Indexes of a node whose children may hold entries from `from` on. Each comes with the node's depth and the end of
/// the child's part of the file.
fn children(tree: Tree<'_>, from: u32, end: u64) -> Vec<(Index, u16, u64)> {
    if tree.depth() == 0 {
        return Vec::new();
    }
    let first = tree.position(from).saturating_sub(1);
    let end_of = |at: usize| if at + 1 < tree.len() { u64::from(tree.index(at + 1).logical) } else { end };
    (first..tree.len()).map(|at| (tree.index(at), tree.depth(), end_of(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::Shift;

    /// Linux leaves such keys behind a punched hole; our own nodes have none.
    #[test]
    fn a_key_inside_the_gap_moves_to_its_start() {
        let collapse = Shift { from: 10, to: 4 };
        assert_eq!([3, 4, 7, 10, 15].map(|logical| collapse.moved(logical)), [3, 4, 4, 4, 9]);
        let insert = Shift { from: 4, to: 10 };
        assert_eq!([3, 4, 9].map(|logical| insert.moved(logical)), [3, 10, 15]);
    }
}
