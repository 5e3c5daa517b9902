//! Draft: changes of several files of a [`Volume`](super::Volume) that take effect together, or never.
//!
//! ```no_run
//! # fn main() -> Result<(), onewrite_host::VolumeError> {
//! # use onewrite_fs::ext4::{Mode, MountOptions};
//! # use onewrite_host::Volume;
//! let volume = Volume::open("disk.img", MountOptions::new(Mode::Data))?;
//! let draft = volume.atomic()?;
//! let (from, to) = (draft.claim("/from")?, draft.claim("/to")?);
//! from.set_size(0)?;
//! to.append(b"moved\n")?;
//! draft.rename("/list.new", "/list")?;
//! draft.commit() // now all of it survives a power cut; without it, nothing of it
//! # }
//! ```
//!
//! A draft stays usable after a commit or an abort, and keeps its files until it is dropped: a program that commits
//! often claims once. A [`DraftFile`] only names a file of its draft; it does not keep the draft alive.
//!
//! # Invariants
//! - A draft that is dropped is aborted: nobody sees what it did not commit.
//! - Files and drafts of one volume are never taken for those of another.

use std::sync::Arc;

use onewrite_fs::{AtomicFiles, Content, DraftId, FsError, Ino, NewNode, Position};

use super::core::Core;
use super::error::VolumeError;
use super::file::File;

/// Changes of several files, private until [`Draft::commit`]. Any thread may use it.
///
/// Others read what was committed last. Their changes of a claimed file's content fail with EBUSY; its name and its
/// other attributes are everybody's.
pub struct Draft {
    core: Arc<Core>,
    id: DraftId,
}

impl Draft {
    /// Begins an empty draft.
    pub(super) fn begin(core: &Arc<Core>) -> Result<Draft, VolumeError> {
        let id = core.call(async |fs| fs.begin_draft())?;
        Ok(Draft { core: Arc::clone(core), id })
    }

    /// Takes the right to change the content of the file at `path`, until the draft is dropped. Symbolic links are
    /// followed. A second claim gives the same file.
    ///
    /// # Errors
    /// EBUSY if another draft has the file; a missing path, something that is no file.
    pub fn claim(&self, path: impl AsRef<[u8]>) -> Result<DraftFile, VolumeError> {
        Ok(self.file(self.core.claim(self.id, path.as_ref().to_vec())?))
    }

    /// As [`Draft::claim`], of a file that is open, whatever its name is now.
    ///
    /// # Errors
    /// As [`Draft::claim`]; EINVAL for a file of another volume.
    pub fn claim_open(&self, file: &File) -> Result<DraftFile, VolumeError> {
        let (id, ino) = (self.id, file.ino_on(&self.core)?);
        self.core.call(async move |fs| fs.claim(id, ino).await)?;
        Ok(self.file(ino))
    }

    /// Makes an empty file that gets the name `path` at the commit, and claims it. It vanishes with an abort.
    ///
    /// # Errors
    /// If the name is taken, there or in the draft; a missing directory, no space.
    pub fn create(&self, path: impl AsRef<[u8]>) -> Result<DraftFile, VolumeError> {
        self.create_as(path, NewNode::FILE)
    }

    /// As [`Draft::create`], with the owner and permissions of `node`, which is a regular file.
    ///
    /// # Errors
    /// As [`Draft::create`].
    pub fn create_as(&self, path: impl AsRef<[u8]>, node: NewNode) -> Result<DraftFile, VolumeError> {
        Ok(self.file(self.core.draft_create(self.id, path.as_ref().to_vec(), node)?))
    }

    /// Removes the file's name `path` at the commit.
    ///
    /// # Errors
    /// If there is no such name, there and in the draft; a directory; no space.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.core.draft_remove(self.id, path.as_ref().to_vec())
    }

    /// Moves a file from the name `from` to `to` at the commit; a file at `to` is replaced.
    ///
    /// # Errors
    /// As [`Draft::remove`].
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.core.draft_rename(self.id, from.as_ref().to_vec(), to.as_ref().to_vec())
    }

    /// Makes all changes visible and durable, as one step. The draft is empty then and keeps its files.
    ///
    /// # Errors
    /// If a name was taken or lost meanwhile: nothing has changed, and the draft is as it was. If the device fails:
    /// all changes survive, or none.
    pub fn commit(&self) -> Result<(), VolumeError> {
        commit(&self.core, &[self])
    }

    /// Whether there is anything to commit.
    ///
    /// # Errors
    /// ENOENT if the volume was unmounted by a failure.
    pub fn is_changed(&self) -> Result<bool, VolumeError> {
        let id = self.id;
        self.core.call(async move |fs| fs.is_draft_changed(id))
    }

    /// Drops all changes since the last commit. The draft keeps its files; those that it created are gone.
    ///
    /// # Errors
    /// If the device fails.
    pub fn abort(&self) -> Result<(), VolumeError> {
        let id = self.id;
        self.core.call(async move |fs| fs.abort_drafts(&[id]).await)
    }

    fn file(&self, ino: Ino) -> DraftFile {
        DraftFile { core: Arc::clone(&self.core), draft: self.id, ino }
    }
}

impl Drop for Draft {
    /// An error has nobody to go to; the next call of the volume meets it again.
    fn drop(&mut self) {
        let id = self.id;
        let _ = self.core.call(async move |fs| fs.end_draft(id).await);
    }
}

/// Commits drafts of the volume of `core`, all or none.
pub(super) fn commit(core: &Arc<Core>, drafts: &[&Draft]) -> Result<(), VolumeError> {
    if drafts.iter().any(|draft| !Arc::ptr_eq(&draft.core, core)) {
        let text = "a draft of another volume cannot be committed here: commit it on its own volume";
        return Err(FsError::Invalid(text.to_owned()).into());
    }
    let ids: Vec<DraftId> = drafts.iter().map(|draft| draft.id).collect();
    core.call(async move |fs| fs.commit_drafts(&ids).await)
}

/// A file as its draft has it. Its calls fail with ENOENT after the draft was dropped, and with EINVAL after an abort
/// took the file away; do not keep it then: a file that the draft creates later may have the same number.
#[derive(Clone)]
pub struct DraftFile {
    core: Arc<Core>,
    draft: DraftId,
    ino: Ino,
}

impl DraftFile {
    /// Whether it is one of this draft.
    pub(super) fn is_of(&self, draft: &Draft) -> bool {
        Arc::ptr_eq(&self.core, &draft.core) && self.draft == draft.id
    }

    /// Size in the draft.
    ///
    /// # Errors
    /// See [`DraftFile`].
    pub fn size(&self) -> Result<u64, VolumeError> {
        let (draft, ino) = (self.draft, self.ino);
        self.core.call(async move |fs| fs.draft_size(draft, ino))
    }

    /// Up to `length` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// A damaged image, a device that fails.
    pub fn read_at(&self, offset: u64, length: u64) -> Result<Vec<u8>, VolumeError> {
        let (draft, ino) = (self.draft, self.ino);
        self.core.call(async move |fs| Ok(fs.draft_read(draft, ino, offset, length).await?.to_vec()))
    }

    /// Writes `bytes` at `offset`, all or nothing. Reserves what the commit needs, so that it cannot fail for space.
    ///
    /// # Errors
    /// No space; more changes than one transaction of the log can hold: commit what is there, or mount with a larger
    /// log.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        self.write(Position::At(offset), bytes).map(drop)
    }

    /// Writes `bytes` behind the end of the file, and returns where they begin.
    ///
    /// # Errors
    /// As [`DraftFile::write_at`].
    pub fn append(&self, bytes: &[u8]) -> Result<u64, VolumeError> {
        self.write(Position::End, bytes)
    }

    fn write(&self, position: Position, bytes: &[u8]) -> Result<u64, VolumeError> {
        let (draft, ino, bytes) = (self.draft, self.ino, bytes.to_vec());
        self.core.call(async move |fs| fs.draft_write(draft, ino, position, Content::Bytes(&bytes)).await)
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// As [`DraftFile::write_at`].
    pub fn set_size(&self, size: u64) -> Result<(), VolumeError> {
        let (draft, ino) = (self.draft, self.ino);
        self.core.call(async move |fs| fs.draft_set_size(draft, ino, size).await)
    }

    /// Makes a range read as zeros; its whole pages are freed at the commit. The size stays.
    ///
    /// # Errors
    /// As [`DraftFile::write_at`].
    pub fn punch(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        let (draft, ino) = (self.draft, self.ino);
        self.core.call(async move |fs| fs.draft_punch(draft, ino, offset, length).await)
    }
}
