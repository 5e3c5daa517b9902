//! The content map: lookups and changes in a file's extent tree.
//!
//! A change first brings every block that it touches into memory, then changes them without waiting. So writeback,
//! which takes no lock, sees the tree before or after the change. A lookup may wait between levels; it starts again if
//! the tree changed meanwhile.
//!
//! # Invariant
//! The key of an index is the first logical block of its child's first entry.

pub(super) mod replace;
pub(super) mod shift;
mod written;

use std::ops::Range;

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::balloc::ALLOCATION_CREDITS;
use super::format::extent::{self, Index, Node as Tree, NodeMut, UNWRITTEN_LENGTH_MAX, WRITTEN_LENGTH_MAX};
use super::format::{Extent, Place};
use super::inodes::{Node, Verified};
use super::views::Extents;
use super::volume::block_key;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::journal::Handle;

/// Blocks that one map change may touch, content blocks excluded: a split at every level with its bitmaps, and the
/// inode.
pub(super) const MAP_CREDITS: usize = 5 * (1 + ALLOCATION_CREDITS) + 2;

/// What a file has at one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// Blocks: the rest of the extent, from the requested block on.
    Mapped(Extent),
    /// A hole of this many blocks.
    Hole(u64),
}

/// A node of the path from the root to a leaf.
#[derive(Clone, Copy, Debug)]
struct PathNode {
    /// Block of the tree; `None` for the root in the inode.
    block: Option<BlockNo>,
    /// Entry on the path. In a leaf: one past the entry that begins at or before the requested block.
    position: usize,
}

/// An extent and the leaf that holds it, at the entry before `leaf.position`. Holds until the task waits.
#[derive(Clone, Copy, Debug)]
struct FoundExtent {
    extent: Extent,
    leaf: PathNode,
}

/// A node of a path and the node above it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    parent: PathNode,
    child: PathNode,
}

impl Extents<'_> {
    fn verify_node(&self, node: &Node, block: BlockNo, bytes: &PageBytes) -> Verified {
        let place = Place::Block(block);
        let tree = Tree::parse(&bytes[..], place)?;
        extent::verify_checksum(&bytes[..], self.node_seed(node), self.layout(), place)?;
        tree.check_entries(self.layout(), place)
    }

    /// The mapping of block `logical`. Content that has arrived on the device counts as written.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn map(&self, node: &Node, logical: u32) -> FsResult<Mapping> {
        let stored = self.map_as_stored(node, logical).await?;
        let Mapping::Mapped(extent) = stored else { return Ok(stored) };
        let next = if extent.unwritten { node.pending().next_converting(logical.into()) } else { None };
        let Some(run) = next.filter(|run| run.start < extent.logical_end()) else { return Ok(stored) };
        let has_arrived = run.start == u64::from(logical);
        let end = if has_arrived { run.end.min(extent.logical_end()) } else { run.start };
        let part = part_of(extent, logical.into(), end);
        Ok(Mapping::Mapped(Extent { unwritten: !has_arrived, ..part }))
    }

    /// The mapping of block `logical` as the tree stores it.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn map_as_stored(&self, node: &Node, logical: u32) -> FsResult<Mapping> {
        if let Some(extent) = node.known_extent(logical) {
            return Ok(Mapping::Mapped(part_of(extent, logical.into(), extent.logical_end())));
        }
        loop {
            let version = node.map_version();
            let found = self.map_once(node, logical).await;
            onewrite_block::reached!("map changed while it was read", node.map_version() != version);
            if node.map_version() == version {
                if let Ok(Mapping::Mapped(extent)) = found {
                    self.check_content(format_args!("extents of {}", node.ino()), extent.blocks())?;
                    node.keep_extent(extent);
                }
                return found;
            }
        }
    }

    async fn map_once(&self, node: &Node, logical: u32) -> FsResult<Mapping> {
        #[cfg(test)]
        self.count_map_lookup();
        let place = Place::Inode(node.number());
        let root = node.inode().block;
        let tree = Tree::parse(&root, place)?;
        onewrite_block::reached!("extent tree of depth two read", tree.depth() == 2);
        let mut end = 1 << 32;
        if tree.depth() == 0 {
            return Ok(find(tree, logical, end));
        }
        let mut depth = tree.depth();
        let mut next = descend(tree, logical, &mut end);
        loop {
            let Some(index) = next else { return Ok(Mapping::Hole(end - u64::from(logical))) };
            self.check_content("extent node", index.node.alone())?;
            let page = self.block(index.node, |bytes| self.verify_node(node, index.node, bytes)).await?;
            let bytes = page.bytes();
            let tree = Tree::parse(&bytes[..], Place::Block(index.node))?;
            if tree.depth() + 1 != depth {
                return Err(wrong_depth(index.node, tree.depth(), depth));
            }
            check_child(tree, index, end)?;
            depth = tree.depth();
            if depth == 0 {
                return Ok(find(tree, logical, end));
            }
            next = descend(tree, logical, &mut end);
        }
    }

    /// The path from the root to the leaf that does or would hold `logical`. Afterwards all its blocks are in memory.
    async fn path(&self, node: &Node, logical: u32) -> FsResult<Vec<PathNode>> {
        loop {
            match self.path_in_memory(node, logical)? {
                Ok(path) => return Ok(path),
                Err(missing) => self.load(missing, |bytes| self.verify_node(node, missing, bytes)).await?,
            }
        }
    }

    /// The path, or its first block that is not in memory.
    fn path_in_memory(&self, node: &Node, logical: u32) -> FsResult<Result<Vec<PathNode>, BlockNo>> {
        let root = node.inode().block;
        let mut tree = Tree::parse(&root, Place::Inode(node.number()))?;
        let (mut path, mut block, mut end) = (Vec::with_capacity(2), None, 1 << 32);
        let mut page;
        loop {
            let position = tree.position(logical);
            if tree.depth() == 0 {
                path.push(PathNode { block, position });
                return Ok(Ok(path));
            }
            let position = position.saturating_sub(1);
            if tree.is_empty() {
                let place = format!("extent tree of {}", node.ino());
                return Err(FsError::Damaged { place, problem: "an inner node is empty".into() });
            }
            path.push(PathNode { block, position });
            let (index, depth) = (tree.index(position), tree.depth());
            let child = index.node;
            if position + 1 < tree.len() {
                end = u64::from(tree.index(position + 1).logical);
            }
            self.check_content("extent node", child.alone())?;
            page = match self.pages().peek(block_key(child)) {
                Some(page) => page.clone(),
                None => return Ok(Err(child)),
            };
            block = Some(child);
            tree = self.parse_child(&page, child, depth)?;
            check_child(tree, index, end)?;
        }
    }

    fn parse_child<'a>(&self, page: &'a onewrite_block::Page, block: BlockNo, depth: u16) -> FsResult<Tree<'a>> {
        let std::borrow::Cow::Borrowed(bytes) = page.bytes() else {
            return Err(wrong_depth(block, 0, depth));
        };
        let tree = Tree::parse(&bytes[..], Place::Block(block))?;
        match tree.depth() + 1 == depth {
            true => Ok(tree),
            false => Err(wrong_depth(block, tree.depth(), depth)),
        }
    }

    /// Reads a node of the path, which is in memory.
    fn with_tree<R>(&self, node: &Node, on_path: PathNode, read: impl FnOnce(Tree<'_>) -> R) -> FsResult<R> {
        match on_path.block {
            None => Ok(read(Tree::parse(&node.inode().block, Place::Inode(node.number()))?)),
            Some(block) => {
                let page = self.pages().peek(block_key(block)).expect("the path is in memory");
                let bytes = page.bytes();
                Ok(read(Tree::parse(&bytes[..], Place::Block(block))?))
            }
        }
    }

    /// Changes a node of the path, which is in memory. If the root changes, the caller saves the inode.
    fn change_tree<R>(
        &self,
        handle: &mut Handle,
        node: &Node,
        on_path: PathNode,
        change: impl FnOnce(&mut NodeMut<'_>) -> R,
    ) -> FsResult<R> {
        node.map_changed();
        let Some(block) = on_path.block else {
            let mut inode = node.inode_mut();
            return Ok(change(&mut NodeMut::parse(&mut inode.block, Place::Inode(node.number()))?));
        };
        let seed = self.node_seed(node);
        self.change(handle, block, |bytes| {
            let was_whole = cfg!(debug_assertions) && self.is_whole_node(bytes, block);
            let result = change(&mut NodeMut::parse(&mut bytes[..], Place::Block(block))?);
            debug_assert!(!was_whole || self.is_whole_node(bytes, block), "a change breaks the node in block {block}");
            extent::set_checksum(&mut bytes[..], seed, self.layout());
            Ok(result)
        })
    }

    /// Whether a later read would accept the block as a node of an extent tree.
    fn is_whole_node(&self, bytes: &[u8], block: BlockNo) -> bool {
        let place = Place::Block(block);
        Tree::parse(bytes, place).is_ok_and(|tree| tree.check_entries(self.layout(), place).is_ok())
    }

    /// Adds an extent where the file has a hole; joins it to adjacent extents. The caller saves the inode.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the tree needs a block and none is free.
    pub(super) async fn insert_extent(&self, handle: &mut Handle, node: &Node, extent: Extent) -> FsResult<()> {
        loop {
            let path = self.path(node, extent.logical).await?;
            let leaf = *path.last().expect("a path has a leaf");
            if self.join_extent(handle, node, &path, extent)? {
                return Ok(());
            }
            if self.with_tree(node, leaf, |tree| tree.len() < tree.capacity())? {
                let inserted =
                    self.change_tree(handle, node, leaf, |tree| tree.insert_extent(leaf.position, extent))?;
                assert!(inserted, "there was room");
                return self.correct_keys(handle, node, &path, extent.logical);
            }
            self.make_room_in_tree(handle, node, &path).await?;
        }
    }

    /// Joins `extent` to the extent before or behind it if they are adjacent and of the same kind; returns whether it
    /// did.
    fn join_extent(&self, handle: &mut Handle, node: &Node, path: &[PathNode], extent: Extent) -> FsResult<bool> {
        let leaf = *path.last().expect("a path has a leaf");
        let (before, behind) = self.with_tree(node, leaf, |tree| {
            let before = leaf.position.checked_sub(1).map(|position| tree.extent(position));
            (before, (leaf.position < tree.len()).then(|| tree.extent(leaf.position)))
        })?;
        let overlaps = before.is_some_and(|before| before.logical_end() > u64::from(extent.logical))
            || behind.is_some_and(|behind| u64::from(behind.logical) < extent.logical_end());
        if overlaps {
            return Err(wrong_tree(node, format!("block {} is mapped already", extent.logical)));
        }
        if let Some(joined) = before.and_then(|before| join(before, extent)) {
            let whole = behind.and_then(|behind| join(joined, behind));
            self.change_tree(handle, node, leaf, |tree| {
                tree.set_extent(leaf.position - 1, whole.unwrap_or(joined));
                if whole.is_some() {
                    tree.remove(leaf.position);
                }
            })?;
            return Ok(true);
        }
        if let Some(joined) = behind.and_then(|behind| join(extent, behind)) {
            self.change_tree(handle, node, leaf, |tree| tree.set_extent(leaf.position, joined))?;
            self.correct_keys(handle, node, path, extent.logical)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Corrects index keys after a change of a leaf's first entry: sets the keys above to `logical`, upward as long as
    /// the path goes through first entries.
    fn correct_keys(&self, handle: &mut Handle, node: &Node, path: &[PathNode], logical: u32) -> FsResult<()> {
        let mut is_first = path.last().expect("a path has a leaf").position == 0;
        for on_path in path.iter().rev().skip(1) {
            if !is_first {
                return Ok(());
            }
            onewrite_block::reached!("first key of an extent node changed");
            self.change_tree(handle, node, *on_path, |tree| {
                let index = tree.node().index(on_path.position);
                tree.set_index(on_path.position, Index { logical, ..index });
            })?;
            is_first = on_path.position == 0;
        }
        Ok(())
    }

    /// Makes room for one more entry: splits the full node below the lowest node with room. If all nodes are full,
    /// makes the tree deeper.
    async fn make_room_in_tree(&self, handle: &mut Handle, node: &Node, path: &[PathNode]) -> FsResult<()> {
        let mut roomy = None;
        for (level, on_path) in path.iter().enumerate() {
            if self.with_tree(node, *on_path, |tree| tree.len() < tree.capacity())? {
                roomy = Some(level);
            }
        }
        let new_block = self.allocate_tree_block(handle, node).await?;
        let still_there =
            path.iter().filter_map(|on_path| on_path.block).all(|block| self.allocator().is_loaded(block));
        onewrite_block::reached!("extent path left memory during an allocation", !still_there);
        assert!(still_there || self.reload_path(node, path).await?, "the path was just in memory");
        onewrite_block::reached!("extent tree of depth two split", roomy.is_some() && path.len() > 2);
        match roomy {
            None => self.deepen(handle, node, new_block),
            Some(level) => self.split(handle, node, Edge { parent: path[level], child: path[level + 1] }, new_block),
        }
    }

    async fn reload_path(&self, node: &Node, path: &[PathNode]) -> FsResult<bool> {
        loop {
            for block in path.iter().filter_map(|on_path| on_path.block) {
                self.load(block, |bytes| self.verify_node(node, block, bytes)).await?;
            }
            if path.iter().filter_map(|on_path| on_path.block).all(|block| self.allocator().is_loaded(block)) {
                return Ok(true);
            }
        }
    }

    async fn allocate_tree_block(&self, handle: &mut Handle, node: &Node) -> FsResult<BlockNo> {
        self.make_room().await?;
        let goal = self.goal(node, 0).await?;
        let range = self.allocator().allocate_kept_blocks(handle, goal, 1).await?;
        node.add_blocks(1);
        Ok(range.start)
    }

    fn deepen(&self, handle: &mut Handle, node: &Node, new_block: BlockNo) -> FsResult<()> {
        node.map_changed();
        let (seed, mut bytes) = (self.node_seed(node), [0; PAGE_SIZE]);
        {
            let mut inode = node.inode_mut();
            let mut root = NodeMut::parse(&mut inode.block, Place::Inode(node.number()))?;
            root.grow(new_block, &mut bytes);
            onewrite_block::reached!("extent tree grows to depth two", root.node().depth() == 2);
        }
        extent::set_checksum(&mut bytes, seed, self.layout());
        self.create_block(handle, new_block, |block| *block = bytes);
        Ok(())
    }

    fn split(
        &self,
        handle: &mut Handle,
        node: &Node,
        Edge { parent, child }: Edge,
        new_block: BlockNo,
    ) -> FsResult<()> {
        let (seed, mut bytes) = (self.node_seed(node), [0; PAGE_SIZE]);
        if self.with_tree(node, child, |tree| tree.len())? < 2 {
            return Err(wrong_tree(node, "a node says that it is full with one entry".into()));
        }
        onewrite_block::reached!("extent node split");
        let logical = self.change_tree(handle, node, child, |tree| {
            let length = tree.node().len();
            // Files mostly grow at their end, so a split there leaves the left node full.
            let at = if child.position >= length - 1 { length - 1 } else { length / 2 };
            let right = tree.split_into(at, &mut bytes);
            let right = right.node();
            if right.depth() == 0 { right.extent(0).logical } else { right.index(0).logical }
        })?;
        extent::set_checksum(&mut bytes, seed, self.layout());
        self.create_block(handle, new_block, |block| *block = bytes);
        let index = Index { logical, node: new_block };
        let inserted = self.change_tree(handle, node, parent, |tree| tree.insert_index(parent.position + 1, index))?;
        assert!(inserted, "the parent had room");
        Ok(())
    }

    /// Removes the last extent in the file's block range `range` from the map, or the part of it in the range, and
    /// returns it. Removes at most as many blocks as a group has. The caller frees the blocks and saves the inode.
    ///
    /// # Errors
    /// As [`Extents::insert_extent`], because removing the middle of an extent adds an extent. Nothing is removed then.
    pub(super) async fn take_extent(
        &self,
        handle: &mut Handle,
        node: &Node,
        range: Range<u64>,
    ) -> FsResult<Option<Extent>> {
        let Some(FoundExtent { extent: mut found, .. }) = self.last_extent_in(node, range.clone()).await? else {
            return Ok(None);
        };
        // No longer than a group, so that the piece lies in at most two groups.
        let end = range.end.min(found.logical_end());
        let start =
            range.start.max(u64::from(found.logical)).max(end.saturating_sub(self.layout().blocks_per_group.into()));
        let taken = part_of(found, start, end);
        let (head, mut tail) = (start > u64::from(found.logical), end < found.logical_end());
        let path = self.path(node, found.logical).await?;
        let tree = path.iter().filter_map(|on_path| on_path.block).map(BlockNo::alone);
        for blocks in tree.chain([taken.blocks()]) {
            self.allocator().load_to_free(blocks).await?;
        }
        if head && tail {
            onewrite_block::reached!("extent cut in its middle");
            self.split_extent(handle, node, end as u32).await?;
            (found, tail) = (part_of(found, u64::from(found.logical), end), false);
        }
        let path = self.path(node, found.logical).await?;
        let leaf = *path.last().expect("a path has a leaf");
        let position = leaf.position.wrapping_sub(1);
        if self.with_tree(node, leaf, |tree| tree.extents().nth(position))? != Some(found) {
            return Err(wrong_tree(node, format!("block {} is found in one node only", found.logical)));
        }
        match (head, tail) {
            (true, _) => {
                let rest = part_of(found, u64::from(found.logical), start);
                self.change_tree(handle, node, leaf, |tree| tree.set_extent(position, rest))?;
            }
            (false, true) => {
                let rest = part_of(found, end, found.logical_end());
                self.change_tree(handle, node, leaf, |tree| tree.set_extent(position, rest))?;
                let path = with_last(&path, position);
                self.correct_keys(handle, node, &path, rest.logical)?;
            }
            (false, false) => self.remove_entry(handle, node, with_last(&path, position)).await?,
        }
        Ok(Some(taken))
    }

    /// The last extent with a block in the range.
    async fn last_extent_in(&self, node: &Node, range: Range<u64>) -> FsResult<Option<FoundExtent>> {
        if range.is_empty() {
            return Ok(None);
        }
        let last = (range.end - 1).min(u64::from(u32::MAX)) as u32;
        let path = self.path(node, last).await?;
        let leaf = *path.last().expect("a path has a leaf");
        let Some(position) = leaf.position.checked_sub(1) else { return Ok(None) };
        let extent = self.with_tree(node, leaf, |tree| tree.extent(position))?;
        Ok((extent.logical_end() > range.start).then_some(FoundExtent { extent, leaf }))
    }

    /// Removes the entry at the end of the path and all nodes that become empty.
    async fn remove_entry(&self, handle: &mut Handle, node: &Node, path: Vec<PathNode>) -> FsResult<()> {
        for block in self.unlink_entry(handle, node, path)? {
            onewrite_block::reached!("extent node emptied");
            node.drop_blocks(1);
            self.allocator().free_blocks(handle, block.alone()).await?;
        }
        Ok(())
    }

    /// Removes the entry at the end of the path; returns the blocks of nodes that became empty. Does not wait.
    fn unlink_entry(&self, handle: &mut Handle, node: &Node, mut path: Vec<PathNode>) -> FsResult<Vec<BlockNo>> {
        let mut emptied = Vec::new();
        while let Some(on_path) = path.pop() {
            let left = self.change_tree(handle, node, on_path, |tree| {
                tree.remove(on_path.position);
                tree.node().len()
            })?;
            if left > 0 {
                if on_path.position == 0 {
                    let first = self.with_tree(node, on_path, first_key)?;
                    path.push(on_path);
                    self.correct_keys(handle, node, &path, first)?;
                }
                break;
            }
            match on_path.block {
                Some(block) => emptied.push(block),
                None => drop(NodeMut::init(&mut node.inode_mut().block, 0)),
            }
        }
        Ok(emptied)
    }

    /// Moves the extents of an only leaf into the inode if they fit there, for example after joins. The caller saves
    /// the inode.
    pub(super) async fn flatten(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        let path = self.path(node, 0).await?;
        let &[root, PathNode { block: Some(block), .. }] = &path[..] else { return Ok(()) };
        let room = self.with_tree(node, root, |tree| if tree.len() == 1 { tree.capacity() } else { 0 })?;
        let extents: Vec<Extent> = self.with_tree(node, path[1], |tree| tree.extents().collect())?;
        if extents.len() > room {
            return Ok(());
        }
        node.map_changed();
        {
            let mut inode = node.inode_mut();
            onewrite_block::reached!("extent tree back in its inode");
            let mut root = NodeMut::init(&mut inode.block, 0);
            let fits = extents.into_iter().enumerate().all(|(at, extent)| root.insert_extent(at, extent));
            assert!(fits, "the inode has room for them");
        }
        node.drop_blocks(1);
        self.allocator().free_blocks(handle, block.alone()).await
    }

    /// The best place for a new block of the file at `logical`.
    pub(super) async fn goal(&self, node: &Node, logical: u32) -> FsResult<BlockNo> {
        let path = self.path(node, logical).await?;
        let leaf = *path.last().expect("a path has a leaf");
        let before = self.with_tree(node, leaf, |tree| leaf.position.checked_sub(1).map(|at| tree.extent(at)))?;
        Ok(match before {
            Some(extent) => extent.physical + (u64::from(logical) - u64::from(extent.logical)),
            None => self.layout().first_block_of_group(self.layout().group_of_inode(node.number())),
        })
    }
}

/// Checks that a child is not empty and maps only the part of the file that its parent gives it. `end` is the end of
/// that part.
fn check_child(tree: Tree<'_>, index: Index, end: u64) -> FsResult<()> {
    let damage = |problem: &str| {
        let place = format!("extent node at block {}", index.node);
        Err(FsError::Damaged { place, problem: problem.into() })
    };
    if tree.is_empty() {
        return damage("it is empty");
    }
    let last_end = match tree.depth() {
        0 => tree.extent(tree.len() - 1).logical_end(),
        _ => u64::from(tree.index(tree.len() - 1).logical) + 1,
    };
    match first_key(tree) >= index.logical && last_end <= end {
        true => Ok(()),
        false => damage("it maps blocks outside the part of the file that its parent gives it"),
    }
}

fn wrong_tree(node: &Node, problem: String) -> FsError {
    FsError::Damaged { place: format!("extent tree of {}", node.ino()), problem }
}

fn wrong_depth(block: BlockNo, depth: u16, above: u16) -> FsError {
    let problem = format!("depth {depth} below a node of depth {above}");
    FsError::Damaged { place: format!("extent node at block {block}"), problem }
}

/// The mapping of `logical` in a leaf; `end` is where the leaf's part of the file ends.
fn find(tree: Tree<'_>, logical: u32, end: u64) -> Mapping {
    let position = tree.position(logical);
    if let Some(extent) = position.checked_sub(1).map(|at| tree.extent(at))
        && extent.logical_end() > u64::from(logical)
    {
        return Mapping::Mapped(part_of(extent, u64::from(logical), extent.logical_end()));
    }
    let next = if position < tree.len() { u64::from(tree.extent(position).logical) } else { end };
    Mapping::Hole(next - u64::from(logical))
}

/// The child for `logical`; narrows `end` to where the child's part of the file ends.
fn descend(tree: Tree<'_>, logical: u32, end: &mut u64) -> Option<Index> {
    let position = tree.position(logical);
    if position < tree.len() {
        *end = u64::from(tree.index(position).logical);
    }
    position.checked_sub(1).map(|at| tree.index(at))
}

fn first_key(tree: Tree<'_>) -> u32 {
    if tree.depth() == 0 { tree.extent(0).logical } else { tree.index(0).logical }
}

fn with_last(path: &[PathNode], position: usize) -> Vec<PathNode> {
    let mut path = path.to_vec();
    path.last_mut().expect("a path has a leaf").position = position;
    path
}

/// The part of an extent from the file's block `start` up to `end`.
fn part_of(extent: Extent, start: u64, end: u64) -> Extent {
    let skipped = start - u64::from(extent.logical);
    Extent {
        logical: start as u32,
        physical: extent.physical + skipped,
        length: (end - start) as u32,
        unwritten: extent.unwritten,
    }
}

/// Both as one extent, if they are adjacent, of the same kind and not too long together.
fn join(first: Extent, second: Extent) -> Option<Extent> {
    let length_max = if first.unwritten { UNWRITTEN_LENGTH_MAX } else { WRITTEN_LENGTH_MAX };
    let meets = first.logical_end() == u64::from(second.logical)
        && first.physical + u64::from(first.length) == second.physical
        && first.unwritten == second.unwritten
        && first.length + second.length <= length_max;
    meets.then_some(Extent { length: first.length + second.length, ..first })
}
