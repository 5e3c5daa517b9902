//! Rename: the operation that changes two directories, two inodes and, for a moved directory, a third name (`..`).

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::file::File;
use super::options::FsyncMode;
use super::views::Directories;
use crate::api::{FileKind, FsError, FsResult, RenameManner};
use crate::f2fs::format::dentry::NewEntry;
use crate::f2fs::format::layout::ROOT_INODE;
use crate::f2fs::format::new_inode::put_name;
use crate::names::{check_name, display};

type Name<'a> = (&'a Rc<File>, &'a [u8]);

/// What a rename does.
pub(super) enum Renaming {
    /// Both names are those of one file.
    Nothing,
    /// The name is new.
    Move(Rc<File>),
    /// The name was another's.
    Replace(Rc<File>, Rc<File>),
    /// Two names change places.
    Exchange(Rc<File>, Rc<File>),
}

impl Renaming {
    /// The files that it changes; the caller of [`Directories::rename_locked`] holds their locks alone.
    pub(super) fn files(&self) -> (Option<&File>, Option<&File>) {
        match self {
            Renaming::Nothing => (None, None),
            Renaming::Move(file) => (Some(file), None),
            Renaming::Replace(file, other) | Renaming::Exchange(file, other) => (Some(file), Some(other)),
        }
    }
}

impl Directories<'_> {
    /// Looks what a rename does, and whether it may, with both directories locked; see `FileSystem::rename`. None of
    /// the files that it changes is one of the two directories.
    pub(super) async fn prepare_rename(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        manner: RenameManner,
    ) -> FsResult<Renaming> {
        let found = self.expect_name(from.0, from.1).await?;
        check_name(to.1)?;
        let file = self.nodes().file(found.ino()).await?;
        let replaced = self.find_name(to.0, to.1).await?;
        match (replaced, manner) {
            (None, RenameManner::Exchange) => return Err(FsError::NotFound(display(to.1))),
            (Some(_), RenameManner::NoReplace) => return Err(FsError::Exists(display(to.1))),
            _ => (),
        }
        if file.is_directory() {
            self.expect_outside(&file, to.0).await?;
        }
        let other = match replaced {
            None => return Ok(Renaming::Move(file)),
            Some(other) if other.nid == found.nid => return Ok(Renaming::Nothing),
            Some(other) => self.nodes().file(other.ino()).await?,
        };
        match manner {
            RenameManner::Exchange => {
                if other.is_directory() {
                    self.expect_outside(&other, from.0).await?;
                }
                Ok(Renaming::Exchange(file, other))
            }
            _ => {
                self.expect_replaceable(from, to, (&file, &other)).await?;
                Ok(Renaming::Replace(file, other))
            }
        }
    }

    /// Renames with both directories and the files locked, as [`Directories::prepare_rename`] said. The caller holds
    /// `changes`.
    pub(super) async fn rename_locked(&self, from: Name<'_>, to: Name<'_>, renaming: &Renaming) -> FsResult<()> {
        match renaming {
            Renaming::Nothing => Ok(()),
            Renaming::Move(file) => {
                let new = NewEntry { ino: file.number(), kind: file.kind(), name: to.1 };
                self.add_name(to.0, new).await?;
                self.finish_move(from, to, file, 0).await
            }
            Renaming::Exchange(file, other) => self.exchange(from, to, file, other).await,
            Renaming::Replace(file, victim) => self.replace(from, to, file, victim).await,
        }
    }

    /// # Errors
    /// If one of two files cannot replace the other.
    async fn expect_replaceable(&self, from: Name<'_>, to: Name<'_>, files: (&Rc<File>, &Rc<File>)) -> FsResult<()> {
        let (file, victim) = files;
        if victim.is_directory() {
            // The victim may contain the moved inode, at any depth.
            self.expect_outside(victim, from.0).await.map_err(|error| match error {
                FsError::Invalid(_) => FsError::NotEmpty(display(to.1)),
                other => other,
            })?;
        }
        match (file.is_directory(), victim.is_directory()) {
            (true, false) => Err(FsError::NotDirectory(display(to.1))),
            (false, true) => Err(FsError::IsDirectory(display(to.1))),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// [`FsError::Invalid`] if `directory` is `file` or lies below it.
    async fn expect_outside(&self, file: &File, directory: &Rc<File>) -> FsResult<()> {
        let (mut above, mut seen) = (Rc::clone(directory), FxHashSet::default());
        loop {
            if !seen.insert(above.number()) {
                let place = format!("`..` of directory {}", above.ino());
                return Err(FsError::Damaged { place, problem: "leads back to it, not to the root".into() });
            }
            if above.number() == file.number() {
                return Err(FsError::Invalid(format!("{} cannot be moved into itself", file.ino())));
            }
            if above.number() == ROOT_INODE {
                return Ok(());
            }
            let missing = |_| FsError::Damaged { place: above.ino().to_string(), problem: "has no `..`".into() };
            let parent = self.expect_name(&above, b"..").await.map_err(missing)?;
            above = self.directory(parent.ino()).await?;
        }
    }

    async fn replace(&self, from: Name<'_>, to: Name<'_>, file: &Rc<File>, victim: &Rc<File>) -> FsResult<()> {
        if victim.is_directory() && !self.is_empty_directory(victim).await? {
            return Err(FsError::NotEmpty(display(to.1)));
        }
        self.retarget_name(to.0, NewEntry { ino: file.number(), kind: file.kind(), name: to.1 }).await?;
        self.finish_move(from, to, file, u32::from(victim.is_directory())).await?;
        self.contents().drop_link(victim).await
    }

    /// Removes the old name of a moved inode; `gone` directories lost their place in the target.
    async fn finish_move(&self, from: Name<'_>, to: Name<'_>, file: &Rc<File>, gone: u32) -> FsResult<()> {
        self.remove_name(from.0, from.1).await?;
        let moved = u32::from(file.is_directory() && from.0.number() != to.0.number());
        change_links(from.0, -i64::from(moved));
        change_links(to.0, i64::from(moved) - i64::from(gone));
        self.note_name(file, to, Parent::of(moved.into())).await?;
        self.stamp_modified(from.0);
        self.stamp_modified(to.0);
        Ok(())
    }

    async fn exchange(&self, from: Name<'_>, to: Name<'_>, file: &Rc<File>, other: &Rc<File>) -> FsResult<()> {
        self.retarget_name(to.0, NewEntry { ino: file.number(), kind: file.kind(), name: to.1 }).await?;
        self.retarget_name(from.0, NewEntry { ino: other.number(), kind: other.kind(), name: from.1 }).await?;
        let crosses = from.0.number() != to.0.number();
        let (one, two) = (i64::from(file.is_directory() && crosses), i64::from(other.is_directory() && crosses));
        change_links(from.0, two - one);
        change_links(to.0, one - two);
        self.note_name(file, to, Parent::of(one)).await?;
        self.note_name(other, from, Parent::of(two)).await?;
        self.stamp_modified(from.0);
        self.stamp_modified(to.0);
        Ok(())
    }

    /// Lets an inode know its new name, and a moved directory its new parent.
    async fn note_name(&self, file: &Rc<File>, name: Name<'_>, parent: Parent) -> FsResult<()> {
        if parent == Parent::New {
            let new = NewEntry { ino: name.0.number(), kind: FileKind::Directory, name: b".." };
            self.retarget_name(file, new).await?;
        }
        file.change_raw(|raw| put_name(raw, name.0.number(), name.1));
        if self.options.fsync_mode == FsyncMode::Strict {
            file.bind_to(self.version());
        }
        self.stamp_changed(file);
        Ok(())
    }
}

/// Whether `..` of an inode changes with its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// A directory that moved to another.
    New,
    Kept,
}

impl Parent {
    /// By the number of directories that move: this one or none.
    fn of(moved: i64) -> Parent {
        if moved == 1 { Parent::New } else { Parent::Kept }
    }
}

fn change_links(directory: &File, more: i64) {
    if more != 0 {
        directory.change_raw(|raw| raw.i_links.set((i64::from(raw.i_links.get()) + more) as u32));
    }
}
