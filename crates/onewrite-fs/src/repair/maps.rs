//! Maps of content: claims their sound parts and rebuilds damaged maps.

use onewrite_block::Page;

use super::content::{Content, Piece, runs};
use super::views::MapPass;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::check::map::misfit;
use crate::ext4::format::extent::{self, Extent, Index, Node, NodeMut};
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, Place};

/// Entries that fit in the inode, and in a block.
const ROOT_ENTRIES: usize = 4;
const NODE_ENTRIES: usize = 340;

/// Purpose of a walk over a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Claim its blocks.
    Claim,
    /// Only look: the blocks are claimed already.
    Look,
}

/// A node to visit.
struct Visit {
    block: Option<BlockNo>,
    range: std::ops::Range<u64>,
    depth: Option<u16>,
}

impl<R: ReadBlocks> MapPass<'_, '_, R> {
    /// Claims the blocks of an inode's map and content.
    pub(super) async fn claim_content(&mut self, number: InodeNo, inode: &mut Inode) -> Content {
        let mut content = match inode.has(flags::EXTENTS) {
            true => self.walk(number, inode, Purpose::Claim).await,
            false => self.walk_block_map(inode, Purpose::Claim).await,
        };
        content.blocks = content.data_blocks() + content.nodes.len() as u64;
        content
    }

    /// The content of a map that is claimed already.
    pub(super) async fn content(&mut self, number: InodeNo, inode: &mut Inode) -> Content {
        match inode.has(flags::EXTENTS) {
            true => self.walk(number, inode, Purpose::Look).await,
            false => self.walk_block_map(inode, Purpose::Look).await,
        }
    }

    async fn walk(&mut self, number: InodeNo, inode: &Inode, purpose: Purpose) -> Content {
        let mut content = Content::default();
        let seed = self.layout.inode_seed(number, inode.generation);
        let mut open = vec![Visit { block: None, range: 0..1 << 32, depth: None }];
        while let Some(visit) = open.pop() {
            let bytes = match visit.block {
                None => inode.block.to_vec(),
                Some(block) => {
                    let Some(page) = self.read(block).await else {
                        content.is_damaged = true;
                        continue;
                    };
                    let is_taken = purpose == Purpose::Claim && self.used.is_used(block);
                    content.is_damaged |= is_taken;
                    if is_taken && !self.is_node_too(block, &page, seed) {
                        continue;
                    }
                    if purpose == Purpose::Claim && !is_taken {
                        self.claim_node(block, &page, seed);
                    }
                    if !is_taken {
                        content.nodes.push(block);
                    }
                    page.bytes().to_vec()
                }
            };
            let children = self.visit(&bytes, &visit, purpose, &mut content);
            open.extend(children.into_iter().rev());
        }
        content
    }

    fn claim_node(&mut self, block: BlockNo, page: &Page, seed: u32) {
        let (bytes, place) = (page.bytes(), Place::Block(block));
        let is_node = Node::parse(&bytes[..], place).is_ok();
        if is_node && extent::verify_checksum(&bytes[..], seed, &self.layout, place).is_err() {
            self.unsealed.insert(block, seed);
        }
        self.used.claim(block.alone());
    }

    /// Adds the sound entries of a node to `content`; returns its children.
    fn visit(&mut self, bytes: &[u8], visit: &Visit, purpose: Purpose, content: &mut Content) -> Vec<Visit> {
        let place = Place::Block(visit.block.unwrap_or_default());
        let Ok(node) = Node::parse(bytes, place) else {
            content.is_damaged = true;
            return Vec::new();
        };
        let fits = visit.depth.is_none_or(|depth| depth == node.depth());
        let is_sound =
            node.check_entries(&self.layout, place).is_ok() && misfit(&node, bytes.len(), &visit.range).is_none();
        content.is_damaged |= !fits || !is_sound;
        if !fits {
            return Vec::new();
        }
        let mut next = visit.range.start;
        for extent in node.extents() {
            let run = extent.blocks();
            let inside = extent.physical.is_some() && run.ends_by(self.layout.end()) && !run.is_empty();
            if u64::from(extent.logical) < next || extent.logical_end() > visit.range.end || !inside {
                content.is_damaged = true;
                continue;
            }
            next = extent.logical_end();
            match purpose {
                Purpose::Claim => self.claim_extent(extent, content),
                Purpose::Look => content.pieces.push(Piece { extent, is_shared: false }),
            }
        }
        let indexes: Vec<Index> = node.indexes().collect();
        let end_of = |at: usize| indexes.get(at + 1).map_or(visit.range.end, |next| next.logical.into());
        let child = |(at, index): (usize, &Index)| {
            let range = u64::from(index.logical)..end_of(at).min(visit.range.end);
            let is_sound = index.node.is_some() && index.node < self.layout.end() && range.start < range.end;
            is_sound.then_some(Visit { block: Some(index.node), range, depth: Some(node.depth() - 1) })
        };
        indexes.iter().enumerate().filter_map(child).collect()
    }

    /// Claims an extent run by run. Drops blocks of the layout; marks blocks of other files as shared.
    fn claim_extent(&mut self, extent: Extent, content: &mut Content) {
        for (run, state) in runs(extent, |block| (self.used.is_used(block), self.fixed.is_used(block))) {
            content.is_damaged |= state.0;
            match state {
                (false, _) => {
                    self.used.claim(run.blocks());
                    content.pieces.push(Piece { extent: run, is_shared: false });
                }
                (true, true) => {}
                (true, false) => {
                    if self.takes_shared() {
                        content.pieces.push(Piece { extent: run, is_shared: true });
                    }
                }
            }
        }
    }

    /// Releases the blocks of an inode that is cleared.
    pub(super) fn give_up(&mut self, content: &Content) {
        for piece in content.pieces.iter().filter(|piece| !piece.is_shared) {
            piece.extent.blocks().blocks().for_each(|block| self.release(block));
        }
        for &node in &content.nodes {
            self.release(node);
            self.unsealed.remove(&node);
        }
    }

    /// Completes the truncation of an orphan: removes blocks beyond its size.
    pub(super) fn shorten(&mut self, number: InodeNo, inode: &Inode, content: &mut Content) {
        if !self.truncated.contains(&number) || !inode.has(flags::EXTENTS) {
            return;
        }
        let end = inode.size.div_ceil(self.layout.block_size.into());
        let mut kept = Vec::new();
        for piece in std::mem::take(&mut content.pieces) {
            let length = end.saturating_sub(piece.extent.logical.into()).min(piece.extent.length.into()) as u32;
            if length < piece.extent.length {
                content.is_damaged = true;
            }
            if !piece.is_shared {
                (length..piece.extent.length).for_each(|at| self.release(piece.extent.physical + u64::from(at)));
            }
            if length > 0 {
                kept.push(Piece { extent: Extent { length, ..piece.extent }, ..piece });
            }
        }
        content.pieces = kept;
    }

    /// Gives an inode a map of these extents and writes it. Reuses blocks of the old map first.
    pub(super) async fn replace_map(
        &mut self,
        number: InodeNo,
        inode: &mut Inode,
        extents: Vec<Extent>,
        mut pool: Vec<BlockNo>,
    ) {
        if !self.has_extents() {
            let blocks = self.make_block_map(inode, &extents, &mut pool);
            return self.finish_map(number, inode, (blocks, pool)).await;
        }
        let seed = self.layout.inode_seed(number, inode.generation);
        let mut data: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
        let mut nodes = 0;
        let mut level: Vec<Index> = Vec::new();
        let mut depth = 0;
        if extents.len() <= ROOT_ENTRIES {
            let mut root = NodeMut::init(&mut inode.block, 0);
            for (at, &extent) in extents.iter().enumerate() {
                assert!(root.insert_extent(at, extent), "the root has room for four");
            }
        } else {
            for chunk in extents.chunks(NODE_ENTRIES) {
                let Some(block) = pool.pop().or_else(|| self.allocate()) else {
                    data -= chunk.iter().map(|extent| u64::from(extent.length)).sum::<u64>();
                    continue;
                };
                let mut bytes = *Page::ZEROS.bytes();
                let mut node = NodeMut::init(&mut bytes, 0);
                for (at, &extent) in chunk.iter().enumerate() {
                    assert!(node.insert_extent(at, extent), "a node has room for 340");
                }
                extent::set_checksum(&mut bytes, seed, &self.layout);
                self.image.put(block, Page::new(bytes));
                level.push(Index { logical: chunk[0].logical, node: block });
                nodes += 1;
            }
            depth = 1;
        }
        while level.len() > ROOT_ENTRIES {
            let mut above = Vec::new();
            for chunk in level.chunks(NODE_ENTRIES) {
                let Some(block) = pool.pop().or_else(|| self.allocate()) else { continue };
                let mut bytes = *Page::ZEROS.bytes();
                let mut node = NodeMut::init(&mut bytes, depth);
                for (at, &index) in chunk.iter().enumerate() {
                    assert!(node.insert_index(at, index), "a node has room for 340");
                }
                extent::set_checksum(&mut bytes, seed, &self.layout);
                self.image.put(block, Page::new(bytes));
                above.push(Index { logical: chunk[0].logical, node: block });
                nodes += 1;
            }
            (level, depth) = (above, depth + 1);
        }
        if depth > 0 {
            let mut root = NodeMut::init(&mut inode.block, depth);
            for (at, &index) in level.iter().enumerate() {
                assert!(root.insert_index(at, index), "the root has room for four");
            }
        }
        inode.flags |= flags::EXTENTS;
        self.finish_map(number, inode, (data + nodes, pool)).await;
    }

    /// Writes an inode with a new map of `blocks` blocks; frees the unused blocks of the old map.
    async fn finish_map(&mut self, number: InodeNo, inode: &mut Inode, (blocks, pool): (u64, Vec<BlockNo>)) {
        pool.into_iter().for_each(|block| self.release(block));
        let attributes = u64::from(inode.file_acl.is_some());
        inode.sectors = (blocks + attributes) * u64::from(self.layout.block_size / 512);
        self.put_inode(number, inode).await;
    }
}
