//! Survey: one lookup of the map for pages that are about to be written.

use std::ops::Range;

use super::format::Extent;
use super::inodes::Node;
use super::map::Mapping;
use super::views::Extents;
use crate::api::FsResult;
use crate::block::BlockNo;

/// Consecutive pages with one kind of mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// They have blocks.
    Mapped(Extent),
    /// They have none.
    Hole(Range<u64>),
}

/// The parts of a range, in order, without a gap. Valid as long as nobody else changes the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    parts: Vec<Part>,
}

impl Survey {
    /// Adds an extent that begins where the survey ends.
    pub(super) fn push(&mut self, extent: Extent) {
        self.parts.push(Part::Mapped(extent));
    }

    /// The parts, in order.
    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Whether all pages have blocks with content.
    pub(super) fn is_written(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Mapped(extent) if !extent.unwritten))
    }

    /// The pages without blocks.
    pub(super) fn holes(&self) -> impl Iterator<Item = Range<u64>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(pages) => Some(pages.clone()),
            Part::Mapped(_) => None,
        })
    }

    /// The pages over unwritten blocks.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = Range<u64>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Mapped(extent) if extent.unwritten => Some(extent.logical.into()..extent.logical_end()),
            _ => None,
        })
    }

    /// The block of a page, if it has one.
    pub(super) fn block_of(&self, index: u64) -> Option<BlockNo> {
        self.parts.iter().find_map(|part| match part {
            Part::Mapped(extent) if (u64::from(extent.logical)..extent.logical_end()).contains(&index) => {
                Some(extent.physical + (index - u64::from(extent.logical)))
            }
            _ => None,
        })
    }
}

impl Extents<'_> {
    /// The mapping of `pages`, part by part.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn survey(&self, node: &Node, pages: Range<u64>) -> FsResult<Survey> {
        let (mut parts, mut index) = (Vec::new(), pages.start);
        while index < pages.end {
            let (part, next) = match self.map(node, index as u32).await? {
                Mapping::Mapped(extent) => {
                    let next = pages.end.min(index + u64::from(extent.length));
                    (Part::Mapped(Extent { length: (next - index) as u32, ..extent }), next)
                }
                Mapping::Hole(length) => {
                    let next = pages.end.min(index + length);
                    (Part::Hole(index..next), next)
                }
            };
            parts.push(part);
            index = next;
        }
        Ok(Survey { parts })
    }
}
