//! What the page layer keeps for each file in memory.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use onewrite_block::Nanos;

use crate::api::FsError;

/// See the module's head. A file system puts one into each of its files.
#[derive(Debug, Default)]
pub struct FilePages {
    /// When the first of its dirty pages became dirty; set while the file is in the line of dirty files.
    pub(super) dirty_since: Cell<Option<Nanos>>,
    /// Pages under way to the device.
    pub(super) writing: Cell<usize>,
    /// Why pages could not be written, until somebody is told.
    pub(super) write_error: RefCell<Option<FsError>>,
    /// Pages that are written past the page cache: none of them is read into it meanwhile.
    pub(super) overwriting: RefCell<Vec<Range<u64>>>,
    /// Where the last read ended, to recognise sequential ones.
    pub(super) read_end: Cell<u64>,
}

impl FilePages {
    /// Whether the file is in the line of dirty files.
    pub fn is_dirty(&self) -> bool {
        self.dirty_since.get().is_some()
    }

    /// Whether one of the pages is being written past the page cache.
    pub(super) fn is_overwriting(&self, pages: &Range<u64>) -> bool {
        self.overwriting.borrow().iter().any(|other| other.start < pages.end && pages.start < other.end)
    }
}
