//! Write amplification of the page-level FTL and of FAST, without time: figure 2-1 of the dissertation.
//!
//! The dissertation does not give the number of log blocks of its FAST. Here it is all spare blocks (15% of the device)
//! except the two that merging needs. `docs/device-model.md` has the figures for other numbers.

use onewrite_block::GIB;
use onewrite_device::waf;

use crate::error::LabError;

const SEED: u64 = 1;

/// The larger write amplification of the two layers.
pub(super) fn full_blocks() -> Result<f64, LabError> {
    Ok(waf::run(100, 16 * GIB, SEED).waf.max(waf::run_fast(100, 16 * GIB, SEED, None).waf))
}

pub(super) fn fast_quarter_of_blocks_16g() -> Result<f64, LabError> {
    Ok(waf::run_fast(25, 16 * GIB, SEED, None).waf)
}

pub(super) fn fast_quarter_of_blocks_1g() -> Result<f64, LabError> {
    Ok(waf::run_fast(25, GIB, SEED, None).waf)
}

pub(super) fn quarter_of_blocks_16g() -> Result<f64, LabError> {
    Ok(waf::run(25, 16 * GIB, SEED).waf)
}

pub(super) fn quarter_of_blocks_1g() -> Result<f64, LabError> {
    Ok(waf::run(25, GIB, SEED).waf)
}
