//! Policy: which page leaves. One file for each policy. `slots.rs`, `links.rs`, `numbers.rs`, `blocks.rs` and
//! `ghosts.rs` hold shared parts; `dirty.rs` holds the blocks of TS-CLOCK.
//!
//! [`PolicyKind`] names them all and makes them.

mod arc;
mod belady;
mod blocks;
mod bplru;
mod cflru;
mod clock;
mod dirty;
mod fab;
mod ghosts;
mod kind;
mod lb_clock;
mod links;
mod linux_2q;
mod lru;
mod lru_wsr;
mod numbers;
mod s3_fifo;
mod sieve;
mod slots;
mod sp_clock;
mod ts_clock;

pub use arc::Arc;
pub use belady::{Belady, Future, FutureBuilder};
pub use bplru::Bplru;
pub use cflru::Cflru;
pub use clock::Clock;
pub use fab::Fab;
pub use kind::{CacheShape, PolicyKind};
pub use lb_clock::LbClock;
pub use linux_2q::Linux2q;
pub use lru::Lru;
pub use lru_wsr::LruWsr;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use sp_clock::SpClock;
pub use ts_clock::{Counting, TsClock};

/// Number of a place in the cache. Numbers are small and dense, so that policies can use arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a page lives, counted in pages. Pages with near numbers lie near each other on the device. A flash block of n
/// pages holds the pages whose numbers divided by n give the same quotient. The number also names a page that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u64);

/// A replacement policy: sees accesses and names victims. The simulator and the page cache of the file systems use the
/// same code.
///
/// # Contract
/// A slot is inserted once, before any other call names it. The insertion is the page's first access; the page is then
/// clean. [`Policy::victim`] names a slot in use. The caller then removes that slot, or reports an access to it to keep
/// it. A write is an access (or an insertion); [`Policy::dirtied`] follows if the page was clean.
pub trait Policy {
    /// A page came in; this is its first access.
    fn insert(&mut self, slot: Slot, page: PageNo);

    /// A page in the cache was read or written.
    fn access(&mut self, slot: Slot);

    /// A clean page turned dirty.
    fn dirtied(&mut self, _slot: Slot) {}

    /// A dirty page was written and stays.
    fn cleaned(&mut self, _slot: Slot) {}

    /// The page of a slot left, or must not be chosen for now. `page` is the one of its insertion.
    fn remove(&mut self, slot: Slot, page: PageNo);

    /// The page that should leave next. `incoming` is the page that needs the room, if known. The victim stays until
    /// [`Policy::remove`].
    fn victim(&mut self, incoming: Option<PageNo>) -> Option<Slot>;

    /// Likely next victims: a hint for a caller that prefetches its data about them. All of them are in use.
    #[inline]
    fn upcoming(&self) -> [Option<Slot>; 2] {
        [None; 2]
    }

    /// Whether more pages should leave with the last victim although there is room: the rest of its flash block.
    fn wants_more(&self) -> bool {
        false
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self) -> Result<(), String>;
}
