//! Extent trees: checks and claims every node and every run of blocks.

use onewrite_block::Page;

use super::views::MapStage;
use super::{DirectoryBlock, ReadBlocks};
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::ext4::format::extent::{self, Extent, Index, Node};
use crate::ext4::format::{Inode, InodeNo, Layout, Place};

const CURE: &str = "e2fsck -f rebuilds the map; what it named may be lost";

/// What a file's map holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    /// Blocks of content and of the map itself.
    pub blocks: u64,
    /// Blocks of content.
    pub data_blocks: u64,
    /// Last mapped block of the file.
    pub last: Option<u32>,
    /// Last written block of the file; unwritten extents do not count.
    pub last_written: Option<u32>,
    /// Where the first mapped block lies.
    pub first_block: Option<BlockNo>,
    /// No part of the map was damaged, so the numbers are true.
    pub sound: bool,
}

impl Default for Mapped {
    fn default() -> Mapped {
        Mapped { blocks: 0, data_blocks: 0, last: None, last_written: None, first_block: None, sound: true }
    }
}

impl Mapped {
    pub(super) fn add(&mut self, extent: Extent) {
        let last = (extent.logical_end() - 1) as u32;
        self.blocks += u64::from(extent.length);
        self.data_blocks += u64::from(extent.length);
        self.last = self.last.max(Some(last));
        if !extent.unwritten {
            self.last_written = self.last_written.max(Some(last));
        }
        self.first_block = self.first_block.or(Some(extent.physical));
    }
}

/// The file of the current walk.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub number: InodeNo,
    pub is_directory: bool,
    /// Checksum seed of its blocks.
    pub seed: u32,
}

impl Owner {
    pub(super) fn new(number: InodeNo, inode: &Inode, layout: &Layout) -> Owner {
        // A directory removed while open has size 0 and no names.
        let is_directory = inode.kind() == Some(FileKind::Directory) && inode.links > 0;
        Owner { number, is_directory, seed: layout.inode_seed(number, inode.generation) }
    }
}

/// Limits of a node.
struct Bounds {
    /// Blocks of the file that the node may map.
    range: std::ops::Range<u64>,
    /// Its depth; any for the root.
    depth: Option<u16>,
}

/// An inner node on the way down.
struct Level {
    page: Page,
    next: usize,
    /// First block of the file behind this node's range.
    end: u64,
    depth: u16,
}

impl<R: ReadBlocks> MapStage<'_, '_, R> {
    /// Walks the extent tree of an inode.
    pub(super) async fn walk_extents(&mut self, number: InodeNo, inode: &Inode) -> Mapped {
        let owner = Owner::new(number, inode, &self.layout);
        let mut mapped = Mapped::default();
        let first = self.directory_blocks.len();
        let place = Place::Inode(number);
        if let Some(depth) =
            self.visit(&inode.block, place, owner, Bounds { range: 0..1 << 32, depth: None }, &mut mapped)
            && depth > 0
        {
            let root = Page::from_slice(&inode.block);
            self.descend(Level { page: root, next: 0, end: 1 << 32, depth }, owner, &mut mapped).await;
        }
        if owner.is_directory {
            self.directory_stage().add_directory(number, inode, first);
        }
        mapped
    }

    async fn descend(&mut self, root: Level, owner: Owner, mapped: &mut Mapped) {
        let mut path = vec![root];
        while let Some(level) = path.last_mut() {
            let Some((index, end)) = next_child(level) else {
                path.pop();
                continue;
            };
            let bounds = Bounds { range: index.logical.into()..end, depth: Some(level.depth - 1) };
            path.extend(self.enter(index, bounds, owner, mapped).await);
        }
    }

    /// Claims, reads and checks a node below the root; returns it if it is an inner node.
    async fn enter(&mut self, index: Index, bounds: Bounds, owner: Owner, mapped: &mut Mapped) -> Option<Level> {
        let place = Place::Block(index.node);
        mapped.blocks += 1;
        if !self.claim(index.node.alone(), Place::Inode(owner.number)) {
            mapped.sound = false;
            return None;
        }
        let Some(page) = self.read(index.node, place).await else {
            mapped.sound = false;
            return None;
        };
        let bytes = page.bytes();
        if let Err(error) = extent::verify_checksum(&bytes[..], owner.seed, &self.layout, place) {
            self.report.add(place, error, CURE);
        }
        let end = bounds.range.end;
        let depth = self.visit(&bytes[..], place, owner, bounds, mapped)?;
        (depth > 0).then_some(Level { page, next: 0, end, depth })
    }

    /// Checks a node and claims the blocks of a leaf's extents. Returns the node's depth if it is sound.
    fn visit(&mut self, bytes: &[u8], place: Place, owner: Owner, bounds: Bounds, mapped: &mut Mapped) -> Option<u16> {
        let checked = Node::parse(bytes, place).and_then(|node| node.check_entries(&self.layout, place).map(|()| node));
        let node = match checked {
            Ok(node) => node,
            Err(error) => {
                self.damaged_map(place, error, mapped);
                return None;
            }
        };
        if bounds.depth.is_some_and(|depth| depth != node.depth()) {
            self.damaged_map(place, format!("a node of depth {} in a place of another", node.depth()), mapped);
            return None;
        }
        if let Some(problem) = misfit(&node, bytes.len(), &bounds.range) {
            self.damaged_map(place, problem, mapped);
        }
        for extent in node.extents() {
            self.claim_extent(extent, owner, mapped);
        }
        Some(node.depth())
    }

    pub(super) fn claim_extent(&mut self, extent: Extent, owner: Owner, mapped: &mut Mapped) {
        mapped.add(extent);
        let Owner { number, is_directory, .. } = owner;
        if !self.claim(extent.blocks(), Place::Inode(number)) {
            mapped.sound = false;
            return;
        }
        if is_directory && extent.unwritten {
            self.report.add(Place::Inode(number), "a directory with blocks that were never written", CURE);
        }
        if is_directory {
            let block = |index: u32| DirectoryBlock {
                logical: extent.logical + index,
                physical: extent.physical + u64::from(index),
            };
            self.directory_blocks.extend((0..extent.length).map(block));
        }
    }

    pub(super) fn damaged_map(&mut self, place: Place, problem: impl std::fmt::Display, mapped: &mut Mapped) {
        mapped.sound = false;
        self.report.add(place, problem, CURE);
    }
}

/// The next child of a checked inner node, and the end of its range of the file.
fn next_child(level: &mut Level) -> Option<(Index, u64)> {
    let bytes = level.page.bytes();
    let node = Node::parse(&bytes[..], Place::Inode(InodeNo::NONE)).expect("checked when entered");
    let index = (level.next < node.len()).then(|| node.index(level.next))?;
    let end = if level.next + 1 < node.len() { node.index(level.next + 1).logical.into() } else { level.end };
    level.next += 1;
    Some((index, end))
}

/// How a node contradicts its place in the tree, if it does.
pub(crate) fn misfit(node: &Node<'_>, length: usize, range: &std::ops::Range<u64>) -> Option<&'static str> {
    let first = node.extents().next().map(|extent| extent.logical);
    let first = first.or(node.indexes().next().map(|index| index.logical));
    let end = node.extents().next_back().map_or(0, |extent| extent.logical_end());
    let is_root = length < 4096;
    // Linux keeps a node's capacity as created, so one entry less in a block is still sound.
    let capacity = (length - 12) / 12;
    match first {
        None if is_root && node.depth() == 0 => None,
        None => Some("a node without entries"),
        Some(first) if !is_root && u64::from(first) != range.start => {
            Some("begins elsewhere than the entry above it says")
        }
        Some(_) if end > range.end => Some("reaches into the part of the file that the next node maps"),
        Some(_) if node.capacity() + 2 < capacity => Some("says that fewer entries fit than do"),
        Some(_) => None,
    }
}
