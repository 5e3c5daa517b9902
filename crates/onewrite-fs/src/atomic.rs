//! Atomic files: changes of several files that become visible and durable together, or never.
//!
//! Its one idea: a **draft** gathers the changes of one owner. Nobody else sees them. [`AtomicFiles::commit_drafts`]
//! makes them the content of the files in one step: after a power loss all of them are there, or none. Until then
//! others read what was committed last, and only the draft may change the content of its files.
//!
//! A draft for one file gives `O_ATOMIC`, `fsync` and `abort` of the papers; several drafts that are committed together
//! give `syncv`; one draft that claims several files is a transaction over these files and their names. Source:
//! `papers/000` §3.4.3; the rules that it leaves open are in `docs/atomic-files.md`.

use crate::api::{FileSystem, FsResult, Ino, NewNode, Position};
use crate::content::{Content, Data};
use crate::pages::OwnerId;

/// Names a draft of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftId(pub u64);

impl DraftId {
    /// The owner of its private pages.
    pub(crate) const fn owner(self) -> OwnerId {
        OwnerId(self.0)
    }
}

/// A file system with atomic files.
///
/// A call fails with [`FsError::NotFound`](crate::FsError::NotFound) if the draft has ended.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait AtomicFiles: FileSystem {
    /// Whether [`AtomicFiles::begin_draft`] can succeed: the mode commits content, and changes are allowed.
    fn has_drafts(&self) -> bool;

    /// Whether a power cut leaves, of all changes beside those of drafts, those up to some moment, each write whole.
    fn keeps_order(&self) -> bool;

    /// Begins an empty draft.
    ///
    /// # Errors
    /// [`FsError::Unsupported`](crate::FsError::Unsupported) if the mode cannot commit content atomically; the text
    /// names modes that can. [`FsError::ReadOnly`](crate::FsError::ReadOnly).
    fn begin_draft(&self) -> FsResult<DraftId>;

    /// Gives the draft the right to change the content of a regular file, until the draft ends. Keeps the file alive.
    /// No-op if the draft has it already.
    ///
    /// # Errors
    /// [`FsError::Busy`](crate::FsError::Busy) if another draft has it.
    async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()>;

    /// The draft that claimed the file, if there is one.
    async fn claimant(&self, ino: Ino) -> FsResult<Option<DraftId>>;

    /// Whether the draft holds changes that are neither committed nor aborted. During a commit this ends at one moment:
    /// while the commit holds its place among the transactions.
    fn is_draft_changed(&self, draft: DraftId) -> FsResult<bool>;

    /// Size of a claimed file as the draft has it.
    ///
    /// # Errors
    /// [`FsError::Invalid`](crate::FsError::Invalid) if the draft did not claim the file; so do the next three.
    fn draft_size(&self, draft: DraftId, ino: Ino) -> FsResult<u64>;

    /// Reads a claimed file as the draft has it; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// Device errors and damage.
    async fn draft_read(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<Data>;

    /// Writes into the draft; returns the offset of the first byte. Reserves everything that the commit needs.
    ///
    /// # Errors
    /// [`FsError::NoSpace`](crate::FsError::NoSpace) if the disk is too full for the commit;
    /// [`FsError::TooManyChanges`](crate::FsError::TooManyChanges) if the metadata of all drafts together, on F2FS
    /// their content too, would exceed what one commit takes. The draft is then as it was. If the device fails, a part
    /// of a long write may be in the draft.
    async fn draft_write(&self, draft: DraftId, ino: Ino, position: Position, content: Content<'_>) -> FsResult<u64>;

    /// Sets the size in the draft: truncates or extends it with zeros.
    ///
    /// # Errors
    /// As [`AtomicFiles::draft_write`].
    async fn draft_set_size(&self, draft: DraftId, ino: Ino, size: u64) -> FsResult<()>;

    /// Makes a range read as zeros, in the draft; frees its whole pages when the draft is committed. The size stays.
    ///
    /// # Errors
    /// As [`AtomicFiles::draft_write`].
    async fn draft_punch(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<()>;

    /// Creates a regular file that gets its name when the draft is committed, and claims it. Without a commit it
    /// vanishes with the draft, or at the next mount.
    ///
    /// # Errors
    /// [`FsError::Exists`](crate::FsError::Exists) if the name is taken, in the directory or in the draft.
    async fn draft_create(&self, draft: DraftId, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino>;

    /// Removes a name of a file, not of a directory, when the draft is committed.
    ///
    /// # Errors
    /// [`FsError::NotFound`](crate::FsError::NotFound) if there is no such name, in the directory and in the draft.
    async fn draft_unlink(&self, draft: DraftId, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Moves a name of a file, not of a directory, when the draft is committed. Replaces the target if there is one.
    ///
    /// # Errors
    /// As [`AtomicFiles::draft_unlink`].
    async fn draft_rename(&self, draft: DraftId, from: (Ino, &[u8]), to: (Ino, &[u8])) -> FsResult<()>;

    /// Makes the changes of all these drafts visible and durable, as one step. Names that were removed before the call
    /// stay removed with it. The drafts are empty then and keep their files. Drafts without changes make their files
    /// durable, as `fsync` does.
    ///
    /// # Errors
    /// If a name was taken or lost meanwhile: nothing has changed, and the drafts are as they were. After
    /// [`FsError::ReadOnly`](crate::FsError::ReadOnly) and device errors, either all changes survive or none.
    async fn commit_drafts(&self, drafts: &[DraftId]) -> FsResult<()>;

    /// Drops all changes of these drafts; they keep their files, as the last commit left them. Writes nothing,
    /// unless they created files: those are freed.
    ///
    /// # Errors
    /// Device errors, when files that the draft created are freed.
    async fn abort_drafts(&self, drafts: &[DraftId]) -> FsResult<()>;

    /// Aborts a draft and gives up its files.
    ///
    /// # Errors
    /// As [`AtomicFiles::abort_drafts`].
    async fn end_draft(&self, draft: DraftId) -> FsResult<()>;
}
