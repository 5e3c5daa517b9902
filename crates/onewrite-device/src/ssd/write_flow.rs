//! Writes: link, buffer, eviction to flash; and the requests that wait for them: FLUSH, FUA, TRIM.
//!
//! ```text
//!   arrived ─► let in while the oldest page is near enough ─► done
//!                             │ due (buffer.rs says when)
//!                             ▼
//!   locked, on a die ─► programmed: map changed, unlocked ─► dirty map ─► batch of the map log (mapping_flow.rs)
//! ```

use std::ops::Range;

use onewrite_block::{Operation, PAGE_SIZE, Page};

use super::Ssd;
use super::buffer::{Entry, EntryId, Urgency};
use super::die::{Cargo, Origin};
use super::host::{RequestSlot, RequestStage};
use super::mapping::NOTHING;
use crate::address::{Lpn, MapEntry, Ppn, each};

impl Ssd {
    /// Transfers the content of a write over the link.
    pub(super) fn receive(&mut self, slot: RequestSlot, pages: u64) {
        let end = self.host.inbound_free.max(self.now) + pages * self.model.timing.link_page;
        self.host.inbound_free = end;
        if !self.model.timing.link_is_duplex {
            self.host.outbound_free = end;
        }
        self.host.at(end, slot, RequestStage::Arrived);
    }

    /// The content of a write is in the controller.
    pub(super) fn arrived(&mut self, slot: RequestSlot) {
        if self.is_worn_out {
            self.host.active(slot).error = Some(self.worn_out());
            return self.finish(slot);
        }
        self.host.arriving.push_back(slot);
        self.admit_arrived();
        self.start_dies();
    }

    /// Moves arrived pages into the buffer, in order, while there is room.
    pub(super) fn admit_arrived(&mut self) {
        while let Some(&slot) = self.host.arriving.front() {
            if !self.admit_pages(slot) {
                return;
            }
            self.host.arriving.pop_front();
            if self.host.active(slot).pending == 0 {
                self.finish(slot);
            }
        }
    }

    /// Moves pages of one write into the buffer; false if some must wait.
    fn admit_pages(&mut self, slot: RequestSlot) -> bool {
        loop {
            if !self.buffer.has_room() {
                onewrite_block::reached!("write waits for room in the buffer");
                return false;
            }
            let active = self.host.active(slot);
            let Operation::Write { start, pages, durable } = &mut active.request.operation else {
                unreachable!("only writes arrive")
            };
            let lpn = Lpn::of(*start).offset(active.admitted);
            let page = std::mem::replace(&mut pages[active.admitted as usize], Page::ZEROS);
            let waits = durable.is_fua() && !self.model.has_capacitor;
            active.admitted += 1;
            active.pending += u32::from(waits);
            let is_last = active.admitted as usize == pages.len();
            let urgency = if waits { Urgency::Urgent } else { Urgency::InTurn };
            let ticket = self.buffer.put(lpn, Some(page), urgency);
            if waits {
                self.waiting_for.entry(lpn).or_default().push((slot, ticket));
            }
            if is_last {
                return true;
            }
        }
    }

    /// A page that should leave the buffer now and may leave.
    fn next_to_leave(&self) -> Option<EntryId> {
        self.buffer.next_due(|entry| !self.locked.contains(entry.lpn.index()))
    }

    /// Loads up to `count` pages that should leave the buffer into the cargo of a die.
    pub(super) fn load_from_buffer(&mut self, die: usize, count: u32) {
        while self.dies[die].cargo.len() < count as usize {
            let Some(id) = self.next_to_leave() else { return };
            let entry = self.buffer.entry(id);
            let (lpn, content) = (entry.lpn, entry.content.clone());
            let Some(content) = content else {
                self.carry_out_tombstone(id);
                continue;
            };
            self.buffer.issue(id);
            self.locked.insert(lpn.index());
            let sequence = self.sequence;
            self.sequence += 1;
            self.dies[die].cargo.push(Cargo { content, lpn, sequence, origin: Origin::Buffer(id) });
        }
    }

    /// Does a trim that waited for a program.
    fn carry_out_tombstone(&mut self, id: EntryId) {
        onewrite_block::reached!("TRIM carried out at its eviction");
        let Entry { lpn, version, .. } = *self.buffer.entry(id);
        self.buffer.drop_waiting(id);
        self.unmap(lpn);
        self.satisfy(lpn, version);
    }

    /// A page from the buffer, with entry `entry`, is in flash at `ppn`.
    pub(super) fn evicted(&mut self, lpn: Lpn, entry: EntryId, ppn: Ppn) {
        self.locked.remove(lpn.index());
        self.remap(lpn, ppn);
        let programmed = self.buffer.programmed(entry);
        onewrite_block::reached!("page trimmed while it was programmed", programmed.is_trimmed);
        if programmed.is_trimmed {
            self.unmap(lpn);
        }
        self.satisfy(lpn, if programmed.is_trimmed { u64::MAX } else { programmed.version });
    }

    /// Makes `lpn` read from `ppn`, a page just programmed.
    pub(super) fn remap(&mut self, lpn: Lpn, ppn: Ppn) {
        self.blocks.gain(self.model.shape.block_of(ppn));
        let before = self.map.get(lpn);
        let garbage = self.map.change(lpn, MapEntry::at(ppn));
        self.drop_garbage(before, garbage);
    }

    /// Makes `lpn` hold nothing.
    pub(super) fn unmap(&mut self, lpn: Lpn) {
        if self.map.get(lpn) == NOTHING {
            return;
        }
        let before = self.map.get(lpn);
        let garbage = self.map.change(lpn, NOTHING);
        self.drop_garbage(before, garbage);
    }

    /// Counts the old flash page of a logical page as garbage, if it lost its last owner.
    fn drop_garbage(&mut self, before: MapEntry, garbage: Option<Ppn>) {
        if let Some(stale) = garbage {
            self.went_stale(stale);
        } else if let Some(shared) = before.page().filter(|ppn| self.map.is_valid(*ppn)) {
            onewrite_block::reached!("shared page loses an owner");
            let owners_left = self.map.owner_count(shared);
            if self.rules.is_garbage(owners_left) {
                self.map.disown(shared);
                self.blocks.lose(self.model.shape.block_of(shared));
            }
        }
    }

    /// Notifies the requests that wait for `lpn`: `version` of it is in flash.
    pub(super) fn satisfy(&mut self, lpn: Lpn, version: u64) {
        if self.waiting_for.is_empty() {
            return;
        }
        let Some(mut waiters) = self.waiting_for.remove(&lpn) else { return };
        let is_ready = |waiter: &(RequestSlot, u64)| waiter.1 <= version;
        let ready: Vec<RequestSlot> = waiters.iter().filter(|waiter| is_ready(waiter)).map(|waiter| waiter.0).collect();
        waiters.retain(|waiter| !is_ready(waiter));
        if !waiters.is_empty() {
            self.waiting_for.insert(lpn, waiters);
        }
        ready.into_iter().for_each(|slot| self.page_durable(slot));
    }

    /// A page that a FUA write or a SHARE waits for is in flash.
    fn page_durable(&mut self, slot: RequestSlot) {
        let active = self.host.active(slot);
        active.pending -= 1;
        if active.pending > 0 {
            return;
        }
        match &active.request.operation {
            Operation::Write { pages, .. } if (active.admitted as usize) < pages.len() => (),
            Operation::Write { .. } => self.log.joiners.push(slot),
            _ => self.log.shares.push(slot),
        }
        self.log.is_wanted = true;
    }

    /// FLUSH: drains the present content of the buffer, then persists the map.
    pub(super) fn flush(&mut self, slot: RequestSlot) {
        if self.model.has_capacitor {
            self.host.at(self.now + self.model.timing.flush, slot, RequestStage::Done);
            return;
        }
        let target = self.buffer.newest_ticket();
        self.buffer.flush_target = target;
        self.host.flushes.push_back((slot, target));
        self.advance_flushes();
        self.start_dies();
    }

    /// Continues the FLUSH requests whose pages have all left the buffer.
    pub(super) fn advance_flushes(&mut self) {
        while let Some(&(slot, target)) = self.host.flushes.front() {
            if self.buffer.oldest_ticket().is_some_and(|oldest| oldest <= target) {
                return;
            }
            self.host.flushes.pop_front();
            self.persist_map_for(slot);
        }
    }

    /// Ends a FLUSH when the present map is durable.
    fn persist_map_for(&mut self, slot: RequestSlot) {
        if !self.rules.flush_persists_map() {
            self.finish(slot);
        } else if self.map.dirty_count() > 0 {
            onewrite_block::reached!("FLUSH waits for a map batch");
            self.log.joiners.push(slot);
            self.log.is_wanted = true;
        } else if self.log.has_batch {
            onewrite_block::reached!("FLUSH joins the map batch under way");
            self.log.waiters.push(slot);
        } else {
            self.finish(slot);
        }
    }

    /// TRIM: drops its pages, also in the buffer.
    pub(super) fn trim(&mut self, slot: RequestSlot, pages: Range<Lpn>) {
        each(pages).for_each(|lpn| self.trim_page(lpn));
        self.advance_flushes();
        self.admit_arrived();
        self.host.at(self.now + self.model.timing.trim, slot, RequestStage::Done);
        self.start_dies();
    }

    /// A page under program cannot be trimmed at once: recovery would find it by its out-of-band area. It leaves a
    /// tombstone in the buffer, which reads as zeros and is carried out after the program.
    fn trim_page(&mut self, lpn: Lpn) {
        if self.locked.contains(lpn.index()) {
            onewrite_block::reached!("TRIM of a page that is being programmed or moved");
            self.buffer.put(lpn, None, Urgency::InTurn);
            return;
        }
        if let Some(id) = self.buffer.find(lpn) {
            onewrite_block::reached!("TRIM of a page in the write buffer");
            self.buffer.drop_waiting(id);
            self.unmap(lpn);
            return self.satisfy(lpn, u64::MAX);
        }
        self.unmap(lpn);
    }

    /// Counts pages programmed.
    pub(super) fn count_programs(&mut self, pages: u64) {
        self.counters.flash_program_bytes += pages * PAGE_SIZE as u64;
    }
}
