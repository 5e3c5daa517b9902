//! Content of files: runs of blocks, found and to be rebuilt.

use crate::block::BlockNo;
use crate::ext4::format::InodeNo;
use crate::ext4::format::extent::Extent;

/// Blocks of the longest written extent.
const LENGTH_MAX: u32 = 32_767;

/// A run of a file's blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub extent: Extent,
    /// The blocks belong to an owner that was met earlier.
    pub is_shared: bool,
}

/// What a map holds.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Runs of content, in the order of the file.
    pub pieces: Vec<Piece>,
    /// Blocks of the map.
    pub nodes: Vec<BlockNo>,
    /// Number of blocks of content and map.
    pub blocks: u64,
    /// Number of attribute blocks.
    pub attributes: u64,
    /// The map must be rebuilt.
    pub is_damaged: bool,
}

/// A map to rebuild after all blocks in use are known.
#[derive(Debug)]
pub(super) struct Rebuild {
    pub number: InodeNo,
    pub content: Content,
}

impl Content {
    pub(super) fn data_blocks(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.extent.length)).sum()
    }

    pub(super) fn into_rebuild(self, number: InodeNo) -> Rebuild {
        Rebuild { number, content: self }
    }
}

/// Appends an extent, or makes the last one longer.
pub(super) fn push(extents: &mut Vec<Extent>, extent: Extent) {
    if let Some(last) = extents.last_mut()
        && last.logical_end() == u64::from(extent.logical)
        && last.blocks().end() == extent.physical
        && last.unwritten == extent.unwritten
        && last.length + extent.length <= LENGTH_MAX
    {
        last.length += extent.length;
        return;
    }
    extents.push(extent);
}

/// Splits an extent into runs of blocks with the same state; returns each run with its state.
pub(super) fn runs<S: PartialEq>(extent: Extent, state: impl Fn(BlockNo) -> S) -> Vec<(Extent, S)> {
    let of = |at: u32| state(extent.physical + u64::from(at));
    let (mut runs, mut from) = (Vec::new(), 0);
    while from < extent.length {
        let own = of(from);
        let to = (from + 1..extent.length).find(|&at| of(at) != own).unwrap_or(extent.length);
        let physical = extent.physical + u64::from(from);
        runs.push((Extent { logical: extent.logical + from, physical, length: to - from, ..extent }, own));
        from = to;
    }
    runs
}
