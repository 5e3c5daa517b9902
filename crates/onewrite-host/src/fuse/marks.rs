//! Marks: files that are atomic for every program. The first change through an open file begins a draft, `fsync`
//! commits it, the last close drops what was not committed.
//!
//! A file is marked by its attribute [`MARK`], whatever its value, or by a name that fits the mount's pattern
//! (`-o atomic=GLOB`). FUSE names no file at `open`, so the mount notes fitting names when the kernel learns them.

use fuser::Errno;
use onewrite_fs::{DraftId, FsError, Ino};

use super::convert::Answer;
use super::handles::{Begun, Change, Open};
use super::server::{Mountable, Server};

/// `O_DSYNC`, which `O_SYNC` contains.
const DATA_SYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;

/// The extended attribute that marks a file.
pub(super) const MARK: &[u8] = b"user.onewrite.atomic";

impl<F: Mountable> Server<F> {
    /// Notes that the kernel learns this name of an inode.
    pub(super) fn note_name(&self, ino: Ino, name: &[u8]) {
        if self.atomic_names.iter().any(|pattern| pattern.fits(name)) {
            self.known.note_marked(ino);
        }
    }

    /// Notes the name that an inode has got, if the pattern asks for names.
    pub(super) async fn note_new_name(&self, directory: Ino, name: &[u8]) -> Answer<()> {
        if !self.atomic_names.is_empty() {
            self.note_name(self.fs.lookup(directory, name).await?, name);
        }
        Ok(())
    }

    /// Whether the file is marked. A program is about to open it for writing.
    ///
    /// # Errors
    /// EOPNOTSUPP if it is and the mode has no drafts; EROFS on a read-only mount.
    pub(super) async fn is_marked(&self, ino: Ino) -> Answer<bool> {
        let has_mark = match self.fs.extended_attribute(ino, MARK).await {
            Ok(_) => true,
            Err(FsError::NoData(_)) => false,
            Err(error) => return Err(error.into()),
        };
        if !has_mark && !self.known.is_marked(ino) {
            return Ok(false);
        }
        self.check_drafts(ino)?;
        self.known.note_atomic(ino);
        Ok(true)
    }

    /// # Errors
    /// EOPNOTSUPP if the mount cannot keep what a mark on this file promises.
    pub(super) fn check_drafts(&self, ino: Ino) -> Answer<()> {
        if self.fs.has_drafts() {
            return Ok(());
        }
        let cure = "mount ext4 with data=data+async, and F2FS without a staging area";
        tracing::error!("{ino}: no file can be atomic here: {cure}");
        Err(Errno::EOPNOTSUPP.into())
    }

    /// The draft for a change through a handle: the one that it owns; for a marked file a new one.
    ///
    /// # Errors
    /// EBUSY while its draft ends, or if somebody else has a draft of the file.
    pub(super) async fn draft_to_change(&self, open: Open, change: Change) -> Answer<Option<DraftId>> {
        let draft = self.handles.open_draft(open)?;
        if draft.is_none()
            && let Some(manners) = self.handles.manners(open).filter(|manners| manners.is_marked)
        {
            self.commit_lone_cut(open.ino).await?;
            self.begin(open, manners.uid, Begun::ByChange).await?;
        }
        self.handles.note_change(open, change);
        Ok(self.handles.open_draft(open)?)
    }

    /// Commits what another open file cut off a marked file behind its last commit, if it did nothing else. SQLite
    /// makes a database shorter behind its last sync; without this nobody else could write to it before its next one.
    /// An emptied file does not count: a program that is about to write it anew may die.
    async fn commit_lone_cut(&self, ino: Ino) -> Answer<()> {
        match self.handles.lone_cut(ino) {
            Some(draft) => self.commit_together(&[(ino, draft)]).await.map(drop),
            None => Ok(()),
        }
    }

    /// Commits the draft of a marked file behind a write that has to be durable when it returns: `O_SYNC`, `O_DSYNC`,
    /// `-o sync`. The kernel does not ask for it where files pass its cache.
    /// Returns inodes whose pages must leave the kernel's cache before the program gets its answer.
    pub(super) async fn sync_written(&self, open: Open, flags: i32) -> Answer<Vec<Ino>> {
        let is_synchronous = self.is_synchronous || flags & DATA_SYNC != 0;
        match self.handles.begun_by_change(open).filter(|_| is_synchronous) {
            Some(draft) => Ok(self.commit_together(&[(open.ino, draft)]).await?.stale),
            None => Ok(Vec::new()),
        }
    }
}
