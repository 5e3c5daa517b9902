//! Cell: one policy at one size, and what becomes of the requests that it lets through.

use onewrite_cache::{Future, PageRequest, PolicyKind, Replay, Utilization};

use super::device::Replayed;
use super::figures::{CacheCell, UtilizationFigures};
use super::study::CacheStudy;
use crate::error::LabError;
use crate::trace::TraceWriter;

/// A cell at work.
pub(super) struct Cell {
    size: u64,
    policy: PolicyKind,
    cache: Box<dyn Replay>,
    utilization: Utilization,
    writer: Option<TraceWriter>,
}

impl Cell {
    /// An empty cache; creates the file of its after-cache trace.
    ///
    /// # Errors
    /// A size that no cache has; a file that cannot be made.
    pub(super) fn new(
        study: &CacheStudy,
        (size, policy): (u64, PolicyKind),
        future: Option<Future>,
    ) -> Result<Cell, LabError> {
        let shape = study.shape(size)?;
        let path = study.after.as_deref().map(|after| study.after_path(after, policy, size));
        Ok(Cell {
            size,
            policy,
            cache: policy.simulation(shape, future),
            utilization: Utilization::new(shape.block_pages),
            writer: path.as_deref().map(TraceWriter::create).transpose()?,
        })
    }

    /// Runs requests through the cache; what they cause goes to the file and to `device`.
    ///
    /// # Errors
    /// The first of the file or the device.
    pub(super) fn feed(&mut self, chunk: &[PageRequest], mut device: Option<&mut Replayed>) -> Result<(), LabError> {
        let Cell { cache, utilization, writer, .. } = self;
        let mut failure = None;
        cache.feed(chunk, &mut |request| {
            utilization.push(request);
            if let Err(error) = pass_on(request, writer.as_mut(), device.as_deref_mut()) {
                failure.get_or_insert(error);
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Ends the file and the device.
    ///
    /// # Errors
    /// As [`Cell::feed`].
    pub(super) fn finish(self, device: Option<Replayed>) -> Result<CacheCell, LabError> {
        if let Some(writer) = self.writer {
            writer.finish()?;
        }
        let (counts, (runs, pages)) = (self.cache.counts(), self.utilization.finish());
        Ok(CacheCell {
            policy: self.policy.name(),
            size_bytes: self.size,
            requests: counts.requests,
            hits: counts.hits,
            misses: counts.misses,
            evicted_clean: counts.evicted_clean,
            evicted_dirty: counts.evicted_dirty,
            after_reads: counts.read_misses,
            after_writes: counts.evicted_dirty,
            utilization: UtilizationFigures { runs, pages },
            device: device.map(Replayed::finish).transpose()?,
        })
    }
}

/// Hands a request of the after-cache trace to its file and its device.
fn pass_on(
    request: PageRequest,
    writer: Option<&mut TraceWriter>,
    device: Option<&mut Replayed>,
) -> Result<(), LabError> {
    writer.map_or(Ok(()), |writer| writer.page(request))?;
    device.map_or(Ok(()), |device| device.take(request))
}
