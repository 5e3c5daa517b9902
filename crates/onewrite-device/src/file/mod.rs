//! File disk: a file or block device of the host.
//!
//! FLUSH is `fdatasync`. TRIM punches a hole (on block devices: discards). SHARE reflinks if the file system below can
//! (`reflink`). A power cut may lose what the host's own storage may lose.
//!
//! In **virtual time** the disk takes no time: it does a request at submission, with blocking calls, and completes it
//! at that moment. In **wall time** many requests are under way at once, through io_uring or threads ([`Submission`]),
//! and end at unknown moments. Pure copies from or to the host's page cache are done at once.
//!
//! ```text
//!   submit ──► line (what conflicts waits) ──► carrier (ring, threads, or inline) ──► kernel
//!                 ▲                                                                     │
//!                 └───────────────── advance: end of a request ◄────────────────────────┘
//! ```
//!
//! Linux reports a failed write-back once and then treats the lost pages as clean: a later `fdatasync` succeeds. So
//! after a failed FLUSH or SHARE the disk refuses every change: each changing request that has not begun fails with the
//! same error. A FLUSH also fails if others have made the file shorter.
//!
//! While it is open, it keeps others out; it refuses a file or disk that others use (`hold`).

mod carrier;
mod copies;
mod hold;
mod line;
mod open;
mod reflink;
mod ring;
mod sys;
#[cfg(test)]
mod tests;
mod threads;
mod users;
mod work;

use std::fs::File;
use std::io;
use std::sync::Arc;

use onewrite_block::{
    Bell, Completion, Counters, Device, DeviceError, Geometry, Nanos, NextEvent, Operation, Outcome, PAGE_SIZE,
    Request, Token,
};

use carrier::{Carrier, Ended, Inline};
use copies::{copy_in, copy_out};
use line::{Footprint, Line};
use ring::Ring;
use threads::Threads;
use work::{Alignment, Extent, Work};

pub use hold::{Access, Hold};
pub use users::loops_on;

/// How requests are done in wall time. In virtual time it is always [`Submission::Blocking`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The run itself, one request after another.
    Blocking,
    /// A few threads.
    Threads,
    /// The kernel, through io_uring; threads if it refuses that.
    Ring,
}

/// Places in the submission queue: more than the queue depth of the disk.
const RING_ENTRIES: u32 = 64;

/// Bytes in a row in the host's page cache at which the host begins to write them out.
const ROW_BYTES: u64 = 4 << 20;

/// Threads that do requests if there is no ring. They wait for the disk, not for a core.
const THREADS: usize = 8;

/// See the module's head.
pub struct FileDisk {
    /// Declared first, so that it is dropped before the file and the lock, which work under way needs.
    carrier: Box<dyn Carrier>,
    line: Line<Operation>,
    file: Arc<File>,
    geometry: Geometry,
    done: Vec<Completion>,
    now: Nanos,
    counters: Counters,
    /// Whether transfers bypass the host's page cache.
    alignment: Alignment,
    /// The submission requested for wall time.
    wanted: Submission,
    /// The submission in use.
    submission: Submission,
    /// What was written to the host's page cache last, in a row.
    row: Extent,
    /// The error of the failed FLUSH or SHARE.
    lost: Option<DeviceError>,
    _hold: Hold,
}

impl std::fmt::Debug for FileDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileDisk {} ({:?})", self.geometry.name, self.submission)
    }
}

impl FileDisk {
    fn new(file: File, geometry: Geometry, hold: Hold) -> FileDisk {
        let file = Arc::new(file);
        FileDisk {
            carrier: Box::new(Inline(Arc::clone(&file))),
            line: Line::default(),
            file,
            geometry,
            done: Vec::new(),
            now: Nanos::ZERO,
            counters: Counters::default(),
            alignment: Alignment::Any,
            wanted: Submission::Ring,
            submission: Submission::Blocking,
            row: Extent { offset: 0, length: 0 },
            lost: None,
            _hold: hold,
        }
    }

    /// The same disk; it submits in this way when it is attached to a run in wall time.
    pub fn submitting(mut self, wanted: Submission) -> FileDisk {
        self.wanted = wanted;
        self
    }

    /// How requests are done now.
    pub fn submission(&self) -> Submission {
        self.submission
    }

    /// The carrier for a run: in wall time with its bell, in virtual time without one.
    fn carrier(&self, bell: Option<Bell>) -> (Submission, Box<dyn Carrier>) {
        let file = &self.file;
        let inline = || Box::new(Inline(Arc::clone(file)));
        let ring = |bell| Ring::new(file, bell, RING_ENTRIES).ok();
        match (bell, self.wanted) {
            (None, _) | (_, Submission::Blocking) => (Submission::Blocking, inline()),
            (Some(bell), wanted) => match Some(&bell).filter(|_| wanted == Submission::Ring).and_then(ring) {
                Some(ring) => (Submission::Ring, Box::new(ring)),
                None => (Submission::Threads, Box::new(Threads::new(file, &bell, THREADS))),
            },
        }
    }

    /// Starts the requests that need not wait.
    fn begin(&mut self) {
        while let Some((number, operation)) = self.line.next() {
            let ended = match &self.lost {
                Some(lost) if !matches!(operation, Operation::Read { .. }) => {
                    let lost = lost.clone();
                    self.complete(number, Err(lost));
                    continue;
                }
                _ => self.give(number, operation),
            };
            ended.into_iter().for_each(|ended| self.end(ended));
        }
    }

    /// Copies from or to the host's page cache are done at once: a copy takes less time than a submission.
    fn give(&mut self, number: usize, operation: Operation) -> Option<Ended> {
        let is_cached = self.submission != Submission::Blocking && self.alignment == Alignment::Any;
        match &operation {
            Operation::Read { start, count } if is_cached => {
                if let Some(pages) = copy_in(&self.file, *start, *count) {
                    self.complete(number, Ok(pages));
                    return None;
                }
            }
            Operation::Write { start, pages, .. } if is_cached => {
                if let Some(result) = copy_out(&self.file, *start, pages) {
                    self.note_written(Extent::of_pages(*start, pages.len() as u64));
                    return Some(Ended { number, work: Work::written(), result });
                }
            }
            _ => (),
        }
        let mut work = self.work(operation);
        match (&work, is_cached) {
            (Work::Write(_), true) => {
                let result = work.carry_out(&self.file);
                Some(Ended { number, work, result })
            }
            _ => self.carrier.give(number, work),
        }
    }

    /// Asks the host to begin writing out what was written in a row, once it is long: what a FLUSH then waits for is
    /// short.
    fn note_written(&mut self, extent: Extent) {
        let row = &mut self.row;
        *row = match row.end() == extent.offset {
            true => Extent { length: row.length + extent.length, ..*row },
            false => extent,
        };
        if row.length >= ROW_BYTES {
            self.carrier.begin_writeback(*row);
            *row = Extent { offset: row.end(), length: 0 };
        }
    }

    fn work(&self, operation: Operation) -> Work {
        match operation {
            Operation::Read { start, count } => Work::read(start, count, self.alignment),
            Operation::Write { start, pages, .. } => Work::write(start, &pages, self.alignment),
            Operation::Flush => Work::Flush,
            Operation::Trim { start, count } => Work::Trim(Extent::of_pages(start, count)),
            Operation::Share(pairs) => Work::Share(pairs),
        }
    }

    fn end(&mut self, Ended { number, work, result }: Ended) {
        let result = if matches!(work, Work::Flush) { result.and_then(|()| self.check_length()) } else { result };
        let outcome = match (&work, result) {
            (Work::Read(transfer), Ok(())) => Ok(transfer.pages()),
            (_, Ok(())) => Ok(Vec::new()),
            (work, Err(error)) => Err(self.failed(work.name(), &error)),
        };
        if matches!(work, Work::Flush | Work::Share(_)) {
            self.lost = outcome.as_ref().err().cloned();
        }
        self.complete(number, outcome);
    }

    /// # Errors
    /// If others made the file shorter since it was opened: what lay behind its end is gone.
    fn check_length(&self) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        let expected = self.geometry.pages * PAGE_SIZE as u64;
        if metadata.is_file() && metadata.len() < expected {
            let problem =
                format!("others made it {} bytes long, of {expected}; restore it from a copy", metadata.len());
            return Err(io::Error::other(problem));
        }
        Ok(())
    }

    fn complete(&mut self, number: usize, outcome: Outcome) {
        let tokens = self.line.leave(number);
        // What went along with another FLUSH was none of the disk's.
        self.counters.flushes -= tokens.others.len() as u64;
        let others = tokens.others.into_iter().map(|token| Completion { token, outcome: outcome.clone() });
        let mut others: Vec<_> = others.collect();
        self.done.push(Completion { token: tokens.first, outcome });
        self.done.append(&mut others);
    }

    fn failed(&self, operation: &'static str, error: &io::Error) -> DeviceError {
        DeviceError::Host { path: self.geometry.name.clone(), operation, message: error.to_string() }
    }
}

impl Device for FileDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        if let Err(error) = self.geometry.admit(&request) {
            return self.done.push(Completion { token, outcome: Err(error) });
        }
        self.counters.count(&request);
        self.line.join(token, Footprint::of(&request.operation), request.operation);
        self.begin();
    }

    /// Waits for work under way; nobody gets its completions. It remembers a failed FLUSH.
    fn attached(&mut self, bell: Option<Bell>) {
        let mut ended = Vec::new();
        self.carrier.finish(&mut ended);
        ended.into_iter().for_each(|ended| self.end(ended));
        self.line = Line::default();
        self.done.clear();
        (self.submission, self.carrier) = self.carrier(bell);
    }

    fn next_event(&self) -> NextEvent {
        match (self.done.is_empty() && !self.carrier.is_ready(), self.line.is_empty()) {
            (false, _) => NextEvent::At(self.now),
            (true, true) => NextEvent::Idle,
            (true, false) => NextEvent::Unknown,
        }
    }

    fn advance(&mut self, _to: Nanos, completed: &mut Vec<Completion>) {
        let mut ended = Vec::new();
        loop {
            self.carrier.collect(&mut ended);
            if ended.is_empty() {
                break;
            }
            ended.drain(..).for_each(|ended| self.end(ended));
            self.begin();
        }
        completed.append(&mut self.done);
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}
