//! Power cut: the effect of operations under way on flash, and the state that a capacitor saves.
//!
//! After a cut a page under program is blank, torn or whole; a block under erase is as before, torn or blank. Chance
//! decides. Everything else outside the flash is lost. A capacitor, if there is one, saves the buffer and the dirty
//! map.

use onewrite_block::{Choices, Page};

use super::Ssd;
use super::die::{Activity, Suspended};
use super::dump::Dump;
use super::log_page::{Content, LogPage, SEGMENT_ENTRIES};
use super::mapping::Record;
use super::model::MapLogKind;
use super::oob::Oob;
use crate::address::{FlashBlock, Lpn, each};

/// The effect of an interrupted operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Before,
    Torn,
    After,
}

fn choose(choices: &mut Choices) -> Leaves {
    [Leaves::Before, Leaves::Torn, Leaves::After][choices.index(3)]
}

impl Ssd {
    /// Cuts the power; see the module's head.
    pub(super) fn cut_power(&mut self, choices: &mut Choices) {
        self.is_dark = true;
        self.is_cut = true;
        if self.model.has_capacitor && self.dump.is_none() {
            onewrite_block::reached!("capacitor saves the buffer");
            self.dump = Some(self.save());
        }
        for die in 0..self.dies.len() {
            self.interrupt(die, choices);
        }
        self.host.clear();
    }

    fn save(&self) -> Dump {
        let mut entries: Vec<_> = self.buffer.entries().collect();
        entries.sort_by_key(|entry| entry.ticket);
        let buffered = entries.into_iter().map(|entry| (entry.lpn, entry.content.clone())).collect();
        let mut lpns = self.map.dirty().to_vec();
        lpns.extend(self.unlogged().into_iter().map(|record| record.lpn));
        lpns.sort_unstable();
        lpns.dedup();
        Dump { buffered, dirty: lpns.into_iter().map(|lpn| self.map.record(lpn)).collect() }
    }

    /// Records of the batch under way that are not durable yet.
    fn unlogged(&self) -> Vec<Record> {
        let decode = |page: &Page| LogPage::decode(&page.bytes()).map(|page| page.content);
        let writing = self.dies.iter().filter_map(|die| die.map_page.as_ref()).filter_map(decode);
        let contents = writing.chain(self.log.pages.iter().cloned());
        let records = contents.map(|content| match content {
            Content::Records(records) | Content::Sealed(_, records) => records,
            Content::Segment(segment, entries) => self.segment_records(segment, entries.len()),
        });
        records.flatten().collect()
    }

    /// Records of a segment of the batch under way, whose changes are nowhere else.
    fn segment_records(&self, segment: u32, count: usize) -> Vec<Record> {
        if self.model.map_log == MapLogKind::Records {
            return Vec::new();
        }
        let start = Lpn(segment * SEGMENT_ENTRIES as u32);
        each(start.run(count as u32)).map(|lpn| self.map.record(lpn)).collect()
    }

    fn interrupt(&mut self, die: usize, choices: &mut Choices) {
        let mut block = self.dies[die].block;
        let mut activity = std::mem::replace(&mut self.dies[die].activity, Activity::Idle);
        if let Some(Suspended { activity: interrupted, block: its_block, .. }) = self.dies[die].suspended.take() {
            onewrite_block::reached!("cut while an operation is suspended");
            (activity, block) = (interrupted, Some(its_block));
        }
        let Some(block) = block else { return };
        onewrite_block::reached!("cut inside an erase", matches!(activity, Activity::Erase | Activity::LogErase));
        onewrite_block::reached!("cut inside a program of the map log", activity == Activity::MapProgram);
        onewrite_block::reached!("cut inside a program", activity == Activity::Program);
        match activity {
            Activity::Idle | Activity::ReadArray | Activity::ReadBus => (),
            Activity::Program => {
                let cargo = std::mem::take(&mut self.dies[die].cargo);
                let pages = cargo.into_iter().map(|cargo| (cargo.oob(), cargo.content)).collect();
                self.interrupt_program(block, pages, choices);
            }
            Activity::MapProgram => {
                let content = self.dies[die].map_page.take().expect("a map page is being programmed");
                self.interrupt_program(block, vec![(Oob::map(self.log.next_number), content)], choices);
            }
            Activity::Erase | Activity::LogErase => match choose(choices) {
                Leaves::Before => (),
                Leaves::Torn => self.flash.tear_block(block),
                Leaves::After => self.flash.erase(block),
            },
        }
    }

    fn interrupt_program(&mut self, block: FlashBlock, pages: Vec<(Oob, Page)>, choices: &mut Choices) {
        let fates: Vec<Leaves> = pages.iter().map(|_| choose(choices)).collect();
        let reached = fates.iter().rposition(|&fate| fate != Leaves::Before).map_or(0, |last| last + 1);
        onewrite_block::reached!("row programmed in part", reached > 0 && reached < fates.len());
        onewrite_block::reached!("program torn", fates.contains(&Leaves::Torn));
        for ((oob, content), fate) in pages.into_iter().zip(fates).take(reached) {
            match fate {
                Leaves::After => self.flash.program(block, content, oob),
                _ => self.flash.program(block, Page::ZEROS, Oob::TORN),
            }
        }
    }
}
