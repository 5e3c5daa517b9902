//! Page cache and replacement policies.
//!
//! [`PageCache`] holds pages by key and knows which are dirty, pinned or being written; a [`Policy`] sees accesses and
//! names victims, and knows nothing of content. No I/O happens here: the file system reads and writes.

mod cache;
mod policy;

pub use cache::{PageCache, PageKey, Victim};
pub use policy::{Lru, Policy, Slot};
