//! Accesses: maps pages of files to one address space, for the before-cache trace of a file system.
//!
//! Each run of 16 pages of a file gets the next free place when it is first touched, as with delayed allocation. So
//! files that are written together lie together. A new file that reuses an inode number also reuses its places.

use std::collections::BTreeMap;

use onewrite_fs::Ino;

/// Pages of a run.
const RUN_PAGES: u64 = 16;

/// Places of the runs of pages; the module's head has the rule.
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
