//! mkfs: the blocks of a new, empty file system, as a pure function of its options.
//!
//! [`plan`] only computes; the caller writes the blocks. Three steps, one file each: the numbers ([`geometry`]), where
//! everything lies ([`placement`]), and the blocks ([`blocks`]). Large images stay cheap: an empty group gets only a
//! descriptor (uninitialized bitmaps and inode table), as in Linux. 1 TiB takes some thousand blocks.
//!
//! Differences from `mke2fs -t ext4`: no resize_inode; see `docs/ext4-format.md`.

mod blocks;
mod geometry;
mod options;
mod placement;

use onewrite_block::Page;

use crate::block::BlockNo;
pub use options::{MkfsError, MkfsOptions, default_journal_blocks};

/// All blocks to write, in ascending order. The other blocks may hold anything (zeros, if
/// [`MkfsOptions::device_is_zeroed`]).
///
/// # Errors
/// The option that is wrong or impossible, and the rule.
pub fn plan(options: &MkfsOptions) -> Result<Vec<(BlockNo, Page)>, MkfsError> {
    let geometry = geometry::Geometry::of(options)?;
    let placement = placement::Placement::of(&geometry, options)?;
    Ok(blocks::blocks(&geometry, &placement, options))
}
