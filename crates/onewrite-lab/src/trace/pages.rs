//! Pages: splits records into the page requests of the cache simulator.
//!
//! Volumes lie side by side; each has [`VOLUME_PAGES`] pages of the address space.

use onewrite_block::Nanos;
use onewrite_cache::PageRequest;

use super::{Extent, Reader, Record, Trace};
use crate::error::LabError;

/// Pages of the address space of one volume: 64 TiB with pages of 4 KiB.
pub const VOLUME_PAGES: u64 = 1 << 34;

/// First page and number of pages of a record.
fn span(record: &Record, page_bytes: u64) -> Result<(u64, u64), String> {
    let (first, count) = match record.extent {
        Extent::Page(page) => (page, 1),
        Extent::Bytes { length: 0, .. } => return Ok((0, 0)),
        Extent::Bytes { offset, length } => {
            let last = offset.checked_add(length - 1).ok_or("the record reaches beyond what 64 bits can address")?;
            (offset / page_bytes, last / page_bytes - offset / page_bytes + 1)
        }
    };
    let last = first + (count - 1);
    if record.volume == 0 && last <= PageRequest::PAGE_MAX {
        return Ok((first, count));
    }
    let base = u64::from(record.volume) * VOLUME_PAGES;
    match last < VOLUME_PAGES && base + last <= PageRequest::PAGE_MAX {
        true => Ok((base + first, count)),
        false => Err(format!("page {last} of volume {} is too far; take one volume with --volume", record.volume)),
    }
}

impl Trace {
    /// Appends page requests of `page_bytes` to `pages`, at least `wanted` of them unless the trace ends. Returns
    /// whether the trace goes on.
    ///
    /// # Errors
    /// As [`Trace::next_record`], or if an address is out of bounds.
    pub fn next_pages(
        &mut self,
        page_bytes: u64,
        wanted: usize,
        pages: &mut Vec<PageRequest>,
    ) -> Result<bool, LabError> {
        let end = pages.len() + wanted;
        while pages.len() < end {
            if self.append_buffered(end - pages.len(), pages)? == 0 && self.append_record(page_bytes, pages)?.is_none()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends the pages of at most `wanted` records that lie whole in the buffer, without a [`Record`] for each.
    /// Returns their number; 0 where the format or the options need records, and at the edge of the buffer.
    fn append_buffered(&mut self, wanted: usize, pages: &mut Vec<PageRequest>) -> Result<usize, LabError> {
        let (Reader::Binary(binary), None, None) = (&mut self.reader, self.volume, &self.packing) else { return Ok(0) };
        let found = binary.append_objects(&mut self.source, wanted, pages);
        let Some(batch) = found.map_err(|error| Trace::unreadable(&self.path, &error))? else { return Ok(0) };
        self.seen.count_reads(batch.count as u64, batch.first_ns, batch.times);
        Ok(batch.count)
    }

    /// Appends the page requests of the next record. Returns its time since the first record; `None` at the end.
    ///
    /// # Errors
    /// As [`Trace::next_pages`].
    pub(crate) fn append_record(
        &mut self,
        page_bytes: u64,
        pages: &mut Vec<PageRequest>,
    ) -> Result<Option<Nanos>, LabError> {
        let Some(record) = self.next_record()? else { return Ok(None) };
        let (first, count) = span(&record, page_bytes).map_err(|problem| self.refuse(problem))?;
        if count > MOST_PAGES {
            let problem = format!("a record of {count} pages; at most {MOST_PAGES} are believed");
            return Err(self.refuse(problem));
        }
        pages.extend((first..first + count).map(|page| PageRequest::new(page, record.access)));
        Ok(Some(Nanos(self.seen().since_first(record.time_ns))))
    }
}

/// Most pages of one record: 4 GiB in pages of 4 KiB. This bounds memory.
const MOST_PAGES: u64 = 1 << 20;
