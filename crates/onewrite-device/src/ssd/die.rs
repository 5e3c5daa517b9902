//! Die: one flash die, what it does at the moment and what waits for it.
//!
//! A die does one operation at a time; everything that it could do next is here, what it *will* do next is decided in
//! `schedule`.
//!
//! ```text
//!   Idle ──► ReadArray ──► ReadBus ──► Idle            array first, then the channel when it is free
//!   Idle ──► Program / MapProgram ──► Idle             the channel when it is free, then the array
//!   Idle ──► Erase / LogErase ──► Idle
//! ```

use std::collections::VecDeque;

use onewrite_block::Page;

use super::mapping::NONE;
use super::nand::Oob;

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

/// A page on its way into flash.
#[derive(Clone, Debug)]
pub(crate) struct Cargo {
    /// Content and out-of-band area.
    pub(crate) content: Page,
    /// What goes into the out-of-band area.
    pub(crate) oob: Oob,
    /// The flash page that it is a copy of; [`NONE`] if it comes from the buffer.
    pub(crate) source: u32,
    /// Its entry in the buffer, if it comes from there.
    pub(crate) entry: u32,
}

/// A page that the host waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    /// The request.
    pub(crate) slot: u32,
    /// The flash page.
    pub(crate) ppn: u32,
}

/// The blocks that take the pages of one stream on one die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// Takes pages now; [`NONE`] if none does.
    pub(crate) active: u32,
    /// Will take pages next; [`NONE`] if none is chosen.
    pub(crate) next: u32,
    /// Whether the map log says so durably; recovery would not look into the block otherwise.
    pub(crate) is_announced: bool,
}

impl Front {
    /// No block at all.
    pub(crate) const NOTHING: Front = Front { active: NONE, next: NONE, is_announced: false };
}

/// A block that is being collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    /// The block.
    pub(crate) block: u32,
    /// Its pages below this have been looked at.
    pub(crate) cursor: u32,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Die {
    pub(crate) activity: Activity,
    /// The block that the activity works on.
    pub(crate) block: u32,
    /// Pages being programmed.
    pub(crate) cargo: Vec<Cargo>,
    /// Whether the pages being programmed are moved ones.
    pub(crate) is_moving: bool,
    /// The moment when the array begins; before that, pages cross the channel.
    pub(crate) array_start: u64,
    /// The moment when the activity ends.
    pub(crate) end: u64,
    /// A program or erase that is interrupted: what, on which block, and how long it still takes.
    pub(crate) suspended: Option<(Activity, u32, u64)>,
    /// How often the program or erase was interrupted.
    pub(crate) suspensions: u32,
    /// Host pages being read; empty while the collector reads.
    pub(crate) reading: Vec<ReadJob>,
    /// Host pages to be read.
    pub(crate) reads: VecDeque<ReadJob>,
    /// The map page to be programmed.
    pub(crate) map_page: Option<Page>,
    /// The block of the map log to be erased.
    pub(crate) log_erase: Option<u32>,
    /// Where pages of the host go.
    pub(crate) host: Front,
    /// Where moved pages go.
    pub(crate) moved: Front,
    /// The block being collected.
    pub(crate) victim: Option<Victim>,
    /// Pages of the victim that are being read.
    pub(crate) sensing: u32,
    /// Pages read from the victim and not yet programmed.
    pub(crate) moves: Vec<u32>,
    /// Blocks to be erased, each with the batch of the map log that must be durable first.
    pub(crate) emptied: VecDeque<(u32, u64)>,
    /// Bad blocks whose valid pages must be moved.
    pub(crate) failing: Vec<u32>,
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
            block: NONE,
            cargo: Vec::new(),
            is_moving: false,
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
}
