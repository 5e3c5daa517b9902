//! Log: the redo log, a file that is written in a circle. One client writes and syncs for all that wait (group commit).
//!
//! # Invariants
//! - `durable` ≤ `written` ≤ `end`, and none of them ever falls.
//! - At most one sync is under way.

use std::cell::Cell;
use std::rc::Rc;

use onewrite_block::Runtime;
use onewrite_block::sync::Signal;
use onewrite_fs::{Content, FileSystem, FsResult, Ino, Manner, Position};

use super::fsyncs::Fsyncs;
use super::job::Filling;
use super::rows;
use super::scale::LOG_BYTES;

/// A place in the log: bytes since its beginning.
pub(super) type Lsn = u64;

/// Bytes that InnoDB writes at least.
const BLOCK: u64 = 512;

pub(super) struct Log<F> {
    fsyncs: Rc<Fsyncs<F>>,
    ino: Ino,
    filling: Filling,
    end: Cell<Lsn>,
    durable: Cell<Lsn>,
    is_syncing: Cell<bool>,
    synced: Signal,
}

impl<F: FileSystem> Log<F> {
    /// The log in the file `ino`, which is filled.
    pub(super) fn new(runtime: &Runtime, fsyncs: Rc<Fsyncs<F>>, (ino, filling): (Ino, Filling)) -> Log<F> {
        let (end, durable, is_syncing) = (Cell::new(BLOCK), Cell::new(BLOCK), Cell::new(false));
        Log { fsyncs, ino, filling, end, durable, is_syncing, synced: Signal::new(runtime) }
    }

    /// Adds `bytes`; where they begin.
    pub(super) fn append(&self, bytes: u64) -> Lsn {
        self.end.replace(self.end.get() + bytes)
    }

    /// Where the next record begins.
    pub(super) fn end(&self) -> Lsn {
        self.end.get()
    }

    /// Waits until all records that begin before `lsn` are durable; writes them if nobody else does.
    pub(super) async fn commit(&self, lsn: Lsn) -> FsResult<()> {
        while self.durable.get() < lsn {
            if self.is_syncing.get() {
                self.synced.until(|| !self.is_syncing.get()).await;
                continue;
            }
            self.is_syncing.set(true);
            let done = self.write().await;
            self.is_syncing.set(false);
            self.synced.notify_all();
            done?;
        }
        Ok(())
    }

    async fn write(&self) -> FsResult<()> {
        let (mut begin, end) = (self.durable.get() / BLOCK * BLOCK, self.end.get());
        while begin < end {
            let place = begin % LOG_BYTES;
            let length = (end.next_multiple_of(BLOCK) - begin).min(LOG_BYTES - place);
            let records = match self.filling {
                Filling::Pattern => None,
                Filling::Rows => Some(rows::log(begin, length)),
            };
            let pattern = Content::Pattern { seed: begin, compressible_percent: 0, length };
            let content = records.as_deref().map_or(pattern, Content::Bytes);
            self.fsyncs.fs.write(self.ino, Position::At(place), content, Manner::default()).await?;
            begin += length;
        }
        self.fsyncs.fsync(self.ino).await?;
        self.durable.set(end);
        Ok(())
    }
}
