//! Atomic: the ioctls of atomic files. F2FS's four work on an open file; ours take inode numbers, on a directory.
//!
//! ```text
//!   start ──► draft of this handle ──► commit: visible and durable, the draft ends
//!              │ write, truncate,    └► abort, close, death of the program: dropped, the draft ends
//!              │ punch through the handle
//! ```
//!
//! Who owns what, and what others see meanwhile, stands in `docs/mount.md`.

use fuser::Errno;
use onewrite_fs::{DraftId, FsError, FsResult, Ino};

use super::convert::Answer;
use super::handles::{Begun, Caching, Open};
use super::server::{Mountable, Server};

/// F2FS's requests (linux/f2fs.h).
const START: u32 = 0xf501;
const COMMIT: u32 = 0xf502;
const ABORT: u32 = 0xf505;
const FEATURES: u32 = 0x8004_f50c;
/// F2FS's bit of [`FEATURES`] for atomic writes.
const ATOMIC_WRITE: u32 = 0x4;

/// Ours, `_IOW(0xf5, 0x80, …)` and `_IOW(0xf5, 0x81, …)`: a `u64` with a count and as many inode numbers of 64 bits, in
/// the machine's byte order. The size of the argument, up to 16,383 bytes, is part of the request's number.
const COMMIT_TOGETHER: u32 = 0x4000_f580;
const ABORT_TOGETHER: u32 = 0x4000_f581;
const SIZE_BITS: u32 = 0x3fff << 16;

/// A request about atomic files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AtomicRequest {
    Features,
    Start,
    Commit,
    Abort,
    CommitTogether(Vec<u64>),
    AbortTogether(Vec<u64>),
}

impl AtomicRequest {
    /// # Errors
    /// ENOTTY for another request; EINVAL for an argument that does not hold what it counts.
    pub(super) fn parse(number: u32, argument: &[u8]) -> Answer<AtomicRequest> {
        Ok(match number {
            START => AtomicRequest::Start,
            COMMIT => AtomicRequest::Commit,
            ABORT => AtomicRequest::Abort,
            FEATURES => AtomicRequest::Features,
            _ => match number & !SIZE_BITS {
                COMMIT_TOGETHER => AtomicRequest::CommitTogether(counted(argument).ok_or(Errno::EINVAL)?),
                ABORT_TOGETHER => AtomicRequest::AbortTogether(counted(argument).ok_or(Errno::EINVAL)?),
                _ => return Err(Errno::ENOTTY.into()),
            },
        })
    }
}

/// The numbers behind their count; `None` if there are fewer.
fn counted(argument: &[u8]) -> Option<Vec<u64>> {
    let (words, _) = argument.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let count = words.next()?;
    let numbers: Vec<u64> = words.take(usize::try_from(count).ok()?).collect();
    (numbers.len() as u64 == count).then_some(numbers)
}

/// The answer to a request about atomic files.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What the program gets.
    pub(super) value: Vec<u8>,
    /// Inodes whose pages in the kernel's cache must go before the program gets its answer.
    pub(super) stale: Vec<Ino>,
}

impl<F: Mountable> Server<F> {
    /// Carries out a request of user `uid`.
    pub(super) async fn atomic(&self, request: AtomicRequest, open: Open, uid: u32) -> Answer<Outcome> {
        match request {
            AtomicRequest::Features => Ok(self.features(open.ino)),
            AtomicRequest::Start => self.start(open, uid).await,
            AtomicRequest::Commit => self.commit(open).await,
            AtomicRequest::Abort => self.abort(open).await,
            AtomicRequest::CommitTogether(numbers) => self.commit_together(&self.owned(&numbers, uid)?).await,
            AtomicRequest::AbortTogether(numbers) => self.abort_together(&self.owned(&numbers, uid)?).await,
        }
    }

    /// Tells whether there are atomic files here. Who asks may use them: later handles of the file pass the cache.
    fn features(&self, ino: Ino) -> Outcome {
        let has_drafts = self.fs.has_drafts();
        if has_drafts {
            self.known.note_atomic(ino);
        }
        let features = if has_drafts { ATOMIC_WRITE } else { 0 };
        Outcome { value: features.to_ne_bytes().to_vec(), stale: Vec::new() }
    }

    /// Makes the handle the owner of a draft of its file; no-op if it is.
    async fn start(&self, open: Open, uid: u32) -> Answer<Outcome> {
        if self.handles.open_draft(open)?.is_some() {
            self.handles.note_requested(open);
            return Ok(Outcome::default());
        }
        self.begin(open, uid, Begun::ByRequest).await?;
        Ok(Outcome::default())
    }

    /// Makes the handle the owner of a new draft of its file.
    pub(super) async fn begin(&self, open: Open, uid: u32, begun: Begun) -> Answer<()> {
        let manners = self.handles.manners(open).filter(|manners| manners.can_write).ok_or(Errno::EBADF)?;
        let draft = self.fs.begin_draft()?;
        // Before the look at others: whoever opens the file from now on passes the cache.
        self.known.note_atomic(open.ino);
        let claimed = match manners.caching == Caching::Cached && self.handles.has_cached_beside(open) {
            true => Err(Errno::EBUSY.into()),
            false => self.fs.claim(draft, open.ino).await.map_err(Into::into),
        };
        if let Err(refusal) = claimed {
            self.fs.end_draft(draft).await?;
            return Err(refusal);
        }
        self.handles.own(open, draft, (uid, begun));
        Ok(())
    }

    /// Commits the handle's draft and ends it. Without a draft: makes the file durable, as F2FS does.
    async fn commit(&self, open: Open) -> Answer<Outcome> {
        match self.handles.draft(open) {
            Some(draft) => self.commit_together(&[(open.ino, draft)]).await,
            None => {
                self.fs.fsync(open.ino).await?;
                Ok(Outcome::default())
            }
        }
    }

    /// Drops the handle's draft. No-op without a draft.
    async fn abort(&self, open: Open) -> Answer<Outcome> {
        match self.handles.draft(open) {
            Some(draft) => self.abort_together(&[(open.ino, draft)]).await,
            None => Ok(Outcome::default()),
        }
    }

    /// The drafts of these inodes.
    ///
    /// # Errors
    /// EINVAL if one has none or is named twice, EPERM if another user began it.
    fn owned(&self, numbers: &[u64], uid: u32) -> Answer<Vec<(Ino, DraftId)>> {
        let mut owned = Vec::with_capacity(numbers.len());
        for number in numbers {
            let ino = self.numbers.inside(fuser::INodeNo(*number));
            let draft = self.handles.drafted(ino).ok_or(Errno::EINVAL)?;
            if uid != 0 && self.handles.drafted_by(ino) != Some(uid) {
                return Err(Errno::EPERM.into());
            }
            if owned.contains(&(ino, draft)) {
                return Err(Errno::EINVAL.into());
            }
            owned.push((ino, draft));
        }
        Ok(owned)
    }

    /// Commits drafts as one step and ends them. After an error they are as they were.
    pub(super) async fn commit_together(&self, owned: &[(Ino, DraftId)]) -> Answer<Outcome> {
        let drafts: Vec<DraftId> = owned.iter().map(|(_, draft)| *draft).collect();
        // A write beside the commit is refused: it would go into a draft that is about to end, and be lost.
        self.handles.begin_end(owned)?;
        if let Err(error) = self.fs.commit_drafts(&drafts).await {
            self.handles.undo_end(owned);
            for (ino, draft) in owned {
                // The owner closed the file during the commit.
                if self.handles.drafted(*ino) != Some(*draft) {
                    self.end_if_there(*draft).await?;
                }
            }
            return Err(error.into());
        }
        // Cached handles beside a direct owner may have read, and so cached, what was committed before.
        let is_stale = |ino: &Ino| self.handles.owner(*ino).is_some_and(|owner| self.handles.has_cached_beside(owner));
        let stale = owned.iter().map(|(ino, _)| *ino).filter(is_stale).collect();
        self.end(owned).await?;
        Ok(Outcome { value: Vec::new(), stale })
    }

    async fn abort_together(&self, owned: &[(Ino, DraftId)]) -> Answer<Outcome> {
        self.handles.begin_end(owned)?;
        self.end(owned).await?;
        Ok(Outcome { value: Vec::new(), stale: owned.iter().map(|(ino, _)| *ino).collect() })
    }

    /// Ends drafts: what they did not commit is dropped. They lose their owners first, because others may claim a file
    /// as soon as its draft has ended.
    async fn end(&self, owned: &[(Ino, DraftId)]) -> Answer<()> {
        for (ino, draft) in owned {
            self.handles.disown_inode(*ino, *draft);
            self.end_if_there(*draft).await?;
        }
        Ok(())
    }

    /// Ends a draft, unless somebody else has ended it, or commits it now and ends it then.
    pub(super) async fn end_if_there(&self, draft: DraftId) -> FsResult<()> {
        match self.fs.end_draft(draft).await {
            Err(FsError::NotFound(_) | FsError::Busy(_)) => Ok(()),
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_known_by_their_numbers_and_lists_by_what_they_count() {
        let list = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let parse =
            |number, argument: &[u8]| AtomicRequest::parse(number, argument).map_err(|refusal| refusal.0.code());
        assert_eq!(parse(0xf501, &[]), Ok(AtomicRequest::Start));
        assert_eq!(parse(0x8004_f50c, &[]), Ok(AtomicRequest::Features));
        let two = AtomicRequest::CommitTogether(vec![12, 13]);
        assert_eq!(parse(0x4018_f580, &list(&[2, 12, 13])), Ok(two));
        assert_eq!(parse(0x4018_f581, &list(&[1, 12, 13])), Ok(AtomicRequest::AbortTogether(vec![12])));
        assert_eq!(parse(0x4018_f581, &list(&[3, 12, 13])), Err(Errno::EINVAL.code()));
        assert_eq!(parse(0x4004_f580, &[0; 4]), Err(Errno::EINVAL.code()));
        assert_eq!(parse(0x5401, &[]), Err(Errno::ENOTTY.code()));
    }
}
