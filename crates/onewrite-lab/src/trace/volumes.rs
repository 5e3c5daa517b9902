//! Volumes: the disks or files of a trace, and their places when they are packed.
//!
//! Reading the trace once finds them. Packed volumes lie one after the other in the order of their numbers; each is as
//! long as its last page requires.

use std::collections::BTreeMap;
use std::path::Path;

use super::Trace;
use super::format::TraceOptions;
use super::packing::Packing;
use super::record::Extent;
use crate::error::LabError;

/// The volumes of a trace, with the page after the last one of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    ends: BTreeMap<u32, u64>,
}

impl Volumes {
    /// Reads a trace whose pages have `page_bytes`.
    ///
    /// # Errors
    /// As [`Trace::next_record`].
    pub fn of(path: &Path, options: &TraceOptions, page_bytes: u64) -> Result<Volumes, LabError> {
        let mut trace = Trace::open(path, options)?;
        let mut volumes = Volumes::default();
        while let Some(record) = trace.next_record()? {
            let end = match record.extent {
                Extent::Page(page) => page.saturating_add(1),
                Extent::Bytes { offset, length } => offset.saturating_add(length).div_ceil(page_bytes),
            };
            let known = volumes.ends.entry(record.volume).or_default();
            *known = end.max(*known);
        }
        Ok(volumes)
    }

    /// Numbers of the volumes, ascending.
    pub fn numbers(&self) -> Vec<u32> {
        self.ends.keys().copied().collect()
    }

    /// A packing of one volume, which begins at page 0.
    pub fn alone(volume: u32, page_bytes: u64) -> Packing {
        Packing::new(page_bytes, BTreeMap::from([(volume, 0)]))
    }

    /// A packing of all volumes, one after the other.
    ///
    /// # Errors
    /// If all together need more than 64 bits of address.
    pub fn packed(&self, page_bytes: u64) -> Result<Packing, LabError> {
        let mut bases = BTreeMap::new();
        let mut next = 0_u64;
        for (volume, end) in &self.ends {
            bases.insert(*volume, next);
            let behind = next.checked_add(*end).filter(|behind| behind.checked_mul(page_bytes).is_some());
            next = behind.ok_or_else(|| {
                LabError::Option(format!(
                    "volume {volume} ends beyond what 64 bits can address; take one with --volume"
                ))
            })?;
        }
        Ok(Packing::new(page_bytes, bases))
    }
}
