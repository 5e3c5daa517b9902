//! Flow: reads, writes, FLUSH and TRIM, from the host to the layer.
//!
//! ```text
//!   arrived ─► let in while the buffer has room ─► done (FUA: in flash first)
//!                          │ due (ssd/buffer says when)
//!                          ▼
//!   given to the layer ─► all that it ordered has happened ─► gone from the buffer
//! ```
//!
//! The content of a read is fixed when its command is understood. The read then takes the time of the layer's
//! operations and of the link. Operations ordered before it on the same dies go first.

use std::ops::Range;

use onewrite_block::{Operation, Page};

use super::{FtlDevice, Given, Waits, served};
use crate::address::{Lpn, each};
use crate::ssd::buffer::Urgency;
use crate::ssd::host::{RequestSlot, RequestStage};

impl FtlDevice {
    pub(super) fn read(&mut self, slot: RequestSlot, range: Range<Lpn>) {
        let ordered = self.read_from_now();
        let (mut pages, mut sent) = (Vec::with_capacity(each(range.clone()).len()), self.now);
        for lpn in each(range) {
            pages.push(self.page(lpn));
            let ready = self.work_ends();
            sent = self.send(ready);
        }
        self.gain_since(ordered);
        self.host.active(slot).pages = pages;
        self.host.at(sent, slot, RequestStage::Done);
    }

    /// The newest content of a page: from the buffer, from flash, or zeros.
    fn page(&mut self, lpn: Lpn) -> Page {
        if let Some(id) = self.buffer.find(lpn) {
            return self.buffer.entry(id).content.clone().unwrap_or(Page::ZEROS);
        }
        served(self.ftl.read(lpn)).map_or(Page::ZEROS, |version| self.contents.page(version))
    }

    /// Sends a page to the host as soon as it is ready; returns its arrival time.
    fn send(&mut self, ready: u64) -> u64 {
        let end = self.host.outbound_free.max(ready) + self.model.timing.link_page;
        self.host.outbound_free = end;
        if !self.model.timing.link_is_duplex {
            self.host.inbound_free = end;
        }
        end
    }

    /// Transfers the content of a write over the link.
    pub(super) fn receive(&mut self, slot: RequestSlot, pages: u64) {
        let end = self.host.inbound_free.max(self.now) + pages * self.model.timing.link_page;
        self.host.inbound_free = end;
        if !self.model.timing.link_is_duplex {
            self.host.outbound_free = end;
        }
        self.host.at(end, slot, RequestStage::Arrived);
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
                return false;
            }
            let active = self.host.active(slot);
            let Operation::Write { start, pages, durable } = &mut active.request.operation else {
                unreachable!("only writes arrive")
            };
            let lpn = Lpn::of(*start).offset(active.admitted);
            let page = std::mem::replace(&mut pages[active.admitted as usize], Page::ZEROS);
            let has_zones = self.line.is_some();
            let waits = (durable.is_fua() || has_zones) && !self.model.has_capacitor;
            active.admitted += 1;
            active.pending += u32::from(waits);
            let is_last = active.admitted as usize == pages.len();
            let urgency = if waits || has_zones { Urgency::Urgent } else { Urgency::InTurn };
            let ticket = self.buffer.put(lpn, Some(page), urgency);
            if waits {
                self.waiting_for.entry(lpn).or_default().push((slot, ticket));
            }
            if is_last {
                return true;
            }
        }
    }

    /// Gives the layer the pages that should leave the buffer now, within its window.
    pub(super) fn evict(&mut self) {
        while self.given.len() < self.window() {
            let Some(id) = self.buffer.next_due(|_| true) else { return };
            let entry = self.buffer.entry(id);
            let (lpn, content) = (entry.lpn, entry.content.clone().expect("a trimmed page does not wait"));
            self.buffer.issue(id);
            let ordered = self.work_from(self.now);
            let version = served(self.ftl.write(lpn));
            self.contents.keep(version, content);
            self.gain_since(ordered);
            self.give(Waits::Eviction(id));
        }
    }

    fn give(&mut self, waits: Waits) {
        self.given.push_back(Given { changes: self.ftl.flash().ordered(), waits });
    }

    /// Ends the given pages and TRIMs whose flash changes have happened.
    pub(super) fn end_happened(&mut self) {
        let happened = self.ftl.flash().happened();
        while let Some(given) = self.given.pop_front_if(|given| given.changes <= happened) {
            match given.waits {
                Waits::Eviction(id) => {
                    let lpn = self.buffer.entry(id).lpn;
                    let programmed = self.buffer.programmed(id);
                    self.satisfy(lpn, programmed.version);
                }
                Waits::Trim { slot, newest } => self.trimmed(slot, newest),
            }
            self.advance_flushes();
            self.admit_arrived();
        }
    }

    /// A TRIM has happened. It also ends every FUA write that it made void.
    fn trimmed(&mut self, slot: RequestSlot, newest: u64) {
        let range = self.trimmed_by(slot);
        let mut void: Vec<Lpn> = self.waiting_for.keys().copied().filter(|lpn| range.contains(lpn)).collect();
        void.sort_unstable();
        void.into_iter().for_each(|lpn| self.satisfy(lpn, newest));
        self.host.at(self.now + self.model.timing.trim, slot, RequestStage::Done);
    }

    /// The pages of a TRIM under way.
    pub(super) fn trimmed_by(&self, slot: RequestSlot) -> Range<Lpn> {
        let Operation::Trim { start, count } = self.host.request(slot).operation else { unreachable!("it is a TRIM") };
        Lpn::of(start).run(count as u32)
    }

    /// Notifies the requests that wait for `lpn`: `version` of it is in flash.
    fn satisfy(&mut self, lpn: Lpn, version: u64) {
        let Some(waiters) = self.waiting_for.remove(&lpn) else { return };
        let (ready, others): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|(_, ticket)| *ticket <= version);
        if !others.is_empty() {
            self.waiting_for.insert(lpn, others);
        }
        for (slot, _) in ready {
            let active = self.host.active(slot);
            active.pending -= 1;
            let Operation::Write { pages, .. } = &active.request.operation else {
                unreachable!("only FUA writes wait")
            };
            if active.pending == 0 && active.admitted as usize == pages.len() {
                self.finish(slot);
            }
        }
    }

    /// FLUSH: drains the present content of the buffer. Pages that have left it are durable.
    pub(super) fn flush(&mut self, slot: RequestSlot) {
        if self.model.has_capacitor {
            return self.host.at(self.now + self.model.timing.flush, slot, RequestStage::Done);
        }
        let target = self.buffer.newest_ticket();
        if self.buffer.length() == 0 {
            return self.finish(slot);
        }
        self.buffer.flush_target = target;
        self.host.flushes.push_back((slot, target));
        self.advance_flushes();
    }

    /// Ends the FLUSH requests whose pages have all left the buffer.
    fn advance_flushes(&mut self) {
        while let Some(&(slot, target)) = self.host.flushes.front() {
            if self.buffer.oldest_ticket().is_some_and(|oldest| oldest <= target) {
                return;
            }
            self.host.flushes.pop_front();
            self.host.at(self.now + self.model.timing.flush, slot, RequestStage::Done);
        }
    }

    /// TRIM: drops its pages, also in the buffer; durable when it ends. A page on its way to flash leaves a tombstone
    /// in the buffer: the layer trims it after that program.
    pub(super) fn trim(&mut self, slot: RequestSlot, pages: Range<Lpn>) {
        let covered = |lpn: &Lpn| pages.contains(lpn);
        let mut buffered: Vec<Lpn> = self.buffer.entries().map(|entry| entry.lpn).filter(covered).collect();
        buffered.sort_unstable();
        for lpn in buffered {
            let id = self.buffer.find(lpn).expect("just seen");
            if self.buffer.entry(id).issued > 0 {
                onewrite_block::reached!("TRIM of a page that the layer is writing");
                self.buffer.put(lpn, None, Urgency::InTurn);
            } else {
                self.buffer.drop_waiting(id);
            }
        }
        let ordered = self.work_from(self.now);
        served(self.ftl.trim(pages));
        self.gain_since(ordered);
        self.give(Waits::Trim { slot, newest: self.buffer.newest_ticket() });
        self.end_happened();
        self.advance_flushes();
        self.admit_arrived();
    }
}
