//! Cache of map entries: bounded, LRU.
//!
//! Each entry has a cell in a list by last use. A table maps logical pages to cells; a real controller would use a hash
//! over the cells. Invariant: the table names a cell if and only if the cell is in the list and holds that page.

use crate::address::{Lpn, MapEntry};

/// Names a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellId(u32);

impl CellId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Marks the absence of a cell.
const NIL: CellId = CellId(u32::MAX);

#[derive(Clone, Copy, Debug)]
struct Cell {
    lpn: Lpn,
    entry: MapEntry,
    is_dirty: bool,
    newer: CellId,
    older: CellId,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct MapCache {
    cell_of: Vec<CellId>,
    cells: Vec<Cell>,
    free: Vec<CellId>,
    newest: CellId,
    oldest: CellId,
    length: usize,
    capacity: usize,
}

impl MapCache {
    /// An empty cache of `capacity` entries for `logical_pages` pages.
    pub(super) fn new(logical_pages: u32, capacity: usize) -> MapCache {
        assert!(capacity > 0, "a mapping cache without an entry");
        MapCache {
            cell_of: vec![NIL; logical_pages as usize],
            cells: Vec::new(),
            free: Vec::new(),
            newest: NIL,
            oldest: NIL,
            length: 0,
            capacity,
        }
    }

    /// Resets the cache.
    pub(super) fn clear(&mut self) {
        *self = MapCache::new(self.cell_of.len() as u32, self.capacity);
    }

    /// Whether there is no room for another entry.
    pub(super) fn is_full(&self) -> bool {
        self.length >= self.capacity
    }

    /// Whether it exceeds its capacity, as it may in recovery.
    pub(super) fn is_over(&self) -> bool {
        self.length > self.capacity
    }

    fn cell(&self, lpn: Lpn) -> Option<CellId> {
        Some(self.cell_of[lpn.index()]).filter(|cell| *cell != NIL)
    }

    /// The entry of a page.
    #[inline]
    pub(super) fn get(&self, lpn: Lpn) -> Option<MapEntry> {
        self.cell(lpn).map(|cell| self.cells[cell.index()].entry)
    }

    /// Whether the page's entry differs from its translation page.
    pub(super) fn is_dirty(&self, lpn: Lpn) -> bool {
        self.cell(lpn).is_some_and(|cell| self.cells[cell.index()].is_dirty)
    }

    /// The entry of a page; makes it the most recently used.
    #[inline]
    pub(super) fn touch(&mut self, lpn: Lpn) -> Option<MapEntry> {
        let cell = self.cell(lpn)?;
        if cell != self.newest {
            self.unlink(cell);
            self.link(cell);
        }
        Some(self.cells[cell.index()].entry)
    }

    /// Adds a clean entry for a page without one.
    pub(super) fn insert(&mut self, lpn: Lpn, entry: MapEntry) {
        let fresh = Cell { lpn, entry, is_dirty: false, newer: NIL, older: NIL };
        let cell = self.free.pop().unwrap_or_else(|| {
            self.cells.push(fresh);
            CellId(self.cells.len() as u32 - 1)
        });
        self.cells[cell.index()] = fresh;
        self.cell_of[lpn.index()] = cell;
        self.length += 1;
        self.link(cell);
    }

    /// Changes the entry of a page and marks it dirty.
    #[inline]
    pub(super) fn set(&mut self, lpn: Lpn, entry: MapEntry) {
        let cell = self.cell(lpn).expect("the entry is in the cache");
        let cell = &mut self.cells[cell.index()];
        (cell.entry, cell.is_dirty) = (entry, true);
    }

    /// Marks a dirty entry clean and returns it.
    pub(super) fn clean(&mut self, lpn: Lpn) -> Option<MapEntry> {
        let cell = self.cell(lpn)?;
        let cell = &mut self.cells[cell.index()];
        std::mem::take(&mut cell.is_dirty).then_some(cell.entry)
    }

    /// The page whose entry was used least recently.
    pub(super) fn oldest(&self) -> Option<Lpn> {
        (self.oldest != NIL).then(|| self.cells[self.oldest.index()].lpn)
    }

    /// Drops an entry.
    pub(super) fn remove(&mut self, lpn: Lpn) {
        let cell = self.cell(lpn).expect("the entry is in the cache");
        self.unlink(cell);
        self.cell_of[lpn.index()] = NIL;
        self.free.push(cell);
        self.length -= 1;
    }

    /// Drops the entry of a page, if any.
    pub(super) fn drop_entry(&mut self, lpn: Lpn) {
        if self.cell(lpn).is_some() {
            self.remove(lpn);
        }
    }

    fn link(&mut self, cell: CellId) {
        let before = std::mem::replace(&mut self.newest, cell);
        (self.cells[cell.index()].older, self.cells[cell.index()].newer) = (before, NIL);
        match before {
            NIL => self.oldest = cell,
            _ => self.cells[before.index()].newer = cell,
        }
    }

    fn unlink(&mut self, cell: CellId) {
        let Cell { newer, older, .. } = self.cells[cell.index()];
        match newer {
            NIL => self.newest = older,
            _ => self.cells[newer.index()].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            _ => self.cells[older.index()].newer = newer,
        }
    }

    /// Verifies the list and the table. `clean` gives the correct value of a clean entry.
    pub(super) fn check(&self, clean: impl Fn(Lpn) -> MapEntry) -> Result<(), String> {
        let (mut cell, mut count, mut before) = (self.newest, 0, NIL);
        while cell != NIL {
            let Cell { lpn, entry, is_dirty, newer, older } = self.cells[cell.index()];
            if self.cell_of[lpn.index()] != cell || newer != before {
                return Err(format!("the cached entry of page {lpn} is not where the table or the list says"));
            }
            if !is_dirty && entry != clean(lpn) {
                return Err(format!(
                    "the clean entry of page {lpn} is {entry:?}, its translation page says {:?}",
                    clean(lpn)
                ));
            }
            count += 1;
            (before, cell) = (cell, older);
        }
        let named = self.cell_of.iter().filter(|cell| **cell != NIL).count();
        if count != self.length || named != count || self.is_over() {
            return Err(format!("{count} cached entries, {named} named, {} counted", self.length));
        }
        Ok(())
    }
}
