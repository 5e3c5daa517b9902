//! Schedule: chooses the next operation of a die, and handles its end.
//!
//! Order at an idle die: pages of the map log (others wait for them), reads of the host, then collector and host
//! programs in turn. If free blocks run out, the collector runs alone. Each operation holds the die to its end. Pages
//! cross the channel one operation after another.

use onewrite_block::Page;

use super::Ssd;
use super::die::{Activity, Cargo, Origin, Stream, Suspended};
use super::faults::MediumOperation;
use super::log_page::LogPage;
use super::mapping::Move;
use super::model::{RESERVED_BLOCKS, SUSPENSIONS_MAX};
use super::oob::Oob;
use crate::address::FlashBlock;

impl Ssd {
    /// Gives work to every idle die. The die after the one that last got host pages comes first.
    pub(super) fn start_dies(&mut self) {
        let count = self.dies.len();
        for step in 1..=count {
            let die = (self.last_die + step) % count;
            if self.idle >> die & 1 == 1 {
                self.start_die(die);
            }
        }
    }

    /// Starts the dies that got a page or an erase of the map log meanwhile.
    pub(super) fn start_kicked(&mut self) {
        while self.kicked != 0 {
            let die = self.kicked.trailing_zeros() as usize;
            self.kicked &= self.kicked - 1;
            self.start_die(die);
        }
    }

    /// Gives work to a die, if it is idle and there is work.
    pub(super) fn start_die(&mut self, die: usize) {
        if self.idle >> die & 1 == 0 {
            return;
        }
        if self.dies[die].suspended.is_some() && self.dies[die].reads.is_empty() {
            return self.resume(die);
        }
        if self.dies[die].suspended.is_none() && self.dies[die].map_page.is_some() {
            return self.begin_map_program(die);
        }
        if self.dies[die].suspended.is_none()
            && let Some(block) = self.dies[die].log_erase.take()
        {
            return self.begin(die, Activity::LogErase, Some(block), self.now + self.model.timing.erase);
        }
        if !self.dies[die].reads.is_empty() {
            return self.begin_host_read(die);
        }
        let wants_collector = self.wants_collector(die);
        let collector_first = !self.dies[die].collector_went_last || self.blocks.free(die).len() <= RESERVED_BLOCKS;
        if wants_collector && collector_first && self.collect(die) {
            self.dies[die].collector_went_last = true;
        } else if self.begin_host_program(die) {
            self.dies[die].collector_went_last = false;
        } else if wants_collector && !collector_first {
            self.collect(die);
        }
    }

    /// Interrupts a program or erase of a die for a waiting read, if its flash can.
    pub(super) fn suspend(&mut self, die: usize) {
        let state = &mut self.dies[die];
        let can =
            matches!(state.activity, Activity::Program | Activity::Erase | Activity::MapProgram | Activity::LogErase)
                && state.array_start <= self.now
                && self.now < state.end
                && state.suspensions < SUSPENSIONS_MAX;
        if self.model.timing.suspend.is_none() || !can {
            return;
        }
        let (activity, block, left) = (state.activity, state.block(), state.end - self.now);
        onewrite_block::reached!("program or erase suspended by a read");
        state.suspended = Some(Suspended { activity, block, left });
        state.suspensions += 1;
        self.rest(die);
    }

    fn resume(&mut self, die: usize) {
        let Suspended { activity, block, left } = self.dies[die].suspended.take().expect("something is interrupted");
        let overhead = self.model.timing.suspend.unwrap_or(0);
        self.begin(die, activity, Some(block), self.now + overhead + left);
    }

    /// Starts an operation of a die: a program or erase on `block`, or a read. It ends (or continues) at `moment`.
    pub(super) fn begin(&mut self, die: usize, activity: Activity, block: Option<FlashBlock>, moment: u64) {
        if self.recorded.is_some() {
            self.note_operation(die, activity, moment);
        }
        self.idle &= !(1 << die);
        let state = &mut self.dies[die];
        (state.activity, state.block, state.end) = (activity, block, moment);
        self.timeline.set(die, moment);
    }

    fn rest(&mut self, die: usize) {
        self.idle |= 1 << die;
        self.dies[die].activity = Activity::Idle;
        self.timeline.set(die, super::events::NEVER);
    }

    /// Reserves the channel of a die for `pages` pages; returns the moment at which they have crossed it.
    fn cross_channel(&mut self, die: usize, pages: u32) -> u64 {
        let channel = &mut self.channels[self.model.shape.channel_of(die)];
        *channel = (*channel).max(self.now) + u64::from(pages) * self.model.timing.channel_page;
        self.dies[die].array_start = *channel;
        *channel
    }

    fn begin_map_program(&mut self, die: usize) {
        let head = self.log.head().expect("a map page waits for the head");
        let end = self.cross_channel(die, 1) + self.model.program_time(self.flash.programmed(head));
        self.begin(die, Activity::MapProgram, Some(head), end);
    }

    /// Senses the next host page, and the next ones in the queue if they are in the same row of all planes.
    fn begin_host_read(&mut self, die: usize) {
        let planes = self.model.shape.planes;
        let die_state = &mut self.dies[die];
        let row = die_state.reads[0].ppn.0 / planes;
        while let Some(job) = die_state.reads.front() {
            if job.ppn.0 / planes != row || die_state.reading.len() == planes as usize {
                break;
            }
            die_state.reading.push(*job);
            die_state.reads.pop_front();
        }
        self.begin(die, Activity::ReadArray, None, self.now + self.model.timing.read);
    }

    /// Programs pages that are due to leave the buffer; false if there are none or no block takes them.
    fn begin_host_program(&mut self, die: usize) -> bool {
        let planes = u64::from(self.model.shape.planes);
        if !self.buffer.is_due_in_groups(planes) {
            return false;
        }
        let is_tight = self.blocks.free(die).len() <= self.model.collect_below;
        if is_tight && self.blocks.is_fuller_than_others(die) {
            onewrite_block::reached!("host writes left to emptier dies");
            return false;
        }
        let Some(block) = self.open_front(die, Stream::Host) else { return false };
        let room = self.room_in_row(block);
        self.load_from_buffer(die, room);
        self.dies[die].stream = Stream::Host;
        if self.begin_program(die, block) {
            self.last_die = die;
            return true;
        }
        // Tombstones may have left the buffer; only this code can notify the requests that wait for that.
        self.advance_flushes();
        self.admit_arrived();
        self.write_log();
        false
    }

    /// Pages that fit the current row of a block.
    pub(super) fn room_in_row(&self, block: FlashBlock) -> u32 {
        let planes = self.model.shape.planes;
        planes - self.flash.programmed(block) % planes
    }

    /// Programs the cargo of the die; false if it has none.
    pub(super) fn begin_program(&mut self, die: usize, block: FlashBlock) -> bool {
        let pages = self.dies[die].cargo.len() as u32;
        if pages == 0 {
            return false;
        }
        let end = self.cross_channel(die, pages) + self.model.program_time(self.flash.programmed(block));
        self.begin(die, Activity::Program, Some(block), end);
        true
    }

    /// The event of a die at its set moment.
    pub(super) fn die_event(&mut self, die: usize) {
        if !matches!(self.dies[die].activity, Activity::ReadArray | Activity::ReadBus) {
            self.dies[die].suspensions = 0;
        }
        match self.dies[die].activity {
            Activity::Idle => unreachable!("an idle die has no event"),
            Activity::ReadArray => self.sensed(die),
            Activity::ReadBus => self.read_ended(die),
            Activity::Program => self.program_ended(die),
            Activity::MapProgram => self.map_program_ended(die),
            Activity::Erase => self.erase_ended(die),
            Activity::LogErase => self.log_erase_ended(die),
        }
    }

    fn sensed(&mut self, die: usize) {
        let pages = self.dies[die].reading.len() as u32 + self.dies[die].sensing;
        let end = self.cross_channel(die, pages);
        self.begin(die, Activity::ReadBus, None, end);
    }

    fn read_ended(&mut self, die: usize) {
        let pages = self.dies[die].reading.len() + std::mem::take(&mut self.dies[die].sensing) as usize;
        self.count_flash_reads(pages as u64);
        self.rest(die);
        let mut jobs = std::mem::take(&mut self.dies[die].reading);
        jobs.drain(..).for_each(|job| self.page_read(job.slot));
        self.dies[die].reading = jobs;
        self.start_die(die);
    }

    fn program_ended(&mut self, die: usize) {
        let block = self.dies[die].block();
        let mut cargo = std::mem::take(&mut self.dies[die].cargo);
        self.count_programs(cargo.len() as u64);
        self.rest(die);
        let mut has_failed = false;
        for cargo in cargo.drain(..) {
            if self.fails(MediumOperation::Program) {
                has_failed = true;
                self.put_back(die, block, &cargo);
            } else {
                self.land(block, cargo);
            }
        }
        self.dies[die].cargo = cargo;
        if has_failed {
            self.program_failed(die, block);
        } else if self.flash.is_full(block) {
            self.open_front(die, self.dies[die].stream);
        }
        if self.dies[die].stream == Stream::Host {
            self.advance_flushes();
            self.admit_arrived();
        }
        self.log.is_wanted |= !self.log.shares.is_empty();
        self.write_log();
        self.start_dies();
    }

    /// A page is in flash.
    fn land(&mut self, block: FlashBlock, cargo: Cargo) {
        let ppn = self.model.shape.ppn(block, self.flash.programmed(block));
        let oob = cargo.oob();
        self.flash.program(block, cargo.content, oob);
        match cargo.origin {
            Origin::Buffer(entry) => self.evicted(cargo.lpn, entry, ppn),
            Origin::Flash(source) => self.moved(cargo.lpn, Move { source, target: ppn }),
        }
    }

    /// A page could not be programmed. It is torn; its source still exists.
    fn put_back(&mut self, die: usize, block: FlashBlock, cargo: &Cargo) {
        self.flash.program(block, Page::ZEROS, Oob::TORN);
        self.locked.remove(cargo.lpn.index());
        match cargo.origin {
            Origin::Buffer(entry) => self.buffer.program_failed(entry),
            Origin::Flash(source) => self.dies[die].moves.push(source),
        }
    }

    fn map_program_ended(&mut self, die: usize) {
        let block = self.dies[die].block();
        let page = self.dies[die].map_page.take().expect("a map page is being programmed");
        let decoded = LogPage::decode(&page.bytes()).expect("our own log page");
        self.count_programs(1);
        self.rest(die);
        if self.fails(MediumOperation::Program) {
            self.flash.program(block, Page::ZEROS, Oob::TORN);
            self.log.is_writing = false;
            self.log.pages.push_front(decoded.content);
        } else {
            self.flash.program(block, page, Oob::map(decoded.number));
            self.log_page_written(&decoded.content);
        }
        self.write_log();
        self.start_dies();
    }

    fn erase_ended(&mut self, die: usize) {
        let block = self.dies[die].block();
        self.rest(die);
        if self.fails(MediumOperation::Erase) {
            self.erase_failed(block);
        } else {
            self.flash.erase(block);
            self.blocks.release(block);
            self.counters.erases += 1;
            self.note_erase(die);
        }
        self.start_dies();
    }

    fn log_erase_ended(&mut self, die: usize) {
        let block = self.dies[die].block();
        self.rest(die);
        self.log.erasing = None;
        if self.fails(MediumOperation::Erase) {
            self.erase_failed(block);
        } else {
            self.flash.erase(block);
            self.counters.erases += 1;
            self.log.blank.insert(0, block);
        }
        self.reclaim_log();
        self.write_log();
        self.start_dies();
    }
}
