//! Tasks: the background work of a mounted volume, from mount to unmount.

use std::rc::Rc;

use onewrite_block::sync::either;
use onewrite_cache::PageKey;

use super::volume::Volume;
use crate::api::FsResult;
use crate::journal::{Owner, Sealed};
use crate::pages::Backing;

/// Cache key of a page that a transaction changed.
fn key_of(owner: Owner) -> PageKey {
    PageKey { file: owner.file, index: owner.index }
}

/// Starts all tasks.
pub(super) fn start_tasks(volume: &Rc<Volume>) {
    let (committer, checkpointer, flusher) = (Rc::clone(volume), Rc::clone(volume), Rc::clone(volume));
    let (converter, evictor, trimmer) = (Rc::clone(volume), Rc::clone(volume), Rc::clone(volume));
    start_task(volume, async move { commit_task(&committer).await });
    start_task(volume, async move { checkpoint_task(&checkpointer).await });
    start_task(volume, async move { flusher.pages().dirty_files().flusher(&*flusher).await });
    start_task(volume, async move { converter.contents().conversion_task().await });
    start_task(volume, async move { evictor.pages().eviction_task(&*evictor).await });
    start_task(volume, async move { trimming_task(&trimmer).await });
}

/// Starts a task that ends with the mount.
fn start_task(volume: &Rc<Volume>, task: impl Future<Output = ()> + 'static) {
    let owner = Rc::clone(volume);
    volume.runtime().spawn(async move { either(owner.stopped(), task).await });
}

/// Commits due transactions, one after another; ends when the journal is aborted.
///
/// As measured of the kernel's journal thread (`docs/kernel-parity.md`): if the next transaction was asked for during a
/// commit, none of the tasks that the commit wakes joins it, so it is sealed before they are woken. If not, those who
/// join while the others are still being woken are sealed together. On one core, too, it runs before the others that
/// were woken, so that a request is not joined by everybody who waits for the core.
async fn commit_task(volume: &Rc<Volume>) {
    let journal = volume.journal();
    while journal.abort_reason().is_none() {
        journal.commit_due().await;
        journal.gather().await;
        volume.runtime().resume_first().await;
        let content = |owner: Owner| volume.pages().peek(key_of(owner)).map(|page| page.clone());
        let sealed = journal.seal(content).await;
        journal.wake_synced().await;
        let Some(sealed) = sealed else { continue };
        if let Err(error) = write_ordered(volume, &sealed.ordered).await {
            journal.abort(&error);
            return;
        }
        let Ok(sealed) = journal.commit(sealed).await else { return };
        after_commit(volume, sealed);
        if !journal.is_commit_requested() {
            journal.wake_synced().await;
        }
    }
}

/// Writes the data that a commit orders, and waits.
async fn write_ordered(volume: &Volume, files: &[u64]) -> FsResult<()> {
    for file in files {
        if let Some(node) = volume.file(*file) {
            onewrite_block::reached!("commit writes ordered data", node.is_dirty());
            volume.pages().write_ready(volume, &node, 0..u64::MAX).await?;
            volume.pages().wait_for_writes(&*node).await;
        }
    }
    Ok(())
}

/// Lets go of what a durable transaction held.
fn after_commit(volume: &Rc<Volume>, sealed: Sealed) {
    volume.pages().unpin(sealed.owners.iter().copied().map(key_of), sealed.tid.0);
    volume.pages().progress().notify_all();
    volume.allocator().debug_check();
    volume.contents().debug_check_delayed();
    if !sealed.freed.is_empty() {
        let owner = Rc::clone(volume);
        volume.runtime().spawn(async move {
            owner.journal().homeward_writes_done().await;
            owner.allocator().release_blocks(&sealed.freed);
        });
    }
}

/// Brings committed blocks home; ends when the journal is aborted.
async fn checkpoint_task(volume: &Volume) {
    loop {
        let urgency = volume.journal().checkpoint_due().await;
        if volume.journal().checkpoint_round(urgency).await.is_err() {
            return;
        }
    }
}

/// Trims reclaimed log space; ends when the journal is aborted.
async fn trimming_task(volume: &Volume) {
    loop {
        volume.journal().trimming_due().await;
        if volume.journal().trim_freed().await.is_err() {
            return;
        }
    }
}
