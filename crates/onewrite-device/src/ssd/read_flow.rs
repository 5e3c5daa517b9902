//! Reads: from the buffer, from flash, or zeros where nothing was written.
//!
//! The content of a page is settled when the command is understood; the die then only takes its time. So a page that
//! moves meanwhile needs no pin, and a read under way may give old or new content, as the contract allows.

use onewrite_block::{Operation, PAGE_SIZE, Page};

use super::Ssd;
use super::die::ReadJob;
use super::faults::MediumOperation;
use super::host::Step;
use super::mapping::{LOST, NONE};
use super::nand::Oob;

/// Where the newest content of a page is.
enum Found {
    Here(Page),
    Flash(u32),
    Lost,
}

impl Ssd {
    /// The controller has understood a request.
    pub(super) fn decoded(&mut self, slot: u32) {
        let request = self.host.request(slot);
        let refused = self.model.geometry.admit(request).err().or_else(|| self.refusal(&request.operation));
        if let Some(error) = refused {
            self.host.active(slot).error = Some(error);
            return self.finish(slot);
        }
        self.counters.count(request);
        match request.operation {
            Operation::Read { start, count } => self.read(slot, start.0 as u32, count),
            Operation::Write { ref pages, .. } => self.receive(slot, pages.len() as u64),
            Operation::Flush => self.flush(slot),
            Operation::Trim { start, count } => self.trim(slot, start.0 as u32, count as u32),
            Operation::Share(_) => self.share(slot),
        }
    }

    fn find(&self, lpn: u32) -> Found {
        if let Some(index) = self.buffer.find(lpn) {
            return Found::Here(self.buffer.entry(index).content.clone().unwrap_or(Page::ZEROS));
        }
        match self.map.get(lpn) {
            NONE => Found::Here(Page::ZEROS),
            LOST => Found::Lost,
            ppn => Found::Flash(ppn),
        }
    }

    fn read(&mut self, slot: u32, start: u32, count: u32) {
        let mut pages = Vec::with_capacity(count as usize);
        let mut pending = 0;
        for lpn in start..start + count {
            match self.find(lpn) {
                Found::Here(page) => pages.push(page),
                Found::Flash(ppn) => {
                    pages.push(self.sense(slot, lpn, ppn));
                    pending += 1;
                }
                Found::Lost => {
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

    /// Lets a die read a page and gives what it will find.
    fn sense(&mut self, slot: u32, lpn: u32, ppn: u32) -> Page {
        let (block, page) = self.model.shape.place(ppn);
        let found = self.flash.page(block, page).expect("a mapped page is programmed");
        assert_ne!(found.oob.lpn, Oob::TORN, "page {lpn} is mapped to a torn flash page");
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
    pub(super) fn page_read(&mut self, slot: u32) {
        let active = self.host.active(slot);
        active.pending -= 1;
        if active.pending == 0 {
            self.send(slot);
        }
    }

    /// Sends the pages of a read to the host.
    fn send(&mut self, slot: u32) {
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
        self.host.at(end, slot, Step::Done);
    }

    /// Counts pages sensed in flash.
    pub(super) fn count_flash_reads(&mut self, pages: u64) {
        self.counters.flash_read_bytes += pages * PAGE_SIZE as u64;
    }
}
