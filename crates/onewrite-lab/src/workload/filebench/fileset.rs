//! File set: which files exist, which are busy, and which one is next, as in filebench's `fileset.c`.
//!
//! ```text
//!   missing ──create──► existing ──delete──► missing       busy: an operation on it is under way
//! ```
//!
//! # Invariants
//! - An entry is in exactly one of `missing` and `existing`.
//! - Nobody picks a busy entry; an open entry is not deleted.

use std::collections::BTreeSet;

use onewrite_block::Choices;

use crate::workload::{FileId, Gamma, Operation};

/// Shape of the distributions of depth and width: filebench's `dirgamma` of 1500.
const DIRECTORY_SHAPE: f64 = 1.5;

#[derive(Clone, Debug)]
struct Entry {
    file: FileId,
    size: u64,
    busy: bool,
    open_count: u32,
}

/// The files of one run; its threads share them.
pub(crate) struct FileSet {
    entries: Vec<Entry>,
    entry_of: Vec<usize>,
    existing: BTreeSet<usize>,
    missing: BTreeSet<usize>,
    next_existing: usize,
    next_missing: usize,
    /// The log file, which is never picked.
    pub log: Option<FileId>,
}

impl FileSet {
    /// A set in which file `n` is entry `order[n]`. `sizes` has one value for each entry, `exists` one for each file.
    pub(super) fn new(order: &[u32], sizes: &[u64], exists: &[bool]) -> FileSet {
        let entry_of: Vec<usize> = order.iter().map(|&entry| entry as usize).collect();
        let blank = Entry { file: FileId(0), size: 0, busy: false, open_count: 0 };
        let mut entries = vec![blank; order.len()];
        for (file, &entry) in entry_of.iter().enumerate() {
            entries[entry] = Entry { file: FileId(file as u32), size: sizes[entry], busy: false, open_count: 0 };
        }
        let (existing, missing) = entry_of.iter().zip(exists).partition::<Vec<_>, _>(|(_, exists)| **exists);
        let set = |pairs: Vec<(&usize, &bool)>| pairs.into_iter().map(|(&entry, _)| entry).collect();
        let (existing, missing) = (set(existing), set(missing));
        FileSet { entries, entry_of, existing, missing, next_existing: 0, next_missing: 0, log: None }
    }

    /// Picks the next existing file that is not busy and makes it busy.
    pub(crate) fn pick_existing(&mut self) -> Option<FileId> {
        let entry = pick(&self.existing, &self.entries, &mut self.next_existing)?;
        Some(self.occupy(entry))
    }

    /// Picks the next missing file that is not busy and makes it busy.
    pub(crate) fn pick_missing(&mut self) -> Option<FileId> {
        let entry = pick(&self.missing, &self.entries, &mut self.next_missing)?;
        Some(self.occupy(entry))
    }

    /// Picks the next existing file for deletion; `Some(None)` if it is open and therefore stays.
    pub(crate) fn pick_for_deletion(&mut self) -> Option<Option<FileId>> {
        let entry = pick(&self.existing, &self.entries, &mut self.next_existing)?;
        let is_open = self.entries[entry].open_count > 0;
        Some((!is_open).then(|| self.occupy(entry)))
    }

    /// The size of `file` when it is written whole.
    pub(super) fn size(&self, file: FileId) -> u64 {
        self.entries[self.entry_of[file.0 as usize]].size
    }

    /// Ends an operation: the file is no longer busy, and exists if the operation left it so.
    pub(super) fn completed(&mut self, operation: &Operation) {
        let (Operation::Create { file, .. }
        | Operation::Open { file, .. }
        | Operation::Unlink { file }
        | Operation::Stat { file }) = operation
        else {
            return;
        };
        if Some(*file) == self.log {
            return;
        }
        let index = self.entry_of[file.0 as usize];
        let entry = &mut self.entries[index];
        entry.busy = false;
        match operation {
            Operation::Create { .. } => {
                entry.open_count += 1;
                self.missing.remove(&index);
                self.existing.insert(index);
            }
            Operation::Open { .. } => entry.open_count += 1,
            Operation::Unlink { .. } => {
                self.existing.remove(&index);
                self.missing.insert(index);
            }
            _ => (),
        }
    }

    /// Counts a close of `file`.
    pub(super) fn closed(&mut self, file: FileId) {
        self.entries[self.entry_of[file.0 as usize]].open_count -= 1;
    }

    fn occupy(&mut self, entry: usize) -> FileId {
        self.entries[entry].busy = true;
        self.entries[entry].file
    }
}

/// The first entry of `set` at or after `next`, around the end, that is not busy. As in filebench, `next` moves on from
/// the first entry looked at, even if that one is busy.
fn pick(set: &BTreeSet<usize>, entries: &[Entry], next: &mut usize) -> Option<usize> {
    let mut around = set.range(*next..).chain(set.range(..*next)).copied();
    let first = around.next()?;
    *next = first + 1;
    std::iter::once(first).chain(around).find(|&entry| !entries[entry].busy)
}

/// Directories, parents first, and the paths of `files` files below `root`, in the order of their entries. Source:
/// filebench's `fileset_populate_subdir`.
pub(super) fn tree(root: &str, files: u32, width: u32, choices: &mut Choices) -> (Vec<String>, Vec<String>) {
    let depth = libm::log(f64::from(files)) / libm::log(f64::from(width));
    let mut tree = Tree {
        directories: vec![root.to_owned()],
        paths: Vec::new(),
        files: files as usize,
        depth: Gamma::new(depth, DIRECTORY_SHAPE),
        width: Gamma::new(f64::from(width), DIRECTORY_SHAPE),
    };
    let mut serial = 0;
    while tree.paths.len() < tree.files {
        serial += 1;
        tree.grow(format!("{root}/{serial:08}"), 2, choices);
    }
    (tree.directories, tree.paths)
}

struct Tree {
    directories: Vec<String>,
    paths: Vec<String>,
    files: usize,
    depth: Gamma,
    width: Gamma,
}

impl Tree {
    fn grow(&mut self, path: String, depth: u64, choices: &mut Choices) {
        let is_leaf = depth >= self.depth.draw(choices).max(1);
        let width = self.width.draw(choices).max(1);
        self.directories.push(path.clone());
        for serial in 1..=width {
            if self.paths.len() >= self.files {
                return;
            }
            let name = format!("{path}/{serial:08}");
            match is_leaf {
                true => self.paths.push(name),
                false => self.grow(name, depth + 1, choices),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::TaskDescriptor;

    fn set(exists: [bool; 3]) -> FileSet {
        FileSet::new(&[0, 1, 2], &[10, 20, 30], &exists)
    }

    const SLOT: TaskDescriptor = TaskDescriptor(1);

    #[test]
    fn files_take_turns_and_busy_ones_are_passed_over() {
        let mut set = set([true; 3]);
        assert_eq!(set.pick_existing(), Some(FileId(0)));
        assert_eq!(set.pick_existing(), Some(FileId(1)));
        set.completed(&Operation::Stat { file: FileId(0) });
        assert_eq!(set.pick_existing(), Some(FileId(2)));
        assert_eq!(set.pick_existing(), Some(FileId(0)));
        assert_eq!(set.pick_existing(), None);
    }

    #[test]
    fn creation_and_deletion_move_a_file() {
        let mut set = set([true, false, true]);
        assert_eq!(set.pick_missing(), Some(FileId(1)));
        assert_eq!(set.pick_missing(), None);
        set.completed(&Operation::Create { file: FileId(1), slot: SLOT });
        set.closed(FileId(1));
        let deleted = set.pick_for_deletion().flatten().unwrap();
        set.completed(&Operation::Unlink { file: deleted });
        assert_eq!(set.pick_missing(), Some(deleted));
    }

    #[test]
    fn an_open_file_is_not_deleted() {
        let mut set = set([true, false, false]);
        let file = set.pick_existing().unwrap();
        set.completed(&Operation::Open { file, slot: SLOT, create: false });
        assert_eq!(set.pick_for_deletion(), Some(None));
        set.closed(file);
        assert_eq!(set.pick_for_deletion(), Some(Some(file)));
    }
}
