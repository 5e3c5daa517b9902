//! Pool: which pages are in memory, which of them are dirty, and since when. Time of use and place in the log order
//! them, so that nothing depends on chance.
//!
//! # Invariants
//! - At most `capacity` frames.
//! - `by_use` names each frame once, `by_age` each dirty one once.

use std::collections::{BTreeMap, BTreeSet};

use super::load::{Access, PageNo};
use super::log::Lsn;
use super::scale::BATCH_PAGES;

/// A page in memory.
#[derive(Clone, Copy, Debug)]
struct Frame {
    used: u64,
    /// The first change that is not in place; none if the page is clean.
    oldest: Option<Lsn>,
    is_loaded: bool,
    /// The cleaner has it; nobody changes it meanwhile.
    is_written: bool,
}

pub(super) struct Pool {
    capacity: usize,
    frames: BTreeMap<PageNo, Frame>,
    by_use: BTreeSet<(u64, PageNo)>,
    by_age: BTreeSet<(Lsn, PageNo)>,
    uses: u64,
}

impl Pool {
    pub(super) fn new(capacity: usize) -> Pool {
        let (by_use, by_age) = (BTreeSet::new(), BTreeSet::new());
        Pool { capacity, frames: BTreeMap::new(), by_use, by_age, uses: 0 }
    }

    /// Whether the page is there; counts as a use.
    pub(super) fn touch(&mut self, page: PageNo) -> bool {
        let Some(frame) = self.frames.get_mut(&page) else { return false };
        self.by_use.remove(&(frame.used, page));
        self.uses += 1;
        frame.used = self.uses;
        self.by_use.insert((frame.used, page));
        true
    }

    /// Takes a frame for a page that is not there; false if all pages at the cold end are dirty.
    pub(super) fn take(&mut self, page: PageNo) -> bool {
        if self.frames.len() >= self.capacity && !self.evict() {
            return false;
        }
        self.uses += 1;
        let frame = Frame { used: self.uses, oldest: None, is_loaded: false, is_written: false };
        self.frames.insert(page, frame);
        self.by_use.insert((frame.used, page));
        true
    }

    fn evict(&mut self) -> bool {
        let is_free = |page: &PageNo| self.frames[page].is_loaded && self.frames[page].oldest.is_none();
        let found = self.by_use.iter().take(BATCH_PAGES).find(|(_, page)| is_free(page)).copied();
        let Some((used, page)) = found else { return false };
        self.by_use.remove(&(used, page));
        self.frames.remove(&page);
        true
    }

    /// The page was read.
    pub(super) fn loaded(&mut self, page: PageNo) {
        self.frames.get_mut(&page).expect("a page that is read has a frame").is_loaded = true;
    }

    /// Whether a page that is there can be used now: it is read, and to be changed nobody writes it out.
    pub(super) fn is_ready(&self, page: PageNo, wanted: Access) -> bool {
        self.frames.get(&page).is_none_or(|frame| frame.is_loaded && !(wanted == Access::Change && frame.is_written))
    }

    /// The page was changed at `lsn`. False if it is no longer there, or the cleaner has it.
    pub(super) fn change(&mut self, page: PageNo, lsn: Lsn) -> bool {
        let Some(frame) = self.frames.get_mut(&page).filter(|frame| frame.is_loaded && !frame.is_written) else {
            return false;
        };
        if frame.oldest.is_none() {
            frame.oldest = Some(lsn);
            self.by_age.insert((lsn, page));
        }
        true
    }

    /// The oldest change that is not in place.
    pub(super) fn oldest(&self) -> Option<Lsn> {
        self.by_age.first().map(|(lsn, _)| *lsn)
    }

    /// Dirty pages among the coldest.
    pub(super) fn cold(&self, most: usize) -> Vec<PageNo> {
        let cold = self.by_use.iter().take(BATCH_PAGES).map(|(_, page)| *page);
        cold.filter(|page| self.frames[page].oldest.is_some()).take(most).collect()
    }

    /// The pages with the oldest changes, of before `lsn`.
    pub(super) fn old(&self, lsn: Lsn, most: usize) -> Vec<PageNo> {
        self.by_age.iter().take_while(|(oldest, _)| *oldest < lsn).take(most).map(|(_, page)| *page).collect()
    }

    /// The cleaner takes pages. They count as clean when [`Pool::cleaned`] says so.
    pub(super) fn hold(&mut self, pages: &[PageNo]) {
        for page in pages {
            self.frames.get_mut(page).expect("a dirty page has a frame").is_written = true;
        }
    }

    /// The cleaner has written a page.
    pub(super) fn cleaned(&mut self, page: PageNo) {
        let frame = self.frames.get_mut(&page).expect("a page that is written has a frame");
        let oldest = frame.oldest.take().expect("only dirty pages are written");
        frame.is_written = false;
        self.by_age.remove(&(oldest, page));
        self.check();
    }

    fn check(&self) {
        debug_assert!(self.frames.len() <= self.capacity && self.by_use.len() == self.frames.len());
        debug_assert!(self.by_age.len() <= self.frames.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pages: u64) -> Pool {
        let mut pool = Pool::new(4);
        for page in (0..pages).map(PageNo) {
            assert!(pool.take(page));
            pool.loaded(page);
        }
        pool
    }

    #[test]
    fn the_coldest_clean_page_goes() {
        let mut pool = filled(4);
        assert!(pool.touch(PageNo(0)) && pool.change(PageNo(1), 10));
        assert!(pool.take(PageNo(9)));
        let there: Vec<bool> = (0..4).map(|page| pool.touch(PageNo(page))).collect();
        assert_eq!(there, [true, true, false, true]);
    }

    #[test]
    fn a_dirty_page_stays_until_it_is_written() {
        let mut pool = filled(4);
        (0..4).for_each(|page| assert!(pool.change(PageNo(page), 10 + page)));
        assert!(!pool.take(PageNo(9)));
        assert_eq!(
            (pool.oldest(), pool.old(12, 9), pool.cold(2)),
            (Some(10), vec![PageNo(0), PageNo(1)], vec![PageNo(0), PageNo(1)])
        );
        pool.hold(&[PageNo(0)]);
        assert!(
            !pool.change(PageNo(0), 20)
                && !pool.is_ready(PageNo(0), Access::Change)
                && pool.is_ready(PageNo(0), Access::Read)
        );
        pool.cleaned(PageNo(0));
        assert_eq!(pool.oldest(), Some(11));
        assert!(pool.take(PageNo(9)) && !pool.is_ready(PageNo(9), Access::Read));
    }
}
