//! What owners do with pages.

use std::ops::Range;

use onewrite_block::{PAGE_SIZE, Page};
use onewrite_cache::PageKey;

use super::{FIRST_KEY, LAST_KEY, OwnerId, Owners, TooManyPages};
use crate::pages::views::OwnedPages;
use crate::pages::{Backing, PagedFile};

impl OwnedPages<'_> {
    /// Keeps a page in memory until [`OwnedPages::let_go`]. No-op if the owner keeps it already.
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

    /// Drops the owner's private versions of these pages of a file.
    pub fn drop_private_range(&self, owner: OwnerId, file: u64, pages: Range<u64>) {
        let mut owners = self.owners.borrow_mut();
        for index in owners.private_indexes(owner, file, pages) {
            owners.private.remove(&(owner, PageKey { file, index }));
        }
    }

    /// Number of pages that owners keep or hold privately; for tests of what an owner leaves behind.
    pub fn owned_count(&self) -> usize {
        self.owners.borrow().len()
    }

    fn expect_room(&self, owners: &Owners) -> Result<(), TooManyPages> {
        let pages_max = self.options.owned_pages_max;
        if owners.len() < pages_max { Ok(()) } else { Err(TooManyPages { pages_max }) }
    }
}
