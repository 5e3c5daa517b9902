//! Flow: reads, writes, FLUSH and TRIM, from the host to the layer.
//!
//! ```text
//!   arrived ─► let in while the buffer has room ─► done (FUA: in flash first)
//!                          │ due (ssd/buffer says when)
//!                          ▼
//!   given to the layer ─► all that it ordered has happened ─► gone from the buffer
//! ```
//!
//! The content of a read is settled when its command is understood; then it takes the time of the operations that the layer
//! needs for it, behind those already ordered on the same dies, and of the link.

use std::ops::Range;

use onewrite_block::{Operation, Page};

use super::{FtlDevice, Given, Waits, served};
use crate::ssd::host::Step;

impl FtlDevice {
    pub(super) fn read(&mut self, slot: u32, start: u32, count: u32) {
        let ordered = self.work_from(self.now);
        let (mut pages, mut sent) = (Vec::with_capacity(count as usize), self.now);
        for lpn in start..start + count {
            pages.push(self.page(lpn));
            let ready = self.work_ends();
            sent = self.send(ready);
        }
        self.gain_since(ordered);
        self.host.active(slot).pages = pages;
        self.host.at(sent, slot, Step::Done);
    }

    /// The newest content of a page: from the buffer, from flash, or zeros.
    fn page(&mut self, lpn: u32) -> Page {
        if let Some(index) = self.buffer.find(lpn) {
            return self.buffer.entry(index).content.clone().unwrap_or(Page::ZEROS);
        }
        served(self.ftl.read(lpn)).map_or(Page::ZEROS, |version| self.contents.page(version))
    }

    /// Sends a page to the host as soon as it is ready; gives when it is there.
    fn send(&mut self, ready: u64) -> u64 {
        let end = self.host.outbound_free.max(ready) + self.model.timing.link_page;
        self.host.outbound_free = end;
        if !self.model.timing.link_is_duplex {
            self.host.inbound_free = end;
        }
        end
    }

    /// Lets the content of a write come over the link.
    pub(super) fn receive(&mut self, slot: u32, pages: u64) {
        let end = self.host.inbound_free.max(self.now) + pages * self.model.timing.link_page;
        self.host.inbound_free = end;
        if !self.model.timing.link_is_duplex {
            self.host.outbound_free = end;
        }
        self.host.at(end, slot, Step::Arrived);
    }

    /// Lets arrived pages into the buffer, in order, as far as there is room.
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

    /// Lets pages of one write in; false if some have to wait.
    fn admit_pages(&mut self, slot: u32) -> bool {
        loop {
            if !self.buffer.has_room() {
                return false;
            }
            let active = self.host.active(slot);
            let Operation::Write { start, pages, fua } = &mut active.request.operation else {
                unreachable!("only writes arrive")
            };
            let lpn = start.0 as u32 + active.admitted;
            let page = std::mem::replace(&mut pages[active.admitted as usize], Page::ZEROS);
            let waits = *fua && !self.model.has_capacitor;
            active.admitted += 1;
            active.pending += u32::from(waits);
            let is_last = active.admitted as usize == pages.len();
            let ticket = self.buffer.put(lpn, Some(page), waits);
            if waits {
                self.waiting_for.entry(lpn).or_default().push((slot, ticket));
            }
            if is_last {
                return true;
            }
        }
    }

    /// Gives the layer the pages that should leave the buffer now, as many as it may have at once.
    pub(super) fn evict(&mut self) {
        while self.given.len() < self.window() {
            let Some(index) = self.buffer.next_due(|_| true) else { return };
            let entry = self.buffer.entry(index);
            let (lpn, content) = (entry.lpn, entry.content.clone().expect("a trimmed page does not wait"));
            self.buffer.issue(index);
            let ordered = self.work_from(self.now);
            let version = served(self.ftl.write(lpn));
            self.contents.keep(version, content);
            self.gain_since(ordered);
            self.give(Waits::Eviction(index));
        }
    }

    fn give(&mut self, waits: Waits) {
        self.given.push_back(Given { changes: self.ftl.flash().ordered(), waits });
    }

    /// Ends what has happened in flash.
    pub(super) fn settle(&mut self) {
        let happened = self.ftl.flash().happened();
        while let Some(given) = self.given.pop_front_if(|given| given.changes <= happened) {
            match given.waits {
                Waits::Eviction(index) => {
                    let lpn = self.buffer.entry(index).lpn;
                    let settled = self.buffer.settle(index, true);
                    self.satisfy(lpn, settled.version);
                }
                Waits::Trim { slot, newest } => self.trimmed(slot, newest),
            }
            self.advance_flushes();
            self.admit_arrived();
        }
    }

    /// A TRIM has happened, and with it every FUA write that it made void.
    fn trimmed(&mut self, slot: u32, newest: u64) {
        let range = self.trimmed_by(slot);
        let mut void: Vec<u32> = self.waiting_for.keys().copied().filter(|lpn| range.contains(lpn)).collect();
        void.sort_unstable();
        void.into_iter().for_each(|lpn| self.satisfy(lpn, newest));
        self.host.at(self.now + self.model.timing.trim, slot, Step::Done);
    }

    /// The pages that a TRIM under way names.
    pub(super) fn trimmed_by(&self, slot: u32) -> Range<u32> {
        let Operation::Trim { start, count } = self.host.request(slot).operation else { unreachable!("it is a TRIM") };
        start.0 as u32..(start.0 + count) as u32
    }

    /// Tells those who wait for `lpn` that `version` of it is in flash.
    fn satisfy(&mut self, lpn: u32, version: u64) {
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

    /// FLUSH: drains what is in the buffer now. What has left it is durable.
    pub(super) fn flush(&mut self, slot: u32) {
        if self.model.has_capacitor {
            return self.host.at(self.now + self.model.timing.flush, slot, Step::Done);
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
            self.host.at(self.now + self.model.timing.flush, slot, Step::Done);
        }
    }

    /// TRIM: drops what it covers, in the buffer too; durable when it ends. A page that is on its way to flash leaves a
    /// tombstone in the buffer: the layer trims it behind that.
    pub(super) fn trim(&mut self, slot: u32, start: u32, count: u32) {
        let covered = |lpn: &u32| (start..start + count).contains(lpn);
        let mut buffered: Vec<u32> = self.buffer.entries().map(|entry| entry.lpn).filter(covered).collect();
        buffered.sort_unstable();
        for lpn in buffered {
            let index = self.buffer.find(lpn).expect("just seen");
            if self.buffer.entry(index).issued > 0 {
                self.buffer.put(lpn, None, false);
            } else {
                self.buffer.drop_waiting(index);
            }
        }
        let ordered = self.work_from(self.now);
        served(self.ftl.trim(start, count));
        self.gain_since(ordered);
        self.give(Waits::Trim { slot, newest: self.buffer.newest_ticket() });
        self.settle();
        self.advance_flushes();
        self.admit_arrived();
    }
}
