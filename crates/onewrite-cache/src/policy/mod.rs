//! Policy: which page leaves. One file for each.

mod lru;

pub use lru::Lru;

/// Number of a place in the cache; small and dense, so that policies keep arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A replacement policy: sees accesses and names victims.
///
/// # Contract
/// A slot is inserted before it is accessed or removed, and inserted once; [`Policy::victim`] names a slot that is in.
pub trait Policy {
    /// A page came in.
    fn insert(&mut self, slot: Slot);

    /// A page was read or written.
    fn access(&mut self, slot: Slot);

    /// A page left, or must not be chosen for now.
    fn remove(&mut self, slot: Slot);

    /// The page that should leave next; it stays in until [`Policy::remove`].
    fn victim(&mut self) -> Option<Slot>;

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self) -> Result<(), String>;
}
