//! Sections: segments that are taken, cleaned and given back together.
//!
//! With sections of one segment on an ordinary device nothing of this applies. With larger ones, on a device with
//! zones, or with `mode=lfs`, a section is *whole*: a log takes its segments in order and threads through none,
//! cleaning empties all of them, and a checkpoint frees them together. A zone is a section, so its blocks are written
//! in order, and its reset is the TRIM that the checkpoint sends.
//!
//! Behind a power cut nobody knows how far a zone was written. So a mount moves all logs to blank sections.

use std::ops::Range;

use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::{Layout, SegmentNo};

/// How the segments of the main area form sections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sections {
    segments: u32,
    /// Segments of a section.
    size: u32,
    ground: Ground,
}

/// What logs may do with a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) enum Ground {
    /// Take its free blocks in any order.
    Any,
    /// Take it as a whole.
    Whole,
    /// Take it as a whole; the device has it written in order, and reset before.
    Zones,
}

impl Sections {
    pub(super) fn new(layout: &Layout, ground: Ground) -> Sections {
        Sections { segments: layout.main_segments, size: layout.section_segments.max(1), ground }
    }

    /// Whether segments are handled by the section only; see the module's head.
    pub(super) fn are_whole(&self) -> bool {
        self.ground != Ground::Any || self.size > 1
    }

    pub(super) fn has_zones(&self) -> bool {
        self.ground == Ground::Zones
    }

    /// Segments of a section.
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// Segments of the sections that so many pages need.
    pub(super) fn whole_segments(&self, pages: usize) -> usize {
        pages.div_ceil(SEGMENT_BLOCKS as usize * self.size()) * self.size()
    }

    /// The segments of the section of `segment`, by number.
    pub(super) fn of(&self, segment: SegmentNo) -> Range<u32> {
        let first = segment.0 / self.size * self.size;
        first..(first + self.size).min(self.segments)
    }

    /// All sections.
    pub(super) fn all(self) -> impl Iterator<Item = Range<u32>> {
        (0..self.segments).step_by(self.size as usize).map(move |first| self.of(SegmentNo(first)))
    }
}
