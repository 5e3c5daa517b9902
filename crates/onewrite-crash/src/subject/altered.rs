//! Altered: a sound subject with a part replaced, to make a variant that is known to be wrong.
//!
//! Only the run is altered. The sound subject recovers, checks and judges the states, unless [`Alter::mount_recovery`]
//! or [`Alter::recovery_layer`] is replaced.

use std::rc::Rc;

use onewrite_block::{Cause, Choices, Device, DevicePort, Image, Lpn};
use onewrite_fs::{DraftId, FsResult, Ino, RenameManner, ShareRange};

use super::{DraftChange, DraftChanged, Flag, Mounting, Name, Promises, Purpose, Replayed, Steps, Subject};
use crate::error::CrashError;

/// The parts that can be replaced. By default, each does the same as the sound subject.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Alter<S: Subject>: 'static {
    /// Mounts for the run of a workload.
    async fn mount(&self, sound: &S, port: DevicePort, mounting: Mounting) -> FsResult<S::Fs> {
        sound.mount(port, mounting).await
    }

    /// Mounts to recover a state.
    async fn mount_recovery(&self, sound: &S, port: DevicePort, mounting: Mounting) -> FsResult<S::Fs> {
        sound.mount(port, mounting).await
    }

    /// See [`Subject::fsync`].
    async fn fsync(&self, fs: &S::Fs, sound: &S, ino: Ino) -> FsResult<()> {
        sound.fsync(fs, ino).await
    }

    /// See [`Subject::rename`].
    async fn rename(&self, fs: &S::Fs, sound: &S, from: Name<'_>, to: Name<'_>, manner: RenameManner) -> FsResult<()> {
        sound.rename(fs, from, to, manner).await
    }

    /// See [`Subject::change_draft`].
    async fn change_draft(
        &self,
        fs: &S::Fs,
        sound: &S,
        draft: DraftId,
        change: DraftChange<'_>,
    ) -> FsResult<DraftChanged> {
        sound.change_draft(fs, draft, change).await
    }

    /// See [`Subject::commit_drafts`].
    async fn commit_drafts(&self, fs: &S::Fs, sound: &S, drafts: &[DraftId]) -> FsResult<()> {
        sound.commit_drafts(fs, drafts).await
    }

    /// See [`Subject::abort_drafts`].
    async fn abort_drafts(&self, fs: &S::Fs, sound: &S, drafts: &[DraftId]) -> FsResult<()> {
        sound.abort_drafts(fs, drafts).await
    }

    /// See [`Subject::share`].
    async fn share(&self, fs: &S::Fs, sound: &S, ranges: &[ShareRange]) -> FsResult<()> {
        sound.share(fs, ranges).await
    }

    /// See [`Subject::stranger_finding`].
    ///
    /// # Errors
    /// As there.
    fn stranger_finding(&self, sound: &S, image: &Image) -> Result<Option<String>, CrashError> {
        sound.stranger_finding(image)
    }

    /// See [`Subject::layer`].
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        disk
    }

    /// See [`Subject::recovery_layer`].
    fn recovery_layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        disk
    }
}

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Altered<S, A> {
    /// The sound subject.
    pub sound: S,
    /// The replaced parts.
    pub change: A,
}

impl<S: Subject, A: Alter<S>> Subject for Altered<S, A> {
    type Fs = S::Fs;
    type View = S::View;
    type Memory = S::Memory;

    fn format(&self, image: &mut Image, choices: &Choices) -> Result<(), CrashError> {
        self.sound.format(image, choices)
    }

    fn directories(&self) -> &'static [&'static str] {
        self.sound.directories()
    }

    async fn mount(&self, port: DevicePort, mounting: Mounting) -> FsResult<S::Fs> {
        match mounting.purpose {
            Purpose::Run | Purpose::RunInsideDevice => self.change.mount(&self.sound, port, mounting).await,
            Purpose::Recovery => self.change.mount_recovery(&self.sound, port, mounting).await,
        }
    }

    async fn recover(&self, port: &DevicePort, memory: &Rc<S::Memory>) -> FsResult<Option<Replayed>> {
        self.sound.recover(port, memory).await
    }

    fn findings(&self, image: &Image, looked: &mut dyn FnMut(Lpn)) -> Vec<String> {
        self.sound.findings(image, looked)
    }

    fn is_known_by_reads(&self) -> bool {
        self.sound.is_known_by_reads()
    }

    fn stranger_finding(&self, image: &Image) -> Result<Option<String>, CrashError> {
        self.change.stranger_finding(&self.sound, image)
    }

    async fn view(&self, port: &DevicePort) -> FsResult<Option<S::View>> {
        self.sound.view(port).await
    }

    fn left_to_do(&self, image: &Image) -> Option<String> {
        self.sound.left_to_do(image)
    }

    fn check(&self, fs: &S::Fs) -> Result<(), String> {
        self.sound.check(fs)
    }

    fn promises(&self) -> Promises {
        self.sound.promises()
    }

    fn steps(&self) -> Steps {
        self.sound.steps()
    }

    fn syncs_of_a_log(&self) -> u64 {
        self.sound.syncs_of_a_log()
    }

    fn log_causes(&self) -> &'static [Cause] {
        self.sound.log_causes()
    }

    fn whole_page(&self) -> Option<Lpn> {
        self.sound.whole_page()
    }

    fn flags(&self) -> Vec<Flag> {
        self.sound.flags()
    }

    async fn fsync(&self, fs: &S::Fs, ino: Ino) -> FsResult<()> {
        self.change.fsync(fs, &self.sound, ino).await
    }

    async fn rename(&self, fs: &S::Fs, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()> {
        self.change.rename(fs, &self.sound, from, to, manner).await
    }

    fn begin_draft(&self, fs: &S::Fs) -> FsResult<DraftId> {
        self.sound.begin_draft(fs)
    }

    async fn change_draft(&self, fs: &S::Fs, draft: DraftId, change: DraftChange<'_>) -> FsResult<DraftChanged> {
        self.change.change_draft(fs, &self.sound, draft, change).await
    }

    fn is_draft_changed(&self, fs: &S::Fs, draft: DraftId) -> FsResult<bool> {
        self.sound.is_draft_changed(fs, draft)
    }

    async fn commit_drafts(&self, fs: &S::Fs, drafts: &[DraftId]) -> FsResult<()> {
        self.change.commit_drafts(fs, &self.sound, drafts).await
    }

    async fn abort_drafts(&self, fs: &S::Fs, drafts: &[DraftId]) -> FsResult<()> {
        self.change.abort_drafts(fs, &self.sound, drafts).await
    }

    async fn end_draft(&self, fs: &S::Fs, draft: DraftId) -> FsResult<()> {
        self.sound.end_draft(fs, draft).await
    }

    async fn share(&self, fs: &S::Fs, ranges: &[ShareRange]) -> FsResult<()> {
        self.change.share(fs, &self.sound, ranges).await
    }

    async fn share_lazily(&self, fs: &S::Fs, ranges: &[ShareRange]) -> FsResult<()> {
        self.sound.share_lazily(fs, ranges).await
    }

    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        self.change.layer(disk)
    }

    fn recovery_layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        self.change.recovery_layer(disk)
    }
}
