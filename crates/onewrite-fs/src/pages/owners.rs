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

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::{PAGE_SIZE, Page};
use onewrite_cache::PageKey;
use thiserror::Error;

use super::{Backing, PagedFile, Pages};

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

    fn take_private(&mut self, owner: OwnerId) -> Vec<(PageKey, Page)> {
        let keys = self.private_keys(owner);
        keys.into_iter().filter_map(|key| self.private.remove(&(owner, key)).map(|page| (key, page))).collect()
    }
}

impl Pages {
    /// Keeps a page in memory until [`Pages::let_go`]. No-op if the owner keeps it already.
    ///
    /// # Errors
    /// If owners have as many pages as the bound allows.
    ///
    /// # Panics
    /// If the page is not in memory.
    pub fn keep(&self, owner: OwnerId, key: PageKey) -> Result<(), TooManyPages> {
        let mut owners = self.owners.borrow_mut();
        if owners.kept.contains(&(owner, key)) {
            return Ok(());
        }
        self.expect_room(&owners)?;
        self.cache.borrow_mut().keep(key);
        owners.kept.insert((owner, key));
        Ok(())
    }

    /// Lets go of all pages that the owner keeps.
    pub fn let_go(&self, owner: OwnerId) {
        let mut owners = self.owners.borrow_mut();
        let kept: Vec<_> = owners.kept.range((owner, FIRST_KEY)..=(owner, LAST_KEY)).copied().collect();
        for (owner, key) in kept {
            owners.kept.remove(&(owner, key));
            self.cache.borrow_mut().let_go(key);
        }
    }

    /// Sets the owner's private version of a page.
    ///
    /// # Errors
    /// If owners have as many pages as the bound allows.
    pub fn put_private(&self, owner: OwnerId, key: PageKey, page: Page) -> Result<(), TooManyPages> {
        let mut owners = self.owners.borrow_mut();
        if !owners.private.contains_key(&(owner, key)) {
            self.expect_room(&owners)?;
        }
        owners.private.insert((owner, key), page);
        Ok(())
    }

    /// The owner's private version of a page, if it has one.
    pub fn private_page(&self, owner: OwnerId, key: PageKey) -> Option<Page> {
        self.owners.borrow().private.get(&(owner, key)).cloned()
    }

    /// Replaces the shared pages by the owner's private pages and marks them dirty, all at once, without waiting. The
    /// cache may briefly exceed its capacity by this number of pages.
    ///
    /// # Panics
    /// If the file of a private page is not in memory.
    pub fn publish<B: Backing>(&self, backing: &B, owner: OwnerId) {
        let private = self.owners.borrow_mut().take_private(owner);
        for (key, page) in private {
            let file = backing.file(key.file).expect("an owner's files are in memory");
            debug_assert_eq!(file.number(), key.file, "the file system gave another file");
            self.insert(key, page);
            self.mark_dirty(&*file, key.index, 0..PAGE_SIZE);
        }
    }

    /// Drops the owner's private pages. Nobody else ever saw them.
    pub fn drop_private(&self, owner: OwnerId) {
        self.owners.borrow_mut().take_private(owner);
    }

    /// Number of pages that owners keep or hold privately.
    pub fn owned_count(&self) -> usize {
        self.owners.borrow().len()
    }

    fn expect_room(&self, owners: &Owners) -> Result<(), TooManyPages> {
        let pages_max = self.options.owned_pages_max;
        if owners.len() < pages_max { Ok(()) } else { Err(TooManyPages { pages_max }) }
    }
}
