//! Draft change: what an action changes in a draft of atomic files.

use onewrite_fs::{AtomicFiles, Content, DraftId, FsResult, Ino, NewNode, Position};

use super::Name;

/// A change in a draft.
#[derive(Clone, Copy, Debug)]
pub enum DraftChange<'c> {
    /// Writes into a file.
    Write {
        /// The file.
        ino: Ino,
        /// Where.
        position: Position,
        /// What.
        content: Content<'c>,
    },
    /// Sets the size of a file.
    SetSize {
        /// The file.
        ino: Ino,
        /// Bytes.
        size: u64,
    },
    /// Punches a hole into a file.
    Punch {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Creates an empty file.
    Create(Name<'c>),
    /// Removes a name.
    Unlink(Name<'c>),
    /// Moves a name, replacing the target if there is one.
    Rename(Name<'c>, Name<'c>),
}

/// What a change in a draft came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftChanged {
    /// The new file.
    Created(Ino),
    /// Bytes were written from here on.
    Written(u64),
    /// The file had this size before.
    Resized(u64),
    /// Names changed.
    Names,
}

impl DraftChange<'_> {
    /// The file that has to be claimed, if there is one.
    pub const fn file(&self) -> Option<Ino> {
        match self {
            DraftChange::Write { ino, .. } | DraftChange::SetSize { ino, .. } | DraftChange::Punch { ino, .. } => {
                Some(*ino)
            }
            DraftChange::Create(_) | DraftChange::Unlink(_) | DraftChange::Rename(..) => None,
        }
    }

    /// Claims the file and makes the change.
    ///
    /// # Errors
    /// As the file system has them.
    pub async fn make<F: AtomicFiles>(self, fs: &F, draft: DraftId) -> FsResult<DraftChanged> {
        if let Some(ino) = self.file() {
            fs.claim(draft, ino).await?;
        }
        let names = |()| DraftChanged::Names;
        match self {
            DraftChange::Write { ino, position, content } => {
                fs.draft_write(draft, ino, position, content).await.map(DraftChanged::Written)
            }
            DraftChange::SetSize { ino, size } => {
                let before = fs.draft_size(draft, ino)?;
                fs.draft_set_size(draft, ino, size).await.map(|()| DraftChanged::Resized(before))
            }
            DraftChange::Punch { ino, offset, length } => {
                let before = fs.draft_size(draft, ino)?;
                fs.draft_punch(draft, ino, offset, length).await.map(|()| DraftChanged::Resized(before))
            }
            DraftChange::Create((directory, name)) => {
                fs.draft_create(draft, directory, name, NewNode::FILE).await.map(DraftChanged::Created)
            }
            DraftChange::Unlink((directory, name)) => fs.draft_unlink(draft, directory, name).await.map(names),
            DraftChange::Rename(from, to) => fs.draft_rename(draft, from, to).await.map(names),
        }
    }
}
