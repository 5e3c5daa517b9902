//! Pending: what delayed allocation knows about a file in memory, and the line of files to convert.
//!
//! # Invariants
//! - `delayed`, `converting` and `unwritten` are as the head of `delayed` says.
//! - A file is in the [`ConversionLine`] exactly while its [`Pending`] says so.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;

use onewrite_block::Runtime;
use onewrite_block::sync::Signal;

use crate::ext4::format::InodeNo;
use crate::runs::Runs;

/// What the inode and the map of a file do not show yet.
#[derive(Default)]
pub(in crate::ext4) struct Pending {
    /// Size in memory, if it is larger than the inode's.
    grown_to: Cell<u64>,
    /// Content up to this byte has reached the device.
    arrived_to: Cell<u64>,
    /// Dirty pages over holes.
    delayed: RefCell<Runs>,
    /// Pages over unwritten blocks whose content is on the device.
    converting: RefCell<Runs>,
    /// Pages over unwritten blocks with content in memory or on the device: their conversion may take tree blocks.
    unwritten: RefCell<Runs>,
    /// Whether the file is in the line.
    is_in_line: Cell<bool>,
}

impl Pending {
    /// Size in memory, if it is larger than the inode's; otherwise any smaller number.
    pub(in crate::ext4) fn grown_to(&self) -> u64 {
        self.grown_to.get()
    }

    /// Lets the size in memory grow to at least `end`.
    pub(in crate::ext4) fn grow_to(&self, end: u64) {
        self.grown_to.set(self.grown_to.get().max(end));
    }

    /// Notes that the inode's size is `size` now, and that no content lies behind it.
    pub(in crate::ext4) fn note_size(&self, size: u64) {
        self.grown_to.set(0);
        self.arrived_to.set(self.arrived_to.get().min(size));
    }

    /// Content up to this byte has reached the device.
    pub(in crate::ext4) fn arrived_to(&self) -> u64 {
        self.arrived_to.get()
    }

    /// Notes that content up to byte `end` has reached the device.
    pub(in crate::ext4) fn note_arrived(&self, end: u64) {
        self.arrived_to.set(self.arrived_to.get().max(end));
    }

    /// Number of delayed pages.
    pub(in crate::ext4) fn delayed_count(&self) -> u64 {
        self.delayed.borrow().count()
    }

    /// Whether the page is delayed.
    pub(in crate::ext4) fn is_delayed(&self, page: u64) -> bool {
        self.delayed.borrow().contains(page)
    }

    /// The first run of delayed pages from page `from` on.
    pub(in crate::ext4) fn next_delayed(&self, from: u64) -> Option<Range<u64>> {
        self.delayed.borrow().first_from(from)
    }

    /// The delayed pages among `pages`, run by run.
    pub(in crate::ext4) fn delayed_within(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        let delayed = self.delayed.borrow();
        let next = |from: u64| delayed.first_from(from).filter(|run| run.start < pages.end);
        let runs = std::iter::successors(next(pages.start), |run| next(run.end));
        runs.map(|run| run.start..run.end.min(pages.end)).collect()
    }

    /// Delays pages, each of which has a reserved block now.
    pub(in crate::ext4) fn delay(&self, pages: impl Iterator<Item = u64>) {
        let mut delayed = self.delayed.borrow_mut();
        for page in pages {
            delayed.insert(page..page + 1);
        }
    }

    /// Ends the delay of pages; returns how many of them were delayed.
    pub(in crate::ext4) fn end_delay(&self, pages: Range<u64>) -> u64 {
        self.delayed.borrow_mut().remove(pages)
    }

    /// Notes pages over unwritten blocks that got content; returns how many were not noted before.
    pub(in crate::ext4) fn note_unwritten(&self, pages: Range<u64>) -> u64 {
        self.unwritten.borrow_mut().insert(pages)
    }

    /// Notes that pages need no conversion any more; returns how many did.
    pub(in crate::ext4) fn end_unwritten(&self, pages: Range<u64>) -> u64 {
        self.unwritten.borrow_mut().remove(pages)
    }

    /// Number of pages whose conversion may take tree blocks.
    pub(in crate::ext4) fn unwritten_count(&self) -> u64 {
        self.unwritten.borrow().count()
    }

    /// Whether pages wait for their conversion.
    pub(in crate::ext4) fn is_converting(&self) -> bool {
        !self.converting.borrow().is_empty()
    }

    /// The first run of pages, from page `from` on, whose content arrived in unwritten blocks.
    pub(in crate::ext4) fn next_converting(&self, from: u64) -> Option<Range<u64>> {
        self.converting.borrow().first_from(from)
    }

    /// Notes that the content of pages arrived in unwritten blocks.
    pub(in crate::ext4) fn begin_converting(&self, pages: Range<u64>) {
        self.converting.borrow_mut().insert(pages);
    }

    /// Notes that pages are converted or dropped.
    pub(in crate::ext4) fn end_converting(&self, pages: Range<u64>) {
        self.converting.borrow_mut().remove(pages);
    }

    /// Whether the node must stay in memory: pages wait for their conversion, or the file is in the line.
    pub(in crate::ext4) fn is_needed(&self) -> bool {
        self.is_converting() || self.is_in_line.get()
    }
}

/// Files with content on the device that their map or size does not show yet, oldest first.
pub(in crate::ext4) struct ConversionLine {
    files: RefCell<VecDeque<InodeNo>>,
    /// Notified when a file joins.
    joined: Signal,
}

impl ConversionLine {
    pub(in crate::ext4) fn new(runtime: &Runtime) -> ConversionLine {
        ConversionLine { files: RefCell::default(), joined: Signal::new(runtime) }
    }

    /// Puts a file at the end of the line, unless it is in it.
    pub(in crate::ext4) fn join(&self, number: InodeNo, pending: &Pending) {
        if !pending.is_in_line.replace(true) {
            self.files.borrow_mut().push_back(number);
            self.joined.notify_all();
        }
    }

    /// The first file; waits while the line is empty. The file stays in the line.
    pub(in crate::ext4) async fn first(&self) -> InodeNo {
        loop {
            let first = self.files.borrow().front().copied();
            match first {
                Some(number) => return number,
                None => self.joined.wait().await,
            }
        }
    }

    /// Takes the first file out of the line. `pending` is its state, if the file is in memory.
    pub(in crate::ext4) fn leave_first(&self, pending: Option<&Pending>) {
        self.files.borrow_mut().pop_front();
        pending.inspect(|pending| pending.is_in_line.set(false));
    }

    /// All files of the line.
    pub(in crate::ext4) fn files(&self) -> Vec<InodeNo> {
        self.files.borrow().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::Executor;

    use super::*;

    #[test]
    fn a_file_is_in_the_line_once_until_it_leaves() {
        let line = ConversionLine::new(&Executor::ideal().runtime());
        let (one, two) = (Pending::default(), Pending::default());
        line.join(InodeNo(1), &one);
        line.join(InodeNo(2), &two);
        line.join(InodeNo(1), &one);
        assert_eq!((line.files(), one.is_needed()), (vec![InodeNo(1), InodeNo(2)], true));
        line.leave_first(Some(&one));
        assert!(!one.is_needed(), "nothing keeps it in memory");
        line.join(InodeNo(1), &one);
        assert_eq!(line.files(), [InodeNo(2), InodeNo(1)]);
    }

    #[test]
    fn a_new_size_ends_what_lies_behind_it() {
        let pending = Pending::default();
        pending.grow_to(9);
        pending.note_arrived(7);
        pending.grow_to(5);
        assert_eq!((pending.grown_to(), pending.arrived_to()), (9, 7));
        pending.note_size(6);
        assert_eq!((pending.grown_to(), pending.arrived_to()), (0, 6));
    }
}
