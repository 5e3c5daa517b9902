//! File: one file that SQLite opened. [`crate::vfs`] tells when writes go into a draft.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::locks::{Busy, Level, Opener};
use crate::memory::{Absent, Memory, Share};
use crate::storage::{Failure, Opening, Promise, Result, Storage, StoredDraft, StoredFile, Synced};
use crate::vfs::{Batch, Change, Connection, Node, Vfs, locked};

/// What a file is to SQLite.
#[derive(Clone)]
pub(crate) enum Kind {
    /// A database.
    Database,
    /// The journal or log of a database; counted while it is open.
    Journal(Arc<AtomicUsize>),
    /// A super-journal.
    Other,
}

/// An open file.
pub(crate) struct OpenFile<S: Storage> {
    vfs: Arc<Vfs<S>>,
    node: Arc<Node<S>>,
    file: S::File,
    kind: Kind,
    opener: Opener,
    /// Journals and logs that are open beside this database.
    journals: Arc<AtomicUsize>,
    memory: Mutex<Option<Arc<Memory>>>,
    /// Whether SQLite syncs this database, as far as it has told.
    is_synced: AtomicBool,
}

impl<S: Storage> OpenFile<S> {
    /// Opens a file.
    pub(crate) fn open(
        vfs: Arc<Vfs<S>>,
        path: &[u8],
        kind: Kind,
        opening: Opening,
        parameter: &dyn Fn(&str) -> Option<String>,
    ) -> Result<OpenFile<S>> {
        let file = vfs.storage.open(path, opening, parameter)?;
        if let Kind::Journal(count) = &kind {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let (node, opener) = (vfs.node(file.identity()), vfs.opener());
        let (journals, memory, is_synced) = (Arc::default(), Mutex::default(), AtomicBool::new(true));
        Ok(OpenFile { vfs, node, file, kind, opener, journals, memory, is_synced })
    }

    /// Counts the journals that are open beside this database.
    pub(crate) fn journals(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.journals)
    }

    pub(crate) fn is_database(&self) -> bool {
        matches!(self.kind, Kind::Database)
    }

    pub(crate) fn promise(&self) -> Promise {
        self.file.promise()
    }

    /// Whether SQLite is told of batches. With `synchronous=OFF` it uses none, but keeps the journal of a file that has
    /// them in memory all the same: what a draft refuses would have no journal to go to.
    pub(crate) fn has_batches(&self) -> bool {
        self.is_database() && self.promise() != Promise::Synced && self.is_synced.load(Ordering::SeqCst)
    }

    /// SQLite is asked for `PRAGMA synchronous = level`, which it refuses within a transaction. What it makes of a
    /// level that is not known here, the next commit shows.
    pub(crate) fn set_synchronous(&self, level: &[u8]) {
        if self.level() < Level::Reserved {
            self.is_synced.store(!is_off(level), Ordering::SeqCst);
        }
    }

    /// Up to `length` bytes from `offset`; fewer only at the end.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        match self.own_change() {
            Some(change) => drafted(&change)?.read(offset, length),
            None => self.file.read(offset, length),
        }
    }

    pub(crate) fn size(&self) -> Result<u64> {
        match self.own_change() {
            Some(change) => drafted(&change)?.size(),
            None => self.file.size(),
        }
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.is_database() {
            return self.file.write(offset, bytes);
        }
        let mut change = locked(&self.node.change);
        if change.writer == Some(self.opener) || self.needs_draft() {
            self.claimed(&mut change)?.write(offset, bytes)?;
            change.writer = Some(self.opener);
            return Ok(());
        }
        give_up(&mut change)?;
        self.file.write(offset, bytes)
    }

    /// In a draft only after writes: SQLite truncates after them.
    pub(crate) fn set_size(&self, size: u64) -> Result<()> {
        if !self.is_database() {
            return self.file.set_size(size);
        }
        let mut change = locked(&self.node.change);
        if change.writer == Some(self.opener) {
            return drafted(&change)?.set_size(size);
        }
        give_up(&mut change)?;
        self.file.set_size(size)
    }

    /// Makes what was written durable. What is in a draft waits for the second phase of the commit.
    pub(crate) fn sync(&self, what: Synced) -> Result<()> {
        self.is_synced.store(true, Ordering::SeqCst);
        match self.own_change() {
            Some(_) => Ok(()),
            None => self.file.sync(what),
        }
    }

    /// Begins a batch.
    pub(crate) fn begin_batch(&self) -> Result<()> {
        let mut change = locked(&self.node.change);
        self.claimed(&mut change)?;
        change.batch = Some(if change.writer.is_some() { Batch::AfterSpill } else { Batch::First });
        change.writer = Some(self.opener);
        Ok(())
    }

    /// Ends a batch: all of it is written.
    pub(crate) fn end_batch(&self, connection: Connection) {
        locked(&self.node.change).batch = None;
        self.end_first_phase(connection);
    }

    /// Takes a batch back. Pages that were spilled before it stay: SQLite goes on with a journal in its memory, or
    /// gives up and lowers its lock.
    pub(crate) fn abort_batch(&self) -> Result<()> {
        let batch = locked(&self.node.change).batch.take();
        match batch {
            Some(Batch::First) => self.abort(),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_in_batch(&self) -> bool {
        let change = locked(&self.node.change);
        change.batch.is_some() && change.writer == Some(self.opener)
    }

    /// All pages of the transaction are written: what is in the draft is part of the connection's next commit.
    pub(crate) fn end_first_phase(&self, connection: Connection) {
        if connection != 0 && self.own_change().is_some() {
            self.vfs.make_ready(connection, &self.node);
        }
    }

    /// SQLite would sync now: it does so next, or `synchronous` is `OFF`.
    pub(crate) fn before_sync(&self, connection: Connection) {
        self.is_synced.store(false, Ordering::SeqCst);
        self.end_first_phase(connection);
    }

    /// Commits.
    pub(crate) fn second_phase(&self, connection: Connection) -> Result<()> {
        self.vfs.commit(connection, &self.node)
    }

    pub(crate) fn lock(&self, level: Level) -> std::result::Result<(), Busy> {
        locked(&self.node.locks).raise(self.opener, level)
    }

    /// Lowers the lock; a transaction that was not committed ends.
    pub(crate) fn unlock(&self, level: Level) -> Result<()> {
        let aborted = if level < Level::Reserved { self.abort() } else { Ok(()) };
        locked(&self.node.locks).lower(self.opener, level);
        aborted
    }

    pub(crate) fn level(&self) -> Level {
        locked(&self.node.locks).level(self.opener)
    }

    pub(crate) fn is_reserved(&self) -> bool {
        locked(&self.node.locks).is_reserved()
    }

    /// Where region `number` of the shared memory lies.
    pub(crate) fn region(&self, number: usize, bytes: usize, absent: Absent) -> Option<*const AtomicU64> {
        let mut memory = locked(&self.memory);
        memory.get_or_insert_with(|| self.node.memory()).region(number, bytes, absent)
    }

    pub(crate) fn lock_memory(&self, locks: Range<usize>, share: Share) -> std::result::Result<(), Busy> {
        match &*locked(&self.memory) {
            Some(memory) => memory.lock(self.opener, locks, share),
            None => Err(Busy),
        }
    }

    pub(crate) fn unlock_memory(&self, locks: Range<usize>) {
        if let Some(memory) = &*locked(&self.memory) {
            memory.unlock(self.opener, locks);
        }
    }

    /// Lets go of the shared memory; the last one takes it along.
    pub(crate) fn leave_memory(&self) {
        self.unlock_memory(0..crate::memory::LOCK_COUNT);
        *locked(&self.memory) = None;
    }

    /// The draft, if this opener has changes in it.
    fn own_change(&self) -> Option<std::sync::MutexGuard<'_, Change<S::Draft>>> {
        let change = locked(&self.node.change);
        (change.writer == Some(self.opener)).then_some(change)
    }

    /// Whether nothing but a draft can take back what is written now.
    fn needs_draft(&self) -> bool {
        self.promise() != Promise::Synced
            && self.journals.load(Ordering::SeqCst) == 0
            && self.vfs.stray_journals().load(Ordering::SeqCst) == 0
            && self.level() >= Level::Reserved
    }

    /// The draft, begun if there is none.
    fn claimed<'a>(&self, change: &'a mut Change<S::Draft>) -> Result<&'a S::Draft> {
        match &mut change.draft {
            Some(draft) => Ok(draft),
            none => Ok(none.insert(self.file.draft()?)),
        }
    }

    /// Drops this opener's changes.
    fn abort(&self) -> Result<()> {
        let Some(mut change) = self.own_change() else { return Ok(()) };
        (change.writer, change.batch) = (None, None);
        let aborted = drafted(&change)?.abort();
        if aborted.is_err() {
            change.draft = None;
        }
        drop(change);
        self.vfs.forget(&self.node);
        aborted
    }
}

/// Whether SQLite takes `level` for `OFF`: of a number it takes three bits, whose last value is none.
fn is_off(level: &[u8]) -> bool {
    let number = str::from_utf8(level).ok().and_then(|level| level.parse::<u32>().ok());
    match number {
        Some(number) => matches!(number % 8, 0 | 7),
        None => [&b"off"[..], b"no", b"false"].iter().any(|word| level.eq_ignore_ascii_case(word)),
    }
}

/// The draft that has changes.
fn drafted<D>(change: &Change<D>) -> Result<&D> {
    change.draft.as_ref().ok_or_else(|| Failure::new(Failure::INVALID, "changes without a draft"))
}

/// Ends a draft without changes, so that the file can be written in place.
fn give_up<D>(change: &mut Change<D>) -> Result<()> {
    if change.writer.is_some() {
        let text = "another connection has changes in a draft of this file; end its transaction first";
        return Err(Failure::new(Failure::BUSY, text));
    }
    change.draft = None;
    Ok(())
}

impl<S: Storage> Drop for OpenFile<S> {
    /// An error has nobody to go to; the next call of the storage meets it again.
    fn drop(&mut self) {
        let _ = self.unlock(Level::None);
        self.leave_memory();
        if let Kind::Journal(count) = &self.kind {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests;
