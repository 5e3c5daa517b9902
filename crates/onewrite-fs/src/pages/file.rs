//! File pages: the page layer's state for each file in memory.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use onewrite_block::Nanos;

use crate::api::FsError;

/// See the module's head. Each file of a file system contains one.
#[derive(Debug, Default)]
pub struct FilePages {
    /// When its first dirty page became dirty; set while the file is in the line of dirty files.
    pub(super) dirty_since: Cell<Option<Nanos>>,
    /// Number of pages under way to the device.
    pub(super) writing: Cell<usize>,
    /// The first write error that no `sync` has reported yet.
    pub(super) write_error: RefCell<Option<FsError>>,
    /// Pages being written directly: no task may read them into the page cache meanwhile.
    pub(super) overwriting: RefCell<Vec<Range<u64>>>,
    /// Byte where the last buffered read ended, to detect sequential reads.
    pub(super) read_end: Cell<u64>,
}

impl FilePages {
    /// Whether the file is in the line of dirty files.
    pub fn is_dirty(&self) -> bool {
        self.dirty_since.get().is_some()
    }

    /// Whether one of the pages is being written directly.
    pub(super) fn is_overwriting(&self, pages: &Range<u64>) -> bool {
        self.overwriting.borrow().iter().any(|other| other.start < pages.end && pages.start < other.end)
    }
}
