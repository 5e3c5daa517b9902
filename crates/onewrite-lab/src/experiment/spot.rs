//! Spot: an eviction spot as it is asked for, for modes that pad.

use std::path::Path;

use onewrite_fs::journal::EvictionSpot;

use super::{refused, text};
use crate::error::LabError;
use crate::probe::Probe;
use crate::size;

/// Reads a size, or the file with the result of a probe.
///
/// # Errors
/// Neither of them; a probe that found no spot.
pub fn eviction_spot(asked: &str) -> Result<EvictionSpot, LabError> {
    if !Path::new(asked).exists() {
        return match size::bytes(asked) {
            Ok(bytes) => Ok(EvictionSpot { bytes, flash_read_min: None }),
            Err(error) => refused(format!(
                "--eviction-spot {asked}: neither a file that `onewrite probe --json` wrote nor a size: {error}"
            )),
        };
    }
    match Probe::from_json(asked, &text(asked)?)?.eviction_spot() {
        Some(spot) => Ok(spot),
        None => refused(format!("{asked}: this probe found no eviction spot; give a size")),
    }
}
