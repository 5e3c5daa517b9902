//! Clock: estimates the times of flash operations. Each die and each channel is busy until a time; it has no other
//! state.
//!
//! A block of the translation layer spans all dies. A *row* is the pages that a die takes at once (planes, large flash
//! pages). The first row of a block is on the first die, the next row on the second. An erase takes all dies. The first
//! page of a row senses or programs the row. Further pages of it only cross the channel, because the controller gathers
//! rows in its buffer, whatever happens between. Operations of one request depend on each other only through the dies
//! that they share.

use crate::address::FlashBlock;
use crate::ssd::model::Timing;
use crate::ssd::shape::Shape;

/// A row of a block: the pages that a die takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    block: FlashBlock,
    /// Its index among the rows of this block on its die.
    number: u32,
}

#[derive(Clone, Copy, Debug)]
struct Die {
    busy_until: u64,
    /// The row sensed last.
    read: Option<Row>,
    /// The row programmed last.
    programmed: Option<Row>,
}

/// See the module's head. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    timing: Timing,
    planes: u32,
    dies: Vec<Die>,
    channels: Vec<u64>,
    begin: u64,
    end: u64,
    last: u64,
}

impl Clock {
    /// The clock of flash of this shape.
    pub(crate) fn new(timing: Timing, shape: &Shape) -> Clock {
        let die = Die { busy_until: 0, read: None, programmed: None };
        Clock {
            timing,
            planes: shape.planes,
            dies: vec![die; shape.dies as usize],
            channels: vec![0; shape.channels as usize],
            begin: 0,
            end: 0,
            last: 0,
        }
    }

    /// Assigns the following operations to a request that the flash may start at `time`.
    pub(crate) fn begin(&mut self, time: u64) {
        self.begin = time;
        self.end = time;
    }

    /// The time at which the last operation of the present request ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The time at which the most recent operation ends.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    fn ends(&mut self, time: u64) {
        self.last = time;
        self.end = self.end.max(time);
    }

    /// The time at which all work has ended.
    pub(crate) fn rest(&self) -> u64 {
        self.dies.iter().map(|die| die.busy_until).fold(self.end, u64::max)
    }

    /// The power failed: no operation is under way.
    pub(crate) fn stop(&mut self) {
        self.dies.iter_mut().for_each(|die| die.busy_until = 0);
        self.channels.fill(0);
        self.forget_rows();
    }

    /// Forgets the rows that the controller gathered.
    pub(crate) fn forget_rows(&mut self) {
        self.dies.iter_mut().for_each(|die| (die.read, die.programmed) = (None, None));
    }

    fn row(&self, block: FlashBlock, offset: u32) -> (usize, Row) {
        let stripe = offset / self.planes;
        let dies = self.dies.len() as u32;
        ((stripe % dies) as usize, Row { block, number: stripe / dies })
    }

    fn channel(&self, die: usize) -> usize {
        die % self.channels.len()
    }

    pub(crate) fn read(&mut self, block: FlashBlock, offset: u32) {
        let (die, row) = self.row(block, offset);
        let channel = self.channel(die);
        let state = &mut self.dies[die];
        let mut time = self.begin.max(state.busy_until);
        if state.read != Some(row) {
            time += self.timing.read;
            state.read = Some(row);
        }
        time = time.max(self.channels[channel]) + self.timing.channel_page;
        self.channels[channel] = time;
        state.busy_until = time;
        self.ends(time);
    }

    /// Reads an out-of-band area. It senses the row if that was not the last one; a few bytes cross the channel in no
    /// time.
    pub(crate) fn read_area(&mut self, block: FlashBlock, offset: u32) {
        let (die, row) = self.row(block, offset);
        let state = &mut self.dies[die];
        let mut time = self.begin.max(state.busy_until);
        if state.read != Some(row) {
            time += self.timing.read;
            state.read = Some(row);
        }
        state.busy_until = time;
        self.ends(time);
    }

    pub(crate) fn program(&mut self, block: FlashBlock, offset: u32) {
        let (die, row) = self.row(block, offset);
        let channel = self.channel(die);
        let state = &mut self.dies[die];
        let mut time = self.begin.max(state.busy_until).max(self.channels[channel]) + self.timing.channel_page;
        self.channels[channel] = time;
        if state.programmed != Some(row) {
            time += self.timing.program[row.number as usize % self.timing.program.len()];
            state.programmed = Some(row);
        }
        state.busy_until = time;
        self.ends(time);
    }

    pub(crate) fn erase(&mut self, block: FlashBlock) {
        let mut time = 0;
        for die in &mut self.dies {
            die.busy_until = self.begin.max(die.busy_until) + self.timing.erase;
            time = time.max(die.busy_until);
            die.read.take_if(|row| row.block == block);
            die.programmed.take_if(|row| row.block == block);
        }
        self.ends(time);
    }
}
