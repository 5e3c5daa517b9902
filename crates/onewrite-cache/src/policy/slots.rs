//! Slots: what a policy keeps of each slot.
//!
//! The room for all of the cache is asked for at once and becomes memory as slots are used: arrays that grow beside one
//! another leave gaps behind, and memory for each page counts. A file system may hold more than its capacity for a
//! while, so it may grow.

use std::ops::{Index, IndexMut};

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct PerSlot<T>(Vec<T>);

impl<T: Copy + Default> PerSlot<T> {
    /// Room for so many slots.
    pub(super) fn with_capacity(slots: u32) -> PerSlot<T> {
        PerSlot(Vec::with_capacity(slots as usize))
    }

    /// Makes sure that something is kept of a slot.
    #[inline]
    pub(super) fn know(&mut self, slot: u32) {
        if self.0.len() <= slot as usize {
            self.0.resize(slot as usize + 1, T::default());
        }
    }

    /// Keeps `value` of a slot that may be new.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, value: T) {
        self.know(slot);
        self.0[slot as usize] = value;
    }

    /// What is kept of a slot, if anything.
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
