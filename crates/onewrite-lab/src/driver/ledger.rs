//! Ledger: what each file of a run holds, and which files must survive a power cut as they are.
//!
//! ```text
//!   durable ──create, write, unlink begins──► changing ──fsync, nothing else under way──► durable
//! ```
//!
//! # Invariants
//! - A durable file has not been touched since an fsync of it returned: content, size and name must survive.
//! - Content is followed only where [`Ledger::new`] asks for it; other files cost a few words each.

use std::cell::RefCell;

use super::contents::{Contents, Filling};
use crate::workload::FileId;

#[derive(Clone, Debug, Default)]
struct Entry {
    path: String,
    /// The content; `None` where it is not followed.
    contents: Option<Contents>,
    size: u64,
    /// Changes begun so far, and changes under way.
    changes: u64,
    under_way: u32,
    durable: bool,
}

/// What each file holds; the module's head has the states.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: RefCell<Vec<Entry>>,
}

/// A file that must survive as it is.
#[derive(Clone, Debug)]
pub struct DurableFile {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// What it holds.
    pub contents: Contents,
}

impl Ledger {
    /// A ledger for files at these paths; `true` for those whose content is followed.
    pub fn new(files: impl Iterator<Item = (String, bool)>) -> Ledger {
        let entry = |(path, followed): (String, bool)| Entry {
            path,
            contents: followed.then(Contents::default),
            ..Entry::default()
        };
        Ledger { entries: RefCell::new(files.map(entry).collect()) }
    }

    /// The files that must survive, among those whose content is followed.
    pub(crate) fn durable_files(&self) -> Vec<DurableFile> {
        let entries = self.entries.borrow();
        let durable = entries.iter().filter(|entry| entry.durable);
        let file = |entry: &Entry| {
            let contents = entry.contents.clone()?;
            Some(DurableFile { path: entry.path.clone(), size: entry.size, contents })
        };
        durable.filter_map(file).collect()
    }

    /// A change of `file` begins.
    pub fn begin(&self, file: FileId) {
        self.with(file, |entry| {
            entry.changes += 1;
            entry.under_way += 1;
            entry.durable = false;
        });
    }

    /// A change of `file` ends, whether it worked or not.
    pub fn end(&self, file: FileId) {
        self.with(file, |entry| entry.under_way -= 1);
    }

    /// Notes that `length` bytes at `offset` now hold `filling`.
    pub fn written(&self, file: FileId, offset: u64, length: u64, filling: Filling) {
        self.with(file, |entry| {
            entry.size = entry.size.max(offset + length);
            if let Some(contents) = &mut entry.contents {
                contents.write(offset, length, filling);
            }
        });
    }

    /// Notes that the file has at least `size` bytes; new bytes are zeros or unknown.
    pub fn extended(&self, file: FileId, size: u64) {
        self.with(file, |entry| entry.size = entry.size.max(size));
    }

    /// Forgets the content of a range.
    pub fn forgotten(&self, file: FileId, start: u64, end: u64) {
        self.with(file, |entry| entry.contents.iter_mut().for_each(|contents| contents.clear(start, end)));
    }

    /// Notes that the file now ends at `size`.
    pub fn truncate(&self, file: FileId, size: u64) {
        self.forgotten(file, size, u64::MAX);
        self.with(file, |entry| entry.size = size);
    }

    /// Notes that the file is gone or new, so it holds nothing.
    pub fn emptied(&self, file: FileId) {
        self.with(file, |entry| {
            entry.size = 0;
            entry.contents = entry.contents.take().map(|_| Contents::default());
        });
    }

    /// Begins a sync of `file`; its result belongs to [`Ledger::synced`]. `None` if a change is under way.
    pub(crate) fn begin_sync(&self, file: FileId) -> Option<u64> {
        self.with(file, |entry| (entry.under_way == 0).then_some(entry.changes))
    }

    /// Notes that the sync that began with `ticket` has returned.
    pub fn synced(&self, file: FileId, ticket: Option<u64>) {
        self.with(file, |entry| entry.durable |= ticket == Some(entry.changes));
    }

    /// Compares `bytes`, read at `offset`, with what `file` must hold.
    ///
    /// # Errors
    /// The path, the first byte of the part that differs, and how.
    pub fn check(
        &self,
        file: FileId,
        offset: u64,
        bytes: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), (String, u64, String)> {
        self.with(file, |entry| {
            let Some(contents) = &entry.contents else { return Ok(()) };
            contents.check(offset, &bytes()).map_err(|(at, problem)| (entry.path.clone(), at, problem))
        })
    }

    fn with<T>(&self, file: FileId, work: impl FnOnce(&mut Entry) -> T) -> T {
        work(&mut self.entries.borrow_mut()[file.0 as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(0);

    fn changed() -> Ledger {
        let ledger = Ledger::new(std::iter::once(("a".to_owned(), true)));
        ledger.begin(FILE);
        ledger.written(FILE, 0, 10, Filling { seed: 1, compressible_percent: 0 });
        ledger.end(FILE);
        ledger
    }

    #[test]
    fn a_sync_settles_what_was_changed_before_it() {
        let ledger = changed();
        assert!(ledger.durable_files().is_empty());
        let ticket = ledger.begin_sync(FILE);
        ledger.synced(FILE, ticket);
        assert_eq!(ledger.durable_files()[0].size, 10);
    }

    #[test]
    fn a_change_during_a_sync_settles_nothing() {
        let ledger = changed();
        let ticket = ledger.begin_sync(FILE);
        ledger.begin(FILE);
        ledger.end(FILE);
        ledger.synced(FILE, ticket);
        assert!(ledger.durable_files().is_empty());
        ledger.begin(FILE);
        let ticket = ledger.begin_sync(FILE);
        ledger.end(FILE);
        ledger.synced(FILE, ticket);
        assert!(ledger.durable_files().is_empty());
    }
}
