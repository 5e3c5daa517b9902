//! Owners: pages that somebody keeps in memory or holds for themselves, until they let go.
//!
//! An owner is a number that the file system chooses: a transaction over several files, a record that waits to be
//! patched. A **kept** page is an ordinary page of the cache that cannot leave. A **private** page is an owner's own
//! version of a page: others do not see it, no writeback takes it, until the owner publishes all of them at once or
//! drops them.
//!
//! # Invariant
//! Kept and private pages together are at most [`super::PagesOptions::owned_pages_max`]; who asks for more is refused.

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::{PAGE_SIZE, Page};
use onewrite_cache::PageKey;
use thiserror::Error;

use super::{Backing, PagedFile, Pages};

/// An owner of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

/// Owners would keep more pages than there is memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{pages_max} pages are kept in memory, which is the bound; let go of some, or mount with a larger page cache")]
pub struct TooManyPages {
    /// Pages that owners may have in all.
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

    /// Pages in all.
    ///
    /// # Errors
    /// If they are more than the bound.
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
    /// Keeps a page in memory until [`Pages::let_go`]; keeping it twice is keeping it once.
    ///
    /// # Errors
    /// If owners have as many pages as the bound allows.
    ///
    /// # Panics
    /// If it is not in memory.
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

    /// Gives the owner its own version of a page, or replaces it.
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

    /// The owner's own version of a page, if it has one.
    pub fn private_page(&self, owner: OwnerId, key: PageKey) -> Option<Page> {
        self.owners.borrow().private.get(&(owner, key)).cloned()
    }

    /// Makes the owner's private pages what everybody sees, dirty, all at once: does not wait. The cache may be larger
    /// for a moment by as many pages.
    ///
    /// # Panics
    /// If one of their files is not in memory.
    pub fn publish<B: Backing>(&self, backing: &B, owner: OwnerId) {
        let private = self.owners.borrow_mut().take_private(owner);
        for (key, page) in private {
            let file = backing.file(key.file).expect("an owner's files are in memory");
            debug_assert_eq!(file.number(), key.file, "the file system gave another file");
            self.insert(key, page);
            self.mark_dirty(&*file, key.index, 0..PAGE_SIZE);
        }
    }

    /// Drops the owner's private pages: nobody else ever saw them.
    pub fn drop_private(&self, owner: OwnerId) {
        self.owners.borrow_mut().take_private(owner);
    }

    /// Pages that owners keep or hold privately.
    pub fn owned_count(&self) -> usize {
        self.owners.borrow().len()
    }

    fn expect_room(&self, owners: &Owners) -> Result<(), TooManyPages> {
        let pages_max = self.options.owned_pages_max;
        if owners.len() < pages_max { Ok(()) } else { Err(TooManyPages { pages_max }) }
    }
}
