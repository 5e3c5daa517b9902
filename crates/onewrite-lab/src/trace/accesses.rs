//! Accesses: pages of files as pages of one address space, for the before-cache trace of a file system.
//!
//! Each run of 16 pages of a file gets the next free place when it is first touched, as delayed allocation would give
//! it one; so files that are written together lie together. A file's number that is used again brings its places along.

use std::collections::BTreeMap;

use onewrite_fs::Ino;

/// Pages of a run.
const RUN_PAGES: u64 = 16;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Pages(BTreeMap<(u64, u64), u64>);

impl Pages {
    /// The place of page `index` of `file`.
    pub fn page(&mut self, file: Ino, index: u64) -> u64 {
        let next = self.0.len() as u64;
        let run = *self.0.entry((file.0, index / RUN_PAGES)).or_insert(next);
        run * RUN_PAGES + index % RUN_PAGES
    }
}
