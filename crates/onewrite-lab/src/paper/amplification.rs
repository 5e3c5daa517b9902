//! Write amplification of a page-level FTL without time: figure 2-1 of the dissertation.

use onewrite_block::GIB;
use onewrite_device::waf;

use crate::error::LabError;

const SEED: u64 = 1;

pub(super) fn full_blocks() -> Result<f64, LabError> {
    Ok(waf::run(100, 16 * GIB, SEED).waf)
}

pub(super) fn quarter_of_blocks_16g() -> Result<f64, LabError> {
    Ok(waf::run(25, 16 * GIB, SEED).waf)
}

pub(super) fn quarter_of_blocks_1g() -> Result<f64, LabError> {
    Ok(waf::run(25, GIB, SEED).waf)
}
