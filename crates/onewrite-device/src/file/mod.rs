//! File disk: a file or block device of the host.
//!
//! FLUSH is `fdatasync`, TRIM punches a hole (on block devices: discards), SHARE reflinks where the file system below
//! can (`reflink`), and what a power cut may lose is what the host's own storage may lose.
//!
//! In **virtual time** it is a disk that takes no time: a request is carried out when it is submitted, with blocking
//! calls, and completes at that moment. In **wall time** many requests are under way at once, through io_uring or
//! threads ([`Submission`]), and end when they end; what is only a copy from or to the host's page cache is made at
//! once.
//!
//! ```text
//!   submit ──► line (what conflicts waits) ──► carrier (ring, threads, or inline) ──► kernel
//!                 ▲                                                                     │
//!                 └───────────────── advance: end of a request ◄────────────────────────┘
//! ```
//!
//! Linux tells a failed write-back once and then takes the lost pages for clean, so that a later `fdatasync` succeeds.
//! Hence after a failed FLUSH or SHARE the disk takes nothing more that changes it: each such request that has not
//! begun fails as that one did.
//!
//! While it is open, others are kept out, and what others have in use is refused (`hold`).

mod carrier;
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
    Bell, Completion, Counters, Device, DeviceError, Geometry, Nanos, NextEvent, Operation, Outcome, Request, Token,
};

use carrier::{Carrier, Ended, Inline};
use line::{Footprint, Line};
use ring::Ring;
use threads::Threads;
use work::{Alignment, Extent, Work};

pub use hold::{Access, Hold};
pub use users::loops_on;

/// Who carries requests out in wall time. In virtual time it is always [`Submission::Blocking`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The run itself, one request after another.
    Blocking,
    /// A few threads.
    Threads,
    /// The kernel, through io_uring; threads where it refuses that.
    Ring,
}

/// Places in the submission queue: more than requests may be under way.
const RING_ENTRIES: u32 = 64;

/// Threads that carry requests out where there is no ring. They wait for the disk, not for a core.
const THREADS: usize = 8;

/// See the module's head.
pub struct FileDisk {
    /// Declared before the file and the lock, which have to outlive what is under way.
    carrier: Box<dyn Carrier>,
    line: Line<Operation>,
    file: Arc<File>,
    geometry: Geometry,
    done: Vec<Completion>,
    now: Nanos,
    counters: Counters,
    /// Direct past the host's page cache.
    alignment: Alignment,
    /// What wall time is to use.
    wanted: Submission,
    /// What is used now.
    submission: Submission,
    /// The FLUSH or SHARE that failed.
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
            lost: None,
            _hold: hold,
        }
    }

    /// The same disk, submitting like this when it is attached to a run in wall time.
    pub fn submitting(mut self, wanted: Submission) -> FileDisk {
        self.wanted = wanted;
        self
    }

    /// Who carries requests out now.
    pub fn submission(&self) -> Submission {
        self.submission
    }

    /// The carrier for a run in wall time with this bell, or in virtual time without one.
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

    /// Puts under way what has to wait for nothing.
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

    /// A copy from or to the host's page cache is made at once: it takes less time than to ask for it.
    fn give(&mut self, number: usize, operation: Operation) -> Option<Ended> {
        let mut work = self.work(operation);
        let is_cached = self.submission != Submission::Blocking && self.alignment == Alignment::Any;
        match is_cached.then(|| work.copy(&self.file)).flatten() {
            Some(result) => Some(Ended { number, work, result }),
            None => self.carrier.give(number, work),
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

    fn complete(&mut self, number: usize, outcome: Outcome) {
        let tokens = self.line.leave(number);
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

    /// Waits for what is under way, whose end nobody learns; a failed FLUSH among it is remembered.
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
