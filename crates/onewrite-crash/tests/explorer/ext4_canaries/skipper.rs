//! A checkpoint that drops an entry, or a pair of a SHARE, because a newer version of its block is in the running
//! transaction.
//!
//! The blocks of the running transaction are not visible from outside, but a run is deterministic. The first run notes
//! which checkpoints write a home block that the next commit logs again; in the second run the disk keeps its old
//! content there. Requests and times are equal in both.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onewrite_block::{
    Cause, Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Remap, Request, Token,
};
use onewrite_crash::{Alter, Altered, ExploreOptions, Ext4Subject, WorkloadSpec, trace};
use onewrite_fs::ext4::Mode;
use onewrite_fs::journal::format::{JournalSuperblock, Kind, Style, header};

/// What the first run tells the second.
#[derive(Default)]
struct Plan {
    is_known: bool,
    /// Number of a checkpoint write or SHARE, and one of its blocks.
    skipped: BTreeSet<(u64, Lpn)>,
}

#[derive(Clone, Default)]
struct Skipping(Rc<RefCell<Plan>>);

impl Alter<Ext4Subject> for Skipping {
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        let (plan, recent) = (Rc::clone(&self.0), Vec::new());
        let (reads, content) = (BTreeMap::new(), BTreeMap::new());
        Box::new(Skipper { inner: disk, plan, style: None, writes: 0, recent, reads, content })
    }
}

struct Skipper {
    inner: Box<dyn Device>,
    plan: Rc<RefCell<Plan>>,
    style: Option<Style>,
    /// Checkpoint writes and SHAREs so far.
    writes: u64,
    /// Checkpoint writes and SHAREs since the last commit, with their blocks.
    recent: Vec<(u64, Lpn)>,
    reads: BTreeMap<Token, Lpn>,
    /// The content of the disk, as far as it was seen.
    content: BTreeMap<Lpn, Page>,
}

impl Skipper {
    fn look(&mut self, request: &mut Request) {
        if let (Cause::Checkpoint, Operation::Share(pairs)) = (request.cause, &mut request.operation) {
            self.share(pairs);
            if pairs.is_empty() {
                // Keeps the number of requests equal to the first run.
                request.operation = Operation::Read { start: Lpn(0), count: 1 };
            }
            return;
        }
        let Operation::Write { start, pages, .. } = &mut request.operation else { return };
        match request.cause {
            Cause::LogTail => {
                self.style = JournalSuperblock::decode(&pages[0].bytes()).ok().map(|superblock| superblock.style());
            }
            Cause::Journal => self.note_commit(pages),
            Cause::Checkpoint => self.checkpoint(*start, pages),
            _ => (),
        }
        self.content.extend((start.0..).map(Lpn).zip(pages.iter().cloned()));
    }

    /// Blocks that were just checkpointed and are logged again were in the running transaction then.
    fn note_commit(&mut self, pages: &[Page]) {
        let Some(style) = self.style else { return };
        for page in pages {
            match header(&page.bytes()) {
                Some((Kind::Descriptor, _)) => {
                    let tags = style.tags(&page.bytes());
                    let logged: BTreeSet<Lpn> = tags.iter().map(|tag| tag.home_block.page()).collect();
                    let again = self.recent.iter().filter(|(_, lpn)| logged.contains(lpn));
                    let mut plan = self.plan.borrow_mut();
                    if !plan.is_known {
                        plan.skipped.extend(again);
                    }
                }
                Some((Kind::Commit, _)) => self.recent.clear(),
                _ => (),
            }
        }
    }

    fn share(&mut self, pairs: &mut Vec<Remap>) {
        self.writes += 1;
        let (writes, plan) = (self.writes, self.plan.borrow());
        self.recent.extend(pairs.iter().map(|pair| (writes, pair.target)));
        pairs.retain(|pair| !plan.is_known || !plan.skipped.contains(&(writes, pair.target)));
    }

    fn checkpoint(&mut self, start: Lpn, pages: &mut [Page]) {
        self.writes += 1;
        let plan = self.plan.borrow();
        for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
            self.recent.push((self.writes, lpn));
            if plan.is_known && plan.skipped.contains(&(self.writes, lpn)) {
                *page = self.content.get(&lpn).unwrap_or(page).clone();
            }
        }
    }
}

impl Device for Skipper {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, mut request: Request, now: Nanos) {
        self.look(&mut request);
        if let Operation::Read { start, .. } = &request.operation {
            self.reads.insert(token, *start);
        }
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        self.inner.advance(to, completed);
        for completion in &completed[seen..] {
            if let (Some(start), Ok(pages)) = (self.reads.remove(&completion.token), &completion.outcome) {
                for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                    self.content.entry(lpn).or_insert_with(|| page.clone());
                }
            }
        }
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}

/// Many small changes to the same blocks, so that the log fills and checkpoints run beside them.
fn options(seed: u64) -> ExploreOptions {
    ExploreOptions { samples: 4, exhaustive_writes_max: 2, nested_every: 0, ..super::options(seed) }
}

/// Asserts that the explorer catches it.
pub fn caught(mode: Mode, seed: u64) -> super::Catch {
    let spec: WorkloadSpec = "random:2000".parse().expect("workload");
    let (sound, options, change) = (Ext4Subject::new(mode), options(seed), Skipping::default());
    let subject = Altered { sound, change: change.clone() };
    let workload = spec.workloads(&sound, seed).next().expect("a random workload");
    trace(subject.clone(), &workload, &options).expect("the first run");
    change.0.borrow_mut().is_known = true;
    let skipped = change.0.borrow().skipped.len();
    assert!(skipped > 0, "seed {seed}: no block was brought home while the next transaction held it");
    let script = WorkloadSpec::Script(workload);
    let (promise, state) = super::broken(subject, &script, &options);
    let promise = promise.unwrap_or_else(|| panic!("seed {seed}: {skipped} blocks skipped, not caught in {state}"));
    let (wrong, states) = super::broken(sound, &script, &options);
    assert_eq!(wrong, None, "seed {seed}: the sound file system, state {states}");
    (promise, state, states)
}
