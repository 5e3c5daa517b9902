//! Collection: garbage collection of a die, one operation at a time.
//!
//! ```text
//!   choose victim ─► read a row of its valid pages ─► program them to the die's block for moved pages ─► … ─► no valid
//!   page left: emptied ─► the map log is durable as of then ─► erase ─► free
//! ```
//!
//! Each die collects its own blocks and moves pages within itself. So dies never wait for each other's collection. Host
//! pages and moved pages never share a block. A block is erased only after a batch of the map log is durable that
//! started after its last page had moved. So recovery never meets a map entry that points into an erased block, and it
//! never needs the out-of-band area of a shared page to learn its owners.

use super::Ssd;
use super::die::{Activity, Cargo, Emptied, Front, Origin, Stream, Victim};
use super::faults::MediumOperation;
use super::mapping::Move;
use super::model::{RESERVED_BLOCKS, VictimPolicy};
use crate::address::{FlashBlock, Lpn, Ppn};

impl Ssd {
    /// Whether the collector has started work on a die, or should.
    pub(super) fn wants_collector(&self, die: usize) -> bool {
        let state = &self.dies[die];
        let has_begun = state.victim.is_some() || !state.emptied.is_empty() || !state.failing.is_empty();
        has_begun || self.blocks.free(die).len() < self.model.collect_below
    }

    /// Advances the collector of an idle die by one operation; false if it can do nothing now.
    pub(super) fn collect(&mut self, die: usize) -> bool {
        if self.begin_erase(die) || self.begin_move(die) {
            return true;
        }
        if self.dies[die].victim.is_none() && !self.choose_victim(die) {
            return false;
        }
        self.begin_victim_read(die) || self.begin_move(die) || self.finish_victim(die)
    }

    /// Erases an emptied block if the map log knows about it.
    fn begin_erase(&mut self, die: usize) -> bool {
        let Some(&Emptied { block, batch }) = self.dies[die].emptied.front() else { return false };
        if !self.rules.may_erase(batch, self.log.batches_durable) {
            onewrite_block::reached!("erase waits for the map log");
            return false;
        }
        self.dies[die].emptied.pop_front();
        self.begin(die, Activity::Erase, Some(block), self.now + self.model.timing.erase);
        true
    }

    fn choose_victim(&mut self, die: usize) -> bool {
        let coming = self.blocks.free(die).len() + self.dies[die].emptied.len();
        let failing = self.dies[die].failing.pop();
        onewrite_block::reached!("failing block becomes a victim", failing.is_some());
        if failing.is_none() && coming >= self.model.collect_below {
            return false;
        }
        let chosen = failing.or_else(|| self.least_worn_victim(die)).or_else(|| self.best_victim(die));
        let Some(block) = chosen else { return false };
        self.blocks.choose(block);
        self.dies[die].victim = Some(Victim { block, cursor: 0 });
        true
    }

    fn best_victim(&mut self, die: usize) -> Option<FlashBlock> {
        match self.model.victim_policy {
            VictimPolicy::Greedy => self.blocks.fewest_valid(die),
            VictimPolicy::CostBenefit => self.blocks.best(die, |block| self.benefit(block)),
            VictimPolicy::Windowed(window) => {
                let mut closed: Vec<FlashBlock> = self.blocks.closed(die).collect();
                closed.sort_by_key(|&block| std::cmp::Reverse(self.blocks.age(block)));
                let oldest = closed.into_iter().take(window).min_by_key(|&block| self.blocks.valid(block));
                let gains = |block: &FlashBlock| self.blocks.valid(*block) < self.model.shape.pages_per_block;
                oldest.filter(gains).or_else(|| self.blocks.fewest_valid(die))
            }
        }
    }

    /// The ratio of gain to cost for the collection of a block; `None` if it gains nothing.
    fn benefit(&self, block: FlashBlock) -> Option<u64> {
        let (pages, valid) = (u64::from(self.model.shape.pages_per_block), u64::from(self.blocks.valid(block)));
        match valid {
            0 => Some(u64::MAX),
            _ if valid == pages => None,
            _ => Some((self.blocks.age(block) + 1) * (pages - valid) * 1024 / (2 * valid)),
        }
    }

    /// Reads the next row of the victim with valid pages, unless enough pages wait for their program.
    fn begin_victim_read(&mut self, die: usize) -> bool {
        let planes = self.model.shape.planes;
        let Some(mut victim) = self.dies[die].victim else { return false };
        if self.dies[die].moves.len() >= planes as usize {
            return false;
        }
        let end = self.flash.programmed(victim.block);
        let mut sensing = 0;
        while victim.cursor < end && sensing == 0 {
            let row_end = (victim.cursor / planes + 1) * planes;
            for page in victim.cursor..row_end.min(end) {
                let ppn = self.model.shape.ppn(victim.block, page);
                if self.map.is_valid(ppn) {
                    self.dies[die].moves.push(ppn);
                    sensing += 1;
                }
            }
            victim.cursor = row_end.min(end);
        }
        self.dies[die].victim = Some(victim);
        self.dies[die].sensing = sensing;
        if sensing > 0 {
            self.begin(die, Activity::ReadArray, None, self.now + self.model.timing.read);
        }
        sensing > 0
    }

    /// Programs pages from the victim when they fill a row or the victim has no more.
    fn begin_move(&mut self, die: usize) -> bool {
        let Some(victim) = self.dies[die].victim else { return false };
        let is_exhausted = victim.cursor >= self.flash.programmed(victim.block);
        let count = self.dies[die].moves.len();
        if count == 0 || (count < self.model.shape.planes as usize && !is_exhausted) {
            return false;
        }
        let Some(block) = self.open_front(die, Stream::Moved) else { return false };
        self.load_moves(die, self.room_in_row(block));
        self.dies[die].stream = Stream::Moved;
        self.begin_program(die, block)
    }

    fn load_moves(&mut self, die: usize, count: u32) {
        let mut moves = std::mem::take(&mut self.dies[die].moves);
        moves.retain(|&ppn| {
            if !self.map.is_valid(ppn) {
                onewrite_block::reached!("page went stale before its move");
                return false;
            }
            if self.dies[die].cargo.len() >= count as usize {
                return true;
            }
            let Some(name) = self.owner_to_name(ppn) else { return true };
            if self.fails(MediumOperation::Read) {
                self.read_failed(ppn);
                return false;
            }
            self.load_move(die, ppn, name);
            false
        });
        self.dies[die].moves = moves;
    }

    fn load_move(&mut self, die: usize, ppn: Ppn, name: Lpn) {
        let (block, page) = self.model.shape.place(ppn);
        let found = self.flash.page(block, page).expect("a valid page is programmed");
        let sequence = found.oob.sequence;
        let content = self.flash.content(block, page);
        self.locked.insert(name.index());
        self.dies[die].cargo.push(Cargo { content, lpn: name, sequence, origin: Origin::Flash(ppn) });
    }

    /// The owner for the out-of-band area of a copy; `None` if the page cannot be moved now. A target of a SHARE that
    /// is not durable yet is never named, even if its source was written again and it is the only owner left: from
    /// the copy recovery could restore this pair alone.
    fn owner_to_name(&self, ppn: Ppn) -> Option<Lpn> {
        if let Some(owner) = self.map.only_owner(ppn) {
            let is_free = !self.locked.contains(owner.index()) && !self.log.sharing.contains(&owner);
            return is_free.then_some(owner);
        }
        if self.log.has_share() {
            onewrite_block::reached!("collection waits for a SHARE");
            return None;
        }
        onewrite_block::reached!("shared page moved by collection");
        let mut owners = Vec::new();
        self.map.owners(ppn, &mut owners);
        owners.into_iter().find(|&owner| !self.locked.contains(owner.index()))
    }

    /// A copy is in flash; its out-of-band area names `name`.
    pub(super) fn moved(&mut self, name: Lpn, copy: Move) {
        self.locked.remove(name.index());
        self.counters.moved_pages += 1;
        // While its name is locked, it is neither programmed nor trimmed nor shared over; but a read of it may fail.
        onewrite_block::reached!("page went stale while it was moved", !self.map.is_valid(copy.source));
        if self.map.is_valid(copy.source) {
            self.map.move_all(copy);
            self.blocks.gain(self.model.shape.block_of(copy.target));
            self.went_stale(copy.source);
        }
    }

    /// Hands an empty victim over for its erase; then starts that erase or the next victim.
    fn finish_victim(&mut self, die: usize) -> bool {
        let Some(victim) = self.dies[die].victim else { return false };
        let is_exhausted = victim.cursor >= self.flash.programmed(victim.block) && self.dies[die].moves.is_empty();
        if !is_exhausted || self.blocks.valid(victim.block) > 0 {
            return false;
        }
        self.dies[die].victim = None;
        if self.flash.is_bad(victim.block) {
            onewrite_block::reached!("bad block retired");
            self.blocks.retire(victim.block);
            return self.collect(die);
        }
        self.blocks.empty(victim.block);
        let batch = self.log.batches_begun + 1;
        self.dies[die].emptied.push_back(Emptied { block: victim.block, batch });
        self.log.is_wanted = true;
        self.write_log();
        self.collect(die)
    }

    /// The block that takes pages of a stream on a die. If the last one is full, the next one; `None` if that is not
    /// announced.
    pub(super) fn open_front(&mut self, die: usize, stream: Stream) -> Option<FlashBlock> {
        let mut front = *self.dies[die].front(stream);
        if let Some(full) = front.active.filter(|block| self.flash.is_full(*block)) {
            self.blocks.close(full);
            front.active = None;
        }
        if front.active.is_none() && front.is_announced {
            front = Front { active: front.next, ..Front::NOTHING };
        }
        *self.dies[die].front(stream) = front;
        if front.next.is_none() {
            self.choose_next(die, stream);
            self.write_log();
        }
        front.active
    }

    /// Chooses the block that takes pages of a stream next, and lets the map log announce it.
    pub(super) fn choose_next(&mut self, die: usize, stream: Stream) {
        let reserved = match stream {
            Stream::Host => RESERVED_BLOCKS,
            Stream::Moved => 0,
        };
        if self.blocks.free(die).len() <= reserved {
            onewrite_block::reached!("die without a free block for its stream");
            return;
        }
        let flash = &self.flash;
        let wear = |block| match stream {
            Stream::Host => flash.erase_count(block),
            Stream::Moved => u32::MAX - flash.erase_count(block),
        };
        let block = self.blocks.take_free(die, wear).expect("there is a free block");
        let front = self.dies[die].front(stream);
        front.next = Some(block);
        front.is_announced = false;
        self.log.is_wanted = true;
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;

    use super::*;
    use crate::Profile;
    use crate::address::MapEntry;

    /// From a copy that names a target recovery could restore one pair of the SHARE alone.
    #[test]
    fn a_target_of_a_share_that_is_not_durable_is_never_named() {
        let mut ssd = Profile::load("nvme-share").unwrap().ssd(Some(16 * MIB)).unwrap();
        let (source, targets, page) = (Lpn(0), [Lpn(1), Lpn(2)], Ppn(40));
        for owner in [source, targets[0], targets[1]] {
            ssd.map.change(owner, MapEntry::at(page));
        }
        ssd.log.sharing.extend(targets);
        // The source is being programmed, then it has another page.
        ssd.locked.insert(source.index());
        assert_eq!(ssd.owner_to_name(page), None);
        ssd.locked.remove(source.index());
        ssd.map.change(source, MapEntry::at(Ppn(41)));
        assert_eq!(ssd.owner_to_name(page), None);
        // One of its targets, too.
        ssd.map.change(targets[0], MapEntry::at(Ppn(42)));
        assert_eq!(ssd.owner_to_name(page), None);
        ssd.log.sharing.clear();
        assert_eq!(ssd.owner_to_name(page), Some(targets[1]));
    }
}
