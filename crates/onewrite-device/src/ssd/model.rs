//! Model: the constants of an SSD, in the units of its computation. A profile makes it; it never changes.

use onewrite_block::{EvictionOrder, Geometry};
use serde::Deserialize;

use super::shape::Shape;
use crate::gate::Queuing;

/// Times of operations, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// From submission until the controller understands a command.
    pub(crate) command: u64,
    /// Shortest time from one command to the next, by the controller's processor.
    pub(crate) command_interval: u64,
    /// The same after a write; at least as long.
    pub(crate) write_interval: u64,
    /// Transfer of a page over the host link.
    pub(crate) link_page: u64,
    /// Whether the link carries both directions at once.
    pub(crate) link_is_duplex: bool,
    /// Sensing a page.
    pub(crate) read: u64,
    /// Programming, for each kind of page in turn: one number for SLC, two for MLC, three for TLC, four for QLC.
    pub(crate) program: Vec<u64>,
    /// Interrupting a program or an erase for a read, and resuming it; `None` if the flash cannot.
    pub(crate) suspend: Option<u64>,
    /// Erasing a block.
    pub(crate) erase: u64,
    /// Transfer of a page over a channel.
    pub(crate) channel_page: u64,
    /// A TRIM of any length.
    pub(crate) trim: u64,
    /// A FLUSH without its programs.
    pub(crate) flush: u64,
}

/// How the FTL chooses its victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VictimPolicy {
    /// Fewest valid pages.
    Greedy,
    /// Best ratio of gain to cost: age × free share / (2 × valid share). Source: Kawaguchi et al., USENIX 1995.
    CostBenefit,
    /// Fewest valid pages among this number of blocks closed first. Source: Hu et al., SYSTOR 2009.
    Windowed(usize),
}

/// When a die senses a page for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTurn {
    /// Behind everything that it was given before.
    InTurn,
    /// Behind what is under way.
    First,
}

/// How the map log makes changes of the map durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapLogKind {
    /// The changes alone, as records: scattered ones cost no more than ordered ones.
    #[default]
    Records,
    /// Each segment of the map that changed, whole: the more scattered the changes, the more pages.
    Segments,
}

/// Everything that stays constant during the life of a device.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) geometry: Geometry,
    pub(crate) shape: Shape,
    pub(crate) timing: Timing,
    /// Which commands the controller holds at once.
    pub(crate) queuing: Queuing,
    /// Whether reads go before waiting programs and erases, with a layer of [`crate::ftl`].
    pub(crate) reads_first: bool,
    /// How changes of the map become durable.
    pub(crate) map_log: MapLogKind,
    /// The first page may leave the buffer after this many pages written.
    pub(crate) eviction_begins: u64,
    /// All earlier pages have left the buffer after this many pages written.
    pub(crate) eviction_certain: u64,
    /// Whether a capacitor saves the buffer and the map in a power cut.
    pub(crate) has_capacitor: bool,
    /// A die collects while it has fewer free blocks than this.
    pub(crate) collect_below: usize,
    pub(crate) victim_policy: VictimPolicy,
    /// Static wear levelling starts if the erase counts of a die differ by more than this; `None` for no levelling.
    pub(crate) wear_spread_max: Option<u32>,
}

/// Most interruptions of one program or erase.
pub(crate) const SUSPENSIONS_MAX: u32 = 8;

/// Free blocks of a die that only the collector may take.
pub(crate) const RESERVED_BLOCKS: usize = 1;

impl Model {
    /// When a die of a layer with a clock senses for the host.
    pub(crate) fn read_turn(&self) -> ReadTurn {
        if self.reads_first || self.timing.suspend.is_some() { ReadTurn::First } else { ReadTurn::InTurn }
    }

    /// Which page leaves the buffer first.
    pub(crate) fn eviction_order(&self) -> EvictionOrder {
        self.geometry.write_buffer.map_or(EvictionOrder::LeastRecentlyWritten, |buffer| buffer.eviction_order)
    }

    /// Time to program the pages from `page` on.
    pub(crate) fn program_time(&self, page: u32) -> u64 {
        let row = (page / self.shape.planes) as usize;
        self.timing.program[row % self.timing.program.len()]
    }
}
