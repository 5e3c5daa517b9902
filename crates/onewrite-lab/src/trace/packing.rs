//! Packing: places for the volumes of a trace, one after the other.

use std::collections::BTreeMap;

use super::record::{Extent, Record};

/// First page of each volume in the packed address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    page_bytes: u64,
    /// First page by volume.
    bases: BTreeMap<u32, u64>,
}

impl Packing {
    /// Volumes of pages of `page_bytes`, each from its first page in `bases` on.
    pub(super) fn new(page_bytes: u64, bases: BTreeMap<u32, u64>) -> Packing {
        Packing { page_bytes, bases }
    }

    /// Moves a record to its place among all volumes.
    pub(super) fn place(&self, record: Record) -> Result<Record, String> {
        let Some(base) = self.bases.get(&record.volume) else {
            return Err(format!("volume {} was not there when the volumes were counted", record.volume));
        };
        let too_far = "the packed volumes reach beyond what 64 bits can address; take one with --volume";
        let extent = match record.extent {
            Extent::Page(page) => Extent::Page(page.checked_add(*base).ok_or(too_far)?),
            Extent::Bytes { offset, length } => {
                Extent::Bytes { offset: offset.checked_add(base * self.page_bytes).ok_or(too_far)?, length }
            }
        };
        Ok(Record { volume: 0, extent, ..record })
    }
}
