//! Notes of what changes, from where it changes. Each is a no-op without a staging area.

use std::ops::Range;

use super::super::file::File;
use super::super::volume::{Volume, node_key};
use super::Stage;
use crate::f2fs::format::Nid;
use crate::f2fs::stage::format::Mapped;
use crate::f2fs::stage::pending::Pending;
use crate::pages::PagedFile;

impl Volume {
    fn note(&self, note: impl FnOnce(&mut Pending)) {
        if let Some(Stage { pending, .. }) = &self.stage {
            note(&mut pending.borrow_mut());
        }
    }

    /// Notes that the block of an inode, which is in memory, is about to change.
    pub(in crate::f2fs::mounted) fn note_inode_change(&self, nid: Nid) {
        self.note(|pending| {
            pending.note_change(nid, || {
                let is_known = !self.numbers.borrow().is_new(nid);
                is_known.then(|| self.pages.peek(node_key(nid)).map(|page| page.clone())).flatten()
            });
        });
    }

    /// Notes that pages of a file change that become durable with its inode: names, a link's target, content that
    /// moved.
    pub(in crate::f2fs::mounted) fn note_names(&self, file: &File) {
        self.files.note_names(file);
        self.note(|pending| _ = pending.names.insert(file.number()));
    }

    /// Notes that fields of an inode changed that its block lacks so far.
    pub(in crate::f2fs::mounted) fn note_touched(&self, nid: Nid) {
        self.note(|pending| _ = pending.touched.insert(nid));
    }

    /// Notes that the extended attributes behind those in the inode changed.
    pub(in crate::f2fs::mounted) fn note_attributes(&self, nid: Nid) {
        self.note(|pending| {
            pending.touched.insert(nid);
            pending.attributes.insert(nid);
        });
    }

    /// Notes that an inode is gone. Its number names no node already.
    pub(in crate::f2fs::mounted) fn note_gone(&self, nid: Nid) {
        let is_new = self.numbers.borrow().is_new(nid);
        self.note(|pending| pending.note_gone(nid, is_new));
    }

    /// Notes that bytes of a file became a hole; up to `u64::MAX`, all that follow.
    pub(in crate::f2fs::mounted) fn note_hole(&self, file: &File, bytes: Range<u64>) {
        self.note(|pending| pending.note_hole(file.number(), bytes));
    }

    /// Notes that pages of a file got blocks reserved, without content.
    pub(in crate::f2fs::mounted) fn note_reserved(&self, file: &File, pages: Range<u64>) {
        self.note(|pending| pending.reserved.entry(file.number()).or_default().push(pages));
    }

    /// Whether pages that are written have to be told by [`Volume::note_move`].
    pub(in crate::f2fs::mounted) fn notes_moves(&self) -> bool {
        self.stage.is_some()
    }

    /// Notes that the newest bytes of a page lie in the image.
    pub(in crate::f2fs::mounted) fn note_move(&self, file: &File, index: u64, mapped: Mapped) {
        self.note(|pending| pending.note_move(file.number(), index, mapped));
    }

    /// Takes pages that are about to be written off those that the image lacks; gives them with their heat.
    pub(in crate::f2fs::mounted) fn note_unstaged(&self, file: &File, pages: Range<u64>) -> Vec<(u64, u32)> {
        let mut unstaged = Vec::new();
        let nid = file.number();
        self.note(|pending| {
            let staged = pages.filter_map(|index| Some((index, pending.staged.remove(&(nid, index))?)));
            unstaged.extend(staged);
        });
        unstaged
    }

    /// Undoes [`Volume::note_unstaged`]: the image lacks these pages still.
    pub(in crate::f2fs::mounted) fn note_staged(&self, file: &File, pages: &[(u64, u32)]) {
        self.note(|pending| pending.staged.extend(pages.iter().map(|(index, heat)| ((file.number(), *index), *heat))));
    }

    /// # Errors
    /// A page that the log has and the image lacks, and that is not dirty in memory.
    pub(in crate::f2fs::mounted) fn check_stage(&self) -> Result<(), String> {
        let Some(stage) = &self.stage else { return Ok(()) };
        for (nid, index) in stage.pending.borrow().staged.keys() {
            let file = self.file_in_memory(*nid).filter(|file| self.pages.is_dirty(&**file, *index));
            if file.is_none_or(|file| !file.pages().is_dirty()) {
                return Err(format!("page {index} of inode {nid} is staged and not dirty in memory"));
            }
        }
        Ok(())
    }
}
