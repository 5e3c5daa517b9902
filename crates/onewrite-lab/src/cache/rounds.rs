//! Rounds: all cells of a grid over one reading of the trace.
//!
//! A round is a batch of requests that every cell takes before the next one is read, so the cells are all in memory at
//! once and the trace is not. Each cell sees the same requests in the same order as alone.

use std::sync::Mutex;

use onewrite_cache::PolicyKind;

use super::cell::Cell;
use super::figures::CacheCell;
use super::progress::{Stage, StudyProgress};
use super::requests::Requests;
use super::study::{CHUNK, CacheStudy};
use crate::cores::side_by_side;
use crate::error::LabError;
use crate::trace::Trace;

/// Page requests of a round of several cells: 8 MiB.
const ROUND: usize = 1 << 20;

impl CacheStudy {
    /// Runs all cells over one reading of the trace; they have no device.
    ///
    /// # Errors
    /// The first error of the first round that has one, in the order of the cells.
    pub(super) fn run_together(
        &self,
        cells: &[(u64, PolicyKind)],
        (mut requests, rest): (Requests, Option<Trace>),
        watch: &(dyn Fn(StudyProgress) -> Result<(), LabError> + Sync),
    ) -> Result<Vec<CacheCell>, LabError> {
        let future = requests.future.take();
        let total = if requests.is_whole() { requests.count * cells.len() as u64 } else { 0 };
        let cells: Vec<Mutex<Cell>> = cells
            .iter()
            .map(|cell| Cell::new(self, *cell, future.clone()).map(Mutex::new))
            .collect::<Result<_, LabError>>()?;
        let round = if cells.len() == 1 { CHUNK } else { ROUND };
        let mut count = 0;
        requests.for_each_round(self, rest, round, |batch| {
            let feed = |place: usize| {
                cells[place].lock().expect("no cell panics").feed(batch, None)?;
                let done = StudyProgress { done: batch.len() as u64, ..StudyProgress::begin(Stage::Requests) };
                watch(StudyProgress { total, ..done })
            };
            count += batch.len() as u64;
            side_by_side(self.threads, cells.len(), feed).map(drop)
        })?;
        // Before any file of an after-cache trace gets its name.
        self.check_count(count)?;
        cells.into_iter().map(|cell| cell.into_inner().expect("no cell panics").finish(None)).collect()
    }
}
