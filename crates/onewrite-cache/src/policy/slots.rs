//! Slots: an array of a policy's state for each slot.
//!
//! It reserves room for the whole cache at once; the kernel provides memory only as slots are used. Arrays that grow
//! side by side would leave gaps, and memory for each page matters. It may grow, because a file system may hold more
//! than its capacity for a while.

use std::ops::{Index, IndexMut};

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct PerSlot<T>(Vec<T>);

impl<T: Copy + Default> PerSlot<T> {
    /// Preallocates `slots`; may grow.
    pub(super) fn with_capacity(slots: u32) -> PerSlot<T> {
        PerSlot(Vec::with_capacity(slots as usize))
    }

    /// Makes sure that the array has an entry for a slot.
    #[inline]
    pub(super) fn know(&mut self, slot: u32) {
        if self.0.len() <= slot as usize {
            self.0.resize(slot as usize + 1, T::default());
        }
    }

    /// Sets the entry of a slot, which may be new.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, value: T) {
        self.know(slot);
        self.0[slot as usize] = value;
    }

    /// The entry of a slot, if it has one.
    pub(super) fn get(&self, slot: u32) -> Option<T> {
        self.0.get(slot as usize).copied()
    }
}

impl<T> Index<u32> for PerSlot<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.0[slot as usize]
    }
}

impl<T> IndexMut<u32> for PerSlot<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.0[slot as usize]
    }
}
