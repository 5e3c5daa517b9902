//! Where content lies: extent trees, and the block maps of ext2 and ext3.
//!
//! Each lookup walks from the inode down. A walk ends on any image: the depth of an extent tree must fall with each
//! step, and tables have at most three levels. Outside a rescue the walk also verifies checksums and the order and
//! range of entries.

use super::ImageView;
use super::files::File;
use super::run::Run;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::ext4::format::Place;
use crate::ext4::format::extent::{self, Node};
use crate::ext4::format::inode::flags;

/// Entries of an inode that name content directly; the three behind them name tables.
const DIRECT: u64 = 12;
/// Blocks that an extent tree can map.
const EXTENT_BLOCKS_MAX: u64 = 1 << 32;

impl ImageView {
    /// Most blocks that the map of `file` can hold.
    pub(super) fn mappable_blocks(&self, file: &File) -> u64 {
        let per_table = self.block_size() / 4;
        match file.inode.has(flags::EXTENTS) {
            true => EXTENT_BLOCKS_MAX,
            false => DIRECT + per_table + per_table.pow(2) + per_table.pow(3),
        }
    }

    /// The run of `file` that begins at its block `logical`; at least one block long.
    pub(super) async fn map(&self, file: &File, logical: u64) -> FsResult<Run> {
        match file.inode.has(flags::EXTENTS) {
            true => self.map_extents(file, logical).await,
            false => self.map_tables(file, logical).await,
        }
    }

    async fn map_extents(&self, file: &File, logical: u64) -> FsResult<Run> {
        let Ok(wanted) = u32::try_from(logical) else { return Ok(Run::Zeros { count: u64::MAX - logical }) };
        let (mut bytes, mut place) = (file.inode.block.to_vec(), Place::Inode(file.number));
        let (mut end, mut above): (u64, Option<(u16, u32)>) = (EXTENT_BLOCKS_MAX, None);
        loop {
            let node = Node::parse(&bytes, place)?;
            self.check_node(&node, above, place)?;
            let next = node.position(wanted);
            if node.depth() == 0 {
                if let Some(found) = next.checked_sub(1).map(|last| node.extent(last))
                    && logical < found.logical_end()
                {
                    let count = found.logical_end() - logical;
                    let block = found.physical_of(wanted);
                    return Ok(if found.unwritten { Run::Zeros { count } } else { Run::Data { block, count } });
                }
                let behind = (next < node.len()).then(|| u64::from(node.extent(next).logical));
                return Ok(Run::Zeros { count: hole(logical, behind.unwrap_or(end).min(end)) });
            }
            if next < node.len() {
                end = end.min(node.index(next).logical.into());
            }
            let Some(index) = next.checked_sub(1).map(|last| node.index(last)) else {
                return Ok(Run::Zeros { count: hole(logical, end) });
            };
            above = Some((node.depth(), index.logical));
            (bytes, place) = (self.blocks.block(index.node).await?, Place::Block(index.node));
            if !self.options.is_rescue {
                let seed = self.layout.inode_seed(file.number, file.inode.generation);
                extent::verify_checksum(&bytes, seed, &self.layout, place)?;
            }
        }
    }

    /// `above`: depth of the parent node, and the first block of the file in the entry that led here.
    fn check_node(&self, node: &Node<'_>, above: Option<(u16, u32)>, place: Place) -> FsResult<()> {
        let wrong =
            |problem: &str| Err(FsError::Damaged { place: format!("extent tree, {place}"), problem: problem.into() });
        if above.is_some_and(|(depth, _)| node.depth() + 1 != depth) {
            return wrong("its depth is not one less than that of the node above");
        }
        if self.options.is_rescue {
            return Ok(());
        }
        node.check_entries(&self.layout, place)?;
        let first = match node.depth() {
            0 => node.extents().next().map(|extent| extent.logical),
            _ => node.indexes().next().map(|index| index.logical),
        };
        match above {
            Some((_, logical)) if first.is_none_or(|first| first < logical) => {
                wrong("it does not begin where the node above says")
            }
            _ => Ok(()),
        }
    }

    async fn map_tables(&self, file: &File, logical: u64) -> FsResult<Run> {
        if logical < DIRECT {
            return Ok(run_in(&file.inode.block[..DIRECT as usize * 4], logical as usize));
        }
        let per_table = self.block_size() / 4;
        let (mut rest, mut level, mut span) = (logical - DIRECT, 1, per_table);
        while rest >= span {
            if level == 3 {
                return Ok(Run::Zeros { count: u64::MAX - logical });
            }
            rest -= span;
            (level, span) = (level + 1, span * per_table);
        }
        let mut table = word(&file.inode.block, DIRECT as usize + level - 1);
        loop {
            if table == 0 {
                return Ok(Run::Zeros { count: span - rest });
            }
            let bytes = self.blocks.block(BlockNo(table.into())).await?;
            span /= per_table;
            let index = (rest / span) as usize;
            rest %= span;
            if span == 1 {
                return Ok(run_in(&bytes, index));
            }
            table = word(&bytes, index);
        }
    }
}

/// Number of blocks from `logical` to `end`, at least one.
fn hole(logical: u64, end: u64) -> u64 {
    end.max(logical + 1) - logical
}

fn word(table: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(table[index * 4..][..4].try_into().expect("four bytes"))
}

/// The run that begins with entry `index` of a table.
fn run_in(table: &[u8], index: usize) -> Run {
    let block = u64::from(word(table, index));
    let follows = |(count, next): &(u64, usize)| {
        let expected = if block == 0 { 0 } else { block + count };
        u64::from(word(table, *next)) == expected
    };
    let count = 1 + (1..).zip(index + 1..table.len() / 4).take_while(follows).count() as u64;
    if block == 0 { Run::Zeros { count } } else { Run::Data { block: BlockNo(block), count } }
}
