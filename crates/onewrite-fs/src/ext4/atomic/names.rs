//! Names in drafts: changes of directories that wait for the commit.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::change::{Name, NameChange};
use super::credits::NAME_CREDITS;
use super::drafts::{NAME_BLOCKS, Origin};
use crate::api::{FileKind, FsError, FsResult, Ino, NewNode};
use crate::atomic::DraftId;
use crate::ext4::inodes::Node;
use crate::ext4::views::Atomics;
use crate::journal::Handle;
use crate::names::check_name;

/// The directories of some changes of names, in lock order.
pub(super) type Directories = BTreeMap<Ino, Rc<Node>>;

impl Atomics<'_> {
    /// See [`AtomicFiles::draft_create`](crate::AtomicFiles::draft_create).
    pub(super) async fn create(&self, draft: DraftId, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        self.check_writable()?;
        if node.kind != FileKind::Regular {
            return Err(FsError::Unsupported("in a draft, only regular files can be created".into()));
        }
        check_name(name)?;
        let name = Name::new((directory, name));
        let directories = self.check_change(draft, NameChange::Link(Ino::default(), name.clone())).await?;
        self.check_room(NAME_CREDITS, NAME_BLOCKS)?;
        let created = self.directories().create_unnamed(&directories[&directory], node).await?;
        let ino = created.ino();
        let adopted = self.adopt(draft, &created, Origin::Created);
        let is_adopted = adopted.is_ok();
        let outcome = adopted.and_then(|()| self.add_change(draft, NameChange::Link(ino, name), &directories));
        let give_up = || self.drafts().change(draft, |draft| drop(draft.files.remove(&created.number())));
        if is_adopted && outcome.is_err() && give_up().is_ok() {
            created.set_claimant(None);
            created.drop_opener();
        }
        // The claim keeps the file from here on, if there is one.
        self.contents().release(&created).await?;
        outcome.map(|()| ino)
    }

    /// Adds a change of a name to the draft.
    ///
    /// # Errors
    /// If it cannot be made; the draft is then as it was.
    pub(super) async fn change_name(&self, draft: DraftId, change: NameChange) -> FsResult<()> {
        self.check_writable()?;
        change.names().try_for_each(|name| match &name.name[..] {
            b"." | b".." => Err(FsError::Invalid(format!("`{}` cannot be changed", name.text()))),
            name => check_name(name),
        })?;
        let directories = self.check_change(draft, change.clone()).await?;
        self.add_change(draft, change, &directories)
    }

    /// Adds a change that was checked, and keeps its directories open. Does not wait.
    fn add_change(&self, draft: DraftId, change: NameChange, directories: &Directories) -> FsResult<()> {
        self.check_room(NAME_CREDITS, NAME_BLOCKS)?;
        let kept: Vec<Rc<Node>> = change.names().map(|name| Rc::clone(&directories[&name.directory])).collect();
        kept.iter().try_for_each(|directory| self.directories().expect_alive(directory))?;
        self.drafts().change(draft, |draft| {
            kept.iter().for_each(|directory| directory.add_opener());
            draft.directories.extend(kept);
            draft.names.push(change);
        })?;
        self.groups().reserve(self.groups().reserved_blocks() + NAME_BLOCKS);
        Ok(())
    }

    /// Checks that the draft's changes of names and one more can be made now; returns their directories.
    async fn check_change(&self, draft: DraftId, more: NameChange) -> FsResult<Directories> {
        let mut changes = self.drafts().read(draft, |draft| draft.names.clone())?;
        changes.push(more);
        let directories = self.directories_of(&changes).await?;
        let mut held = Vec::with_capacity(directories.len());
        for directory in directories.values() {
            held.push(directory.lock().read().await);
        }
        let checked = self.check_names(&directories, &changes).await;
        drop(held);
        checked.map(|_| directories)
    }

    /// The directories that the changes name, in lock order.
    pub(super) async fn directories_of(&self, changes: &[NameChange]) -> FsResult<Directories> {
        let mut directories = Directories::new();
        for name in changes.iter().flat_map(NameChange::names) {
            directories.insert(name.directory, self.directories().directory(name.directory).await?);
        }
        Ok(directories)
    }

    /// Checks that all changes can be made, one after another; returns the files that exist under changed names. The
    /// caller holds the locks of the directories.
    ///
    /// # Errors
    /// For the first change that cannot be made.
    pub(super) async fn check_names(
        &self,
        directories: &Directories,
        changes: &[NameChange],
    ) -> FsResult<Vec<Rc<Node>>> {
        let mut now: BTreeMap<&Name, Option<Ino>> = BTreeMap::new();
        let mut found = Vec::new();
        for name in changes.iter().flat_map(NameChange::names) {
            let directory = &directories[&name.directory];
            self.directories().expect_alive(directory)?;
            let entry = self.directories().find_entry(directory, &name.name).await?;
            if let Some(entry) = entry
                && !now.contains_key(name)
            {
                let node = self.node(entry.ino).await?;
                match node.is_directory() {
                    true => return Err(FsError::IsDirectory(name.text())),
                    false => found.push(node),
                }
            }
            now.entry(name).or_insert(entry.map(|entry| entry.ino));
        }
        for change in changes {
            match change {
                NameChange::Link(_, name) if now[name].is_some() => return Err(FsError::Exists(name.text())),
                NameChange::Link(ino, name) => drop(now.insert(name, Some(*ino))),
                NameChange::Unlink(name) => drop(take(&mut now, name)?),
                // Two names of one file: POSIX keeps both.
                NameChange::Rename(from, to) if now[from].is_some() && now[from] == now[to] => (),
                NameChange::Rename(from, to) => {
                    let moved = take(&mut now, from)?;
                    now.insert(to, Some(moved));
                }
            }
        }
        Ok(found)
    }

    /// Makes one change that was checked, in the transaction of a commit. The caller holds the locks of directories
    /// and files, and keeps the files open.
    pub(super) async fn make_change(
        &self,
        handle: &mut Handle,
        directories: &Directories,
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
        directories: &Directories,
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

/// Takes a name away; returns the file that it named.
fn take<'a>(now: &mut BTreeMap<&'a Name, Option<Ino>>, name: &'a Name) -> FsResult<Ino> {
    now.insert(name, None).flatten().ok_or_else(|| FsError::NotFound(name.text()))
}
