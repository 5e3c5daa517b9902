//! The API of atomic files on a mounted ext4.

use crate::api::{FsResult, Ino, NewNode, Position};
use crate::atomic::{AtomicFiles, DraftId};
use crate::content::{Content, Data};
use crate::drafts::{Name, NameChange};
use crate::ext4::mode::Scope;
use crate::ext4::mount::Ext4;

impl AtomicFiles for Ext4 {
    fn has_drafts(&self) -> bool {
        self.volume().check_writable().is_ok() && self.volume().scope() == Scope::Full
    }

    fn keeps_order(&self) -> bool {
        self.volume().scope() == Scope::Full
    }

    fn begin_draft(&self) -> FsResult<DraftId> {
        self.volume().atomics().drafting().begin_draft()
    }

    async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().atomics().drafting().claim(draft, ino).await
    }

    async fn claimant(&self, ino: Ino) -> FsResult<Option<DraftId>> {
        Ok(self.volume().node(ino).await?.claimant())
    }

    fn is_draft_changed(&self, draft: DraftId) -> FsResult<bool> {
        self.volume().atomics().drafting().is_changed(draft)
    }

    fn draft_size(&self, draft: DraftId, ino: Ino) -> FsResult<u64> {
        Ok(self.volume().atomics().drafting().file(draft, ino)?.size)
    }

    async fn draft_read(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<Data> {
        let data = self.volume().atomics().drafting().read(draft, ino, offset, length).await?;
        self.volume().syscall(data.length as u64).await;
        Ok(data)
    }

    async fn draft_write(&self, draft: DraftId, ino: Ino, position: Position, content: Content<'_>) -> FsResult<u64> {
        let volume = self.volume();
        volume.syscall(content.length()).await;
        volume.check_writable()?;
        volume.atomics().drafting().write(draft, ino, position, content).await
    }

    async fn draft_set_size(&self, draft: DraftId, ino: Ino, size: u64) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        volume.atomics().drafting().set_size(draft, ino, size).await
    }

    async fn draft_punch(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        volume.atomics().drafting().punch(draft, ino, offset, length).await
    }

    async fn draft_create(&self, draft: DraftId, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.atomics().drafting().create(draft, directory, name, node).await
    }

    async fn draft_unlink(&self, draft: DraftId, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        let change = NameChange::Unlink(Name::new((directory, name)));
        volume.atomics().drafting().change_name(draft, change).await
    }

    async fn draft_rename(&self, draft: DraftId, from: (Ino, &[u8]), to: (Ino, &[u8])) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        let change = NameChange::Rename(Name::new(from), Name::new(to));
        volume.atomics().drafting().change_name(draft, change).await
    }

    async fn commit_drafts(&self, drafts: &[DraftId]) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().atomics().commit(drafts).await
    }

    async fn abort_drafts(&self, drafts: &[DraftId]) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().atomics().drafting().abort(drafts).await
    }

    async fn end_draft(&self, draft: DraftId) -> FsResult<()> {
        self.volume().atomics().drafting().end(draft).await
    }
}
