//! Clock: estimates the times of flash operations. Each die and each channel is busy until a time; it has no other
//! state.
//!
//! A block of the translation layer spans all dies. A *row* is the pages that a die takes at once (planes, large flash
//! pages). The first row of a block is on the first die, the next row on the second. An erase takes all dies. The first
//! page of a row senses or programs the row. Further pages of it only cross the channel, because the controller gathers
//! rows in its buffer, whatever happens between. Operations of one request depend on each other only through the dies
//! that they share.
//!
//! **Reads of the host** wait behind all that a die was given, or, with [`ReadTurn::First`], only for the operation
//! under way, which a flash that suspends interrupts; what waits then ends later by the time of the read. What was
//! ordered keeps the end that it was given: later work of the die bears the delay. What the layer reads for itself
//! (merges, collection) takes its turn.

use std::collections::VecDeque;
use std::ops::Range;

use crate::address::FlashBlock;
use crate::ssd::model::{ReadTurn, SUSPENSIONS_MAX, Timing};
use crate::ssd::shape::Shape;

/// A row of a block: the pages that a die takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    block: FlashBlock,
    /// Its index among the rows of this block on its die.
    number: u32,
}

/// A program or erase that a die was given.
#[derive(Clone, Copy, Debug)]
struct Ordered {
    start: u64,
    end: u64,
    suspensions: u32,
}

#[derive(Clone, Debug)]
struct Die {
    busy_until: u64,
    /// The end of its last read for the host that did not wait its turn.
    read_until: u64,
    /// What it was given, in order; empty if reads wait their turn.
    ordered: VecDeque<Ordered>,
    /// The row sensed last.
    read: Option<Row>,
    /// The row programmed last.
    programmed: Option<Row>,
}

impl Die {
    /// Gives it a program or erase that may start and ends at these times. Forgets those that have ended by `now`.
    fn order(&mut self, Range { start, end }: Range<u64>, read_turn: ReadTurn, now: u64) {
        if read_turn == ReadTurn::First {
            while self.ordered.pop_front_if(|first| first.end <= now).is_some() {}
            self.ordered.push_back(Ordered { start: self.busy_until.max(start), end, suspensions: 0 });
        }
        self.busy_until = end;
    }

    /// The moment at which it can sense for a read that comes at `time` and does not wait its turn.
    fn turn(&mut self, time: u64, suspend: Option<u64>) -> u64 {
        while self.ordered.pop_front_if(|first| first.end <= time).is_some() {}
        let free = self.read_until.max(time);
        let Some(first) = self.ordered.front_mut().filter(|first| first.start <= time) else { return free };
        match suspend {
            Some(overhead) if first.suspensions < SUSPENSIONS_MAX => {
                first.suspensions += 1;
                free.max(time + overhead)
            }
            _ => free.max(first.end),
        }
    }

    /// What waits ends later, after a read that came at `time`, ends at `end` and held the die so long.
    fn delay(&mut self, time: u64, end: u64, lasts: u64) {
        self.read_until = end;
        self.busy_until = self.busy_until.max(time) + lasts;
        for waiting in self.ordered.iter_mut().filter(|waiting| waiting.end > time) {
            waiting.start += if waiting.start > time { lasts } else { 0 };
            waiting.end += if waiting.start > time || waiting.suspensions > 0 { lasts } else { 0 };
        }
    }
}

/// See the module's head. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    timing: Timing,
    planes: u32,
    read_turn: ReadTurn,
    dies: Vec<Die>,
    channels: Vec<u64>,
    /// No later request begins before it.
    now: u64,
    begin: u64,
    /// Whether the present request is a read of the host that goes first.
    is_urgent: bool,
    end: u64,
    last: u64,
}

impl Clock {
    /// The clock of flash of this shape.
    pub(crate) fn new(timing: Timing, shape: &Shape, read_turn: ReadTurn) -> Clock {
        let die = Die { busy_until: 0, read_until: 0, ordered: VecDeque::new(), read: None, programmed: None };
        Clock {
            timing,
            planes: shape.planes,
            read_turn,
            dies: vec![die; shape.dies as usize],
            channels: vec![0; shape.channels as usize],
            now: 0,
            begin: 0,
            is_urgent: false,
            end: 0,
            last: 0,
        }
    }

    /// Promises that no later request begins before `time`. Without it, each program and erase is kept until a read of
    /// the host.
    pub(crate) fn pass(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Assigns the following operations to a request that the flash may start at `time`.
    pub(crate) fn begin(&mut self, time: u64) {
        (self.begin, self.end, self.is_urgent) = (time, time, false);
    }

    /// The same for a read of the host.
    pub(crate) fn begin_read(&mut self, time: u64) {
        self.begin(time);
        self.is_urgent = self.read_turn == ReadTurn::First;
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

    /// Programs and erases that are kept for reads that go first, of the die that has most.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.dies.iter().map(|die| die.ordered.len()).max().unwrap_or(0)
    }

    /// The time at which all work has ended.
    pub(crate) fn rest(&self) -> u64 {
        self.dies.iter().map(|die| die.busy_until).fold(self.end, u64::max)
    }

    /// The power failed: no operation is under way.
    pub(crate) fn stop(&mut self) {
        for die in &mut self.dies {
            (die.busy_until, die.read_until) = (0, 0);
            die.ordered.clear();
        }
        self.channels.fill(0);
        self.now = 0;
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
        if self.is_urgent {
            return self.read_first(die, row);
        }
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

    /// Reads for the host before what waits at the die. The channel is free but for the pages of other such reads.
    fn read_first(&mut self, die: usize, row: Row) {
        let sense = if self.dies[die].read == Some(row) { 0 } else { self.timing.read };
        let (suspend, lasts) = (self.timing.suspend, sense + self.timing.channel_page);
        let channel = self.channel(die);
        let state = &mut self.dies[die];
        let end = state.turn(self.begin, suspend) + lasts;
        state.read = Some(row);
        state.delay(self.begin, end, lasts + suspend.unwrap_or(0));
        self.channels[channel] += self.timing.channel_page;
        self.ends(end);
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
        state.order(self.begin..time, self.read_turn, self.now);
        self.ends(time);
    }

    pub(crate) fn erase(&mut self, block: FlashBlock) {
        let mut time = 0;
        for die in &mut self.dies {
            let end = self.begin.max(die.busy_until) + self.timing.erase;
            die.order(self.begin..end, self.read_turn, self.now);
            time = time.max(die.busy_until);
            die.read.take_if(|row| row.block == block);
            die.programmed.take_if(|row| row.block == block);
        }
        self.ends(time);
    }
}
