//! Vfs: the files that SQLite has open in a storage, and what they share.
//!
//! # A transaction
//! While a connection may write to a database and has no journal open beside it, its writes go into a draft of the
//! file. That is so for the batches of a SQLite built with `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`, and with any SQLite for
//! `journal_mode=MEMORY` and `OFF`. SQLite commits in two phases: first every database of the connection gets its
//! pages and is synced, then every database is told `SQLITE_FCNTL_COMMIT_PHASETWO`. The first phase marks the drafts
//! as ready; the first one that is told of the second phase commits all that are ready, as one step:
//!
//! ```text
//!   clean --write--> changed --sync or end of batch--> ready --second phase--> clean
//!     ^                 |                                |
//!     +--- the lock falls below RESERVED: aborted -------+
//! ```
//!
//! # Invariants
//! - Every change of a database is covered by a journal or is in a draft, in modes that have drafts.
//! - Only the opener that holds RESERVED or more has changes in the draft; without that lock they are gone.
//! - Groups hold ready drafts only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::locks::{Locks, Opener};
use crate::memory::Memory;
use crate::storage::{Identity, Result, Storage};

/// A connection of SQLite; 0 where none is known.
pub(crate) type Connection = usize;

/// All that SQLite has open in one storage.
pub(crate) struct Vfs<S: Storage> {
    pub(crate) storage: S,
    nodes: Mutex<BTreeMap<Identity, Weak<Node<S>>>>,
    /// Ready drafts of each connection.
    groups: Mutex<BTreeMap<Connection, Vec<Arc<Node<S>>>>>,
    openers: AtomicU64,
    /// Open journals and logs whose database is not known.
    stray_journals: Arc<AtomicUsize>,
}

/// What all openers of one file share.
pub(crate) struct Node<S: Storage> {
    identity: Identity,
    pub(crate) locks: Mutex<Locks>,
    pub(crate) change: Mutex<Change<S::Draft>>,
    pub(crate) memory: Mutex<Weak<Memory>>,
}

/// The draft of a file. It is kept between transactions, so that the file is claimed once.
pub(crate) struct Change<D> {
    pub(crate) draft: Option<D>,
    /// Who has changes in the draft.
    pub(crate) writer: Option<Opener>,
    /// A batch of SQLite is under way.
    pub(crate) batch: Option<Batch>,
}

/// What was in the draft when a batch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// Nothing.
    First,
    /// Pages of the same transaction for which SQLite's cache had no room.
    AfterSpill,
}

/// The value behind a lock that a panic may have poisoned.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Storage> Vfs<S> {
    /// Nothing is open yet.
    pub(crate) fn new(storage: S) -> Vfs<S> {
        let (nodes, groups) = (Mutex::default(), Mutex::default());
        Vfs { storage, nodes, groups, openers: AtomicU64::new(1), stray_journals: Arc::default() }
    }

    /// Counts the open journals whose database is not known: there may be one beside any database.
    pub(crate) fn stray_journals(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.stray_journals)
    }

    /// A number for whoever opens a file.
    pub(crate) fn opener(&self) -> Opener {
        self.openers.fetch_add(1, Ordering::Relaxed)
    }

    /// What the openers of a file share.
    pub(crate) fn node(&self, identity: Identity) -> Arc<Node<S>> {
        let mut nodes = locked(&self.nodes);
        if let Some(node) = nodes.get(&identity).and_then(Weak::upgrade) {
            return node;
        }
        nodes.retain(|_, node| node.strong_count() > 0);
        let node = Arc::new(Node::new(identity));
        nodes.insert(identity, Arc::downgrade(&node));
        node
    }

    /// The draft of `node` is part of the next commit of `connection`.
    pub(crate) fn make_ready(&self, connection: Connection, node: &Arc<Node<S>>) {
        let mut groups = locked(&self.groups);
        let group = groups.entry(connection).or_default();
        if !group.iter().any(|other| Arc::ptr_eq(other, node)) {
            group.push(Arc::clone(node));
        }
    }

    /// The draft of `node` is part of no commit any more.
    pub(crate) fn forget(&self, node: &Arc<Node<S>>) {
        locked(&self.groups).retain(|_, group| {
            group.retain(|other| !Arc::ptr_eq(other, node));
            !group.is_empty()
        });
    }

    /// Commits all ready drafts of `connection` and that of `node` as one step. Without any, does nothing.
    pub(crate) fn commit(&self, connection: Connection, node: &Arc<Node<S>>) -> Result<()> {
        let mut nodes = locked(&self.groups).remove(&connection).unwrap_or_default();
        if !nodes.iter().any(|other| Arc::ptr_eq(other, node)) {
            nodes.push(Arc::clone(node));
        }
        // In one order, so that two connections do not wait for each other.
        nodes.sort_by_key(|node| node.identity);
        let mut changes: Vec<_> = nodes.iter().map(|node| locked(&node.change)).collect();
        changes.retain(|change| change.writer.is_some());
        let drafts: Vec<_> = changes.iter().filter_map(|change| change.draft.as_ref()).collect();
        if !drafts.is_empty() {
            self.storage.commit(&drafts)?; // Here all of it survives a power cut.
        }
        changes.iter_mut().for_each(|change| change.writer = None);
        Ok(())
    }
}

impl<S: Storage> Node<S> {
    fn new(identity: Identity) -> Node<S> {
        let change = Change { draft: None, writer: None, batch: None };
        Node { identity, locks: Mutex::default(), change: Mutex::new(change), memory: Mutex::default() }
    }

    /// The memory that connections share; made by the first.
    pub(crate) fn memory(&self) -> Arc<Memory> {
        let mut memory = locked(&self.memory);
        memory.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Memory::default());
            *memory = Arc::downgrade(&made);
            made
        })
    }
}
