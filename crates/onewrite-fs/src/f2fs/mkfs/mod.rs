//! mkfs of F2FS: the blocks of a new, empty file system, as a pure function of its options.
//!
//! [`plan`] only computes; the caller writes the blocks. Two steps, a file each: the numbers ([`geometry`]) and the
//! blocks ([`blocks`]). An empty image has six logs of which two have a block: the root directory's inode and its
//! names.

mod blocks;
mod geometry;
mod options;

use onewrite_block::{PAGE_SIZE, Page};

use super::stage::area;
use crate::block::BlockNo;
pub use options::{LABEL_MAX, MkfsError, MkfsOptions, SIZE_MAX, SIZE_MIN};

/// All blocks to write, in ascending order. The other blocks may hold anything (zeros, if
/// [`MkfsOptions::device_is_zeroed`]).
///
/// # Errors
/// The size or label that is impossible.
pub fn plan(options: &MkfsOptions) -> Result<Vec<(BlockNo, Page)>, MkfsError> {
    let words = options.label.encode_utf16().count();
    if words > LABEL_MAX {
        return Err(MkfsError::Label { words });
    }
    let stage_pages = options.stage_bytes / PAGE_SIZE as u64;
    if options.stage_bytes > 0 && stage_pages < area::PAGES_MIN {
        return Err(MkfsError::Stage { stage_bytes: options.stage_bytes });
    }
    let size_bytes = (options.size_bytes / PAGE_SIZE as u64).saturating_sub(stage_pages) * PAGE_SIZE as u64;
    if options.stage_bytes > 0 && size_bytes < SIZE_MIN && options.size_bytes >= SIZE_MIN {
        return Err(MkfsError::StageTooLarge { stage_bytes: options.stage_bytes, size_bytes: options.size_bytes });
    }
    let geometry = geometry::Geometry::of(size_bytes)?;
    let geometry = match &options.zones {
        Some(zones) => geometry.on_zones(zones)?,
        None => geometry,
    };
    Ok(blocks::blocks(&geometry, options, stage_pages))
}
