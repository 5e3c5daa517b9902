//! The API of atomic files on a mounted F2FS.

use super::super::mount::F2fs;
use crate::api::{FsResult, Ino, NewNode, Position};
use crate::atomic::{AtomicFiles, DraftId};
use crate::content::{Content, Data};
use crate::drafts::{DraftHost, Drafting, Name, NameChange};
use crate::f2fs::mounted::volume::Volume;

impl F2fs {
    fn drafting(&self) -> Drafting<'_, Volume> {
        Drafting(self.volume())
    }

    async fn change_name(&self, draft: DraftId, change: NameChange) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.drafting().change_name(draft, change).await
    }
}

impl AtomicFiles for F2fs {
    fn has_drafts(&self) -> bool {
        self.volume().check_writable().is_ok() && self.volume().expect_drafts().is_ok()
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn begin_draft(&self) -> FsResult<DraftId> {
        self.drafting().begin_draft()
    }

    async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.drafting().claim(draft, ino).await
    }

    async fn claimant(&self, ino: Ino) -> FsResult<Option<DraftId>> {
        Ok(self.volume().nodes().file(ino).await?.claimant())
    }

    fn is_draft_changed(&self, draft: DraftId) -> FsResult<bool> {
        self.drafting().is_changed(draft)
    }

    fn draft_size(&self, draft: DraftId, ino: Ino) -> FsResult<u64> {
        Ok(self.drafting().file(draft, ino)?.size)
    }

    async fn draft_read(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<Data> {
        let data = self.drafting().read(draft, ino, offset, length).await?;
        self.volume().syscall(data.length as u64).await;
        Ok(data)
    }

    async fn draft_write(&self, draft: DraftId, ino: Ino, position: Position, content: Content<'_>) -> FsResult<u64> {
        self.volume().syscall(content.length()).await;
        self.volume().check_writable()?;
        self.drafting().write(draft, ino, position, content).await
    }

    async fn draft_set_size(&self, draft: DraftId, ino: Ino, size: u64) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().check_writable()?;
        self.drafting().set_size(draft, ino, size).await
    }

    async fn draft_punch(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().check_writable()?;
        self.drafting().punch(draft, ino, offset, length).await
    }

    async fn draft_create(&self, draft: DraftId, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        self.volume().syscall(0).await;
        self.drafting().create(draft, directory, name, node).await
    }

    async fn draft_unlink(&self, draft: DraftId, directory: Ino, name: &[u8]) -> FsResult<()> {
        self.change_name(draft, NameChange::Unlink(Name::new((directory, name)))).await
    }

    async fn draft_rename(&self, draft: DraftId, from: (Ino, &[u8]), to: (Ino, &[u8])) -> FsResult<()> {
        self.change_name(draft, NameChange::Rename(Name::new(from), Name::new(to))).await
    }

    async fn commit_drafts(&self, drafts: &[DraftId]) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().draft_commits().commit(drafts).await
    }

    async fn abort_drafts(&self, drafts: &[DraftId]) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.drafting().abort(drafts).await
    }

    async fn end_draft(&self, draft: DraftId) -> FsResult<()> {
        self.drafting().end(draft).await
    }
}
