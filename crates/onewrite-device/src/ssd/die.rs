//! Die: the state of one flash die, its present operation and its waiting work.
//!
//! A die does one operation at a time. This file holds its possible next work; `schedule` chooses.
//!
//! ```text
//!   Idle ──► ReadArray ──► ReadBus ──► Idle            array first, then the channel when it is free
//!   Idle ──► Program / MapProgram ──► Idle             the channel when it is free, then the array
//!   Idle ──► Erase / LogErase ──► Idle
//! ```

use std::collections::VecDeque;

use onewrite_block::Page;

use super::buffer::EntryId;
use super::host::RequestSlot;
use super::oob::Oob;
use crate::address::{FlashBlock, Lpn, Ppn};

/// The present activity of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing.
    Idle,
    /// Senses pages.
    ReadArray,
    /// Sends sensed pages over its channel.
    ReadBus,
    /// Receives and programs pages of content.
    Program,
    /// Receives and programs a page of the map log.
    MapProgram,
    /// Erases a data block.
    Erase,
    /// Erases a block of the map log.
    LogErase,
}

/// Kinds of pages; a block never mixes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Pages that the host wrote.
    Host,
    /// Pages that the collector moves.
    Moved,
}

/// The origin of a page on its way into flash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// From this entry of the buffer.
    Buffer(EntryId),
    /// A copy of this flash page.
    Flash(Ppn),
}

/// A page on its way into flash.
#[derive(Clone, Debug)]
pub(crate) struct Cargo {
    pub(crate) content: Page,
    /// The logical page in its out-of-band area.
    pub(crate) lpn: Lpn,
    /// Its version.
    pub(crate) sequence: u64,
    pub(crate) origin: Origin,
}

impl Cargo {
    /// The content of its out-of-band area.
    pub(crate) fn oob(&self) -> Oob {
        Oob::page(self.lpn, self.sequence)
    }
}

/// A page that the host waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    /// The request.
    pub(crate) slot: RequestSlot,
    /// The flash page.
    pub(crate) ppn: Ppn,
}

/// The blocks that take the pages of one stream on one die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// The block that takes pages now.
    pub(crate) active: Option<FlashBlock>,
    /// The block that takes pages next, if already chosen.
    pub(crate) next: Option<FlashBlock>,
    /// Whether the durable map log names `next`. Otherwise recovery would not look into it.
    pub(crate) is_announced: bool,
}

impl Front {
    /// No block at all.
    pub(crate) const NOTHING: Front = Front { active: None, next: None, is_announced: false };
}

/// A block that is being collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    /// The block.
    pub(crate) block: FlashBlock,
    /// Pages below this index are done.
    pub(crate) cursor: u32,
}

/// A block without valid pages that waits for its erase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptied {
    pub(crate) block: FlashBlock,
    /// The batch of the map log that must be durable first.
    pub(crate) batch: u64,
}

/// A program or erase that a read interrupted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspended {
    pub(crate) activity: Activity,
    pub(crate) block: FlashBlock,
    /// Remaining time, ns.
    pub(crate) left: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Die {
    pub(crate) activity: Activity,
    /// The block of the program or erase.
    pub(crate) block: Option<FlashBlock>,
    /// Pages being programmed.
    pub(crate) cargo: Vec<Cargo>,
    /// The stream of the pages under program.
    pub(crate) stream: Stream,
    /// The moment at which the array starts; before that, pages cross the channel.
    pub(crate) array_start: u64,
    /// The moment at which the activity ends.
    pub(crate) end: u64,
    pub(crate) suspended: Option<Suspended>,
    /// Number of interruptions of the program or erase.
    pub(crate) suspensions: u32,
    /// Host pages under read; empty while the collector reads.
    pub(crate) reading: Vec<ReadJob>,
    /// Host pages that wait for a read.
    pub(crate) reads: VecDeque<ReadJob>,
    /// The map page to program.
    pub(crate) map_page: Option<Page>,
    /// The block of the map log to erase.
    pub(crate) log_erase: Option<FlashBlock>,
    /// The blocks for pages of the host.
    pub(crate) host: Front,
    /// The blocks for moved pages.
    pub(crate) moved: Front,
    /// The block under collection.
    pub(crate) victim: Option<Victim>,
    /// Pages of the victim under read.
    pub(crate) sensing: u32,
    /// Pages read from the victim and not programmed yet.
    pub(crate) moves: Vec<Ppn>,
    /// Blocks to erase.
    pub(crate) emptied: VecDeque<Emptied>,
    /// Bad blocks whose valid pages must be moved.
    pub(crate) failing: Vec<FlashBlock>,
    /// Erases left until static wear levelling may choose a victim again.
    pub(crate) wear_pause: u32,
    /// Whether the collector had the last turn.
    pub(crate) collector_went_last: bool,
}

impl Die {
    /// An idle die without blocks.
    pub(crate) fn new() -> Die {
        Die {
            activity: Activity::Idle,
            block: None,
            cargo: Vec::new(),
            stream: Stream::Host,
            array_start: 0,
            end: 0,
            suspended: None,
            suspensions: 0,
            reading: Vec::new(),
            reads: VecDeque::new(),
            map_page: None,
            log_erase: None,
            host: Front::NOTHING,
            moved: Front::NOTHING,
            victim: None,
            sensing: 0,
            moves: Vec::new(),
            emptied: VecDeque::new(),
            failing: Vec::new(),
            wear_pause: 0,
            collector_went_last: false,
        }
    }

    /// The block of a program or erase.
    pub(crate) fn block(&self) -> FlashBlock {
        self.block.expect("a program or erase works on a block")
    }

    /// The blocks of a stream.
    pub(crate) fn front(&mut self, stream: Stream) -> &mut Front {
        match stream {
            Stream::Host => &mut self.host,
            Stream::Moved => &mut self.moved,
        }
    }
}
