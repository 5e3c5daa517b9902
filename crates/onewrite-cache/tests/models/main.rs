//! Every policy against a slow, simple model of itself, on random traces: the same hits, the same evictions in the same
//! order. The policy's own check runs after every request.

mod blocks;
mod ghosts;
mod lists;
mod sorted;

use std::collections::BTreeSet;

use onewrite_block::Choices;
use onewrite_cache::{Access, CacheShape, FutureBuilder, PageNo, PageRequest, PolicyKind};

/// The simplest form of a policy. Page numbers name the pages; there are no slots.
pub trait Model {
    /// A page in the cache is read or written. `dirty` does not include this access yet.
    fn hit(&mut self, page: u64, is_write: bool, dirty: &BTreeSet<u64>);

    /// The cache is full: removes and returns the pages that leave for `incoming`, in order.
    fn evict(&mut self, incoming: u64, dirty: &BTreeSet<u64>) -> Vec<u64>;

    /// A page comes in.
    fn insert(&mut self, page: u64, is_write: bool);
}

/// Runs a model as the simulator runs a policy.
struct Modelled {
    model: Box<dyn Model>,
    capacity: usize,
    resident: BTreeSet<u64>,
    dirty: BTreeSet<u64>,
}

/// What one request did.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    is_hit: bool,
    evicted_clean: u64,
    after: Vec<PageRequest>,
}

impl Modelled {
    fn request(&mut self, request: PageRequest) -> Outcome {
        let page = request.page();
        let mut outcome = Outcome { is_hit: self.resident.contains(&page), evicted_clean: 0, after: Vec::new() };
        if outcome.is_hit {
            self.model.hit(page, request.is_write(), &self.dirty);
        } else {
            if self.resident.len() == self.capacity {
                for victim in self.model.evict(page, &self.dirty) {
                    assert!(self.resident.remove(&victim), "the model evicts {victim}, which is not in");
                    match self.dirty.remove(&victim) {
                        true => outcome.after.push(PageRequest::write(victim)),
                        false => outcome.evicted_clean += 1,
                    }
                }
            }
            if !request.is_write() {
                outcome.after.push(request);
            }
            self.resident.insert(page);
            self.model.insert(page, request.is_write());
        }
        if request.is_write() {
            self.dirty.insert(page);
        }
        outcome
    }
}

/// Phases of different kinds: hits, scans, sequential writes and loops all occur.
fn random_trace(choices: &mut Choices, range: u64, length: usize) -> Vec<PageRequest> {
    let mut trace = Vec::new();
    while trace.len() < length {
        let (kind, start, writes) = (choices.below(4), choices.below(range), choices.below(4));
        let hot = 1 + choices.below(range);
        for step in 0..5 + choices.below(30) {
            let page = match kind {
                0 => choices.below(range),
                1 => (start + step) % range,
                2 => (start + choices.below(hot).min(choices.below(hot))) % range,
                _ => (start + step % 7) % range,
            };
            let access = if choices.below(4) < writes { Access::Write } else { Access::Read };
            trace.push(PageRequest::new(page, access));
        }
    }
    trace
}

fn agrees(kind: PolicyKind, model: impl Fn(CacheShape, &[PageRequest]) -> Box<dyn Model>) {
    for seed in 0..60 {
        let mut choices = Choices::new(seed).stream(kind.name(), 0);
        let capacity = 1 + choices.below(40);
        let block_pages = [1, 2, 4, 8, 3][choices.index(5)];
        let range = 2 + choices.below(3 * capacity);
        let trace = random_trace(&mut choices, range, 700);
        let shape = CacheShape::new(capacity, block_pages).unwrap();
        let mut future = FutureBuilder::default();
        trace.iter().for_each(|request| future.push(PageNo(request.page())).unwrap());
        let mut real = kind.simulation(shape, Some(future.finish()));
        let model = model(shape, &trace);
        let (resident, dirty) = (BTreeSet::new(), BTreeSet::new());
        let mut modelled = Modelled { model, capacity: capacity as usize, resident, dirty };
        for (number, request) in trace.iter().enumerate() {
            let before = real.counts();
            let mut after = Vec::new();
            real.feed(std::slice::from_ref(request), &mut |request| after.push(request));
            let counts = real.counts();
            let is_hit = counts.hits > before.hits;
            let got = Outcome { is_hit, evicted_clean: counts.evicted_clean - before.evicted_clean, after };
            let place = format!("{kind}, seed {seed}, {shape:?}, request {number}: {request:?}");
            assert_eq!(got, modelled.request(*request), "{place}");
            real.check().unwrap_or_else(|problem| panic!("{place}: {problem}"));
        }
        let counts = real.counts();
        assert_eq!(counts.hits + counts.misses, counts.requests);
    }
}

#[test]
fn lru_is_its_model() {
    agrees(PolicyKind::Lru, |_, _| Box::new(lists::Lru::default()));
}

#[test]
fn clock_is_its_model() {
    agrees(PolicyKind::Clock, |_, _| Box::new(lists::Clock::default()));
}

#[test]
fn linux_2q_is_its_model() {
    agrees(PolicyKind::Linux2q, |_, _| Box::new(lists::Linux2q::default()));
}

#[test]
fn cflru_is_its_model() {
    agrees(PolicyKind::Cflru, |shape, _| Box::new(lists::Cflru::new(shape.capacity_pages)));
}

#[test]
fn lru_wsr_is_its_model() {
    agrees(PolicyKind::LruWsr, |_, _| Box::new(lists::LruWsr::default()));
}

#[test]
fn sieve_is_its_model() {
    agrees(PolicyKind::Sieve, |_, _| Box::new(lists::Sieve::default()));
}

#[test]
fn fab_is_its_model() {
    agrees(PolicyKind::Fab, |shape, _| Box::new(blocks::Fab::new(shape.block_pages)));
}

#[test]
fn bplru_is_its_model() {
    agrees(PolicyKind::Bplru, |shape, _| Box::new(blocks::Bplru::new(shape.block_pages)));
}

#[test]
fn lb_clock_is_its_model() {
    agrees(PolicyKind::LbClock, |shape, _| Box::new(blocks::LbClock::new(shape.block_pages)));
}

#[test]
fn sp_clock_is_its_model() {
    agrees(PolicyKind::SpClock, |_, _| Box::new(sorted::SpClock::default()));
}

#[test]
fn ts_clock_is_its_model() {
    agrees(PolicyKind::TsClock, |shape, _| Box::new(sorted::TsClock::new(shape.block_pages, false)));
}

#[test]
fn ts_clock_that_counts_at_the_scan_is_its_model() {
    agrees(PolicyKind::TsClockScan, |shape, _| Box::new(sorted::TsClock::new(shape.block_pages, true)));
}

#[test]
fn arc_is_its_model() {
    agrees(PolicyKind::Arc, |shape, _| Box::new(ghosts::Arc::new(shape.capacity_pages)));
}

#[test]
fn s3_fifo_is_its_model() {
    agrees(PolicyKind::S3Fifo, |shape, _| Box::new(ghosts::S3Fifo::new(shape.capacity_pages)));
}

/// Among pages never used again the model may choose another one. So only hits are compared; no policy has more.
#[test]
fn nothing_beats_the_optimum() {
    for seed in 0..40 {
        let mut choices = Choices::new(seed).stream("belady", 0);
        let shape = CacheShape::new(1 + choices.below(30), 4).unwrap();
        let range = 2 + choices.below(90);
        let trace = random_trace(&mut choices, range, 600);
        let hits = |kind: PolicyKind| {
            let mut future = FutureBuilder::default();
            trace.iter().for_each(|request| future.push(PageNo(request.page())).unwrap());
            let mut simulation = kind.simulation(shape, Some(future.finish()));
            simulation.feed(&trace, &mut |_| ());
            simulation.check().unwrap();
            simulation.counts().hits
        };
        let optimum = hits(PolicyKind::Belady);
        assert_eq!(optimum, lists::optimal_hits(&trace, shape.capacity_pages as usize), "seed {seed}");
        for kind in PolicyKind::ALL {
            assert!(hits(kind) <= optimum, "{kind} has more hits than the optimum, seed {seed}");
        }
    }
}

/// Dissertation §2.3: TS-CLOCK differs from CLOCK only in its treatment of dirty pages.
#[test]
fn without_writes_ts_clock_is_clock() {
    let mut choices = Choices::new(5);
    let trace: Vec<PageRequest> =
        random_trace(&mut choices, 300, 20_000).iter().map(|request| PageRequest::read(request.page())).collect();
    let shape = CacheShape::new(100, 8).unwrap();
    let after = |kind: PolicyKind| {
        let mut after = Vec::new();
        kind.simulation(shape, None).feed(&trace, &mut |request| after.push(request));
        after
    };
    assert_eq!(after(PolicyKind::Clock), after(PolicyKind::TsClock));
    assert_eq!(after(PolicyKind::Clock), after(PolicyKind::TsClockScan));
}
