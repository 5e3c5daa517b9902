//! SHARE for applications: pages of files take the content of other pages, without being written.
//!
//! It is the interface that SHARE gives to databases: a page that was written to a double-write area, or an old place
//! of an append-only store, becomes the content of another page by remapping. What the files look like, how atomic a
//! call is and what happens without the command is in `docs/share.md`. Source: `papers/000` §3.2.

use crate::api::{FileSystem, FsResult, Ino};

/// Pages of a file that take the content of pages of the same or of another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRange {
    /// The file whose content is taken.
    pub source: Ino,
    /// First byte there, a multiple of 4096.
    pub source_offset: u64,
    /// The file that changes.
    pub target: Ino,
    /// First byte there, a multiple of 4096. Beyond the end of the file: it grows.
    pub target_offset: u64,
    /// Bytes, a multiple of 4096 and not 0.
    pub length: u64,
}

/// How calls of [`SharePages::share`] change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareBy {
    /// The device remaps pages; nothing is written.
    Remapping,
    /// The content goes through the log once more.
    Logging,
}

/// A file system whose pages can be shared.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait SharePages: FileSystem {
    /// How a call changes files.
    ///
    /// # Errors
    /// [`FsError::Unsupported`](crate::FsError::Unsupported) if the device has no atomic SHARE and the mode does not
    /// log content; the text names the cure.
    fn share_by(&self) -> FsResult<ShareBy>;

    /// Makes the target of every range read as its source does, as one step that is durable when the call returns: a
    /// power loss leaves all ranges as before or all as after. Later changes of a source leave its targets as they are.
    ///
    /// # Errors
    /// [`FsError::Invalid`](crate::FsError::Invalid) for unaligned or overlapping ranges, for a source that is a hole
    /// or beyond its end, and for a call that both replaces pages and extends the target;
    /// [`FsError::TooManyPages`](crate::FsError::TooManyPages); [`FsError::Busy`](crate::FsError::Busy) if a draft has
    /// a target. Nothing has changed then. Device errors.
    async fn share(&self, ranges: &[ShareRange]) -> FsResult<()>;
}
