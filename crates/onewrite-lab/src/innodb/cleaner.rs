//! Cleaner: writes dirty pages out in batches: the oldest ones when the log fills, else the coldest ones when frames
//! become scarce.
//!
//! With doublewrite a batch goes through a buffer of 120 pages: the buffer is written to its file in one piece and
//! synced, then its pages are written in place and their files synced. Without, the batch is written in place, then its
//! files are synced. Source: the MySQL 5.7 manual (doublewrite buffer, buffer pool flushing).
//!
//! # Invariants
//! - No page is written before the log is durable up to its last change.
//! - Nobody changes a page from when the cleaner takes it until it is written in place.

use std::collections::BTreeSet;
use std::rc::Rc;

use onewrite_fs::{Content, FileSystem, FsResult, Ino, Manner, Position};

use super::engine::{Engine, Syncs};
use super::job::Filling;
use super::load::PageNo;
use super::rows;
use super::scale::{BATCH_PAGES, BUFFER_PAGES, PAGE_BYTES};

/// Cleans until the run is over or fails.
pub(super) async fn clean<F: FileSystem>(engine: Rc<Engine<F>>) {
    while !engine.has_failed() && !engine.is_over.get() {
        let batch = batch(&engine);
        if batch.is_empty() {
            engine.work.wait().await;
            continue;
        }
        let done = write_out(&engine, &batch).await;
        engine.note(done);
    }
}

/// The pages to write now.
fn batch<F: FileSystem>(engine: &Engine<F>) -> Vec<PageNo> {
    let pool = engine.pool.borrow();
    if engine.is_log_filling() {
        return pool.old(engine.log.end(), BATCH_PAGES);
    }
    let cold = pool.cold(BATCH_PAGES);
    let is_enough = cold.len() >= BUFFER_PAGES || engine.needs_frames.take();
    if is_enough { cold } else { Vec::new() }
}

async fn write_out<F: FileSystem>(engine: &Engine<F>, batch: &[PageNo]) -> FsResult<()> {
    let chunk = if engine.doublewrite.is_some() { BUFFER_PAGES } else { batch.len() };
    for pages in batch.chunks(chunk) {
        engine.pool.borrow_mut().hold(pages);
        let seed = engine.log.end();
        engine.log.commit(seed).await?;
        if let Some(buffer) = engine.doublewrite {
            put(engine, (buffer, 0), pages, seed).await?;
            engine.fsyncs.fsync(buffer).await?;
        }
        for page in pages {
            put(engine, engine.place(*page), &[*page], seed).await?;
            engine.pool.borrow_mut().cleaned(*page);
            engine.moved.notify_all();
        }
        let reached = engine.pool.borrow().oldest().unwrap_or(engine.log.end());
        sync(engine, pages).await?;
        engine.checkpoint.set(reached);
        engine.moved.notify_all();
    }
    Ok(())
}

/// Writes pages in one piece.
async fn put<F: FileSystem>(
    engine: &Engine<F>,
    (ino, offset): (Ino, u64),
    pages: &[PageNo],
    seed: u64,
) -> FsResult<()> {
    let filled: Option<Vec<u8>> = match engine.filling {
        Filling::Pattern => None,
        Filling::Rows => Some(pages.iter().flat_map(|page| rows::page(*page, seed)).collect()),
    };
    let length = pages.len() as u64 * PAGE_BYTES;
    let pattern = Content::Pattern { seed, compressible_percent: 50, length };
    let content = filled.as_deref().map_or(pattern, Content::Bytes);
    engine.fs.write(ino, Position::At(offset), content, Manner::default()).await.map(drop)
}

/// Makes the files of `pages` durable.
async fn sync<F: FileSystem>(engine: &Engine<F>, pages: &[PageNo]) -> FsResult<()> {
    let files: BTreeSet<Ino> = pages.iter().map(|page| engine.place(*page).0).collect();
    let count = match engine.syncs {
        Syncs::Each => files.len(),
        Syncs::Once => 1,
    };
    for file in files.into_iter().rev().take(count) {
        engine.fsyncs.fsync(file).await?;
    }
    Ok(())
}
