//! Kind: the policies by name.

use std::fmt;
use std::str::FromStr;

use super::*;
use crate::simulate::{CAPACITY_MAX, Replay, Simulation};

/// The shape of a cache, for its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Most pages of the cache, from 1 to 2²⁷.
    pub capacity_pages: u32,
    /// Pages of a flash block, from 1 to 2²⁴.
    pub block_pages: u32,
}

impl CacheShape {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Which number is out of range, and its limits.
    pub fn new(capacity_pages: u64, block_pages: u64) -> Result<CacheShape, String> {
        let (capacity_max, block_max) = (u64::from(CAPACITY_MAX), u64::from(blocks::BLOCK_PAGES_MAX));
        if !(1..=capacity_max).contains(&capacity_pages) {
            return Err(format!("a cache of {capacity_pages} pages; it has from 1 to {capacity_max}"));
        }
        if !(1..=block_max).contains(&block_pages) {
            return Err(format!("flash blocks of {block_pages} pages; they have from 1 to {block_max}"));
        }
        Ok(CacheShape { capacity_pages: capacity_pages as u32, block_pages: block_pages as u32 })
    }
}

/// A replacement policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the policies', and their modules say what they are")]
pub enum PolicyKind {
    Lru,
    Clock,
    Linux2q,
    Cflru,
    Fab,
    LbClock,
    SpClock,
    TsClock,
    TsClockScan,
    LruWsr,
    Bplru,
    Arc,
    S3Fifo,
    Sieve,
    Belady,
}

impl PolicyKind {
    /// All policies, in the order of lists and tables.
    pub const ALL: [PolicyKind; 15] = [
        PolicyKind::Lru,
        PolicyKind::Clock,
        PolicyKind::Linux2q,
        PolicyKind::Cflru,
        PolicyKind::Fab,
        PolicyKind::LbClock,
        PolicyKind::SpClock,
        PolicyKind::TsClock,
        PolicyKind::TsClockScan,
        PolicyKind::LruWsr,
        PolicyKind::Bplru,
        PolicyKind::Arc,
        PolicyKind::S3Fifo,
        PolicyKind::Sieve,
        PolicyKind::Belady,
    ];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Lru => "lru",
            PolicyKind::Clock => "clock",
            PolicyKind::Linux2q => "linux-2q",
            PolicyKind::Cflru => "cflru",
            PolicyKind::Fab => "fab",
            PolicyKind::LbClock => "lb-clock",
            PolicyKind::SpClock => "sp-clock",
            PolicyKind::TsClock => "ts-clock",
            PolicyKind::TsClockScan => "ts-clock-scan",
            PolicyKind::LruWsr => "lru-wsr",
            PolicyKind::Bplru => "bplru",
            PolicyKind::Arc => "arc",
            PolicyKind::S3Fifo => "s3-fifo",
            PolicyKind::Sieve => "sieve",
            PolicyKind::Belady => "belady",
        }
    }

    /// Whether it must know the requests to come. Then only the simulator can use it.
    pub const fn needs_future(self) -> bool {
        matches!(self, PolicyKind::Belady)
    }

    /// The policy for a page cache; `None` if it [needs the future](PolicyKind::needs_future).
    pub fn policy(self, shape: CacheShape) -> Option<Box<dyn Policy>> {
        self.make(shape, None, InPageCache)
    }

    /// A simulation of a cache with this policy, compiled for it.
    ///
    /// # Panics
    /// If it [needs the future](PolicyKind::needs_future) and `future` is `None`.
    pub fn simulation(self, shape: CacheShape, future: Option<Future>) -> Box<dyn Replay> {
        self.make(shape, future, InSimulation(shape)).expect("the optimum is told the future")
    }

    /// Makes the policy for one use; `None` if it lacks the future that it needs.
    fn make<U: Use>(
        self,
        CacheShape { capacity_pages, block_pages }: CacheShape,
        future: Option<Future>,
        made_for: U,
    ) -> Option<U::Made> {
        Some(match self {
            PolicyKind::Lru => made_for.of(Lru::new(capacity_pages)),
            PolicyKind::Clock => made_for.of(Clock::new(capacity_pages)),
            PolicyKind::Linux2q => made_for.of(Linux2q::new(capacity_pages)),
            PolicyKind::Cflru => made_for.of(Cflru::new(capacity_pages)),
            PolicyKind::Fab => made_for.of(Fab::new(capacity_pages, block_pages)),
            PolicyKind::LbClock => made_for.of(LbClock::new(capacity_pages, block_pages)),
            PolicyKind::SpClock => made_for.of(SpClock::new(capacity_pages)),
            PolicyKind::TsClock => made_for.of(TsClock::new(capacity_pages, block_pages, Counting::AtAccess)),
            PolicyKind::TsClockScan => made_for.of(TsClock::new(capacity_pages, block_pages, Counting::AtScan)),
            PolicyKind::LruWsr => made_for.of(LruWsr::new(capacity_pages)),
            PolicyKind::Bplru => made_for.of(Bplru::new(capacity_pages, block_pages)),
            PolicyKind::Arc => made_for.of(Arc::new(capacity_pages)),
            PolicyKind::S3Fifo => made_for.of(S3Fifo::new(capacity_pages)),
            PolicyKind::Sieve => made_for.of(Sieve::new(capacity_pages)),
            PolicyKind::Belady => made_for.of(Belady::new(capacity_pages, future?)),
        })
    }
}

/// A use of a policy. The compiler makes separate code for each use and policy.
trait Use {
    type Made;

    fn of<P: Policy + Send + 'static>(self, policy: P) -> Self::Made;
}

struct InPageCache;

impl Use for InPageCache {
    type Made = Box<dyn Policy>;

    fn of<P: Policy + Send + 'static>(self, policy: P) -> Box<dyn Policy> {
        Box::new(policy)
    }
}

struct InSimulation(CacheShape);

impl Use for InSimulation {
    type Made = Box<dyn Replay>;

    fn of<P: Policy + Send + 'static>(self, policy: P) -> Box<dyn Replay> {
        Box::new(Simulation::new(self.0.capacity_pages, policy))
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicyKind, String> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let known = PolicyKind::ALL.map(PolicyKind::name).join(", ");
            format!("`{text}` is no cache policy; there are {known}")
        })
    }
}
