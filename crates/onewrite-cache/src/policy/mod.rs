//! Policy: which page leaves. One file for each; `slots.rs`, `links.rs`, `numbers.rs`, `blocks.rs` and `ghosts.rs` hold
//! what several need, `dirty.rs` the blocks of TS-CLOCK.
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

/// Number of a place in the cache; small and dense, so that policies keep arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a page lives, counted in pages: pages of near numbers lie near on the device, and a flash block holds the
/// pages whose numbers give the same quotient by its size. Names a page that has left, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u64);

/// A replacement policy: sees accesses and names victims. The same in the simulator and in the file systems' page
/// cache.
///
/// # Contract
/// A slot is inserted before anything else is said of it, and inserted once; the insertion is the page's first access
/// and the page is clean then. [`Policy::victim`] names a slot that is in; whoever asked removes that slot next, or
/// says why not by an access. A write is an access (or an insertion) followed by [`Policy::dirtied`] if the page was
/// clean.
pub trait Policy {
    /// A page came in, by its first access.
    fn insert(&mut self, slot: Slot, page: PageNo);

    /// A page that is in was read or written.
    fn access(&mut self, slot: Slot);

    /// A clean page turned dirty.
    fn dirtied(&mut self, _slot: Slot) {}

    /// A dirty page was written out and stays.
    fn cleaned(&mut self, _slot: Slot) {}

    /// The page of a slot, which it was inserted with, left, or must not be chosen for now.
    fn remove(&mut self, slot: Slot, page: PageNo);

    /// The page that should leave next, `incoming` being the one that needs the room, if that is known; it stays in
    /// until [`Policy::remove`].
    fn victim(&mut self, incoming: Option<PageNo>) -> Option<Slot>;

    /// Slots that may well be victims soon: a hint, for who wants to fetch what it keeps of them. All of them are in.
    #[inline]
    fn upcoming(&self) -> [Option<Slot>; 2] {
        [None; 2]
    }

    /// Whether more should leave together with the last victim, though there is room: the rest of its flash block.
    fn wants_more(&self) -> bool {
        false
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self) -> Result<(), String>;
}
