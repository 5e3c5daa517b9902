//! Recovery: rebuilds all volatile state from the flash. It writes nothing except erases of torn log blocks.
//!
//! 1. It reads all pages of the map log in the order of their numbers. Records change the map; a segment replaces a
//!    piece of it; the last seal names the open blocks.
//! 2. It reads the out-of-band areas of the open blocks' pages that the seal does not cover. A page counts if its
//!    version is newer than the version of the page in the map.
//!    A device without such hints (`Geometry::oob_hints`) skips this step: it loses pages that the map log does not
//!    name.
//! 3. It loads the state that a capacitor saved.
//!
//! The scan cannot undo a durable trim or half a SHARE. The running device ensures this: while a version of a logical
//! page is under program, that page is not trimmed and is no target of a SHARE. So every page beyond a seal is newer
//! than the seal's map (or it is a moved copy, which has the same version and loses).
//!
//! Recovery writes nothing, so after a cut at any step it can start again.

use onewrite_block::{DeviceError, Nanos, RecoveryReport};

use super::Ssd;
use super::blocks::{BlockState, Blocks};
use super::buffer::{Buffer, Urgency};
use super::cow::BitSet;
use super::die::{Die, Emptied, Front};
use super::events::Timeline;
use super::log_page::{Content, LogPage, OpenBlock, SEGMENT_ENTRIES};
use super::map_log::{MapLog, UsedBlock};
use super::mapping::{LOST, Mapping, NOTHING, Record};
use super::oob::{Holds, Oob};
use super::stale::Stale;
use crate::address::{FlashBlock, Lpn, MapEntry, Ppn, each, from};

/// The findings in flash, before they become the state of a device.
struct Found {
    /// The map entry of each logical page.
    entries: Vec<MapEntry>,
    /// Logical pages with an entry that the map log does not have.
    changed: Vec<Lpn>,
    open: Vec<OpenBlock>,
    sequence: u64,
    report: RecoveryReport,
    erases: u64,
}

impl Ssd {
    /// See the module's head.
    pub(super) fn power_up(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError> {
        self.now = self.now.max(now.0);
        self.is_dark = false;
        self.armed = self.armed.filter(|point| *point > self.cut_points);
        let mut found = self.found_nothing();
        self.reset_volatile();
        self.replay_log(&mut found)?;
        self.scan_open_blocks(&mut found)?;
        self.take_on(&mut found);
        self.is_cut = false;
        found.report.duration = self.recovery_time(&found);
        self.host.processor_free = self.now + found.report.duration.0;
        if self.dies.iter().any(|die| !die.emptied.is_empty()) {
            self.log.is_wanted = true;
        }
        self.reclaim_log();
        self.write_log();
        self.start_kicked();
        Ok(found.report)
    }

    fn found_nothing(&self) -> Found {
        Found {
            entries: vec![NOTHING; self.model.shape.logical_pages as usize],
            changed: Vec::new(),
            open: Vec::new(),
            sequence: 1,
            report: RecoveryReport::default(),
            erases: 0,
        }
    }

    fn reset_volatile(&mut self) {
        let shape = self.model.shape;
        self.map = Mapping::new(shape.logical_pages, shape.page_numbers());
        self.blocks = Blocks::without_free(shape.block_counts());
        self.log = MapLog::new(shape.log_range(), shape.segments(), shape.pages_per_block);
        let model = &self.model;
        self.buffer = Buffer::new(model.eviction_begins, model.eviction_certain, model.eviction_order());
        self.stale = Stale::default();
        self.locked = BitSet::new(shape.logical_pages as usize);
        self.waiting_for.clear();
        self.host.clear();
        self.dies = (0..shape.dies).map(|_| Die::new()).collect();
        self.channels = vec![self.now; shape.channels as usize];
        self.timeline = Timeline::new(shape.dies as usize);
        self.idle = u64::MAX >> (64 - shape.dies);
    }

    /// A step of recovery is a cut point.
    fn recovery_step(&mut self) -> Result<(), DeviceError> {
        if self.passes_cut_point() { Err(DeviceError::PowerLost) } else { Ok(()) }
    }

    fn replay_log(&mut self, found: &mut Found) -> Result<(), DeviceError> {
        let shape = self.model.shape;
        let mut blocks = Vec::new();
        self.log.blank.clear();
        for block in each(shape.log_range()) {
            if self.flash.is_bad(block) {
                continue;
            }
            self.recovery_step()?;
            let pages = self.log_pages(block, found);
            match pages.first() {
                Some(first) => blocks.push((first.number, block, pages)),
                None => self.blank_log_block(block, found),
            }
        }
        onewrite_block::reached!("map log in several blocks", blocks.len() > 1);
        blocks.sort_by_key(|(number, ..)| *number);
        let Some(mut expected) = blocks.first().map(|(number, ..)| *number) else {
            return Err(self.damaged("the map log is gone".into()));
        };
        for (number, block, pages) in blocks {
            self.log.used.push_back(UsedBlock { block, first_number: number });
            for page in pages {
                if page.number != expected {
                    return Err(self.damaged(format!("page {expected} of the map log is missing")));
                }
                expected += 1;
                self.replay(page, found);
            }
        }
        self.log.next_number = expected;
        Ok(())
    }

    fn damaged(&self, detail: String) -> DeviceError {
        DeviceError::WornOut { device: self.model.geometry.name.clone(), detail }
    }

    fn log_pages(&self, block: FlashBlock, found: &mut Found) -> Vec<LogPage> {
        let count = self.flash.programmed(block);
        found.report.map_pages_read += u64::from(count.max(1));
        onewrite_block::reached!(
            "torn page in the map log",
            (0..count).any(|it| self.flash.page(block, it).is_some_and(|it| it.oob.holds == Holds::Torn))
        );
        let is_whole = |page: &u32| self.flash.page(block, *page).is_some_and(|page| page.oob.holds == Holds::Map);
        let whole = (0..count).filter(is_whole);
        whole.filter_map(|page| LogPage::decode(&self.flash.content(block, page).bytes())).collect()
    }

    fn blank_log_block(&mut self, block: FlashBlock, found: &mut Found) {
        if self.flash.programmed(block) > 0 {
            onewrite_block::reached!("block of the map log without a whole page");
            self.flash.erase(block);
            self.counters.erases += 1;
            found.erases += 1;
        }
        self.log.blank.push(block);
    }

    fn replay(&mut self, page: LogPage, found: &mut Found) {
        found.sequence = found.sequence.max(page.sequence);
        match page.content {
            Content::Records(records) => self.replay_records(&records, found),
            Content::Sealed(open, records) => {
                self.replay_records(&records, found);
                found.open = open;
                self.log.sealed_number = page.number;
            }
            Content::Segment(segment, entries) => {
                let start = segment as usize * SEGMENT_ENTRIES;
                found.entries[start..start + entries.len()].copy_from_slice(&entries);
                self.log.copied[segment as usize] = page.number;
                self.log.touched[segment as usize] = true;
            }
        }
    }

    fn replay_records(&mut self, records: &[Record], found: &mut Found) {
        for record in records {
            found.entries[record.lpn.index()] = record.entry;
            self.log.touched[record.lpn.index() / SEGMENT_ENTRIES] = true;
        }
    }

    fn scan_open_blocks(&mut self, found: &mut Found) -> Result<(), DeviceError> {
        if !self.model.geometry.oob_hints {
            return Ok(());
        }
        let mut candidates = Vec::new();
        for open in found.open.clone() {
            let Some(block) = open.block else { continue };
            self.recovery_step()?;
            found.report.oob_pages_read += 1;
            for page in self.rules.scan_start(open.covered)..self.flash.programmed(block) {
                found.report.oob_pages_read += 1;
                let oob = self.flash.page(block, page).expect("below the number of programmed pages").oob;
                if let Some(lpn) = self.page_in(oob) {
                    candidates.push((oob.sequence, self.model.shape.ppn(block, page), lpn));
                }
            }
        }
        onewrite_block::reached!("pages found by out-of-band hints", !candidates.is_empty());
        candidates.sort_unstable();
        for (sequence, ppn, lpn) in candidates {
            self.consider(sequence, ppn, lpn, found);
        }
        Ok(())
    }

    /// If the version of a page beyond the seal is newer than the known one, takes it as the newest of its logical
    /// page.
    fn consider(&self, sequence: u64, ppn: Ppn, lpn: Lpn, found: &mut Found) {
        found.sequence = found.sequence.max(sequence + 1);
        if let Some(known) = found.entries[lpn.index()].page() {
            found.report.oob_pages_read += 1;
            let (block, page) = self.model.shape.place(known);
            if self.flash.page(block, page).is_some_and(|mapped| mapped.oob.sequence >= sequence) {
                onewrite_block::reached!("hint is older than the map");
                return;
            }
        }
        found.entries[lpn.index()] = MapEntry::at(ppn);
        found.changed.push(lpn);
        found.report.pages_recovered += 1;
    }

    /// Makes the findings the state of the device.
    fn take_on(&mut self, found: &mut Found) {
        self.sequence = found.sequence;
        for (lpn, entry) in from(Lpn(0)).zip(std::mem::take(&mut found.entries)) {
            self.take_entry(lpn, entry, found);
        }
        found.changed.iter().for_each(|&lpn| self.map.mark_dirty(lpn));
        self.load_dump();
        self.take_fronts(&found.open);
        each(self.model.shape.data_range()).for_each(|block| self.sort_out(block));
    }

    /// Maps a logical page to the flash page found; [`LOST`] if that page cannot be read.
    fn take_entry(&mut self, lpn: Lpn, entry: MapEntry, found: &mut Found) {
        match entry.page() {
            None if entry == NOTHING => (),
            None => drop(self.map.point(lpn, LOST)),
            Some(ppn) if self.is_torn(ppn) => {
                onewrite_block::reached!("mapped page is torn");
                found.changed.push(lpn);
                self.map.point(lpn, LOST);
            }
            Some(ppn) => {
                if !self.map.is_valid(ppn) {
                    self.blocks.gain(self.model.shape.block_of(ppn));
                }
                self.map.point(lpn, entry);
            }
        }
    }

    /// The logical page that an out-of-band area names.
    fn page_in(&self, oob: Oob) -> Option<Lpn> {
        match oob.holds {
            Holds::Page(lpn) if lpn.0 < self.model.shape.logical_pages => Some(lpn),
            _ => None,
        }
    }

    /// Whether the page is unreadable although the map log names it.
    fn is_torn(&self, ppn: Ppn) -> bool {
        let (block, page) = self.model.shape.place(ppn);
        self.flash.page(block, page).is_none_or(|found| self.page_in(found.oob).is_none())
    }

    fn take_fronts(&mut self, open: &[OpenBlock]) {
        for (die, open) in open.chunks_exact(4).enumerate() {
            self.dies[die].host = self.take_front(open[0].block, open[1].block);
            self.dies[die].moved = self.take_front(open[2].block, open[3].block);
        }
    }

    /// The blocks of a stream that the seal names and that still take pages.
    fn take_front(&mut self, active: Option<FlashBlock>, next: Option<FlashBlock>) -> Front {
        let usable = |block: &FlashBlock| !self.flash.is_full(*block) && !self.flash.is_bad(*block);
        let (active, next) = (active.filter(usable), next.filter(usable));
        active.into_iter().chain(next).for_each(|block| self.blocks.open(block));
        let is_begun = next.is_some_and(|block| self.flash.programmed(block) > 0);
        onewrite_block::reached!("announced block was begun", is_begun);
        match (active, next) {
            (None, Some(_)) if is_begun => Front { active: next, ..Front::NOTHING },
            _ => Front { active, next, is_announced: next.is_some() },
        }
    }

    /// Finds the role of a block that is not open.
    fn sort_out(&mut self, block: FlashBlock) {
        if self.flash.is_bad(block) {
            return self.sort_out_bad(block);
        }
        if self.blocks.state(block) == BlockState::Open {
            return;
        }
        if self.blocks.valid(block) > 0 {
            return self.blocks.close(block);
        }
        if self.flash.programmed(block) == 0 {
            return self.blocks.release(block);
        }
        onewrite_block::reached!("block emptied and not erased");
        self.blocks.empty(block);
        self.dies[self.model.shape.die_of(block)].emptied.push_back(Emptied { block, batch: 1 });
    }

    fn sort_out_bad(&mut self, block: FlashBlock) {
        if self.blocks.valid(block) == 0 {
            return self.blocks.retire(block);
        }
        self.blocks.close(block);
        self.dies[self.model.shape.die_of(block)].failing.push(block);
    }

    fn load_dump(&mut self) {
        let Some(dump) = self.dump.take() else { return };
        onewrite_block::reached!("buffer that the capacitor saved comes back");
        for Record { lpn, entry } in dump.dirty {
            if let Some(fresh) = entry.page().filter(|ppn| !self.map.is_valid(*ppn)) {
                self.blocks.gain(self.model.shape.block_of(fresh));
            }
            if let Some(stale) = self.map.change(lpn, entry) {
                self.blocks.lose(self.model.shape.block_of(stale));
            }
        }
        for (lpn, content) in dump.buffered {
            self.buffer.put(lpn, content, Urgency::InTurn);
        }
    }

    /// Time of the recovery: log pages are read one after another, out-of-band areas on all dies at once.
    fn recovery_time(&self, found: &Found) -> Nanos {
        let timing = &self.model.timing;
        let one = timing.read + timing.channel_page;
        let scan = found.report.oob_pages_read.div_ceil(u64::from(self.model.shape.dies)) * one;
        Nanos(found.report.map_pages_read * one + scan + found.erases * timing.erase)
    }
}
