//! Power cut: what the operations under way leave in flash, and what a capacitor saves.
//!
//! A page being programmed is afterwards blank, torn or whole; a block being erased is as before, torn or blank; which
//! of them is chance. Everything else that is not in flash is gone, unless a capacitor had the time to dump the buffer
//! and the dirty map.

use onewrite_block::{Choices, Page};

use super::Ssd;
use super::die::{Activity, Cargo};
use super::log_page::{Content, LogPage, Record};
use super::mapping::NONE;
use super::nand::Oob;

/// What a capacitor saves.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    /// Pages of the buffer in the order of their last write; `None` for a trim that was not carried out yet.
    pub(crate) buffered: Vec<(u32, Option<Page>)>,
    /// Changes of the map that the log does not hold.
    pub(crate) dirty: Vec<(u32, u32)>,
}

/// What an interrupted operation leaves.
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
        let mut lpns: Vec<u32> = self.map.dirty().map(|(lpn, _)| lpn).collect();
        lpns.extend(self.unlogged().into_iter().map(|(lpn, _)| lpn));
        lpns.sort_unstable();
        lpns.dedup();
        Dump { buffered, dirty: lpns.into_iter().map(|lpn| (lpn, self.map.get(lpn))).collect() }
    }

    /// Records of the batch under way that are not durable yet.
    fn unlogged(&self) -> Vec<Record> {
        let decode = |page: &Page| LogPage::decode(&page.bytes()).map(|page| page.content);
        let writing = self.dies.iter().filter_map(|die| die.map_page.as_ref()).filter_map(decode);
        let contents = writing.chain(self.log.pages.iter().cloned());
        let records = contents.map(|content| match content {
            Content::Records(records) | Content::Sealed(_, records) => records,
            Content::Segment(..) => Vec::new(),
        });
        records.flatten().collect()
    }

    fn interrupt(&mut self, die: usize, choices: &mut Choices) {
        let mut block = self.dies[die].block;
        let mut activity = std::mem::replace(&mut self.dies[die].activity, Activity::Idle);
        if let Some((interrupted, its_block, _)) = self.dies[die].suspended.take() {
            (activity, block) = (interrupted, its_block);
        }
        match activity {
            Activity::Idle | Activity::ReadArray | Activity::ReadBus => (),
            Activity::Program => {
                let cargo = std::mem::take(&mut self.dies[die].cargo);
                self.interrupt_program(block, cargo, choices);
            }
            Activity::MapProgram => {
                let content = self.dies[die].map_page.take().expect("a map page is being programmed");
                let oob = Oob::map(self.log.next_number);
                self.interrupt_program(block, vec![Cargo { content, oob, source: NONE, entry: NONE }], choices);
            }
            Activity::Erase | Activity::LogErase => match choose(choices) {
                Leaves::Before => (),
                Leaves::Torn => self.flash.tear_block(block),
                Leaves::After => self.flash.erase(block),
            },
        }
    }

    fn interrupt_program(&mut self, block: u32, cargo: Vec<Cargo>, choices: &mut Choices) {
        let fates: Vec<Leaves> = cargo.iter().map(|_| choose(choices)).collect();
        let reached = fates.iter().rposition(|&fate| fate != Leaves::Before).map_or(0, |last| last + 1);
        for (cargo, fate) in cargo.into_iter().zip(fates).take(reached) {
            match fate {
                Leaves::After => self.flash.program(block, cargo.content, cargo.oob),
                _ => self.flash.program(block, Page::ZEROS, Oob::torn()),
            }
        }
    }
}
