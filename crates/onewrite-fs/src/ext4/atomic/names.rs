//! Names in drafts: what the commit does to directories.

use crate::api::{FsResult, Ino};
use crate::drafts::{Directories, Name, NameChange};
use crate::ext4::inodes::Node;
use crate::ext4::views::Atomics;
use crate::journal::Handle;

impl Atomics<'_> {
    /// Makes one change that was checked, in the transaction of a commit. The caller holds the locks of directories
    /// and files, and keeps the files open.
    pub(super) async fn make_change(
        &self,
        handle: &mut Handle,
        directories: &Directories<Node>,
        change: &NameChange,
    ) -> FsResult<()> {
        match change {
            NameChange::Link(ino, name) => {
                let (directory, node) = (&directories[&name.directory], self.node_or_orphan(*ino).await?);
                self.directories().add_entry(handle, directory, &name.name, (*ino, node.kind())).await?;
                self.directories().touch(handle, &node, 1).await?;
                self.allocator().remove_orphan(handle, &node).await?;
                self.directories().touch_directory(handle, directory, 0).await
            }
            NameChange::Unlink(name) => {
                let directory = &directories[&name.directory];
                let found = self.directories().expect_entry(directory, &name.name).await?;
                self.directories().remove_entry_of(handle, directory, found).await?;
                self.directories().touch_directory(handle, directory, 0).await?;
                self.lose_name(handle, found.ino).await
            }
            NameChange::Rename(from, to) => self.make_rename(handle, directories, from, to).await,
        }
    }

    async fn make_rename(
        &self,
        handle: &mut Handle,
        directories: &Directories<Node>,
        from: &Name,
        to: &Name,
    ) -> FsResult<()> {
        let (source, target) = (&directories[&from.directory], &directories[&to.directory]);
        let node = self.node_or_orphan(self.directories().expect_entry(source, &from.name).await?.ino).await?;
        let entry = (node.ino(), node.kind());
        let replaced = self.directories().find_entry(target, &to.name).await?;
        match replaced {
            Some(replaced) if replaced.ino == node.ino() => return Ok(()),
            Some(replaced) => {
                onewrite_block::reached!("rename in a draft replaces a file");
                self.directories().replace_entry(handle, target, replaced, entry).await?;
                self.lose_name(handle, replaced.ino).await?;
            }
            None => self.directories().add_entry(handle, target, &to.name, entry).await?,
        }
        // Adding may have split the block that held the old name.
        let found = self.directories().expect_entry(source, &from.name).await?;
        self.directories().remove_entry_of(handle, source, found).await?;
        self.directories().touch(handle, &node, 0).await?;
        self.directories().touch_directory(handle, target, 0).await?;
        self.directories().touch_directory(handle, source, 0).await
    }

    /// Counts one name of a file less. A file without names waits on the orphan list for the end of its last opener.
    async fn lose_name(&self, handle: &mut Handle, ino: Ino) -> FsResult<()> {
        let node = self.node_or_orphan(ino).await?;
        self.directories().touch(handle, &node, -1).await?;
        onewrite_block::reached!("draft takes the last name of a file", node.inode().links == 0);
        let is_last = node.inode().links == 0;
        if is_last { self.allocator().add_orphan(handle, &node).await } else { Ok(()) }
    }
}
