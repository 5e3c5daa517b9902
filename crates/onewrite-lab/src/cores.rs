//! Cores: independent runs side by side. Each run is single-threaded and shares nothing, so the results do not depend
//! on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::LabError;

/// Calls `work` for `0..count` on `threads` threads (0: as many as there are cores). Returns the results in that order.
///
/// # Errors
/// The first error in that order.
pub(crate) fn side_by_side<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return;
            }
            let outcome = work(place);
            found.lock().expect("no run panics").push((place, outcome));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads > 0 { threads } else { cores }.min(count);
    #[expect(clippy::disallowed_methods, reason = "runs share nothing, and their results have one order")]
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut found = found.into_inner().expect("no run panics");
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}
