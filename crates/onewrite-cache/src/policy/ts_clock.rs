//! TS-CLOCK: one hand finds a flash block with little use; a second hand evicts its dirty pages in sector order.
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
//! A clean page that is accessed gets a count of 1. A dirty one gets `⌈4 · non_zero / pages per block⌉`: pages stay
//! longer if their block is being written. `non_zero` is the number of dirty pages of its block with a count above
//! zero, this page included. A page that turns dirty joins `non_zero` with that access. A page that turns clean keeps a
//! count of 1 at most.
//!
//! The source gives two moments at which a dirty page gets its count; both are here ([`Counting`]). The pseudo-code
//! sets the count at the access (`ts-clock`): the four quarters of a block written in order get 1, 2, 3 and 4, and
//! leave apart. The remark on paging hardware, at the end of the same passage, lets the t-hand set the count when it
//! meets a page with its reference bit set (`ts-clock-scan`): the pages of such a block get equal counts and leave
//! together.
//!
//! If the victim was under the t-hand, the new page takes its place; else it goes just before the t-hand's page. In
//! both cases the hand then advances by one. While the cache fills, the hand stays.
//!
//! Source: dissertation §2.3; the text above settles what its pseudo-code leaves open. Invariants: the ring holds every
//! slot in use; a block lists exactly its dirty pages; `non_zero` is correct for each block; counts are at most 4; the
//! s-hand is none or on a dirty page.

use super::dirty::DirtyBlocks;
use super::links::Ring;
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// Distance from the t-hand at which a victim is guessed, in entries.
const HINT_DISTANCE: usize = 3;

/// When a page that was accessed gets its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// At the access.
    AtAccess,
    /// When the t-hand meets it next; until then a dirty page keeps its count, but at least 1.
    AtScan,
}

/// The state of a page that a hit needs, in one word: the record of its block, whether it waits for its count, whether
/// it is dirty, and its count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark(u32);

impl Mark {
    const COUNT: u32 = 0b111;
    const DIRTY: u32 = 0b1000;
    const WAITS: u32 = 0b1_0000;
    const RECORD_SHIFT: u32 = 5;

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

    /// Whether it is a dirty page that waits for its count from the t-hand.
    fn waits(self) -> bool {
        self.0 & Mark::WAITS != 0
    }

    fn count(self) -> u32 {
        self.0 & Mark::COUNT
    }
}

/// See the module's head.
pub struct TsClock {
    ring: Ring,
    blocks: DirtyBlocks,
    /// The count of each block, apart from the rest because a hit reads nothing else of a block.
    non_zero: Vec<u32>,
    marks: PerSlot<Mark>,
    block_pages: u32,
    counting: Counting,
    /// Whether the t-hand advances after the next insertion.
    passes_on: bool,
}

impl TsClock {
    /// For flash blocks of `block_pages` pages. Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32, block_pages: u32, counting: Counting) -> TsClock {
        TsClock {
            ring: Ring::with_capacity(capacity_pages),
            blocks: DirtyBlocks::new(block_pages, capacity_pages),
            non_zero: Vec::new(),
            marks: PerSlot::with_capacity(capacity_pages),
            block_pages,
            counting,
            passes_on: false,
        }
    }

    /// Gives a dirty page the count of its block; `joins` if `non_zero` did not include the page.
    #[inline]
    fn count_dirty(&mut self, slot: u32, record: u32, joins: bool) {
        self.non_zero[record as usize] += u32::from(joins);
        if self.counting == Counting::AtScan {
            let count = self.marks[slot].count().max(1);
            self.marks[slot] = Mark(Mark::dirty(record, count).0 | Mark::WAITS);
            return;
        }
        self.marks[slot] = Mark::dirty(record, self.count_of(record));
    }

    /// The count of a page of a block with at least one page in `non_zero`.
    #[inline]
    fn count_of(&self, record: u32) -> u32 {
        let quarters = 4 * self.non_zero[record as usize];
        // Divides only if the result may be above 1.
        if quarters <= self.block_pages { 1 } else { quarters.div_ceil(self.block_pages) }
    }

    /// Removes a dirty page from the state of its block.
    fn forget_dirty(&mut self, slot: u32, mark: Mark) {
        self.blocks.drop(slot, mark.record());
        self.non_zero[mark.record() as usize] -= u32::from(mark.count() > 0);
    }

    /// The t-hand takes one from the count under it and advances.
    #[inline]
    fn sweep_time(&mut self, slot: u32) {
        let mark = self.marks[slot];
        if mark.waits() {
            self.marks[slot] = Mark::dirty(mark.record(), self.count_of(mark.record()));
        }
        let mark = &mut self.marks[slot];
        mark.0 -= 1;
        if mark.is_dirty() && mark.count() == 0 {
            self.non_zero[mark.record() as usize] -= 1;
        }
        self.ring.advance();
    }
}

impl Policy for TsClock {
    #[inline]
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let (record, is_new) = self.blocks.join(slot.0, page);
        if is_new {
            self.non_zero.resize(self.non_zero.len().max(record as usize + 1), 0);
        }
        self.marks.set(slot.0, Mark::clean(record, 1));
        self.ring.insert_before_hand(slot.0);
        if std::mem::take(&mut self.passes_on) {
            self.ring.advance();
        }
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        let mark = self.marks[slot.0];
        if mark.is_dirty() {
            self.count_dirty(slot.0, mark.record(), mark.count() == 0);
        } else {
            self.marks[slot.0] = Mark::clean(mark.record(), 1);
        }
    }

    #[inline]
    fn dirtied(&mut self, slot: Slot) {
        debug_assert!(!self.marks[slot.0].is_dirty(), "{slot:?} is dirty already");
        let record = self.marks[slot.0].record();
        self.blocks.add(slot.0, record);
        self.count_dirty(slot.0, record, true);
    }

    fn cleaned(&mut self, slot: Slot) {
        let mark = self.marks[slot.0];
        self.forget_dirty(slot.0, mark);
        self.marks[slot.0] = Mark::clean(mark.record(), mark.count().min(1));
    }

    #[inline]
    fn remove(&mut self, slot: Slot, _page: PageNo) {
        let mark = self.marks[slot.0];
        if mark.is_dirty() {
            self.forget_dirty(slot.0, mark);
        }
        self.blocks.leave(mark.record());
        self.ring.remove(slot.0);
    }

    #[inline]
    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let slot = self.ring.hand()?;
            let mark = self.marks[slot];
            if mark.count() > 0 {
                self.sweep_time(slot);
                continue;
            }
            // The s-hand finds a victim, because this page has a count of zero.
            let marks = &self.marks;
            let is_victim = |slot: u32| marks[slot].count() == 0;
            let victim = if mark.is_dirty() { self.blocks.sweep(mark.record(), is_victim) } else { slot };
            self.passes_on = victim != slot;
            return Some(Slot(victim));
        }
    }

    #[inline]
    fn upcoming(&self) -> [Option<Slot>; 2] {
        let ahead = self.ring.ahead(HINT_DISTANCE).filter(|slot| self.marks[*slot].count() <= 1);
        [self.blocks.hand().map(Slot), ahead.map(Slot)]
    }

    fn check(&self) -> Result<(), String> {
        self.ring.check()?;
        self.blocks.check(|slot| self.marks[slot].record())?;
        let count_of = |slot: &u32| self.marks[*slot].count();
        let mut listed = 0;
        for record in self.blocks.in_use() {
            let non_zero = self.blocks.dirty(record).filter(|slot| count_of(slot) > 0).count();
            if non_zero as u32 != self.non_zero[record as usize] {
                return Err(format!("a block counts {}, not {non_zero}", self.non_zero[record as usize]));
            }
            if let Some(slot) = self.blocks.dirty(record).find(|slot| !self.marks[*slot].is_dirty()) {
                return Err(format!("slot {slot} is listed, but clean"));
            }
            listed += self.blocks.dirty(record).count();
        }
        if let Some(slot) = self.ring.iter().find(|slot| count_of(slot) > 4) {
            return Err(format!("slot {slot} has a count of {}", count_of(&slot)));
        }
        let dirty = self.ring.iter().filter(|slot| self.marks[*slot].is_dirty()).count();
        match dirty == listed {
            true => Ok(()),
            false => Err(format!("{dirty} dirty pages, {listed} listed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of the worked example, by slot. Blocks have four pages.
    struct Example {
        policy: TsClock,
        pages: Vec<u64>,
    }

    impl Example {
        /// A full cache, given in ring order from the t-hand on: page, whether dirty, count.
        fn new(start: &[(u64, bool, u32)]) -> Example {
            let mut example = Example { policy: TsClock::new(8, 4, Counting::AtAccess), pages: Vec::new() };
            for (page, is_dirty, _) in start {
                let slot = example.come_in(*page);
                if *is_dirty {
                    example.policy.dirtied(slot);
                }
            }
            for (slot, (_, is_dirty, count)) in (0..).zip(start) {
                let policy = &mut example.policy;
                let was_counted = policy.marks[slot].count() > 0;
                let record = policy.marks[slot].record();
                policy.marks[slot] = if *is_dirty { Mark::dirty(record, *count) } else { Mark::clean(record, *count) };
                policy.non_zero[record as usize] -= u32::from(*is_dirty && was_counted && *count == 0);
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

        /// A miss; returns the page that left.
        fn miss(&mut self, page: u64) -> u64 {
            let victim = self.policy.victim(Some(PageNo(page))).unwrap();
            self.policy.remove(victim, PageNo(0));
            self.come_in(page);
            self.policy.check().unwrap();
            self.pages[victim.index()]
        }

        fn count(&self, page: u64) -> u32 {
            let slot = self.pages.iter().position(|known| *known == page).unwrap();
            self.policy.marks[slot as u32].count()
        }

        fn ring(&self) -> Vec<u64> {
            self.policy.ring.iter().map(|slot| self.pages[slot as usize]).collect()
        }

        fn s_hand(&self) -> Option<u64> {
            self.policy.upcoming()[0].map(|slot| self.pages[slot.index()])
        }
    }

    /// Dissertation §2.3, events E1 to E4. The figure is lost; this starting state fits the prose.
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

        // E2: page 31, clean and under the t-hand, gives its place to page 53. The t-hand advances.
        assert_eq!(example.miss(53), 31);
        assert_eq!(example.ring(), [67, 18, 14, 65, 16, 66, 53], "T2");

        // E3: page 67 is dirty; the s-hand begins at page 65 of its block and finds page 66.
        assert_eq!(example.miss(28), 66);
        assert_eq!(example.s_hand(), Some(67), "S3");
        assert_eq!(example.ring(), [18, 14, 65, 16, 53, 28, 67], "T3: the new page before 67, the t-hand one on");
        assert_eq!(example.count(65), 1, "the s-hand takes nothing");

        // E4: the t-hand advances to page 14, which is dirty. The s-hand continues in its own block and finds page 67.
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

    /// A block of eight pages and four pages of other blocks are written. Returns the slots in the order in which they
    /// leave.
    fn departures(counting: Counting) -> Vec<u32> {
        let mut policy = TsClock::new(12, 8, counting);
        for slot in 0..12 {
            policy.insert(Slot(slot), PageNo(if slot < 8 { slot.into() } else { u64::from(slot) * 8 }));
            policy.dirtied(Slot(slot));
            policy.check().unwrap();
        }
        let mut order = Vec::new();
        while let Some(victim) = policy.victim(None) {
            policy.remove(victim, PageNo(0));
            policy.check().unwrap();
            order.push(victim.0);
        }
        order
    }

    #[test]
    fn a_block_written_in_order_leaves_in_quarters_or_as_a_whole_by_when_pages_are_counted() {
        let of_block = |counting| {
            let order = departures(counting).into_iter().enumerate().filter(|(_, slot)| *slot < 8);
            order.map(|(place, _)| place).collect::<Vec<_>>()
        };
        assert_eq!(of_block(Counting::AtAccess), [0, 1, 2, 3, 8, 9, 10, 11], "half of it, then the four others");
        assert_eq!(of_block(Counting::AtScan), [4, 5, 6, 7, 8, 9, 10, 11], "all together, after the others");
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
        example.policy.remove(Slot(1), PageNo(5));
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
