//! Memory: what the connections of a database in WAL mode share: the index of the log, and eight locks (SQLite's
//! `wal.c`). It lives in this process, for one process has the image; after its end SQLite makes the index again.
//!
//! # Invariants
//! - A region stays where it is as long as anybody has the memory.
//! - Beside the holder of a lock for itself alone nobody has that lock.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use crate::locks::{Busy, Opener};

/// As many locks as SQLite has (`SQLITE_SHM_NLOCK`).
pub(crate) const LOCK_COUNT: usize = 8;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// With others.
    Shared,
    /// Alone.
    Alone,
}

/// What happens with a region that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It is made.
    Made,
    /// It stays absent.
    Left,
}

/// The memory beside one database.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    regions: Vec<Box<[AtomicU64]>>,
    locks: [Vec<(Opener, Share)>; LOCK_COUNT],
}

impl Memory {
    /// Where region `number` lies, zeroed when it is made; `None` if it is not there and is not made.
    pub(crate) fn region(&self, number: usize, bytes: usize, absent: Absent) -> Option<*const AtomicU64> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        while absent == Absent::Made && parts.regions.len() <= number {
            parts.regions.push((0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect());
        }
        let region = parts.regions.get(number)?;
        assert!(region.len() * 8 >= bytes, "a region of {} bytes is asked for as {bytes}", region.len() * 8);
        Some(region.as_ptr())
    }

    /// Takes `locks` for `opener`, all of them or none.
    pub(crate) fn lock(&self, opener: Opener, locks: Range<usize>, share: Share) -> Result<(), Busy> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let stands_in_way =
            |(who, held): &(Opener, Share)| *who != opener && (*held == Share::Alone || share == Share::Alone);
        if parts.locks[locks.clone()].iter().flatten().any(stands_in_way) {
            return Err(Busy);
        }
        for lock in &mut parts.locks[locks] {
            lock.retain(|(who, _)| *who != opener);
            lock.push((opener, share));
        }
        Ok(())
    }

    /// Gives up `locks` of `opener`.
    pub(crate) fn unlock(&self, opener: Opener, locks: Range<usize>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.locks[locks].iter_mut().for_each(|lock| lock.retain(|(who, _)| *who != opener));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_stay_and_are_shared() {
        let memory = Memory::default();
        assert_eq!(memory.region(0, 32_768, Absent::Left), None);
        let first = memory.region(0, 32_768, Absent::Made).unwrap();
        memory.region(9, 32_768, Absent::Made).unwrap();
        assert_eq!(memory.region(0, 32_768, Absent::Left), Some(first));
        assert!(memory.region(10, 32_768, Absent::Left).is_none());
    }

    #[test]
    fn a_lock_is_for_one_alone_or_for_many() {
        let memory = Memory::default();
        assert_eq!(memory.lock(1, 3..4, Share::Shared), Ok(()));
        assert_eq!((memory.lock(2, 3..4, Share::Shared), memory.lock(2, 0..8, Share::Alone)), (Ok(()), Err(Busy)));
        memory.unlock(1, 3..4);
        assert_eq!((memory.lock(2, 0..8, Share::Alone), memory.lock(1, 7..8, Share::Shared)), (Ok(()), Err(Busy)));
        memory.unlock(2, 0..8);
        assert_eq!(memory.lock(1, 0..8, Share::Alone), Ok(()));
    }
}
