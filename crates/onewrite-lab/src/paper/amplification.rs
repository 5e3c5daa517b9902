//! Write amplification of the page-level FTL and of FAST, without time: figure 2-1 of the dissertation.
//!
//! The dissertation does not give the number of log blocks of its FAST. Here it is all spare blocks (15% of the device)
//! except the two that merging needs. `docs/device-model.md` has the figures for other numbers.

use onewrite_device::waf;

use super::entry::{Amplified, AmplifiedLayer};
use super::found::{Case, Found};

const SEED: u64 = 1;

/// The largest write amplification of the layers; each is a case.
pub(super) fn largest(amplified: Amplified) -> Found {
    let Amplified { layers, block_percent, range_bytes } = amplified;
    let case = |layer: &AmplifiedLayer| match layer {
        AmplifiedLayer::Page => Case::counts("page-level", waf::run(block_percent, range_bytes, SEED).waf),
        AmplifiedLayer::Fast => Case::counts("FAST", waf::run_fast(block_percent, range_bytes, SEED, None).waf),
    };
    let cases: Vec<Case> = layers.iter().map(case).collect();
    Found::largest_of(cases)
}
