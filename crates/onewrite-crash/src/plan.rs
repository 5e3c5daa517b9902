//! Plan: what an exploration is asked to do, and what it says it is at.

use onewrite_block::PowerCut;

use crate::options::ExploreOptions;

/// One judged state in so many is cut inside the device, where there is one.
pub(crate) const DEVICE_SHARE: u64 = 10;

/// Makes an emulated device of so many pages, always the same.
pub type MakeDevice<'d> = dyn Fn(u64) -> Box<dyn PowerCut> + Sync + 'd;

/// How to explore.
#[derive(Clone, Copy)]
pub struct CrashPlan<'p> {
    /// On what, and how far.
    pub options: &'p ExploreOptions,
    /// The emulated device that a share of the cuts falls into.
    pub device: Option<&'p MakeDevice<'p>>,
    /// Whether requests fail instead, and space runs out, without a cut.
    pub faults: bool,
    /// Whether what is found is made as small as it gets.
    pub minimises: bool,
    /// Explorers side by side, each on a thread of its own; the report does not depend on it.
    pub jobs: usize,
}

impl<'p> CrashPlan<'p> {
    /// Cuts at the door of the modelled disk, one explorer; what is found stays as it is.
    pub fn new(options: &'p ExploreOptions) -> CrashPlan<'p> {
        CrashPlan { options, device: None, faults: false, minimises: false, jobs: 1 }
    }
}

/// What an exploration is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An emulated device is filled and aged, before the cuts inside it.
    Aging,
    /// States are made and judged.
    Judging {
        /// Distinct ones.
        states: u64,
        /// Judgements in all: the same state may be judged at several moments.
        judged: u64,
    },
    /// A violation is made smaller.
    Shrinking {
        /// Which one, from 1 on.
        number: usize,
        /// Of so many.
        count: usize,
        /// Smaller workloads that were tried.
        tries: usize,
        /// Most that are tried.
        tries_max: usize,
    },
}
