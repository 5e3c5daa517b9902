//! Names in drafts: what the commit does to directories.

use super::super::views::DraftCommits;
use crate::api::{FsResult, Ino, RenameManner};
use crate::drafts::{Directories, Name, NameChange};
use crate::f2fs::format::dentry::NewEntry;
use crate::f2fs::format::new_inode::put_name;
use crate::f2fs::mounted::file::File;

impl DraftCommits<'_> {
    /// Makes one change that was checked. The caller holds the locks of directories and files, and `changes`, and keeps
    /// the files open.
    pub(super) async fn make_change(&self, directories: &Directories<File>, change: &NameChange) -> FsResult<()> {
        match change {
            NameChange::Link(ino, name) => self.make_link(directories, *ino, name).await,
            NameChange::Unlink(name) => {
                let directory = &directories[&name.directory];
                let found = self.directories().expect_name(directory, &name.name).await?;
                let file = self.nodes().file(found.ino()).await?;
                self.directories().remove_name(directory, &name.name).await?;
                self.stamp_modified(directory);
                self.contents().drop_link(&file).await
            }
            NameChange::Rename(from, to) => {
                let from = (&directories[&from.directory], &from.name[..]);
                let to = (&directories[&to.directory], &to.name[..]);
                let manner = RenameManner::Replace;
                let renaming = self.directories().prepare_rename(from, to, manner).await?;
                self.directories().rename_locked(from, to, &renaming).await
            }
        }
    }

    /// Gives a file that a draft created its name.
    async fn make_link(&self, directories: &Directories<File>, ino: Ino, name: &Name) -> FsResult<()> {
        let (directory, file) = (&directories[&name.directory], self.nodes().file(ino).await?);
        let new = NewEntry { ino: file.number(), kind: file.kind(), name: &name.name };
        self.directories().add_name(directory, new).await?;
        file.change_raw(|raw| {
            raw.i_links.set(1);
            put_name(raw, directory.number(), &name.name);
        });
        self.orphans.remove(file.number());
        self.stamp_changed(&file);
        self.stamp_modified(directory);
        Ok(())
    }
}
