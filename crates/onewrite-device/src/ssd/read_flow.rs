//! Reads: from the buffer, from flash, or zeros if nothing was written.
//!
//! The content of a read is fixed when its command is understood; the die then only takes its time. So a page that
//! moves meanwhile needs no pin. A read under way may give old or new content, as the contract allows.

use std::ops::Range;

use onewrite_block::{Operation, PAGE_SIZE, Page};

use super::Ssd;
use super::die::ReadJob;
use super::faults::MediumOperation;
use super::host::{RequestSlot, RequestStage};
use super::mapping::NOTHING;
use super::oob::Holds;
use crate::address::{Lpn, Ppn, each};

/// Where the newest content of a page is.
enum Found {
    Here(Page),
    Flash(Ppn),
    Lost,
}

impl Ssd {
    /// The controller has understood a request.
    pub(super) fn decoded(&mut self, slot: RequestSlot) {
        let request = self.host.request(slot);
        let refused = self.model.geometry.admit(request).err().or_else(|| self.refusal(&request.operation));
        if let Some(error) = refused {
            self.host.active(slot).error = Some(error);
            return self.finish(slot);
        }
        self.counters.count(request);
        match request.operation {
            Operation::Read { start, count } => self.read(slot, Lpn::of(start).run(count)),
            Operation::Write { ref pages, .. } => self.receive(slot, pages.len() as u64),
            Operation::Flush => self.flush(slot),
            Operation::Trim { start, count } => self.trim(slot, Lpn::of(start).run(count as u32)),
            Operation::Share(_) => self.share(slot),
        }
    }

    fn find(&self, lpn: Lpn) -> Found {
        if let Some(id) = self.buffer.find(lpn) {
            return Found::Here(self.buffer.entry(id).content.clone().unwrap_or(Page::ZEROS));
        }
        let entry = self.map.get(lpn);
        match entry.page() {
            Some(ppn) => Found::Flash(ppn),
            None if entry == NOTHING => Found::Here(Page::ZEROS),
            None => Found::Lost,
        }
    }

    fn read(&mut self, slot: RequestSlot, range: Range<Lpn>) {
        let mut pages = Vec::with_capacity(each(range.clone()).len());
        let mut pending = 0;
        for lpn in each(range) {
            match self.find(lpn) {
                Found::Here(page) => pages.push(page),
                Found::Flash(ppn) => {
                    pages.push(self.sense(slot, lpn, ppn));
                    pending += 1;
                }
                Found::Lost => {
                    onewrite_block::reached!("read of a lost page");
                    pages.push(Page::ZEROS);
                    self.host.active(slot).error = Some(Ssd::unreadable(lpn));
                }
            }
        }
        let active = self.host.active(slot);
        active.pages = pages;
        active.pending = pending;
        if pending == 0 {
            return self.send(slot);
        }
        self.start_dies();
    }

    /// Lets a die read a page; returns the content of the page now.
    fn sense(&mut self, slot: RequestSlot, lpn: Lpn, ppn: Ppn) -> Page {
        let (block, page) = self.model.shape.place(ppn);
        let found = self.flash.page(block, page).expect("a mapped page is programmed");
        assert_ne!(found.oob.holds, Holds::Torn, "page {lpn} is mapped to a torn flash page");
        let content = self.flash.content(block, page);
        let die = self.model.shape.die_of(block);
        self.dies[die].reads.push_back(ReadJob { slot, ppn });
        self.suspend(die);
        if self.fails(MediumOperation::Read) {
            self.read_failed(ppn);
            self.host.active(slot).error = Some(Ssd::unreadable(lpn));
        }
        content
    }

    /// A page of a read has reached the controller.
    pub(super) fn page_read(&mut self, slot: RequestSlot) {
        let active = self.host.active(slot);
        active.pending -= 1;
        if active.pending == 0 {
            self.send(slot);
        }
    }

    /// Sends the pages of a read to the host.
    fn send(&mut self, slot: RequestSlot) {
        let count = self.host.active(slot).pages.len() as u64;
        if self.host.active(slot).error.is_some() {
            return self.finish(slot);
        }
        let start = self.host.outbound_free.max(self.now);
        let end = start + count * self.model.timing.link_page;
        self.host.outbound_free = end;
        if !self.model.timing.link_is_duplex {
            self.host.inbound_free = end;
        }
        self.host.at(end, slot, RequestStage::Done);
    }

    /// Counts pages sensed in flash.
    pub(super) fn count_flash_reads(&mut self, pages: u64) {
        self.counters.flash_read_bytes += pages * PAGE_SIZE as u64;
    }
}
