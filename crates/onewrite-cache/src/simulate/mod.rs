//! Simulate: a trace of pages through a policy; hits, misses, and what reaches the device.
//!
//! ```text
//!   before-cache trace ─► hit: nothing more
//!                       └► miss: room is made (a dirty victim is written), then a read miss reads its page
//!                                        └──────── after-cache trace ────────┘
//! ```
//!
//! Misses count reads and writes. A write miss reads nothing. Pages left at the end are not evictions. Policies that
//! evict by flash block write all dirty pages of the block before the miss continues.
//!
//! Source: dissertation §2.4.1. Invariants of [`Simulation`]: each resident page has one slot, and the table finds it;
//! the policy has exactly the resident slots; resident pages never exceed the capacity.

mod table;
mod utilization;

use crate::policy::{PageNo, Policy, Slot};
use table::Table;

pub(crate) use table::CAPACITY_MAX;
pub use utilization::Utilization;

/// What is done with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

/// One page read or written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRequest(u64);

impl PageRequest {
    /// The largest page number.
    pub const PAGE_MAX: u64 = (1 << 62) - 1;

    /// A read or write of `page`, which is at most [`PageRequest::PAGE_MAX`].
    #[inline]
    pub const fn new(page: u64, access: Access) -> PageRequest {
        debug_assert!(page <= PageRequest::PAGE_MAX);
        PageRequest((page << 1) | matches!(access, Access::Write) as u64)
    }

    /// A read.
    pub const fn read(page: u64) -> PageRequest {
        PageRequest::new(page, Access::Read)
    }

    /// A write.
    pub const fn write(page: u64) -> PageRequest {
        PageRequest::new(page, Access::Write)
    }

    /// The page.
    #[inline]
    pub const fn page(self) -> u64 {
        self.0 >> 1
    }

    /// What is done with it.
    #[inline]
    pub const fn access(self) -> Access {
        if self.is_write() { Access::Write } else { Access::Read }
    }

    /// Whether it is a write.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.0 & 1 == 1
    }
}

impl std::fmt::Debug for PageRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.is_write() { 'w' } else { 'r' }, self.page())
    }
}

/// What a simulation counts, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages requested.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Found in the cache.
    pub hits: u64,
    /// Not found; read misses and write misses.
    pub misses: u64,
    /// Reads not found: the reads of the after-cache trace.
    pub read_misses: u64,
    /// Clean pages that made room.
    pub evicted_clean: u64,
    /// Dirty pages that made room: the writes of the after-cache trace.
    pub evicted_dirty: u64,
}

/// A simulation with a policy chosen at run time.
pub trait Replay: Send {
    /// Runs the requests in order; calls `after` for each request that reaches the device.
    fn feed(&mut self, requests: &[PageRequest], after: &mut dyn FnMut(PageRequest));

    /// The counts so far.
    fn counts(&self) -> Counts;

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self) -> Result<(), String>;
}

/// A cache of a fixed number of pages under one policy.
pub struct Simulation<P> {
    policy: P,
    table: Table,
    /// Free slots that were used before.
    free: Vec<u32>,
    /// Number of slots ever used.
    used: u32,
    capacity: u32,
    counts: Counts,
}

impl<P: Policy> Simulation<P> {
    /// An empty cache of `capacity` pages.
    ///
    /// # Panics
    /// If that is zero.
    pub fn new(capacity: u32, policy: P) -> Simulation<P> {
        assert!(capacity > 0, "a cache holds at least a page");
        let table = Table::new(capacity);
        Simulation { policy, table, free: Vec::new(), used: 0, capacity, counts: Counts::default() }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Runs one request; calls `after` for each request that reaches the device.
    #[inline]
    pub fn request(&mut self, request: PageRequest, after: &mut impl FnMut(PageRequest)) {
        self.counts.requests += 1;
        self.counts.reads += u64::from(!request.is_write());
        match self.table.find(request.page()) {
            Some(slot) => {
                self.counts.hits += 1;
                self.policy.access(Slot(slot));
                self.note_write(slot, request);
            }
            None => self.miss(request, after),
        }
    }

    fn miss(&mut self, request: PageRequest, after: &mut impl FnMut(PageRequest)) {
        self.counts.misses += 1;
        let page = PageNo(request.page());
        if self.used - self.free.len() as u32 == self.capacity {
            self.make_room(page, after);
        }
        if !request.is_write() {
            self.counts.read_misses += 1;
            after(request);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        self.table.insert(page.0, slot);
        self.policy.insert(Slot(slot), page);
        self.note_write(slot, request);
    }

    #[inline]
    fn note_write(&mut self, slot: u32, request: PageRequest) {
        if request.is_write() && self.table.dirty(slot) {
            self.policy.dirtied(Slot(slot));
        }
    }

    fn make_room(&mut self, incoming: PageNo, after: &mut impl FnMut(PageRequest)) {
        loop {
            let victim = self.policy.victim(Some(incoming)).expect("a full cache has a victim");
            let (page, is_dirty) = self.table.remove(victim.0);
            self.policy.remove(victim, PageNo(page));
            self.free.push(victim.0);
            if is_dirty {
                self.counts.evicted_dirty += 1;
                after(PageRequest::write(page));
            } else {
                self.counts.evicted_clean += 1;
            }
            for next in self.policy.upcoming().into_iter().flatten() {
                self.table.fetch(next.0);
            }
            if !self.policy.wants_more() {
                return;
            }
        }
    }
}

impl<P: Policy + Send> Replay for Simulation<P> {
    fn feed(&mut self, requests: &[PageRequest], mut after: &mut dyn FnMut(PageRequest)) {
        requests.iter().for_each(|request| self.request(*request, &mut after));
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn check(&self) -> Result<(), String> {
        let resident = self.used as usize - self.free.len();
        if self.table.check()? != resident || resident > self.capacity as usize {
            return Err(format!("{resident} of {} slots are in use; the table knows another number", self.capacity));
        }
        self.policy.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Lru;

    #[test]
    fn a_write_miss_reads_nothing_and_what_is_left_is_no_eviction() {
        let mut cache = Simulation::new(2, Lru::new(2));
        let mut after = Vec::new();
        let requests = [PageRequest::write(1), PageRequest::read(2), PageRequest::read(1), PageRequest::write(3)];
        cache.feed(&requests, &mut |request| after.push(request));
        assert_eq!(after, [PageRequest::read(2)]);
        let counts = cache.counts();
        assert_eq!((counts.requests, counts.reads, counts.hits, counts.misses), (4, 2, 1, 3));
        assert_eq!((counts.evicted_clean, counts.evicted_dirty, counts.read_misses), (1, 0, 1));
        cache.check().unwrap();
    }

    #[test]
    fn a_dirty_victim_is_written_before_the_miss_is_read() {
        let mut cache = Simulation::new(1, Lru::new(1));
        let mut after = Vec::new();
        cache.feed(&[PageRequest::write(7), PageRequest::read(8)], &mut |request| after.push(request));
        assert_eq!(after, [PageRequest::write(7), PageRequest::read(8)]);
    }
}
