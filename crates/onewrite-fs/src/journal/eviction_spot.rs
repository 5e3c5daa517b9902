//! Eviction spot: how much must be written until a write buffer has passed on all that was written before.

use onewrite_block::{Geometry, Nanos};

/// Measured properties of a write buffer (`onewrite probe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionSpot {
    /// Number of bytes after which all earlier writes are in flash.
    pub bytes: u64,
    /// Minimum time of a one-page read from flash; `None` if it was not measured.
    pub flash_read_min: Option<Nanos>,
}

impl EvictionSpot {
    /// The spot that the device states; `None` if it states no write buffer.
    pub fn stated(geometry: &Geometry) -> Option<EvictionSpot> {
        let buffer = geometry.write_buffer?;
        Some(EvictionSpot { bytes: buffer.eviction_certain_bytes, flash_read_min: None })
    }
}
