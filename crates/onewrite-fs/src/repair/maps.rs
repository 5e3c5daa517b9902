//! Maps of content: claimed as far as they are sound, and made anew where they are not.

use onewrite_block::Page;

use super::Mender;
use crate::check::ReadBlocks;
use crate::check::indirect::entry;
use crate::check::map::misfit;
use crate::ext4::format::extent::{self, Extent, Index, Node, NodeMut};
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, Place};

/// Extents in the inode, and in a block.
const ROOT_ENTRIES: usize = 4;
const NODE_ENTRIES: usize = 340;
const LENGTH_MAX: u32 = 32_767;
const DIRECT: usize = 12;

/// A run of a file's blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub extent: Extent,
    /// Its blocks belong to something else that was met before.
    pub is_shared: bool,
}

/// What a map holds.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// In the order of the file.
    pub pieces: Vec<Piece>,
    /// Blocks of the map itself.
    pub nodes: Vec<u64>,
    /// Blocks of content and map.
    pub blocks: u64,
    /// Blocks of attributes.
    pub attributes: u64,
    /// It has to be made anew.
    pub is_damaged: bool,
}

/// A map to be made when all blocks in use are known.
#[derive(Debug)]
pub(super) struct Rebuild {
    number: u32,
    content: Content,
}

impl Rebuild {
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Content {
    pub fn data_blocks(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.extent.length)).sum()
    }

    pub fn into_rebuild(self, number: u32) -> Rebuild {
        Rebuild { number, content: self }
    }
}

/// A node to visit.
struct Visit {
    block: Option<u64>,
    range: std::ops::Range<u64>,
    depth: Option<u16>,
}

impl<R: ReadBlocks> Mender<'_, R> {
    /// Claims what an inode maps.
    pub(super) async fn claim_content(&mut self, number: u32, inode: &mut Inode) -> Content {
        let mut content = match inode.has(flags::EXTENTS) {
            true => self.walk(number, inode, true).await,
            false => self.claim_block_map(number, inode).await,
        };
        content.blocks = content.data_blocks() + content.nodes.len() as u64;
        content
    }

    /// What a map that was claimed before holds.
    pub(super) async fn content(&mut self, number: u32, inode: &mut Inode) -> Content {
        match inode.has(flags::EXTENTS) {
            true => self.walk(number, inode, false).await,
            false => {
                let mut content = Content::default();
                self.walk_block_map(number, inode, false, &mut content).await;
                content
            }
        }
    }

    async fn walk(&mut self, number: u32, inode: &Inode, claims: bool) -> Content {
        let mut content = Content::default();
        let seed = self.layout.inode_seed(number, inode.generation);
        let mut open = vec![Visit { block: None, range: 0..1 << 32, depth: None }];
        while let Some(visit) = open.pop() {
            let bytes = match visit.block {
                None => inode.block.to_vec(),
                Some(block) => {
                    if claims && self.used.is_used(block) {
                        content.is_damaged = true;
                        continue;
                    }
                    let Some(mut page) = self.read(block).await else {
                        content.is_damaged = true;
                        continue;
                    };
                    if claims {
                        self.used.claim(block, 1);
                        self.seal_node(block, &mut page, seed);
                    }
                    content.nodes.push(block);
                    page.bytes().to_vec()
                }
            };
            let children = self.visit(&bytes, &visit, claims, &mut content);
            open.extend(children.into_iter().rev());
        }
        content
    }

    /// Makes good the checksum of a node that is sound otherwise.
    fn seal_node(&mut self, block: u64, page: &mut Page, seed: u32) {
        let place = Place::Block(block);
        let mut bytes = *page.bytes();
        let is_node = Node::parse(&bytes[..], place).is_ok();
        if is_node && extent::verify_checksum(&bytes[..], seed, &self.layout, place).is_err() {
            extent::set_checksum(&mut bytes, seed, &self.layout);
            *page = Page::new(bytes);
            self.image.put(block, page.clone());
            self.note(place, "the checksum of a node of extents is made anew", true);
        }
    }

    /// Takes in what is sound of a node; gives its children.
    fn visit(&mut self, bytes: &[u8], visit: &Visit, claims: bool, content: &mut Content) -> Vec<Visit> {
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
            let end = extent.physical.saturating_add(extent.length.into());
            let inside = extent.physical > 0 && end <= self.layout.block_count && extent.length > 0;
            if u64::from(extent.logical) < next || extent.logical_end() > visit.range.end || !inside {
                content.is_damaged = true;
                continue;
            }
            next = extent.logical_end();
            match claims {
                true => self.claim_extent(extent, content),
                false => content.pieces.push(Piece { extent, is_shared: false }),
            }
        }
        let indexes: Vec<Index> = node.indexes().collect();
        let end_of = |at: usize| indexes.get(at + 1).map_or(visit.range.end, |next| next.logical.into());
        let child = |(at, index): (usize, &Index)| {
            let range = u64::from(index.logical)..end_of(at).min(visit.range.end);
            let is_sound = index.node > 0 && index.node < self.layout.block_count && range.start < range.end;
            is_sound.then_some(Visit { block: Some(index.node), range, depth: Some(node.depth() - 1) })
        };
        indexes.iter().enumerate().filter_map(child).collect()
    }

    /// Claims an extent run by run; what the layout has is dropped, what another file has is shared.
    fn claim_extent(&mut self, extent: Extent, content: &mut Content) {
        let of = |from: u32, to: u32| Extent {
            logical: extent.logical + from,
            physical: extent.physical + u64::from(from),
            length: to - from,
            unwritten: extent.unwritten,
        };
        let state = |own: &Self, at: u32| {
            let block = extent.physical + u64::from(at);
            (own.used.is_used(block), own.fixed.is_used(block))
        };
        let mut from = 0;
        while from < extent.length {
            let own = state(self, from);
            let to = (from + 1..extent.length).find(|&at| state(self, at) != own).unwrap_or(extent.length);
            let run = of(from, to);
            match own {
                (false, _) => {
                    self.used.claim(run.physical, run.length.into());
                    content.pieces.push(Piece { extent: run, is_shared: false });
                }
                (true, true) => content.is_damaged = true,
                (true, false) => {
                    content.is_damaged = true;
                    content.pieces.push(Piece { extent: run, is_shared: true });
                }
            }
            from = to;
        }
    }

    /// Gives up what was claimed for an inode that is cleared.
    pub(super) fn give_up(&mut self, content: &Content) {
        for piece in content.pieces.iter().filter(|piece| !piece.is_shared) {
            (0..piece.extent.length).for_each(|at| self.release(piece.extent.physical + u64::from(at)));
        }
        content.nodes.iter().for_each(|&node| self.release(node));
    }

    /// Finishes the truncation of an orphan: nothing stays beyond its size.
    pub(super) fn shorten(&mut self, number: u32, inode: &Inode, content: &mut Content) {
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

    async fn claim_block_map(&mut self, number: u32, inode: &mut Inode) -> Content {
        let mut content = Content::default();
        if self.walk_block_map(number, inode, true, &mut content).await {
            self.note(Place::Inode(number), "blocks that it cannot have are taken out of its map", false);
        }
        content
    }

    /// Walks twelve direct blocks and three levels of indirect ones; true if a pointer was taken out.
    async fn walk_block_map(&mut self, number: u32, inode: &mut Inode, claims: bool, content: &mut Content) -> bool {
        let mut table = inode.block.to_vec();
        let per_block = u64::from(self.layout.block_size) / 4;
        let (mut hurt, mut logical) = (false, 0);
        for index in 0..15 {
            let below = (index + 1_usize).saturating_sub(DIRECT) as u32;
            hurt |= self.walk_pointer(&mut table, index, (below, logical), claims, content).await;
            logical += per_block.pow(below);
        }
        inode.block.copy_from_slice(&table);
        let _ = number;
        hurt
    }

    /// Takes in entry `index` of a table, which has `below` levels below it; true if something was taken out.
    async fn walk_pointer(
        &mut self,
        table: &mut [u8],
        index: usize,
        (below, logical): (u32, u64),
        claims: bool,
        content: &mut Content,
    ) -> bool {
        let block = entry(table, index);
        if block == 0 {
            return false;
        }
        let is_sound = block < self.layout.block_count && logical < 1 << 32 && !(claims && self.used.is_used(block));
        let page = if below > 0 && is_sound { self.read(block).await } else { None };
        if !is_sound || below > 0 && page.is_none() {
            table[index * 4..index * 4 + 4].fill(0);
            return true;
        }
        if claims {
            self.used.claim(block, 1);
        }
        let Some(page) = page else {
            let extent = Extent { logical: logical as u32, physical: block, length: 1, unwritten: false };
            content.pieces.push(Piece { extent, is_shared: false });
            return false;
        };
        content.nodes.push(block);
        let mut own = page.bytes().to_vec();
        let per_block = own.len() / 4;
        let step = (per_block as u64).pow(below - 1);
        let mut hurt = false;
        for at in 0..per_block {
            let below = (below - 1, logical + at as u64 * step);
            hurt |= Box::pin(self.walk_pointer(&mut own, at, below, claims, content)).await;
        }
        if hurt {
            self.image.put(block, Page::from_slice(&own));
        }
        hurt
    }

    /// Makes all damaged maps anew, with copies of blocks that belong to others.
    pub(super) async fn settle_rebuilds(&mut self) {
        for Rebuild { number, content } in std::mem::take(&mut self.rebuilds) {
            let Some(mut inode) = self.inode(number).await else { continue };
            let (mut extents, mut copied, mut lost) = (Vec::new(), 0_u64, 0_u64);
            for piece in &content.pieces {
                if !piece.is_shared {
                    push(&mut extents, piece.extent);
                    continue;
                }
                for at in 0..piece.extent.length {
                    let source = piece.extent.physical + u64::from(at);
                    match self.copy_of(source).await {
                        Some(physical) => {
                            let logical = piece.extent.logical + at;
                            push(&mut extents, Extent { logical, physical, length: 1, ..piece.extent });
                            copied += 1;
                        }
                        None => lost += 1,
                    }
                }
            }
            if copied + lost > 0 {
                let what = format!("of blocks that something else has, {copied} are copied and {lost} lost");
                self.note(Place::Inode(number), what, false);
            }
            self.replace_map(number, &mut inode, extents, content.nodes).await;
        }
    }

    /// Gives an inode a map of these extents, in blocks of the old one as far as they reach, and writes it.
    pub(super) async fn replace_map(
        &mut self,
        number: u32,
        inode: &mut Inode,
        extents: Vec<Extent>,
        mut pool: Vec<u64>,
    ) {
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
        pool.into_iter().for_each(|block| self.release(block));
        inode.flags |= flags::EXTENTS;
        let attributes = u64::from(inode.file_acl != 0);
        inode.sectors = (data + nodes + attributes) * u64::from(self.layout.block_size / 512);
        self.put_inode(number, inode).await;
    }
}

/// Appends an extent, or makes the last one longer.
pub(super) fn push(extents: &mut Vec<Extent>, extent: Extent) {
    if let Some(last) = extents.last_mut()
        && last.logical_end() == u64::from(extent.logical)
        && last.physical + u64::from(last.length) == extent.physical
        && last.unwritten == extent.unwritten
        && last.length + extent.length <= LENGTH_MAX
    {
        last.length += extent.length;
        return;
    }
    extents.push(extent);
}
