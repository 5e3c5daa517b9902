//! Requests: the trace as the cells of a study see it.
//!
//! ```text
//!   a cell, nothing to be known before ─► nothing is held; the cell is fed while the trace is read
//!   a grid                             ─► the trace is held, if it fits; else the part that fits, and the open rest
//!   something to be known before       ─► the whole trace is read first, and held if it fits
//! ```
//!
//! Known before must be the footprint (sizes that are shares), the future (Belady), and where the last page lies (a
//! device).

use onewrite_block::Nanos;
use onewrite_cache::{Future, FutureBuilder, PageNo, PageRequest};

use super::layer::Counted;
use super::progress::{Stage, StudyProgress};
use super::study::{CHUNK, CacheStudy};
use crate::error::LabError;
use crate::size::SizeOrShare;
use crate::trace::{PageSet, Trace};

/// See the module's head.
pub(super) struct Requests {
    /// The first requests of the trace, all if `is_whole`; none if they are too many and the trace was read to its end.
    held: Option<Vec<PageRequest>>,
    /// Whether the trace was read to its end.
    is_whole: bool,
    /// Requests read so far.
    pub(super) count: u64,
    /// The last page of these.
    pub(super) last_page: u64,
    /// Whether the trace has more than one volume; each further one lies far behind the first.
    pub(super) has_volumes: bool,
    /// Bytes of different pages; zero unless a size is a share.
    pub(super) footprint_bytes: u64,
    /// The future, if a policy needs it.
    pub(super) future: Option<Future>,
    /// The layer, filled and aged; every cell begins with a copy.
    pub(super) ready: Option<Counted>,
}

/// What is found out while the trace is read.
#[derive(Default)]
struct Findings {
    pages: Option<PageSet>,
    future: Option<FutureBuilder>,
}

impl Findings {
    fn wanted(study: &CacheStudy) -> Findings {
        let has_share = study.sizes.iter().any(|size| matches!(size, SizeOrShare::Share(_)));
        let needs_future = study.policies.iter().any(|policy| policy.needs_future());
        Findings { pages: has_share.then(PageSet::default), future: needs_future.then(FutureBuilder::default) }
    }

    fn take(&mut self, chunk: &[PageRequest]) -> Result<(), LabError> {
        if let Some(pages) = &mut self.pages {
            chunk.iter().for_each(|request| pages.insert(request.page()));
        }
        let Some(future) = &mut self.future else { return Ok(()) };
        chunk.iter().try_for_each(|request| future.push(PageNo(request.page()))).map_err(LabError::Option)
    }
}

impl Requests {
    /// Reads the trace as far as the module's head says. Returns what is left of it, too.
    ///
    /// # Errors
    /// As [`Trace::next_pages`], or of `watch`.
    pub(super) fn gather(
        study: &CacheStudy,
        watch: &(dyn Fn(StudyProgress) -> Result<(), LabError> + Sync),
    ) -> Result<(Requests, Option<Trace>), LabError> {
        watch(StudyProgress::begin(Stage::Reading))?;
        let mut trace = Trace::open(&study.trace, &study.options)?;
        let mut findings = Findings::wanted(study);
        let reads_all = findings.pages.is_some() || findings.future.is_some() || study.device.is_some();
        let is_one_cell = study.policies.len() * study.sizes.len() == 1;
        let held_max = if is_one_cell && !reads_all { 0 } else { study.held_max };
        let mut requests = Requests::none();
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut goes_on = true;
        while goes_on && (reads_all || requests.has_room(held_max)) {
            chunk.clear();
            goes_on = trace.next_pages(study.page_bytes, CHUNK, &mut chunk)?;
            findings.take(&chunk)?;
            requests.take(&chunk, if reads_all { held_max } else { usize::MAX });
            watch(StudyProgress { done: chunk.len() as u64, ..StudyProgress::begin(Stage::Reading) })?;
        }
        requests.footprint_bytes = findings.pages.map_or(0, |pages| pages.count() * study.page_bytes);
        requests.future = findings.future.map(FutureBuilder::finish);
        requests.has_volumes = trace.seen().has_volumes;
        requests.is_whole = !goes_on;
        Ok((requests, goes_on.then_some(trace)))
    }

    fn none() -> Requests {
        let (count, last_page, has_volumes, footprint_bytes) = (0, 0, false, 0);
        let (held, is_whole, future, ready) = (Some(Vec::new()), false, None, None);
        Requests { held, is_whole, count, last_page, has_volumes, footprint_bytes, future, ready }
    }

    fn has_room(&self, held_max: usize) -> bool {
        self.count + CHUNK as u64 <= held_max as u64
    }

    /// Counts requests and holds them, unless more than `held_max` would be held then.
    fn take(&mut self, chunk: &[PageRequest], held_max: usize) {
        self.count += chunk.len() as u64;
        self.last_page = chunk.iter().map(|request| request.page()).fold(self.last_page, u64::max);
        match &mut self.held {
            Some(held) if held.len() + chunk.len() <= held_max => held.extend_from_slice(chunk),
            held => *held = None,
        }
    }

    /// Whether the whole trace was read.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether each cell goes through the requests by itself: they are all in memory, or a device or their times need
    /// it.
    pub(super) fn is_read_for_each_cell(&self, study: &CacheStudy) -> bool {
        let is_held = self.is_whole() && self.held.is_some();
        is_held || study.is_timed || study.device.is_some()
    }

    /// Gives the page requests in pieces. In a timed study a piece is one record, given with its time.
    ///
    /// # Errors
    /// As [`Trace::next_pages`], or of `take`.
    pub(super) fn for_each_chunk(
        &self,
        study: &CacheStudy,
        mut take: impl FnMut(&[PageRequest], Option<Nanos>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        if let Some(held) = self.held.as_ref().filter(|_| self.is_whole() && !study.is_timed) {
            return held.chunks(CHUNK).try_for_each(|chunk| take(chunk, None));
        }
        let mut trace = Trace::open(&study.trace, &study.options)?;
        if !study.is_timed {
            return each_chunk(&mut trace, study.page_bytes, CHUNK, |chunk| take(chunk, None));
        }
        let mut chunk = Vec::new();
        while let Some(since) = trace.append_record(study.page_bytes, &mut chunk)? {
            take(&chunk, Some(since))?;
            chunk.clear();
        }
        Ok(())
    }

    /// Gives all requests in rounds of about `round` of them: those that are held, then `rest`. Without a rest the
    /// trace is read from its beginning.
    ///
    /// # Errors
    /// As [`Trace::next_pages`], or of `take`.
    pub(super) fn for_each_round(
        self,
        study: &CacheStudy,
        rest: Option<Trace>,
        round: usize,
        mut take: impl FnMut(&[PageRequest]) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut rest = match rest {
            Some(rest) => {
                self.held.unwrap_or_default().chunks(round).try_for_each(&mut take)?;
                rest
            }
            None => Trace::open(&study.trace, &study.options)?,
        };
        each_chunk(&mut rest, study.page_bytes, round, take)
    }
}

/// Gives what is left of a trace in pieces of about `wanted` page requests.
fn each_chunk(
    trace: &mut Trace,
    page_bytes: u64,
    wanted: usize,
    mut take: impl FnMut(&[PageRequest]) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let mut chunk = Vec::with_capacity(wanted);
    let mut goes_on = true;
    while goes_on {
        chunk.clear();
        goes_on = trace.next_pages(page_bytes, wanted, &mut chunk)?;
        take(&chunk)?;
    }
    Ok(())
}
