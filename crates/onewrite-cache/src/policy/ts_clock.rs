//! TS-CLOCK: a clock that finds a flash block little used, and a second hand that evicts its dirty pages in sector order.
//!
//! ```text
//!   t-hand  goes round all pages; takes one from each count it passes; stops at a count of zero
//!             clean page there: the victim
//!             dirty page there: the s-hand decides
//!   s-hand  goes through the dirty pages of one block in sector order, taking nothing from counts;
//!             the next with a count of zero is the victim; past the block's last dirty page it goes at once to the
//!             first dirty page of the block then under the t-hand
//! ```
//!
//! A clean page that is accessed gets a count of 1. A dirty one gets `⌈4 · non_zero / pages per block⌉`, where `non_zero`
//! is the number of dirty pages of its block with a count above zero, itself included: pages of blocks that are being
//! written stay longer. A page that turns dirty joins `non_zero` with that access; one that turns clean keeps a count of 1
//! at most.
//!
//! The new page takes the victim's place if the victim was under the t-hand, else the place just before the t-hand's page;
//! either way the hand then passes on by one. While the cache fills, it stays.
//!
//! Source: dissertation §2.3; its open points are closed as DESIGN §6 says. Invariants: the ring holds every slot that is
//! in; a block lists exactly its dirty pages; `non_zero` is what its name says; counts are at most 4; the s-hand is none
//! or on a dirty page.

use super::blocks::{Blocks, Home};
use super::links::{NONE, Ring};
use super::{PageNo, Policy, Slot};

/// What a hit has to know of a page, in one word: the record of its block, whether it is dirty, and its count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark(u32);

impl Mark {
    const COUNT: u32 = 0b111;
    const DIRTY: u32 = 0b1000;
    const RECORD_SHIFT: u32 = 4;

    fn clean(record: u32, count: u32) -> Mark {
        Mark((record << Mark::RECORD_SHIFT) | count)
    }

    fn dirty(record: u32, count: u32) -> Mark {
        Mark((record << Mark::RECORD_SHIFT) | Mark::DIRTY | count)
    }

    fn record(self) -> u32 {
        self.0 >> Mark::RECORD_SHIFT
    }

    fn is_dirty(self) -> bool {
        self.0 & Mark::DIRTY != 0
    }

    fn count(self) -> u32 {
        self.0 & Mark::COUNT
    }
}

/// See the module's head.
pub struct TsClock {
    /// Beside the links: the page's offset in its block.
    ring: Ring<u32>,
    /// The state of a block is its `non_zero`.
    blocks: Blocks<u32>,
    marks: Vec<Mark>,
    s_hand: u32,
    /// Where the last victim of the s-hand stood in its block's list: where the next one stands after it has left.
    s_place: usize,
    /// Whether the t-hand passes on after the next insertion.
    passes_on: bool,
}

impl TsClock {
    /// With room for so many pages, though more may come in, in flash blocks of so many.
    pub fn new(capacity_pages: u32, block_pages: u32) -> TsClock {
        TsClock {
            ring: Ring::with_capacity(capacity_pages),
            blocks: Blocks::new(block_pages),
            marks: Vec::with_capacity(capacity_pages as usize),
            s_hand: NONE,
            s_place: 0,
            passes_on: false,
        }
    }

    fn home(&self, slot: u32) -> Home {
        Home { record: self.marks[slot as usize].record(), offset: self.ring.data(slot) }
    }

    /// Gives a dirty page the count of its block; `joins` if it was not in `non_zero` before.
    fn count_dirty(&mut self, slot: u32, record: u32, joins: bool) {
        let block_pages = self.blocks.block_pages();
        let non_zero = self.blocks.state_mut(record);
        *non_zero += u32::from(joins);
        let quarters = 4 * *non_zero;
        // A division only where there is more than one quarter to tell apart.
        let count = if quarters <= block_pages { 1 } else { quarters.div_ceil(block_pages) };
        self.marks[slot as usize] = Mark::dirty(record, count);
    }

    /// The first dirty page of the block of `slot`, which is dirty.
    fn first_dirty(&self, slot: u32) -> u32 {
        let block = self.blocks.record(self.marks[slot as usize].record());
        block.listed_at(0).expect("the slot is listed there itself")
    }

    /// Takes a dirty page out of what its block knows.
    fn forget_dirty(&mut self, slot: u32, home: Home) {
        let next = self.blocks.unlist(slot, home, self.s_place);
        if self.s_hand == slot {
            self.s_hand = next.unwrap_or(NONE);
        }
        if self.marks[slot as usize].count() > 0 {
            *self.blocks.state_mut(home.record) -= 1;
        }
    }

    /// The t-hand takes one from the count under it and passes on.
    fn sweep_time(&mut self, slot: u32) {
        let mark = &mut self.marks[slot as usize];
        mark.0 -= 1;
        if mark.is_dirty() && mark.count() == 0 {
            *self.blocks.state_mut(mark.record()) -= 1;
        }
        self.ring.advance();
    }

    /// The s-hand's next page with a count of zero; there is one, since the dirty page under the t-hand has it.
    fn sweep_space(&mut self, under_t_hand: u32) -> u32 {
        if self.s_hand == NONE {
            self.s_hand = self.first_dirty(under_t_hand);
        }
        loop {
            let home = self.home(self.s_hand);
            let start = self.blocks.place_near(self.s_hand, home, self.s_place);
            let mut ahead = (start..).zip(self.blocks.record(home.record).listed_from(start));
            let found = ahead.find(|(_, slot)| self.marks[*slot as usize].count() == 0);
            let next = ahead.next().map(|(_, slot)| slot);
            self.s_hand = next.unwrap_or_else(|| self.first_dirty(under_t_hand));
            if let Some((place, victim)) = found {
                self.s_place = place;
                return victim;
            }
        }
    }

    #[cfg(test)]
    fn s_hand(&self) -> Option<Slot> {
        (self.s_hand != NONE).then_some(Slot(self.s_hand))
    }
}

impl Policy for TsClock {
    #[inline]
    fn insert(&mut self, slot: Slot, page: PageNo) {
        if self.marks.len() <= slot.index() {
            self.marks.resize(slot.index() + 1, Mark::default());
        }
        let (home, _) = self.blocks.join(page);
        self.marks[slot.index()] = Mark::clean(home.record, 1);
        self.ring.insert_before_hand(slot.0, home.offset);
        if std::mem::take(&mut self.passes_on) {
            self.ring.advance();
        }
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        let mark = self.marks[slot.index()];
        if mark.is_dirty() {
            self.count_dirty(slot.0, mark.record(), mark.count() == 0);
        } else {
            self.marks[slot.index()] = Mark::clean(mark.record(), 1);
        }
    }

    #[inline]
    fn dirtied(&mut self, slot: Slot) {
        debug_assert!(!self.marks[slot.index()].is_dirty(), "{slot:?} is dirty already");
        let home = self.home(slot.0);
        self.blocks.list(slot.0, home);
        self.count_dirty(slot.0, home.record, true);
    }

    fn cleaned(&mut self, slot: Slot) {
        self.forget_dirty(slot.0, self.home(slot.0));
        let mark = self.marks[slot.index()];
        self.marks[slot.index()] = Mark::clean(mark.record(), mark.count().min(1));
    }

    #[inline]
    fn remove(&mut self, slot: Slot) {
        let home = self.home(slot.0);
        if self.marks[slot.index()].is_dirty() {
            self.forget_dirty(slot.0, home);
        }
        self.blocks.leave(home.record);
        self.ring.remove(slot.0);
    }

    #[inline]
    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let slot = self.ring.hand()?;
            let mark = self.marks[slot as usize];
            if mark.count() > 0 {
                self.sweep_time(slot);
                continue;
            }
            let victim = if mark.is_dirty() { self.sweep_space(slot) } else { slot };
            self.passes_on = victim != slot;
            return Some(Slot(victim));
        }
    }

    fn check(&self) -> Result<(), String> {
        self.ring.check()?;
        self.blocks.check(|slot| self.home(slot))?;
        let dirty = self.ring.iter().filter(|slot| self.marks[*slot as usize].is_dirty()).count();
        let mut listed_count = 0;
        for record in self.blocks.in_use() {
            let listed = || self.blocks.record(record).listed_from(0);
            let non_zero = listed().filter(|slot| self.marks[*slot as usize].count() > 0).count();
            if non_zero as u32 != *self.blocks.state(record) {
                return Err(format!("a block counts {}, not {non_zero}", self.blocks.state(record)));
            }
            if let Some(slot) = listed().find(|slot| !self.marks[*slot as usize].is_dirty()) {
                return Err(format!("slot {slot} is listed, but clean"));
            }
            listed_count += listed().count();
        }
        if let Some(slot) = self.ring.iter().find(|slot| self.marks[*slot as usize].count() > 4) {
            return Err(format!("slot {slot} has a count of {}", self.marks[slot as usize].count()));
        }
        let is_s_hand_sound = self.s_hand == NONE || self.blocks.place(self.s_hand, self.home(self.s_hand)).is_ok();
        match dirty == listed_count && is_s_hand_sound {
            true => Ok(()),
            false => Err(format!("{dirty} dirty pages, {listed_count} listed; the s-hand is on slot {}", self.s_hand)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of the worked example, by slot; blocks have four pages.
    struct Example {
        policy: TsClock,
        pages: Vec<u64>,
    }

    impl Example {
        /// A full cache, in the order of the ring from the t-hand on: page, whether dirty, count.
        fn new(start: &[(u64, bool, u32)]) -> Example {
            let mut example = Example { policy: TsClock::new(8, 4), pages: Vec::new() };
            for (page, is_dirty, _) in start {
                let slot = example.come_in(*page);
                if *is_dirty {
                    example.policy.dirtied(slot);
                }
            }
            for (slot, (_, is_dirty, count)) in start.iter().enumerate() {
                let policy = &mut example.policy;
                let was_counted = policy.marks[slot].count() > 0;
                let record = policy.marks[slot].record();
                policy.marks[slot] = if *is_dirty { Mark::dirty(record, *count) } else { Mark::clean(record, *count) };
                *policy.blocks.state_mut(record) -= u32::from(*is_dirty && was_counted && *count == 0);
            }
            example.policy.check().unwrap();
            example
        }

        fn come_in(&mut self, page: u64) -> Slot {
            let slot = Slot(self.pages.len() as u32);
            self.pages.push(page);
            self.policy.insert(slot, PageNo(page));
            slot
        }

        fn hit(&mut self, page: u64) {
            let slot = self.pages.iter().position(|known| *known == page).expect("a hit");
            self.policy.access(Slot(slot as u32));
            self.policy.check().unwrap();
        }

        /// A miss: gives the page that left.
        fn miss(&mut self, page: u64) -> u64 {
            let victim = self.policy.victim(Some(PageNo(page))).unwrap();
            self.policy.remove(victim);
            self.come_in(page);
            self.policy.check().unwrap();
            self.pages[victim.index()]
        }

        fn count(&self, page: u64) -> u32 {
            let slot = self.pages.iter().position(|known| *known == page).unwrap();
            self.policy.marks[slot].count()
        }

        fn ring(&self) -> Vec<u64> {
            self.policy.ring.iter().map(|slot| self.pages[slot as usize]).collect()
        }

        fn s_hand(&self) -> Option<u64> {
            self.policy.s_hand().map(|slot| self.pages[slot.index()])
        }
    }

    /// Dissertation §2.3, events E1 to E4. The figure is lost: the starting state is one that fits the prose.
    #[test]
    fn the_worked_example_goes_as_the_prose_says() {
        let mut example = Example::new(&[
            (31, false, 0),
            (67, true, 0),
            (18, true, 1),
            (14, true, 0),
            (65, true, 1),
            (16, true, 0),
            (66, true, 0),
        ]);
        assert_eq!(example.s_hand(), None, "S0");

        // E1: page 16 is hit; with page 18 two of its block's four pages count, so it gets 2.
        example.hit(16);
        assert_eq!(example.count(16), 2, "T1");

        // E2: page 31, clean and under the t-hand, gives its place to page 53; the t-hand moves on.
        assert_eq!(example.miss(53), 31);
        assert_eq!(example.ring(), [67, 18, 14, 65, 16, 66, 53], "T2");

        // E3: page 67 is dirty; the s-hand begins at page 65 of its block and finds page 66.
        assert_eq!(example.miss(28), 66);
        assert_eq!(example.s_hand(), Some(67), "S3");
        assert_eq!(example.ring(), [18, 14, 65, 16, 53, 28, 67], "T3: the new page before 67, the t-hand one on");
        assert_eq!(example.count(65), 1, "the s-hand takes nothing");

        // E4: the t-hand sweeps to page 14, which is dirty; the s-hand goes on in its own block and finds page 67.
        assert_eq!(example.miss(29), 67);
        assert_eq!(example.s_hand(), Some(14), "S4: past the last of its block it goes to the block under the t-hand");
        assert_eq!(example.ring(), [65, 16, 53, 28, 18, 29, 14], "T5");
        assert_eq!(example.count(18), 0, "the t-hand took one in passing");
    }

    #[test]
    fn the_count_of_a_dirty_page_is_the_share_of_its_block_in_quarters() {
        let mut example = Example::new(&[(0, true, 0), (1, true, 0), (2, true, 0), (3, true, 0)]);
        for (page, count) in [(0, 1), (1, 2), (2, 3), (3, 4), (3, 4), (0, 4)] {
            example.hit(page);
            assert_eq!(example.count(page), count);
        }
    }

    #[test]
    fn a_clean_page_that_turns_dirty_joins_its_block_at_once() {
        let mut example = Example::new(&[(0, false, 1), (1, true, 1)]);
        example.policy.access(Slot(0));
        example.policy.dirtied(Slot(0));
        example.policy.check().unwrap();
        assert_eq!(example.count(0), 2);
    }

    #[test]
    fn the_s_hand_moves_on_when_its_page_leaves_by_itself() {
        let mut example = Example::new(&[(4, true, 0), (5, true, 0), (6, true, 0), (0, true, 0)]);
        assert_eq!((example.miss(9), example.s_hand()), (4, Some(5)));
        example.policy.remove(Slot(1));
        assert_eq!(example.s_hand(), Some(6));
        example.policy.cleaned(Slot(2));
        assert_eq!(example.s_hand(), None);
        example.policy.check().unwrap();
    }

    #[test]
    fn while_the_cache_fills_the_hand_stays() {
        let mut example = Example::new(&[]);
        for page in 1..=3 {
            example.come_in(page);
        }
        assert_eq!(example.ring(), [1, 2, 3]);
    }
}
