//! Files: the inodes in memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::file::File;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::Nid;
use crate::pages::PagedFile;

/// Number of files in memory above which unused ones are dropped.
const FILES_MAX: usize = 65_536;
/// Names in the indexes of directories above which all are dropped: some tens of megabytes.
const INDEXED_MAX: usize = 1 << 20;

/// See the module's head.
#[derive(Default)]
pub(super) struct Files {
    files: RefCell<FxHashMap<Nid, Rc<File>>>,
    /// Numbers in the order in which files may be dropped.
    queue: RefCell<VecDeque<Nid>>,
    /// Files whose node lacks their newest fields.
    unsaved: RefCell<BTreeSet<Nid>>,
    /// Directories and links whose pages may be dirty.
    named: RefCell<BTreeSet<Nid>>,
    /// Names that indexes of directories took since all were dropped.
    indexed: Cell<usize>,
}

impl Files {
    pub(super) fn get(&self, nid: Nid) -> Option<Rc<File>> {
        self.files.borrow().get(&nid).cloned()
    }

    pub(super) fn insert(&self, file: Rc<File>) {
        self.queue.borrow_mut().push_back(file.number());
        self.files.borrow_mut().insert(file.number(), file);
        self.forget_some();
    }

    pub(super) fn remove(&self, nid: Nid) {
        self.named.borrow_mut().remove(&nid);
        self.unsaved.borrow_mut().remove(&nid);
        self.files.borrow_mut().remove(&nid);
    }

    /// All of them, by number.
    pub(super) fn all(&self) -> Vec<Rc<File>> {
        let mut files: Vec<Rc<File>> = self.files.borrow().values().cloned().collect();
        files.sort_by_key(|file| file.number());
        files
    }

    /// The first failed write of a file that nobody was told of yet, by the numbers of the files; forgets all of them.
    pub(super) fn take_write_errors(&self) -> FsResult<()> {
        let files = self.all();
        let errors: Vec<FsError> = files.iter().filter_map(|file| file.pages().take_write_error()).collect();
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    pub(super) fn add_unsaved(&self, nid: Nid) {
        self.unsaved.borrow_mut().insert(nid);
    }

    pub(super) fn drop_unsaved(&self, nid: Nid) {
        self.unsaved.borrow_mut().remove(&nid);
    }

    /// The first file whose node lacks its newest fields.
    pub(super) fn first_unsaved(&self) -> Option<Rc<File>> {
        let nid = *self.unsaved.borrow().first()?;
        self.get(nid)
    }

    pub(super) fn unsaved_count(&self) -> usize {
        self.unsaved.borrow().len()
    }

    /// Notes that pages of a directory or link change.
    pub(super) fn note_names(&self, file: &File) {
        self.named.borrow_mut().insert(file.number());
    }

    /// Counts names that the index of a directory took; drops all indexes if they are too many.
    pub(super) fn note_indexed(&self, names: usize) {
        self.indexed.update(|indexed| indexed + names);
        if self.indexed.get() > INDEXED_MAX {
            self.indexed.set(0);
            self.files.borrow().values().for_each(|file| file.names().forget());
        }
    }

    /// Directories and links with dirty pages, by number.
    pub(super) fn with_dirty_names(&self) -> Vec<Rc<File>> {
        let mut named = self.named.borrow_mut();
        named.retain(|nid| self.get(*nid).is_some_and(|file| file.pages().is_dirty()));
        named.iter().filter_map(|nid| self.get(*nid)).collect()
    }

    /// Drops a few files that nobody uses, if there are too many.
    fn forget_some(&self) {
        let (mut files, mut queue) = (self.files.borrow_mut(), self.queue.borrow_mut());
        for _ in 0..if files.len() > FILES_MAX { 8 } else { 0 } {
            let Some(nid) = queue.pop_front() else { return };
            let in_use = files.get(&nid).is_some_and(|file| {
                let has_pages = file.pages().is_dirty() || file.pages().has_hidden_tail();
                Rc::strong_count(file) > 1 || file.is_open() || file.is_unsaved() || has_pages
            });
            match in_use {
                true => queue.push_back(nid),
                false => drop(files.remove(&nid)),
            }
        }
    }
}
