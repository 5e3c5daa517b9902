//! Operations of the dies, as events, and the latencies of requests: what a device tells about itself.

use onewrite_block::Nanos;
use serde::Serialize;

use crate::latency::{Latency, LatencyBucket};

/// Kinds of operations of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// Senses pages for the host and sends them over the channel.
    HostRead,
    /// Programs pages of the host.
    HostProgram,
    /// Senses pages of a victim and sends them over the channel.
    MoveRead,
    /// Programs moved pages.
    MoveProgram,
    /// Programs a page of the map log.
    MapProgram,
    /// Erases a block.
    Erase,
}

impl OperationKind {
    /// All kinds, in the order of the legend.
    pub const ALL: [OperationKind; 6] = [
        OperationKind::HostRead,
        OperationKind::HostProgram,
        OperationKind::MoveRead,
        OperationKind::MoveProgram,
        OperationKind::MapProgram,
        OperationKind::Erase,
    ];

    /// The name in legends.
    pub const fn name(self) -> &'static str {
        ["host read", "host program", "move: read", "move: program", "map program", "erase"][self as usize]
    }
}

/// One operation of a die. An interrupted operation has one entry for each stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DieOperation {
    /// The die.
    pub die: u32,
    /// The channel that the die is on.
    pub channel: u32,
    /// The kind of operation.
    pub kind: OperationKind,
    /// Start time.
    pub start: Nanos,
    /// End time (planned end, if it was interrupted).
    pub end: Nanos,
    /// The time at which its pages had crossed the channel, for programs.
    pub channel_until: Nanos,
    /// Pages read or programmed.
    pub pages: u32,
}

/// Names of the operations that have separate latencies.
pub(super) const LATENCY_NAMES: [&str; 6] = ["read", "write", "fua write", "flush", "trim", "share"];

/// Latency of one kind of request, from submission to completion.
#[derive(Clone, Debug, Serialize)]
pub struct OperationLatency {
    /// The kind: read, write, fua write, flush, trim or share.
    pub operation: &'static str,
    /// Its summary.
    pub latency: Latency,
    /// Its histogram, in doublings.
    #[serde(rename = "steps")]
    pub buckets: Vec<LatencyBucket>,
}
