//! Plan: the task of an exploration, and its stages.

use onewrite_block::PowerCut;

use crate::options::ExploreOptions;
use crate::report::Violation;

/// One in this many judged states comes from a cut inside the device, if there is one.
pub(crate) const DEVICE_SHARE: u64 = 10;

/// Makes an emulated device with the given number of pages; every call makes an identical device.
pub type MakeDevice<'d> = dyn Fn(u64) -> Box<dyn PowerCut> + Sync + 'd;

/// How to explore.
#[derive(Clone, Copy)]
pub struct CrashPlan<'p> {
    /// The disk and the bounds.
    pub options: &'p ExploreOptions,
    /// Makes the emulated device for cuts inside a device; `None`: no such cuts.
    pub device: Option<&'p MakeDevice<'p>>,
    /// Whether to make requests fail and space run out, instead of cutting the power.
    pub faults: bool,
    /// Number of explorers, each on a thread of its own. The report is the same for any number.
    pub jobs: usize,
}

impl<'p> CrashPlan<'p> {
    /// A plan with cuts at the door of the modelled disk, and one explorer.
    pub fn new(options: &'p ExploreOptions) -> CrashPlan<'p> {
        CrashPlan { options, device: None, faults: false, jobs: 1 }
    }
}

/// A stage of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An emulated device is filled and aged, before the cuts inside it.
    Aging,
    /// States are made and judged.
    Judging {
        /// Distinct states.
        states: u64,
        /// Judgements in all; a state may be judged at several moments.
        judged: u64,
    },
    /// A promise was found broken; told at once, before the violation is made smaller.
    Broken(Box<Violation>),
    /// A violation is made smaller.
    Shrinking {
        /// Number of the violation, from 1.
        number: usize,
        /// Number of violations in all.
        count: usize,
        /// Judgements spent on it so far.
        judged: u64,
        /// Most judgements to spend.
        judged_max: u64,
    },
}
