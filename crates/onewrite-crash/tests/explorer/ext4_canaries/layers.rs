//! Devices that acknowledge some writes at once and perform them later.

use std::collections::{BTreeMap, VecDeque};

use onewrite_block::{Cause, Device, Lpn, Operation, Page, Request, Token};
use onewrite_fs::journal::format::{JournalSuperblock, Kind, header};

use crate::support::disobedient::{Disk, Manner, disobedient};

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

struct Late {
    judge: fn(&Request) -> Verdict,
    held: VecDeque<Request>,
    /// What was written, as the source of SHAREs.
    written: BTreeMap<Lpn, Page>,
    awaited: Awaited,
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
        let (held, written) = (VecDeque::new(), BTreeMap::new());
        disobedient(inner, Late { judge, held, written, awaited: Awaited::Nothing })
    }

    fn hold(&mut self, disk: &mut Disk, token: Token, request: Request) {
        match &request.operation {
            Operation::Write { start, pages, .. } => {
                (start.0..).map(Lpn).zip(pages).for_each(|(lpn, page)| disk.believe(lpn, Some(page.clone())));
            }
            Operation::Share(pairs) => {
                pairs.iter().for_each(|pair| disk.believe(pair.target, Some(self.written[&pair.source].clone())));
            }
            _ => (),
        }
        self.held.push_back(request);
        disk.acknowledge(token);
    }

    fn pass(&mut self, disk: &mut Disk, token: Token, request: Request) {
        match &request.operation {
            Operation::Write { start, pages, .. } => {
                self.written.extend((start.0..).map(Lpn).zip(pages.iter().cloned()));
            }
            Operation::Flush if self.awaited == Awaited::NextFlush => self.awaited = Awaited::Flush(token),
            _ => (),
        }
        disk.pass(token, request);
    }

    fn release(&mut self, disk: &mut Disk) {
        std::mem::take(&mut self.held).into_iter().for_each(|request| disk.add(request));
    }
}

impl Manner for Late {
    fn submitted(&mut self, disk: &mut Disk, token: Token, request: Request) {
        match (self.judge)(&request) {
            Verdict::Hold => self.hold(disk, token, request),
            Verdict::Pass => self.pass(disk, token, request),
            Verdict::PassAndRelease => {
                self.pass(disk, token, request);
                self.release(disk);
            }
            Verdict::PassAndReleaseAfterFlush => {
                self.pass(disk, token, request);
                self.awaited = Awaited::NextFlush;
            }
        }
    }

    fn completed(&mut self, disk: &mut Disk, token: Token) {
        if self.awaited == Awaited::Flush(token) {
            self.awaited = Awaited::Nothing;
            self.release(disk);
        }
    }
}
