//! Flash that runs ahead: it shows the state after all ordered changes, and keeps those that have not happened.
//!
//! A translation layer works at once; its flash takes time. Each program and erase waits in the
//! [`History`](super::history) until its moment. A power cut undoes the changes that have not happened, last change
//! first, and chance decides about the one under way. So it has the same effect as a cut at that operation.

use std::ops::Range;

use onewrite_block::Choices;

use super::Flash;
use super::area::{Area, BLANK, TORN};
use super::history::{Change, Erased, Programmed, Remains};
use crate::address::{FlashBlock, Lpn, MapEntry, Numbering};

impl Flash {
    /// Keeps a history from now on. Without one each change happens at once.
    pub(crate) fn keep_history(&mut self) {
        self.history.get_or_insert_default();
    }

    /// Stops the history.
    ///
    /// # Panics
    /// If a change has not happened yet.
    pub(crate) fn drop_history(&mut self) {
        let history = self.history.take();
        assert!(history.is_none_or(|history| history.is_empty()), "changes of the flash are under way");
    }

    /// Changes ordered since the history began.
    pub(crate) fn ordered(&self) -> u64 {
        self.history.as_ref().map_or(0, |history| history.ordered())
    }

    /// Number of these changes that have happened.
    pub(crate) fn happened(&self) -> u64 {
        self.history.as_ref().map_or(0, |history| history.happened())
    }

    /// The moment at which the next change has happened.
    #[inline]
    pub(crate) fn next_moment(&self) -> Option<u64> {
        self.history.as_ref()?.next_moment()
    }

    /// The change that is under way.
    pub(crate) fn under_way(&self) -> Option<&Change> {
        self.history.as_ref()?.under_way()
    }

    /// Changes that were ordered after `count` others.
    pub(crate) fn ordered_since(&self, count: u64) -> impl Iterator<Item = &Change> {
        self.history.iter().flat_map(move |history| history.since(count))
    }

    /// Lets the next change happen.
    ///
    /// # Panics
    /// If none is under way.
    pub(crate) fn happen(&mut self) -> Change {
        self.history.as_mut().expect("a history is kept").happen()
    }

    /// The power fails: undoes the changes that have not happened, last change first. Chance decides about the one
    /// under way, unless a capacitor finishes it.
    pub(crate) fn lose_power(&mut self, choices: &mut Choices, is_finished: bool) {
        self.is_dark = true;
        let Some(history) = &mut self.history else { return };
        let lost = history.lose();
        let count = lost.len();
        for (back, change) in lost.into_iter().rev().enumerate() {
            let remains = match back + 1 == count {
                true if is_finished => Remains::All,
                true => Remains::by_chance(choices),
                false => Remains::Nothing,
            };
            match change {
                Change::Program(programmed) => self.undo_program(programmed, remains),
                Change::Erase(erased) => self.undo_erase(*erased, remains),
                Change::Retire(erased) if matches!(remains, Remains::Nothing) => {
                    self.unmark(erased.block);
                    self.undo_erase(*erased, remains);
                }
                Change::Retire(_) => (),
            }
        }
    }

    fn undo_program(&mut self, programmed: Programmed, remains: Remains) {
        if matches!(remains, Remains::All) {
            return;
        }
        let Programmed { page, filled_before, entries_before, .. } = programmed;
        self.records.remove(&page);
        for (lpn, entry) in entries_before.into_iter().rev() {
            self.entries[lpn.index()] = entry;
        }
        let is_torn = matches!(remains, Remains::Torn);
        self.words[page.index()] = if is_torn { TORN } else { BLANK };
        if !is_torn {
            let block = self.block(page);
            self.filled[block.index()] = filled_before;
        }
    }

    fn undo_erase(&mut self, erased: Erased, remains: Remains) {
        let block = erased.block;
        match remains {
            Remains::All => (),
            Remains::Torn => {
                let pages = self.pages_of(block);
                self.words[pages].fill(TORN);
                self.filled[block.index()] = self.block_pages();
            }
            Remains::Nothing => {
                let pages = self.pages_of(block);
                self.words[pages.clone()].copy_from_slice(&erased.words);
                self.versions[pages].copy_from_slice(&erased.versions);
                self.filled[block.index()] = erased.filled;
                self.erase_counts[block.index()] -= 1;
                self.records.extend(erased.records);
            }
        }
    }

    /// Orders the change that was just timed.
    fn order(&mut self, change: Change) {
        let ended = self.clock.as_ref().map_or(0, |clock| clock.last());
        self.history.as_mut().expect("a history is kept").order(change, ended);
    }

    /// Orders the program of a page that was timed but not done yet.
    #[inline]
    pub(super) fn order_program(&mut self, block: FlashBlock, offset: u32, area: Area, version: u64) {
        if self.history.is_some() {
            let (page, filled_before) = (self.page(block, offset), self.filled(block));
            let programmed = Programmed { page, area, version, filled_before, entries_before: Vec::new() };
            self.order(Change::Program(programmed));
        }
    }

    /// Orders the erase of a block that was timed but not done yet.
    pub(super) fn order_erase(&mut self, block: FlashBlock) {
        if self.history.is_some() {
            let erased = self.before_erase(block);
            self.order(Change::Erase(erased));
        }
    }

    /// Orders the mark of a block that was timed but not set yet.
    pub(super) fn order_retire(&mut self, block: FlashBlock) {
        if self.history.is_some() {
            let erased = self.before_erase(block);
            self.order(Change::Retire(erased));
        }
    }

    fn before_erase(&self, block: FlashBlock) -> Box<Erased> {
        let records = self.records.range(self.numbering.pages(block, self.block_pages()));
        let records = records.map(|(page, range)| (*page, range.clone())).collect();
        let pages = self.pages_of(block);
        let (words, versions) = (self.words[pages.clone()].to_vec(), self.versions[pages].to_vec());
        Box::new(Erased { block, words, versions, filled: self.filled(block), records })
    }

    /// Sets an entry of the translation page programmed last.
    pub(crate) fn set_entry(&mut self, lpn: Lpn, entry: MapEntry) {
        let before = std::mem::replace(&mut self.entries[lpn.index()], entry);
        if let Some(Change::Program(programmed)) = self.history.as_mut().and_then(|history| history.last_mut()) {
            programmed.entries_before.push((lpn, before));
        }
    }

    /// The indices of a block's pages in the tables.
    fn pages_of(&self, block: FlashBlock) -> Range<usize> {
        let pages = self.numbering.pages(block, self.block_pages());
        pages.start.index()..pages.end.index()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ppn;

    /// Two pages are programmed, the block is erased, and one page is programmed again.
    fn ahead() -> Flash {
        let mut flash = Flash::new(2, 4);
        flash.program(FlashBlock(0), 0, Area::Logged(Lpn(3)), 1).unwrap();
        flash.keep_history();
        flash.program(FlashBlock(0), 1, Area::Logged(Lpn(4)), 2).unwrap();
        flash.erase(FlashBlock(0)).unwrap();
        flash.program(FlashBlock(0), 0, Area::Logged(Lpn(5)), 3).unwrap();
        flash
    }

    #[test]
    fn what_has_not_happened_is_undone_by_a_cut_in_the_middle_of_the_first() {
        let mut seen = [0; 3];
        for seed in 0..60 {
            let mut flash = ahead();
            flash.lose_power(&mut Choices::new(seed), false);
            flash.power_up();
            assert_eq!((flash.area(Ppn(0)), flash.read(Ppn(0))), (Area::Logged(Lpn(3)), Ok(1)));
            assert_eq!(flash.erase_counts(), [0, 0]);
            match flash.area(Ppn(1)) {
                Area::Blank => seen[0] += 1,
                Area::Torn => seen[1] += 1,
                area => seen[2] += u32::from(area == Area::Logged(Lpn(4))),
            }
            assert_eq!(flash.filled(FlashBlock(0)), if flash.area(Ppn(1)) == Area::Blank { 1 } else { 2 });
        }
        assert!(seen.iter().all(|&count| count > 5), "{seen:?}");
    }

    #[test]
    fn an_erase_that_is_cut_leaves_the_block_as_before_torn_or_blank() {
        let mut seen = [0; 3];
        for seed in 0..60 {
            let mut flash = ahead();
            flash.happen();
            flash.lose_power(&mut Choices::new(seed), false);
            match (flash.area(Ppn(0)), flash.area(Ppn(1)), flash.filled(FlashBlock(0))) {
                (Area::Logged(Lpn(3)), Area::Logged(Lpn(4)), 2) => seen[0] += 1,
                (Area::Torn, Area::Torn, 4) => seen[1] += 1,
                (Area::Blank, Area::Blank, 0) => seen[2] += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(seen.iter().all(|&count| count > 5), "{seen:?}");
    }

    #[test]
    fn entries_of_a_translation_page_that_did_not_happen_are_those_of_the_one_before() {
        const LPN: Lpn = Lpn(2);
        let entry = |number: u32| MapEntry::at(Ppn(number));
        let mut flash = Flash::new(1, 4).with_entries(8);
        flash.program(FlashBlock(0), 0, Area::Map(0), 1).unwrap();
        flash.set_entry(LPN, entry(70));
        flash.keep_history();
        for (offset, number) in [(1, 71), (2, 72)] {
            flash.program(FlashBlock(0), offset, Area::Map(0), 1 + u64::from(offset)).unwrap();
            flash.set_entry(LPN, entry(number));
        }
        flash.happen();
        assert_eq!(flash.entry(LPN), entry(72), "it runs ahead");
        let lost = (0..20).map(|seed| {
            let mut flash = flash.clone();
            flash.lose_power(&mut Choices::new(seed), false);
            let is_whole = flash.area(Ppn(2)) == Area::Map(0);
            assert_eq!(flash.entry(LPN), entry(if is_whole { 72 } else { 71 }));
            is_whole
        });
        assert!((1..20).contains(&lost.filter(|is_whole| *is_whole).count()));
    }
}
