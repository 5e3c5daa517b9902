//! A file in the model: its bytes, and which of its pages hold content.

use std::collections::BTreeSet;

use onewrite_fs::{Allocation, SeekTarget};

const PAGE: u64 = 4096;
/// Largest file: 2³² blocks less one.
pub const SIZE_MAX: u64 = ((1 << 32) - 1) * PAGE;

/// Linux's error numbers.
pub const NO_SUCH_ADDRESS: i32 = 6;
pub const INVALID: i32 = 22;
pub const TOO_LARGE: i32 = 27;

#[derive(Clone, Debug, Default)]
pub struct File {
    pub bytes: Vec<u8>,
    /// Pages with content: written and not removed since. `SEEK_DATA` finds them.
    pages: BTreeSet<u64>,
}

impl File {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn write(&mut self, offset: u64, content: &[u8]) {
        let end = offset + content.len() as u64;
        if self.size() < end {
            self.bytes.resize(end as usize, 0);
        }
        self.bytes[offset as usize..end as usize].copy_from_slice(content);
        self.pages.extend(offset / PAGE..end.div_ceil(PAGE));
    }

    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = self.size().min(offset.saturating_add(length));
        if offset < end { self.bytes[offset as usize..end as usize].to_vec() } else { Vec::new() }
    }

    pub fn truncate(&mut self, size: u64) -> Result<(), i32> {
        if size > SIZE_MAX {
            return Err(TOO_LARGE);
        }
        self.bytes.resize(size as usize, 0);
        self.pages.split_off(&size.div_ceil(PAGE));
        Ok(())
    }

    /// Zeros the range; whole pages in it become holes.
    fn clear(&mut self, offset: u64, end: u64) {
        let end = end.min(self.size());
        if offset < end {
            self.bytes[offset as usize..end as usize].fill(0);
        }
    }

    pub fn allocate(&mut self, offset: u64, length: u64, allocation: Allocation) -> Result<(), i32> {
        if length == 0 {
            return Err(INVALID);
        }
        let end = offset + length;
        if end > SIZE_MAX {
            return Err(TOO_LARGE);
        }
        match allocation {
            Allocation::KeepSize => (),
            Allocation::Extend => self.extend(end),
            Allocation::PunchHole => self.punch(offset, end),
            Allocation::ZeroRange => {
                self.punch(offset, end);
                self.extend(end);
            }
            Allocation::CollapseRange => return self.collapse(offset, end),
            Allocation::InsertRange => return self.insert(offset, length),
        }
        Ok(())
    }

    fn extend(&mut self, end: u64) {
        let size = self.size().max(end);
        self.bytes.resize(size as usize, 0);
    }

    fn punch(&mut self, offset: u64, end: u64) {
        self.clear(offset, end);
        let whole = offset.div_ceil(PAGE)..end / PAGE;
        // The file's last page counts as whole if the range covers the file's last byte.
        let stop = if end >= self.size() { self.size().div_ceil(PAGE).max(whole.end) } else { whole.end };
        self.pages.retain(|page| *page < whole.start || *page >= stop);
    }

    fn collapse(&mut self, offset: u64, end: u64) -> Result<(), i32> {
        if !offset.is_multiple_of(PAGE) || !end.is_multiple_of(PAGE) || end >= self.size() {
            return Err(INVALID);
        }
        self.bytes.drain(offset as usize..end as usize);
        let gone = (end - offset) / PAGE;
        let behind = self.pages.split_off(&(offset / PAGE));
        self.pages.extend(behind.into_iter().filter(|page| *page >= end / PAGE).map(|page| page - gone));
        Ok(())
    }

    fn insert(&mut self, offset: u64, length: u64) -> Result<(), i32> {
        if !offset.is_multiple_of(PAGE) || !length.is_multiple_of(PAGE) || offset >= self.size() {
            return Err(INVALID);
        }
        if self.size() + length > SIZE_MAX {
            return Err(TOO_LARGE);
        }
        let behind = self.bytes.split_off(offset as usize);
        self.bytes.resize((offset + length) as usize, 0);
        self.bytes.extend(behind);
        let moved = self.pages.split_off(&(offset / PAGE));
        self.pages.extend(moved.into_iter().map(|page| page + length / PAGE));
        Ok(())
    }

    pub fn seek(&self, offset: u64, target: SeekTarget) -> Result<u64, i32> {
        if offset >= self.size() {
            return Err(NO_SUCH_ADDRESS);
        }
        let first = offset / PAGE;
        let found = match target {
            SeekTarget::Data => self.pages.range(first..).next().copied().ok_or(NO_SUCH_ADDRESS)?,
            SeekTarget::Hole => (first..).find(|page| !self.pages.contains(page)).expect("an end"),
        };
        match (target, (found * PAGE).max(offset)) {
            (SeekTarget::Data, at) if at >= self.size() => Err(NO_SUCH_ADDRESS),
            (_, at) => Ok(at.min(self.size())),
        }
    }
}
