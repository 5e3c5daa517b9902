//! Devices that disobey: they acknowledge some writes at once and perform them later.
//!
//! Reads return the held content, so nobody notices before the power loss.

use std::collections::{BTreeMap, VecDeque};

use onewrite_block::{
    Cause, Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request, Token,
};
use onewrite_fs::journal::format::{JournalSuperblock, Kind, header};

/// What to do with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// Acknowledge, and perform later.
    Hold,
    /// Pass on, and the held requests right behind it.
    PassAndRelease,
    /// Pass on; pass on the held requests when the next FLUSH has completed.
    PassAndReleaseAfterFlush,
}

/// First token of the device's own writes.
const OWN: u32 = 1 << 30;

struct Late {
    inner: Box<dyn Device>,
    judge: fn(&Request) -> Verdict,
    held: VecDeque<Request>,
    pages: BTreeMap<Lpn, Page>,
    /// What was written, as the source of SHAREs.
    written: BTreeMap<Lpn, Page>,
    acknowledged: Vec<Completion>,
    reads: BTreeMap<Token, Lpn>,
    awaited: Awaited,
    own: u32,
    now: Nanos,
}

/// The FLUSH that the held requests wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Nothing,
    NextFlush,
    Flush(Token),
}

/// Content reaches the disk only behind the commit block of its transaction.
pub fn late_data(disk: Box<dyn Device>) -> Box<dyn Device> {
    Late::around(disk, |request| match (request.cause, &request.operation) {
        (Cause::Data, Operation::Write { .. }) => Verdict::Hold,
        (Cause::Journal, Operation::Write { pages, .. }) if ends_with_commit(pages) => Verdict::PassAndRelease,
        _ => Verdict::Pass,
    })
}

/// Home blocks reach the disk only when the log's new tail is durable.
pub fn late_home(disk: Box<dyn Device>) -> Box<dyn Device> {
    Late::around(disk, |request| match (request.cause, &request.operation) {
        (Cause::Checkpoint, Operation::Write { .. }) => Verdict::Hold,
        (Cause::LogTail, Operation::Write { .. }) => Verdict::PassAndReleaseAfterFlush,
        _ => Verdict::Pass,
    })
}

/// Home blocks are remapped only when the log's new tail is durable.
pub fn late_share(disk: Box<dyn Device>) -> Box<dyn Device> {
    Late::around(disk, |request| match (request.cause, &request.operation) {
        (Cause::Checkpoint, Operation::Share(_)) => Verdict::Hold,
        (Cause::LogTail, Operation::Write { .. }) => Verdict::PassAndReleaseAfterFlush,
        _ => Verdict::Pass,
    })
}

/// The log's new tail reaches the disk only with the next commit: when pages are shared, the log still holds versions
/// of the targets.
pub fn late_tail(disk: Box<dyn Device>) -> Box<dyn Device> {
    Late::around(disk, |request| match (request.cause, &request.operation) {
        (Cause::LogTail, Operation::Write { .. }) => Verdict::Hold,
        (Cause::Journal, Operation::Write { .. }) => Verdict::PassAndRelease,
        _ => Verdict::Pass,
    })
}

/// Pages of files are remapped only behind the commit block of the transaction that says so.
pub fn late_application_share(disk: Box<dyn Device>) -> Box<dyn Device> {
    Late::around(disk, |request| match (request.cause, &request.operation) {
        (Cause::Data, Operation::Share(_)) => Verdict::Hold,
        (Cause::Journal, Operation::Write { pages, .. }) if ends_with_commit(pages) => Verdict::PassAndRelease,
        _ => Verdict::Pass,
    })
}

/// Recovery marks the log empty before it writes home blocks.
pub fn early_empty_log(disk: Box<dyn Device>) -> Box<dyn Device> {
    Late::around(disk, |request| match (request.cause, &request.operation) {
        (Cause::Recovery, Operation::Write { pages, .. }) => match JournalSuperblock::decode(&pages[0].bytes()) {
            Ok(_) => Verdict::PassAndReleaseAfterFlush,
            Err(_) => Verdict::Hold,
        },
        _ => Verdict::Pass,
    })
}

fn ends_with_commit(pages: &[Page]) -> bool {
    pages.last().is_some_and(|page| matches!(header(&page.bytes()), Some((Kind::Commit, _))))
}

impl Late {
    fn around(inner: Box<dyn Device>, judge: fn(&Request) -> Verdict) -> Box<dyn Device> {
        Box::new(Late {
            inner,
            judge,
            held: VecDeque::new(),
            pages: BTreeMap::new(),
            written: BTreeMap::new(),
            acknowledged: Vec::new(),
            reads: BTreeMap::new(),
            awaited: Awaited::Nothing,
            own: OWN,
            now: Nanos::ZERO,
        })
    }

    fn hold(&mut self, token: Token, request: Request) {
        match &request.operation {
            Operation::Write { start, pages, .. } => {
                self.pages.extend((start.0..).map(Lpn).zip(pages.iter().cloned()));
            }
            Operation::Share(pairs) => {
                self.pages.extend(pairs.iter().map(|pair| (pair.target, self.written[&pair.source].clone())));
            }
            _ => (),
        }
        self.held.push_back(request);
        self.acknowledged.push(Completion { token, outcome: Ok(Vec::new()) });
    }

    fn pass(&mut self, token: Token, request: Request) {
        match &request.operation {
            Operation::Read { start, .. } => drop(self.reads.insert(token, *start)),
            Operation::Write { start, pages, .. } => {
                self.written.extend((start.0..).map(Lpn).zip(pages.iter().cloned()));
            }
            Operation::Flush if self.awaited == Awaited::NextFlush => self.awaited = Awaited::Flush(token),
            _ => (),
        }
        self.inner.submit(token, request, self.now);
    }

    fn release(&mut self) {
        for request in std::mem::take(&mut self.held) {
            self.own += 1;
            self.inner.submit(Token(self.own), request, self.now);
        }
    }

    fn finish(&mut self, mut completion: Completion, completed: &mut Vec<Completion>) {
        if completion.token.0 >= OWN {
            return;
        }
        if let (Some(start), Ok(pages)) = (self.reads.remove(&completion.token), &mut completion.outcome) {
            for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                *page = self.pages.get(&lpn).unwrap_or(page).clone();
            }
        }
        if self.awaited == Awaited::Flush(completion.token) {
            self.awaited = Awaited::Nothing;
            self.release();
        }
        completed.push(completion);
    }
}

impl Device for Late {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        match (self.judge)(&request) {
            Verdict::Hold => self.hold(token, request),
            Verdict::Pass => self.pass(token, request),
            Verdict::PassAndRelease => {
                self.pass(token, request);
                self.release();
            }
            Verdict::PassAndReleaseAfterFlush => {
                self.pass(token, request);
                self.awaited = Awaited::NextFlush;
            }
        }
    }

    fn next_event(&self) -> NextEvent {
        if self.acknowledged.is_empty() { self.inner.next_event() } else { NextEvent::At(self.now) }
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.now = to;
        completed.append(&mut self.acknowledged);
        let mut inner = Vec::new();
        self.inner.advance(to, &mut inner);
        inner.into_iter().for_each(|completion| self.finish(completion, completed));
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}
