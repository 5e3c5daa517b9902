//! Drafts of atomic files that are wrong.

use std::pin::pin;
use std::task::Poll;

use onewrite_crash::{Alter, DraftChange, DraftChanged, Ext4Subject, Subject};
use onewrite_fs::ext4::Ext4;
use onewrite_fs::{AtomicFiles, AttributeChanges, DraftId, FileSystem, FileView, FsError, FsResult, Position};

/// The drafts of a group are committed one by one.
#[derive(Clone, Copy)]
pub struct SplitGroup;

impl Alter<Ext4Subject> for SplitGroup {
    async fn commit_drafts(&self, fs: &Ext4, sound: &Ext4Subject, drafts: &[DraftId]) -> FsResult<()> {
        for draft in drafts {
            sound.commit_drafts(fs, &[*draft]).await?;
        }
        Ok(())
    }
}

/// A change that makes a file larger or smaller gives the inode its size at once.
#[derive(Clone, Copy)]
pub struct EarlySize;

impl Alter<Ext4Subject> for EarlySize {
    async fn change_draft(
        &self,
        fs: &Ext4,
        sound: &Ext4Subject,
        draft: DraftId,
        change: DraftChange<'_>,
    ) -> FsResult<DraftChanged> {
        let resized = match change {
            DraftChange::SetSize { ino, size } => Some((ino, size)),
            DraftChange::Write { ino, position: Position::At(offset), content } => {
                Some((ino, fs.attributes(ino).await?.size.max(offset + content.length())))
            }
            _ => None,
        };
        if let Some((ino, size)) = resized {
            let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
            match fs.set_attributes(ino, changes).await {
                // Only the first change of a draft can do this.
                Ok(()) | Err(FsError::Busy(_)) => (),
                Err(error) => return Err(error),
            }
        }
        sound.change_draft(fs, draft, change).await
    }
}

/// Aborted pages are written back.
#[derive(Clone, Copy)]
pub struct WrittenAborts;

impl Alter<Ext4Subject> for WrittenAborts {
    async fn abort_drafts(&self, fs: &Ext4, sound: &Ext4Subject, drafts: &[DraftId]) -> FsResult<()> {
        sound.commit_drafts(fs, drafts).await
    }
}

/// A commit returns as soon as its transaction has the changes.
#[derive(Clone, Copy)]
pub struct EarlyCommit;

impl Alter<Ext4Subject> for EarlyCommit {
    async fn commit_drafts(&self, fs: &Ext4, sound: &Ext4Subject, drafts: &[DraftId]) -> FsResult<()> {
        let mut commit = pin!(sound.commit_drafts(fs, drafts));
        let are_empty = || drafts.iter().all(|draft| matches!(fs.is_draft_changed(*draft), Ok(false)));
        std::future::poll_fn(|context| match commit.as_mut().poll(context) {
            Poll::Pending if are_empty() => Poll::Ready(Ok(())),
            outcome => outcome,
        })
        .await
    }
}
