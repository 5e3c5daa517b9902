//! Engine: files, pool, log, clients and cleaner of one run.
//!
//! # Invariants
//! - After a failure every task ends: each wait asks for it.
//! - The log is used again only up to `checkpoint`: what was changed before is durable in place.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::sync::Signal;
use onewrite_block::{Choices, MIB, Runtime};
use onewrite_fs::ext4::{Mode, Scope};
use onewrite_fs::{Content, FileSystem, FsError, FsResult, Ino, Manner, NewNode, Position};

use super::fsyncs::Fsyncs;
use super::job::{Doublewrite, Filling, InnodbJob, LogSyncs};
use super::load::{Access, Drawer, PageNo, Transaction};
use super::log::{Log, Lsn};
use super::pool::Pool;
use super::scale::{
    BUFFER_PAGES, DOUBLEWRITE_BYTES, FILE_PAGES, FILES, LOG_BYTES, PAGE_BYTES, POOL_PAGES, TRANSACTIONS,
};
use crate::driver::{JobMeasure, Moment};
use crate::workload::JobPlan;

/// Bytes of a change in the log.
const RECORD_BYTES: u64 = 300;
/// Clients wait where the log holds more than this that is not in place; the cleaner begins earlier.
const LOG_FULL: u64 = LOG_BYTES / 8 * 7;
const LOG_FILLING: u64 = LOG_BYTES / 4 * 3;

/// How the cleaner makes data files durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncs {
    /// Each file for itself.
    Each,
    /// All with the last one: the mode logs content, so one commit carries all.
    Once,
}

/// What all tasks share.
pub(super) struct Engine<F> {
    pub(super) fs: Rc<F>,
    runtime: Runtime,
    pub(super) data: Vec<Ino>,
    pub(super) doublewrite: Option<Ino>,
    pub(super) fsyncs: Rc<Fsyncs<F>>,
    pub(super) syncs: Syncs,
    pub(super) filling: Filling,
    pub(super) log: Log<F>,
    pub(super) log_syncs: LogSyncs,
    pub(super) pool: RefCell<Pool>,
    /// A page was read or written.
    pub(super) moved: Signal,
    /// The cleaner is wanted.
    pub(super) work: Signal,
    /// A client found no frame.
    pub(super) needs_frames: Cell<bool>,
    pub(super) checkpoint: Cell<Lsn>,
    pub(super) is_over: Cell<bool>,
    pub(super) failure: RefCell<Option<FsError>>,
    drawer: RefCell<Drawer>,
    left: Cell<u32>,
    pub(super) measure: RefCell<JobMeasure>,
}

impl<F: FileSystem> Engine<F> {
    /// Makes the files, full and durable.
    pub(super) async fn lay_out(
        runtime: &Runtime,
        fs: Rc<F>,
        (job, mode): (InnodbJob, Mode),
        choices: &Choices,
    ) -> FsResult<Engine<F>> {
        let is_full = mode.scope() == Scope::Full;
        let mut data = Vec::new();
        for number in 0..FILES {
            data.push(filled(&*fs, format!("table{number}").as_bytes(), FILE_PAGES * PAGE_BYTES).await?);
        }
        let log = filled(&*fs, b"redo", LOG_BYTES).await?;
        let doublewrite = match job.doublewrite.unwrap_or(if is_full { Doublewrite::Off } else { Doublewrite::On }) {
            Doublewrite::On => Some(filled(&*fs, b"doublewrite", DOUBLEWRITE_BYTES).await?),
            Doublewrite::Off => None,
        };
        fs.sync().await?;
        let plan = JobPlan { name: job.to_string(), group: 0, operations_count: true, options: Vec::new() };
        let fsyncs = Rc::new(Fsyncs::new(runtime, Rc::clone(&fs)));
        let log = Log::new(runtime, Rc::clone(&fsyncs), (log, job.filling));
        Ok(Engine {
            runtime: runtime.clone(),
            data,
            doublewrite,
            filling: job.filling,
            fsyncs,
            syncs: if is_full { Syncs::Once } else { Syncs::Each },
            checkpoint: Cell::new(log.end()),
            log,
            log_syncs: job.log_syncs,
            pool: RefCell::new(warm()),
            moved: Signal::new(runtime),
            work: Signal::new(runtime),
            needs_frames: Cell::new(false),
            is_over: Cell::new(false),
            failure: RefCell::new(None),
            drawer: RefCell::new(Drawer::new(job.load, choices.stream("innodb", 0))),
            left: Cell::new(job.operations.unwrap_or(TRANSACTIONS)),
            measure: RefCell::new(JobMeasure::new(plan)),
            fs,
        })
    }

    /// The next transaction; none at the end or after a failure.
    pub(super) fn next(&self) -> Option<Transaction> {
        let left = self.left.get().checked_sub(1).filter(|_| !self.has_failed())?;
        self.left.set(left);
        Some(self.drawer.borrow_mut().draw())
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Keeps the first failure, and wakes all who wait.
    pub(super) fn note(&self, done: FsResult<()>) {
        if let Err(error) = done {
            self.failure.borrow_mut().get_or_insert(error);
            self.moved.notify_all();
            self.work.notify_all();
        }
    }

    /// Carries out and measures a transaction.
    pub(super) async fn transact(&self, Transaction { kind, pages }: Transaction) -> FsResult<()> {
        let begin = self.runtime.now();
        self.moved.until(|| self.has_failed() || self.log_used() < LOG_FULL).await;
        let changes = pages.iter().any(|(_, access)| *access == Access::Change);
        for (page, access) in pages {
            self.fix(page, access).await?;
        }
        if changes {
            self.log.append(RECORD_BYTES);
            if self.log_syncs == LogSyncs::EachCommit {
                self.log.commit(self.log.end()).await?;
            }
        }
        if self.is_cleaner_wanted() {
            self.work.notify_all();
        }
        let moment = Moment { origin: begin, begin, end: self.runtime.now() };
        self.measure.borrow_mut().count(kind, moment);
        Ok(())
    }

    /// Reads the page if it is not in memory, and changes it if asked to.
    async fn fix(&self, page: PageNo, access: Access) -> FsResult<()> {
        let is_change = access == Access::Change;
        while !self.has_failed() {
            if !self.pool.borrow_mut().touch(page) {
                self.load(page).await?;
            } else if !self.pool.borrow().is_ready(page, access) {
                self.moved.wait().await;
            } else {
                let is_done = !is_change || self.pool.borrow_mut().change(page, self.log.append(RECORD_BYTES));
                assert!(is_done, "a page that is ready can be changed");
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the page into a frame, or waits for one.
    async fn load(&self, page: PageNo) -> FsResult<()> {
        if !self.pool.borrow_mut().take(page) {
            self.needs_frames.set(true);
            self.work.notify_all();
            self.moved.wait().await;
            return Ok(());
        }
        let (ino, offset) = self.place(page);
        let read = self.fs.read(ino, offset, PAGE_BYTES, Manner::default()).await;
        self.pool.borrow_mut().loaded(page);
        self.moved.notify_all();
        read.map(drop)
    }

    /// File and first byte of a page.
    pub(super) fn place(&self, page: PageNo) -> (Ino, u64) {
        (self.data[page.file() as usize], page.place() * PAGE_BYTES)
    }

    fn log_used(&self) -> u64 {
        self.log.end() - self.checkpoint.get()
    }

    /// Whether the log fills.
    pub(super) fn is_log_filling(&self) -> bool {
        self.log_used() > LOG_FILLING
    }

    fn is_cleaner_wanted(&self) -> bool {
        self.is_log_filling() || self.pool.borrow().cold(BUFFER_PAGES).len() == BUFFER_PAGES
    }
}

/// Makes a file of `bytes`.
async fn filled<F: FileSystem>(fs: &F, name: &[u8], bytes: u64) -> FsResult<Ino> {
    let ino = fs.create(fs.root(), name, NewNode::FILE).await?;
    fs.open(ino).await?;
    for offset in (0..bytes).step_by(MIB as usize) {
        let content = Content::Pattern { seed: 0, compressible_percent: 50, length: MIB.min(bytes - offset) };
        fs.write(ino, Position::At(offset), content, Manner::default()).await?;
    }
    Ok(ino)
}

/// A pool that has every second page.
fn warm() -> Pool {
    let mut pool = Pool::new(POOL_PAGES);
    for page in (0..FILES * FILE_PAGES).step_by(2).take(POOL_PAGES).map(PageNo) {
        pool.take(page);
        pool.loaded(page);
    }
    pool
}
