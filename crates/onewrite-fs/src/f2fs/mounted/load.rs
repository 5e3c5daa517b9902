//! The way of an inode into memory, and back into its node.

use std::rc::Rc;

use zerocopy::IntoBytes;

use super::file::File;
use super::views::Nodes;
use crate::api::{FsError, FsResult, Ino};
use crate::f2fs::format::Nid;
use crate::f2fs::format::inode::{ADDRESSES, Head};

impl Nodes<'_> {
    /// The file with this number.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is no such inode; device errors and damage.
    pub(super) async fn file(&self, ino: Ino) -> FsResult<Rc<File>> {
        let nid = Nid::from_ino(ino);
        if let Some(file) = self.files.get(nid) {
            file.expect_undeleted()?;
            return Ok(file);
        }
        if !self.layout.contains_node(nid) {
            return Err(FsError::NotFound(ino.to_string()));
        }
        self.load_node(nid, nid, 0).await?;
        if let Some(file) = self.files.get(nid) {
            return Ok(file);
        }
        let inode = self.read_node(nid, |bytes| Head::decode_unverified(bytes, nid, &self.layout))?;
        if inode.raw.i_links.get() == 0 && !self.orphans.contains(nid) {
            return Err(FsError::NotFound(format!("{ino} (it waits for removal)")));
        }
        let file = Rc::new(File::new(&self.runtime, &inode));
        self.files.insert(Rc::clone(&file));
        Ok(file)
    }

    /// Notes that the node of `file` lacks its newest fields.
    pub(super) fn note_unsaved(&self, file: &File) {
        self.note_touched(file.number());
        if !file.is_unsaved() {
            file.note_unsaved();
            self.files.add_unsaved(file.number());
        }
    }

    /// Puts the fields of `file` into its node.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn save_inode(&self, file: &File) -> FsResult<()> {
        if !file.is_unsaved() {
            return Ok(());
        }
        self.load_node(file.number(), file.number(), 0).await?;
        if file.is_unsaved() && !file.is_deleted() {
            self.save_loaded(file);
        }
        Ok(())
    }

    /// As [`Nodes::save_inode`], for a node that is in memory.
    pub(super) fn save_loaded(&self, file: &File) {
        file.note_saved();
        self.files.drop_unsaved(file.number());
        let raw = file.raw().clone();
        self.change_node(file.number(), file.number(), |bytes| bytes[..ADDRESSES].copy_from_slice(raw.as_bytes()));
    }
}
