//! Page cache, replacement policies and the cache simulator.
//!
//! [`PageCache`] holds pages by key and knows which are dirty, pinned or being written. A [`Policy`] sees accesses and
//! names victims; it knows nothing of content. A [`Simulation`] runs a trace of pages through a policy and reports what
//! reaches the device. No I/O happens here: the file system reads and writes.
//!
//! ```
//! use onewrite_cache::{CacheShape, PageRequest, PolicyKind};
//!
//! let shape = CacheShape::new(2, 1024)?;
//! let mut cache = PolicyKind::TsClock.simulation(shape, None);
//! let mut after = Vec::new();
//! let requests = [PageRequest::write(7), PageRequest::read(8), PageRequest::read(7)];
//! cache.feed(&requests, &mut |request| after.push(request));
//! assert_eq!((cache.counts().hits, after), (1, vec![PageRequest::read(8)]));
//! # Ok::<(), String>(())
//! ```
#![deny(unreachable_pub)]

mod cache;
mod policy;
mod simulate;

pub use cache::{PageCache, PageKey, Room};
pub use policy::{
    Arc, Belady, Bplru, CacheShape, Cflru, Clock, Counting, Fab, Future, FutureBuilder, LbClock, Linux2q, Lru, LruWsr,
    PageNo, Policy, PolicyKind, S3Fifo, Sieve, Slot, SpClock, TsClock,
};
pub use simulate::{Access, Counts, PageRequest, Replay, Simulation, Utilization};
