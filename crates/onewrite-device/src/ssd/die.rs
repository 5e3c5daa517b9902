//! Die: one flash die, what it does at the moment and what waits for it.
//!
//! A die does one operation at a time. Here is everything that it could do next; `schedule` decides what it does.
//!
//! ```text
//!   Idle ──► ReadArray ──► ReadBus ──► Idle            array first, then the channel when it is free
//!   Idle ──► Program / MapProgram ──► Idle             the channel when it is free, then the array
//!   Idle ──► Erase / LogErase ──► Idle
//! ```

use std::collections::VecDeque;

use onewrite_block::Page;

use super::buffer::EntryId;
use super::host::Slot;
use super::oob::Oob;
use crate::address::{FlashBlock, Lpn, Ppn};

/// What a die does.
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

/// Which pages a block takes: the two are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Pages that the host wrote.
    Host,
    /// Pages that the collector moves.
    Moved,
}

/// Where a page on its way into flash comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// From this entry of the buffer.
    Buffer(EntryId),
    /// It is a copy of this flash page.
    Flash(Ppn),
}

/// A page on its way into flash.
#[derive(Clone, Debug)]
pub(crate) struct Cargo {
    pub(crate) content: Page,
    /// The logical page that its out-of-band area will name.
    pub(crate) lpn: Lpn,
    /// Its version.
    pub(crate) sequence: u64,
    pub(crate) origin: Origin,
}

impl Cargo {
    /// What goes into the out-of-band area.
    pub(crate) fn oob(&self) -> Oob {
        Oob::page(self.lpn, self.sequence)
    }
}

/// A page that the host waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    /// The request.
    pub(crate) slot: Slot,
    /// The flash page.
    pub(crate) ppn: Ppn,
}

/// The blocks that take the pages of one stream on one die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// Takes pages now.
    pub(crate) active: Option<FlashBlock>,
    /// Will take pages next, if it is chosen already.
    pub(crate) next: Option<FlashBlock>,
    /// Whether the map log says so durably; recovery would not look into the block otherwise.
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
    /// Its pages below this have been looked at.
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
    /// How long it still takes.
    pub(crate) left: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Die {
    pub(crate) activity: Activity,
    /// The block that a program or erase works on.
    pub(crate) block: Option<FlashBlock>,
    /// Pages being programmed.
    pub(crate) cargo: Vec<Cargo>,
    /// Where the pages being programmed belong.
    pub(crate) stream: Stream,
    /// The moment when the array begins; before that, pages cross the channel.
    pub(crate) array_start: u64,
    /// The moment when the activity ends.
    pub(crate) end: u64,
    pub(crate) suspended: Option<Suspended>,
    /// How often the program or erase was interrupted.
    pub(crate) suspensions: u32,
    /// Host pages being read; empty while the collector reads.
    pub(crate) reading: Vec<ReadJob>,
    /// Host pages to be read.
    pub(crate) reads: VecDeque<ReadJob>,
    /// The map page to be programmed.
    pub(crate) map_page: Option<Page>,
    /// The block of the map log to be erased.
    pub(crate) log_erase: Option<FlashBlock>,
    /// Where pages of the host go.
    pub(crate) host: Front,
    /// Where moved pages go.
    pub(crate) moved: Front,
    /// The block being collected.
    pub(crate) victim: Option<Victim>,
    /// Pages of the victim that are being read.
    pub(crate) sensing: u32,
    /// Pages read from the victim and not yet programmed.
    pub(crate) moves: Vec<Ppn>,
    /// Blocks to be erased.
    pub(crate) emptied: VecDeque<Emptied>,
    /// Bad blocks whose valid pages must be moved.
    pub(crate) failing: Vec<FlashBlock>,
    /// Erases until static wear levelling may choose a victim again.
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
