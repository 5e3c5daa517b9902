//! Ghosts: the numbers of pages that have left, newest first; for policies that learn from what comes back.
//!
//! Invariant: `places` names, for each page of the list, its place in `pages`.

use rustc_hash::FxHashMap;

use super::PageNo;
use super::links::{Links, List};

/// See the module's head.
#[derive(Default)]
pub(super) struct Ghosts {
    places: FxHashMap<PageNo, u32>,
    pages: Vec<PageNo>,
    links: Links,
    list: List,
    free: Vec<u32>,
}

impl Ghosts {
    /// Pages remembered.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether `page` is remembered.
    pub(super) fn contains(&self, page: PageNo) -> bool {
        self.places.contains_key(&page)
    }

    /// Remembers a page as the newest.
    pub(super) fn push(&mut self, page: PageNo) {
        self.forget(page);
        let place = self.free.pop().unwrap_or_else(|| {
            self.pages.push(page);
            self.pages.len() as u32 - 1
        });
        self.pages[place as usize] = page;
        self.places.insert(page, place);
        self.list.push_front(&mut self.links, place);
    }

    /// Forgets a page; tells whether it was remembered.
    pub(super) fn forget(&mut self, page: PageNo) -> bool {
        let Some(place) = self.places.remove(&page) else { return false };
        self.list.remove(&mut self.links, place);
        self.free.push(place);
        true
    }

    /// Forgets the oldest.
    pub(super) fn pop(&mut self) {
        if let Some(oldest) = self.list.back() {
            self.forget(self.pages[oldest as usize]);
        }
    }

    /// Verifies the invariant.
    ///
    /// # Errors
    /// If it does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        self.list.check(&self.links)?;
        let is_known = |place: u32| self.places.get(&self.pages[place as usize]) == Some(&place);
        match self.places.len() == self.list.len() && self.list.iter(&self.links).all(is_known) {
            true => Ok(()),
            false => Err(format!("{} ghosts in the list, {} in the map", self.list.len(), self.places.len())),
        }
    }
}
