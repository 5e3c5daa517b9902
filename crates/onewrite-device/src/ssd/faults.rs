//! Faults: failures of programs, erases and reads of the medium, and the reaction of the device.
//!
//! | fault   | the medium                     | the device                                                           |
//! |---------|--------------------------------|----------------------------------------------------------------------|
//! | program | page torn, block marked bad    | programs the page elsewhere, moves the block's pages away, retires it |
//! | erase   | block marked bad               | retires it                                                           |
//! | read    | page lost for good             | reads of it fail by name until it is written again                   |
//!
//! A failed log page is written again behind the failed one. A log block that cannot be erased leaves the ring. If too
//! few good blocks are left, the device refuses writes with an error; reads continue.

use onewrite_block::{Choices, DeviceError, Operation};

use super::Ssd;
use super::blocks::BlockState;
use super::host::RequestSlot;
use super::mapping::LOST;
use super::shape::WORKING_BLOCKS;
use crate::address::{FlashBlock, Lpn, Ppn, each};

/// An operation of the medium that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumOperation {
    /// Programming a page, counted by page.
    Program,
    /// Erasing a block.
    Erase,
    /// Reading a page of content, counted by page.
    Read,
}

/// The operations of the medium that fail: chosen ones, and random ones.
#[derive(Clone, Debug)]
pub struct MediumFaults {
    /// Operations that fail, by number. Each kind counts from 0.
    pub chosen: Vec<(MediumOperation, u64)>,
    /// One in this many programs fails on average; 0 for none.
    pub program_one_in: u64,
    /// One in this many erases fails on average; 0 for none.
    pub erase_one_in: u64,
    /// One in this many reads fails on average; 0 for none.
    pub read_one_in: u64,
    choices: Choices,
    counts: [u64; 3],
}

impl MediumFaults {
    /// No faults yet. If rates are set, `seed` fixes the random ones.
    pub fn new(seed: u64) -> MediumFaults {
        let choices = Choices::new(seed).stream("medium faults", 0);
        MediumFaults { chosen: Vec::new(), program_one_in: 0, erase_one_in: 0, read_one_in: 0, choices, counts: [0; 3] }
    }

    /// Whether the next operation of this kind fails.
    pub(crate) fn strikes(&mut self, operation: MediumOperation) -> bool {
        let count = &mut self.counts[operation as usize];
        let number = *count;
        *count += 1;
        let one_in = [self.program_one_in, self.erase_one_in, self.read_one_in][operation as usize];
        let by_chance = one_in > 0 && self.choices.chance(1, one_in);
        by_chance || self.chosen.contains(&(operation, number))
    }
}

impl Ssd {
    /// Makes operations of the medium fail from now on.
    pub fn set_faults(&mut self, faults: MediumFaults) {
        self.faults = Some(faults);
    }

    /// Marks a free block bad, like a bad block from the factory. No-op if the block is in use.
    pub fn mark_block_bad(&mut self, block: FlashBlock) {
        if self.model.shape.data_range().contains(&block) && self.blocks.take_block(block) {
            self.flash.mark_bad(block);
            self.blocks.retire(block);
            self.judge_wear();
        }
    }

    /// Whether bad blocks have used up the working blocks.
    pub fn is_worn_out(&self) -> bool {
        self.is_worn_out
    }

    /// Whether an operation of the medium fails now.
    #[inline]
    pub(super) fn fails(&mut self, operation: MediumOperation) -> bool {
        self.faults.as_mut().is_some_and(|faults| faults.strikes(operation))
    }

    /// Retires a block that failed to program. Its valid pages are moved away as soon as possible.
    pub(super) fn program_failed(&mut self, die: usize, block: FlashBlock) {
        if self.flash.is_bad(block) {
            return;
        }
        self.flash.mark_bad(block);
        let state = &mut self.dies[die];
        for front in [&mut state.host, &mut state.moved] {
            if front.active == Some(block) {
                front.active = None;
            }
        }
        self.blocks.close(block);
        self.dies[die].failing.push(block);
        self.judge_wear();
    }

    /// Retires a block that failed to erase.
    pub(super) fn erase_failed(&mut self, block: FlashBlock) {
        self.flash.mark_bad(block);
        if self.model.shape.data_range().contains(&block) {
            self.blocks.retire(block);
        }
        self.judge_wear();
    }

    /// Marks an unreadable page: its content is lost for good.
    pub(super) fn read_failed(&mut self, ppn: Ppn) {
        let (block, page) = self.model.shape.place(ppn);
        self.flash.tear_page(block, page);
        let mut owners = Vec::new();
        self.map.owners(ppn, &mut owners);
        for lpn in owners {
            if self.map.change(lpn, LOST).is_some() {
                self.blocks.lose(block);
            }
        }
    }

    /// Finds out whether the device has enough good blocks.
    pub(super) fn judge_wear(&mut self) {
        let shape = self.model.shape;
        let failing: usize = self.dies.iter().map(|die| die.failing.len()).sum();
        let usable = u64::from(self.blocks.usable()) - failing as u64;
        let needed =
            u64::from(shape.logical_pages.div_ceil(shape.pages_per_block)) + u64::from(shape.dies * WORKING_BLOCKS);
        let log_left = each(shape.log_range()).filter(|&block| !self.flash.is_bad(block)).count() as u32;
        if (usable < needed || log_left < shape.log_blocks.div_ceil(2).max(4)) && !self.is_worn_out {
            self.is_worn_out = true;
            self.fail_writers();
        }
    }

    /// Stops all writes if the file behind the flash has failed.
    pub(super) fn notice_file_errors(&mut self) {
        let Some(message) = self.flash.take_error() else { return };
        let path = self.model.geometry.name.clone();
        self.file_error = Some(DeviceError::Host { path, operation: "flash in a file", message });
        self.is_worn_out = true;
        self.fail_writers();
    }

    /// The error of a device that takes no more writes.
    pub(super) fn worn_out(&self) -> DeviceError {
        if let Some(error) = &self.file_error {
            return error.clone();
        }
        let shape = &self.model.shape;
        let blocks = each(shape.data_range()).chain(each(shape.log_range()));
        let bad = blocks.filter(|&block| self.flash.is_bad(block)).count();
        DeviceError::WornOut { device: self.model.geometry.name.clone(), detail: format!("{bad} blocks are bad") }
    }

    /// Fails all requests that wait for the medium to write.
    fn fail_writers(&mut self) {
        let error = self.worn_out();
        let mut slots: Vec<RequestSlot> = self.host.arriving.drain(..).collect();
        slots.extend(self.host.flushes.drain(..).map(|(slot, _)| slot));
        slots.append(&mut self.log.joiners);
        slots.append(&mut self.log.shares);
        slots.append(&mut self.log.waiters);
        let mut lpns: Vec<Lpn> = self.waiting_for.keys().copied().collect();
        lpns.sort_unstable();
        for lpn in lpns {
            slots.extend(self.waiting_for.remove(&lpn).into_iter().flatten().map(|(slot, _)| slot));
        }
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let active = self.host.active(slot);
            let is_flush = active.request.operation == Operation::Flush;
            active.error = Some(if is_flush { DeviceError::FlushFailed } else { error.clone() });
            self.finish(slot);
        }
    }

    /// The error of a request that a worn-out device refuses.
    pub(super) fn refusal(&self, operation: &Operation) -> Option<DeviceError> {
        match operation {
            _ if !self.is_worn_out => None,
            Operation::Read { .. } => None,
            Operation::Flush => Some(DeviceError::FlushFailed),
            Operation::Write { .. } | Operation::Trim { .. } | Operation::Share(_) => Some(self.worn_out()),
        }
    }

    /// The error of a page that cannot be read.
    pub(super) fn unreadable(lpn: Lpn) -> DeviceError {
        DeviceError::ReadFailed { page: lpn.wide() }
    }

    /// Whether a block still counts for wear and collection.
    pub(super) fn is_in_use(&self, block: FlashBlock) -> bool {
        self.blocks.state(block) != BlockState::Bad
    }
}
