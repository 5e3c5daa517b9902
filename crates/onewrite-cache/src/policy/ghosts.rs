//! Ghosts: the numbers of pages that have left, newest first; for policies that learn from what comes back.
//!
//! Invariant: `places` finds, for each page of the list, its place in `pages`.

use super::PageNo;
use super::links::{Links, List};
use super::numbers::Numbers;

/// See the module's head.
#[derive(Default)]
pub(super) struct Ghosts {
    places: Numbers,
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
        self.place(page).is_some()
    }

    fn place(&self, page: PageNo) -> Option<u32> {
        self.places.find(page.0, |place| self.pages[place as usize].0)
    }

    /// Remembers a page as the newest.
    pub(super) fn push(&mut self, page: PageNo) {
        self.forget(page);
        let place = self.free.pop().unwrap_or_else(|| {
            self.pages.push(page);
            self.pages.len() as u32 - 1
        });
        self.pages[place as usize] = page;
        self.places.insert(place, |place| self.pages[place as usize].0);
        self.list.push_front(&mut self.links, place);
    }

    /// Forgets a page; tells whether it was remembered.
    pub(super) fn forget(&mut self, page: PageNo) -> bool {
        let Some(place) = self.place(page) else { return false };
        self.places.remove(place, |place| self.pages[place as usize].0);
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
        if self.places.len() != self.list.len() {
            return Err(format!("{} ghosts in the list, {} found by number", self.list.len(), self.places.len()));
        }
        match self.list.iter(&self.links).find(|place| self.place(self.pages[*place as usize]) != Some(*place)) {
            None => Ok(()),
            Some(place) => Err(format!("the ghost at place {place} is not found")),
        }
    }
}
