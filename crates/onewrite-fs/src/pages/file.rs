//! File pages: the page layer's state for each file in memory.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use onewrite_block::Nanos;

use crate::api::FsError;

/// See the module's head. Each file of a file system contains one.
#[derive(Debug, Default)]
pub struct FilePages {
    /// Its place in the line of dirty files, while it is there.
    in_line: Cell<Option<InLine>>,
    /// Number of pages under way to the device.
    writing: Cell<usize>,
    /// What few files have; so the others take less memory.
    rare: RefCell<Option<Box<Rare>>>,
    /// Byte where the last buffered read ended, to detect sequential reads.
    read_end: Cell<u64>,
    /// The page of which a load cleared bytes behind the end that are still on the device.
    hidden_tail: Cell<Option<u64>>,
}

/// See [`FilePages`].
#[derive(Debug, Default)]
struct Rare {
    /// The first write error that no `sync` has reported yet.
    write_error: Option<FsError>,
    /// Pages being written directly: no task may read them into the page cache meanwhile.
    overwriting: Vec<Range<u64>>,
}

/// A place in the line of dirty files.
#[derive(Clone, Copy, Debug)]
pub(super) struct InLine {
    /// When the file's first dirty page became dirty.
    pub(super) since: Nanos,
    /// Number of the place; files that entered later have higher ones.
    pub(super) place: u64,
}

impl FilePages {
    /// Whether the file is in the line of dirty files.
    pub fn is_dirty(&self) -> bool {
        self.in_line.get().is_some()
    }

    /// Its place in the line of dirty files; `None` if it is not there.
    pub(super) fn in_line(&self) -> Option<InLine> {
        self.in_line.get()
    }

    /// Sets its place in the line of dirty files; returns the one that it had. The line alone calls this.
    pub(super) fn set_in_line(&self, in_line: Option<InLine>) -> Option<InLine> {
        self.in_line.replace(in_line)
    }

    /// Notes that the device holds bytes behind the end on page `index`, which a load cleared in memory.
    pub(super) fn note_hidden_tail(&self, index: u64) {
        self.hidden_tail.set(Some(index));
    }

    /// Whether a load cleared bytes behind the end that are still on the device. Who forgets the file forgets that.
    pub fn has_hidden_tail(&self) -> bool {
        self.hidden_tail.get().is_some()
    }

    /// Whether a load cleared bytes behind the end on page `index` since the last call. A file that grows has to write
    /// these zeros: otherwise what lay behind its end becomes readable when the page is loaded again.
    pub fn take_hidden_tail(&self, index: u64) -> bool {
        self.hidden_tail.take() == Some(index)
    }

    /// Whether pages are under way to the device.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.get() > 0
    }

    /// Counts pages that are under way from now on.
    pub(super) fn begin_writing(&self, page_count: usize) {
        self.writing.set(self.writing.get() + page_count);
    }

    /// Counts pages that are no longer under way.
    pub(super) fn end_writing(&self, page_count: usize) {
        self.writing.set(self.writing.get() - page_count);
    }

    /// Keeps a write error for the next `sync`, unless an earlier one waits for it.
    pub(super) fn note_write_error(&self, error: &FsError) {
        self.rare.borrow_mut().get_or_insert_default().write_error.get_or_insert_with(|| error.clone());
    }

    /// Takes the first write error since the last call.
    pub(crate) fn take_write_error(&self) -> Option<FsError> {
        self.rare.borrow_mut().as_mut()?.write_error.take()
    }

    /// Whether a buffered read at byte `offset` continues the last one.
    pub(super) fn reads_on(&self, offset: u64) -> bool {
        self.read_end.get() == offset
    }

    /// Notes that a buffered read ended at byte `end`.
    pub(super) fn note_read(&self, end: u64) {
        self.read_end.set(end);
    }

    /// Marks pages as being written directly.
    pub(super) fn begin_overwrite(&self, pages: Range<u64>) {
        self.rare.borrow_mut().get_or_insert_default().overwriting.push(pages);
    }

    /// Undoes one [`FilePages::begin_overwrite`] of the same pages.
    ///
    /// # Panics
    /// If there was none.
    pub(super) fn end_overwrite(&self, pages: &Range<u64>) {
        let mut rare = self.rare.borrow_mut();
        let overwriting = &mut rare.as_mut().expect("it was put there").overwriting;
        let at = overwriting.iter().position(|other| other == pages).expect("it was put there");
        overwriting.swap_remove(at);
    }

    /// Whether one of the pages is being written directly.
    pub(super) fn is_overwriting(&self, pages: &Range<u64>) -> bool {
        let touches = |other: &Range<u64>| other.start < pages.end && pages.start < other.end;
        self.rare.borrow().as_ref().is_some_and(|rare| rare.overwriting.iter().any(touches))
    }
}
