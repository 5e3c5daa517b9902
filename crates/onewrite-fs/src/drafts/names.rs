//! Names in drafts: changes of directories that wait for the commit.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::change::{Name, NameChange};
use super::claims::Drafting;
use super::host::{Claimable, DraftHost};
use super::table::Origin;
use crate::api::{FileKind, FsError, FsResult, Ino, NewNode};
use crate::atomic::DraftId;
use crate::names::check_name;
use crate::pages::PagedFile;

/// The directories of some changes of names, in lock order.
pub(crate) type Directories<F> = BTreeMap<Ino, Rc<F>>;

impl<H: DraftHost> Drafting<'_, H> {
    /// See [`AtomicFiles::draft_create`](crate::AtomicFiles::draft_create).
    pub(crate) async fn create(&self, draft: DraftId, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        self.expect_writable()?;
        if node.kind != FileKind::Regular {
            return Err(FsError::Unsupported("in a draft, only regular files can be created".into()));
        }
        check_name(name)?;
        let name = Name::new((directory, name));
        self.with_room(draft, async || self.try_create(draft, name.clone(), node).await).await
    }

    async fn try_create(&self, draft: DraftId, name: Name, node: NewNode) -> FsResult<Ino> {
        let directory = name.directory;
        let directories = self.check_change(draft, NameChange::Link(Ino::default(), name.clone())).await?;
        self.check_room(H::NAME_COST)?;
        let created = self.create_unnamed(&directories[&directory], &name.name, node).await?;
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
        self.end_open(&created).await?;
        outcome.map(|()| ino)
    }

    /// Adds a change of a name to the draft.
    ///
    /// # Errors
    /// If it cannot be made; the draft is then as it was.
    pub(crate) async fn change_name(&self, draft: DraftId, change: NameChange) -> FsResult<()> {
        self.expect_writable()?;
        change.names().try_for_each(|name| match &name.name[..] {
            b"." | b".." => Err(FsError::Invalid(format!("`{}` cannot be changed", name.text()))),
            name => check_name(name),
        })?;
        let add = async || {
            let directories = self.check_change(draft, change.clone()).await?;
            self.add_change(draft, change.clone(), &directories)
        };
        self.with_room(draft, add).await
    }

    /// Adds a change that was checked, and keeps its directories open. Does not wait.
    fn add_change(&self, draft: DraftId, change: NameChange, directories: &Directories<H::File>) -> FsResult<()> {
        self.check_room(H::NAME_COST)?;
        let kept: Vec<Rc<H::File>> = change.names().map(|name| Rc::clone(&directories[&name.directory])).collect();
        kept.iter().try_for_each(|directory| directory.expect_alive())?;
        self.drafts().change(draft, |draft| {
            kept.iter().for_each(|directory| directory.add_opener());
            draft.directories.extend(kept);
            draft.names.push(change);
        })?;
        self.note_reserved(0, H::NAME_COST.reserved);
        Ok(())
    }

    /// Checks that the draft's changes of names and one more can be made now; returns their directories.
    async fn check_change(&self, draft: DraftId, more: NameChange) -> FsResult<Directories<H::File>> {
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
    pub(crate) async fn directories_of(&self, changes: &[NameChange]) -> FsResult<Directories<H::File>> {
        let mut directories = BTreeMap::new();
        for name in changes.iter().flat_map(NameChange::names) {
            let directory = self.existing(name.directory).await?;
            match directory.is_directory() {
                true => directories.insert(name.directory, directory),
                false => return Err(FsError::NotDirectory(name.directory.to_string())),
            };
        }
        Ok(directories)
    }

    /// Checks that all changes can be made, one after another; returns the files that exist under changed names. The
    /// caller holds the locks of the directories.
    ///
    /// # Errors
    /// For the first change that cannot be made.
    pub(crate) async fn check_names(
        &self,
        directories: &Directories<H::File>,
        changes: &[NameChange],
    ) -> FsResult<Vec<Rc<H::File>>> {
        let mut now: BTreeMap<&Name, Option<Ino>> = BTreeMap::new();
        let mut found = Vec::new();
        for name in changes.iter().flat_map(NameChange::names) {
            let directory = &directories[&name.directory];
            directory.expect_alive()?;
            let entry = self.name_in(directory, &name.name).await?;
            if let Some(entry) = entry
                && !now.contains_key(name)
            {
                let node = self.existing(entry).await?;
                match node.is_directory() {
                    true => return Err(FsError::IsDirectory(name.text())),
                    false => found.push(node),
                }
            }
            now.entry(name).or_insert(entry);
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
}

/// Takes a name away; returns the file that it named.
fn take<'a>(now: &mut BTreeMap<&'a Name, Option<Ino>>, name: &'a Name) -> FsResult<Ino> {
    now.insert(name, None).flatten().ok_or_else(|| FsError::NotFound(name.text()))
}
