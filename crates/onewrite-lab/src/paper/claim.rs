//! Claim: what a row of the scoreboard says about TS-CLOCK, as data.

use onewrite_cache::PolicyKind;

use crate::cache::CacheCell;
use crate::generate::TraceKind;

/// A claim: TS-CLOCK against `rivals`, over all grids of these figures, devices and workloads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Figures of the dissertation.
    pub(super) figures: &'static [&'static str],
    /// Profiles.
    pub(super) devices: &'static [&'static str],
    /// Traces.
    pub(super) workloads: &'static [TraceKind],
    /// The other policies.
    pub(super) rivals: &'static [PolicyKind],
    /// What is compared.
    pub(super) counted: Counted,
    /// How the comparisons become one figure.
    pub(super) told: ClaimTold,
    /// What else the row says.
    pub(super) also: Also,
}

/// What a row says beside its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Also {
    /// That TS-CLOCK is ahead on each of the devices; in its best case, of each rival.
    EachDevice,
    /// That TS-CLOCK is ahead in every combination of workload, device and cache size.
    EveryCombination,
    /// That these policies, the row's rivals among them, are ahead of TS-CLOCK in time and write more.
    AheadButWriteMore(&'static [PolicyKind]),
}

/// What of a cell is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Elapsed seconds.
    Seconds,
    /// Erases of flash blocks.
    Erases,
    /// Bytes written to the device.
    Writes,
}

/// How the comparisons at all sizes become one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimTold {
    /// The largest speed-up, in percent.
    Best,
    /// The mean of the speed-ups, in percent.
    Mean,
    /// The mean of the quotient, without "less one".
    Quotient,
}

impl Claim {
    /// The figure to which all its devices belong: 2-4 has the cards, 2-6 the SSD.
    pub(super) fn only_figure(&self) -> Option<&'static str> {
        match self.figures {
            [only] => Some(only),
            _ => None,
        }
    }
}

impl Counted {
    /// The number for one cell.
    pub(super) fn of(self, cell: &CacheCell) -> f64 {
        cell.device.as_ref().map_or(0.0, |device| match self {
            Counted::Seconds => device.elapsed_seconds,
            Counted::Erases => device.erases as f64,
            Counted::Writes => device.host_write_bytes as f64,
        })
    }
}
