//! Owners: pages that an owner keeps in memory, or holds privately, until it lets go.
//!
//! An owner is a number that the file system chooses, for a transaction over several files or for a record that waits
//! for a patch. A **kept** page is an ordinary page that cannot leave the cache. A **private** page is an owner's own
//! version of a page. Others do not see it and writeback does not write it until the owner publishes all its private
//! pages at once or drops them.
//!
//! # Invariant
//! All owners together have at most [`super::PagesOptions::owned_pages_max`] kept and private pages. The layer refuses
//! more.

mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use onewrite_block::Page;
use onewrite_cache::PageKey;
use thiserror::Error;

/// An owner of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

/// Owners asked for more pages than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{pages_max} pages are kept in memory, which is the bound; let go of some, or mount with a larger page cache")]
pub struct TooManyPages {
    /// Maximum number of pages of all owners.
    pub pages_max: usize,
}

/// The pages of all owners.
#[derive(Default)]
pub(super) struct Owners {
    kept: BTreeSet<(OwnerId, PageKey)>,
    private: BTreeMap<(OwnerId, PageKey), Page>,
}

const FIRST_KEY: PageKey = PageKey { file: 0, index: 0 };
const LAST_KEY: PageKey = PageKey { file: u64::MAX, index: u64::MAX };

impl Owners {
    fn len(&self) -> usize {
        self.kept.len() + self.private.len()
    }

    /// Total number of pages.
    ///
    /// # Errors
    /// If there are more than `pages_max`.
    pub(super) fn check(&self, pages_max: usize) -> Result<usize, String> {
        match self.len() {
            count if count <= pages_max => Ok(count),
            count => Err(format!("owners have {count} pages; at most {pages_max} are allowed")),
        }
    }

    fn private_keys(&self, owner: OwnerId) -> Vec<PageKey> {
        self.private.range((owner, FIRST_KEY)..=(owner, LAST_KEY)).map(|((_, key), _)| *key).collect()
    }

    /// Indexes of the owner's private pages among `pages` of a file.
    fn private_indexes(&self, owner: OwnerId, file: u64, pages: Range<u64>) -> Vec<u64> {
        let key = |index| (owner, PageKey { file, index });
        self.private.range(key(pages.start)..key(pages.end)).map(|((_, key), _)| key.index).collect()
    }

    fn take_private(&mut self, owner: OwnerId) -> Vec<(PageKey, Page)> {
        let keys = self.private_keys(owner);
        keys.into_iter().filter_map(|key| self.private.remove(&(owner, key)).map(|page| (key, page))).collect()
    }
}
