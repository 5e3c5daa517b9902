//! SHARE for applications: pages of files take the content of other pages, without being written.
//!
//! It is the interface that SHARE gives to databases: a page that was written to a double-write area, or an old place
//! of an append-only store, becomes the content of another page by remapping. What the files look like, how atomic a
//! call is and what happens without the command is in `docs/share.md`. Source: `papers/000` §3.2.

use std::ops::Range;

use crate::api::{FileSystem, FsError, FsResult, Ino};
use crate::pages::PAGE_BYTES;

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

impl ShareRange {
    /// # Errors
    /// A range that is not of whole pages or ends beyond the largest offset.
    fn check(&self) -> FsResult<()> {
        let is_whole = |bytes: u64| bytes.is_multiple_of(PAGE_BYTES);
        if self.length == 0 || ![self.source_offset, self.target_offset, self.length].into_iter().all(is_whole) {
            let message = format!("{self:?}: offsets and length must be multiples of {PAGE_BYTES}, the length not 0");
            return Err(FsError::Invalid(message));
        }
        let ends = [self.source_offset, self.target_offset].map(|offset| offset.checked_add(self.length));
        match ends.contains(&None) {
            true => Err(FsError::Invalid(format!("{self:?} ends beyond the largest offset"))),
            false => Ok(()),
        }
    }

    pub(crate) fn source_pages(&self) -> Range<u64> {
        pages(self.source_offset, self.length)
    }

    pub(crate) fn target_pages(&self) -> Range<u64> {
        pages(self.target_offset, self.length)
    }

    pub(crate) fn target_end(&self) -> u64 {
        self.target_offset + self.length
    }
}

fn pages(offset: u64, length: u64) -> Range<u64> {
    offset / PAGE_BYTES..(offset + length) / PAGE_BYTES
}

/// How [`SharePages::share`] changes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareBy {
    /// The device remaps pages; no content is written.
    Remapping,
    /// The content goes through the log once more.
    Logging,
}

/// What calls of [`SharePages::share`] can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How they change files.
    pub by: ShareBy,
    /// Most pages of one call.
    pub pages_max: u64,
}

/// A file system whose pages can be shared.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait SharePages: FileSystem {
    /// What calls can do.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if the device has no atomic SHARE and the mode does not
    /// log content; the text names the cure.
    fn sharing(&self) -> FsResult<Sharing>;

    /// Makes the target of every range read as its source does, as one step that is durable when the call returns: a
    /// power loss leaves all ranges as before or all as after. Later changes of a source leave its targets as they are.
    ///
    /// # Errors
    /// [`FsError::Invalid`] for unaligned or overlapping ranges, for a source that is a hole
    /// or beyond its end, and for a call that both replaces pages and extends a target;
    /// [`FsError::TooManyPages`]; [`FsError::Busy`] if a draft has
    /// a target. Nothing has changed then. Device errors.
    async fn share(&self, ranges: &[ShareRange]) -> FsResult<()>;

    /// As [`SharePages::share`], but it may become durable later: at the latest with the next sync of the targets.
    ///
    /// # Errors
    /// As [`SharePages::share`].
    async fn share_lazily(&self, ranges: &[ShareRange]) -> FsResult<()>;
}

/// # Errors
/// Ranges that are not of whole pages, or targets that overlap each other or a source.
pub(crate) fn check_ranges(ranges: &[ShareRange]) -> FsResult<()> {
    for range in ranges {
        range.check()?;
    }
    let mut targets: Vec<(Ino, Range<u64>)> = ranges.iter().map(|range| (range.target, range.target_pages())).collect();
    targets.sort_by_key(|(ino, pages)| (*ino, pages.start));
    if let Some(two) = targets.windows(2).find(|two| two[0].0 == two[1].0 && two[0].1.end > two[1].1.start) {
        return Err(FsError::Invalid(format!("page {} of {} is a target twice", two[1].1.start, two[1].0)));
    }
    for range in ranges {
        let pages = range.source_pages();
        let touches = |(ino, taken): &&(Ino, Range<u64>)| {
            *ino == range.source && taken.start < pages.end && pages.start < taken.end
        };
        if let Some((ino, taken)) = targets.iter().find(touches) {
            let page = taken.start.max(pages.start);
            return Err(FsError::Invalid(format!("page {page} of {ino} is source and target")));
        }
    }
    Ok(())
}
