//! Pages: the pages of a file, with a hash that is kept up to date page by page.
//!
//! A judge has a tree for each step of each operation that may be under way, and looks at each file of each of them
//! again and again. So a copy is free and shares what does not change, and the hash of all pages is known at any time:
//! it is the sum of a term for each page, like the hash of an image ([`crate::hash`]).

use std::ops::RangeBounds;

use onewrite_block::Page;
use rpds::RedBlackTreeMap;

use crate::hash::{ZEROS, mixed, page_hash};

/// Pages by number, each with its hash. A page that holds zeros may be there or not; both look alike and are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    pages: RedBlackTreeMap<u64, (Page, u64)>,
    /// Of the terms of all pages that are not zeros.
    sum: u64,
}

impl Pages {
    /// A hash of what is not zeros.
    pub(crate) const fn hash(&self) -> u64 {
        self.sum
    }

    /// A page with its hash, if it is there.
    pub(crate) fn get(&self, index: u64) -> Option<&(Page, u64)> {
        self.pages.get(&index)
    }

    /// A page with its hash; zeros if it is not there.
    pub(crate) fn shown(&self, index: u64) -> (&Page, u64) {
        self.get(index).map_or((&Page::ZEROS, ZEROS), |(page, hash)| (page, *hash))
    }

    /// The numbers of the pages that are there, in order.
    pub(crate) fn indexes(&self, range: impl RangeBounds<u64>) -> impl Iterator<Item = u64> {
        self.pages.range(range).map(|(index, _)| *index)
    }

    /// The pages that are not zeros, in order.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, &Page)> {
        let filled = self.pages.iter().filter(|(_, (_, hash))| *hash != ZEROS);
        filled.map(|(index, (page, _))| (*index, page))
    }

    /// Puts a page there, in place of another if there is one; returns its hash.
    pub(crate) fn insert(&mut self, index: u64, page: Page) -> u64 {
        let hash = page_hash(&page);
        self.replace_term(index, hash);
        self.pages.insert_mut(index, (page, hash));
        hash
    }

    /// Removes a page; returns it if it was there.
    pub(crate) fn remove(&mut self, index: u64) -> Option<Page> {
        let page = self.get(index)?.0.clone();
        self.replace_term(index, ZEROS);
        self.pages.remove_mut(&index);
        Some(page)
    }

    /// Page `index` gets another hash.
    fn replace_term(&mut self, index: u64, new: u64) {
        let (_, old) = self.shown(index);
        self.sum = self.sum.wrapping_sub(term(index, old)).wrapping_add(term(index, new));
    }
}

impl FromIterator<(u64, Page)> for Pages {
    fn from_iter<I: IntoIterator<Item = (u64, Page)>>(all: I) -> Pages {
        let mut pages = Pages::default();
        for (index, page) in all {
            pages.insert(index, page);
        }
        pages
    }
}

impl PartialEq for Pages {
    fn eq(&self, other: &Pages) -> bool {
        self.sum == other.sum && self.filled().eq(other.filled())
    }
}

impl Eq for Pages {}

/// What page `index` adds to the hash of its file.
fn term(index: u64, hash: u64) -> u64 {
    if hash == ZEROS { 0 } else { mixed(index, hash) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::from_slice(text.as_bytes())
    }

    #[test]
    fn the_hash_is_that_of_the_pages_however_they_came_there() {
        let straight: Pages = [(1, page("one")), (7, page("seven"))].into_iter().collect();
        let mut other: Pages = [(7, page("other")), (1, page("one")), (3, page("three"))].into_iter().collect();
        assert!(other.hash() != straight.hash() && other != straight);
        other.insert(7, page("seven"));
        assert_eq!(other.remove(3), Some(page("three")));
        assert_eq!((other.remove(3), other.hash()), (None, straight.hash()));
        assert_eq!(other, straight);
    }

    #[test]
    fn the_hash_tells_where_a_page_is() {
        let pages = |index| Pages::from_iter([(index, page("one")), (9, page("nine"))]);
        assert_ne!(pages(1).hash(), pages(2).hash());
        let swapped = Pages::from_iter([(1, page("nine")), (9, page("one"))]);
        assert_ne!(pages(1).hash(), swapped.hash());
    }

    #[test]
    fn a_page_of_zeros_looks_like_none() {
        let (none, mut zeros) = (Pages::from_iter([(1, page("one"))]), Pages::from_iter([(1, page("one"))]));
        zeros.insert(2, Page::ZEROS);
        assert_eq!((zeros.hash(), zeros.filled().count()), (none.hash(), 1));
        assert_eq!(zeros, none);
        assert_eq!((zeros.get(2), none.get(2)), (Some(&(Page::ZEROS, ZEROS)), None));
        assert_eq!((zeros.shown(2), none.shown(2)), ((&Page::ZEROS, ZEROS), (&Page::ZEROS, ZEROS)));
        assert_eq!(zeros.indexes(..).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_copy_keeps_what_it_had() {
        let mut pages: Pages = (0..100).map(|index| (index, page("first"))).collect();
        let before = pages.clone();
        let hash = before.hash();
        pages.insert(50, page("second"));
        pages.remove(51);
        assert_eq!(
            (before.hash(), before.get(50).unwrap().0 == page("first"), before.get(51).is_some()),
            (hash, true, true)
        );
    }
}
