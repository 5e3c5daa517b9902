//! Carrier: who carries work out.
//!
//! [`Inline`] does it at once with blocking calls, [`Threads`](super::threads::Threads) do so beside the run, and the
//! [`Ring`](super::ring::Ring) gives it to the kernel.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::work::Work;

/// Work that has ended, under the number with which it was given.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) number: usize,
    pub(super) work: Work,
    pub(super) result: io::Result<()>,
}

/// Carries work out, many at once and in any order; [`Line`](super::line::Line) gives nothing that conflicts.
///
/// # Contract
/// Everything that is given ends, and gives its memory back when the kernel no longer uses it. When work ends while the
/// run waits, the carrier rings the bell that it was made with. Dropping it waits for what is under way.
pub(super) trait Carrier {
    /// Puts work under way; gives it back if it has ended at once.
    fn give(&mut self, number: usize, work: Work) -> Option<Ended>;

    /// Appends what has ended; waits for nothing.
    fn collect(&mut self, ended: &mut Vec<Ended>);

    /// Whether [`Carrier::collect`] has something to do before the run may wait.
    fn is_ready(&self) -> bool;

    /// Waits until nothing is under way, and appends what has ended.
    fn finish(&mut self, ended: &mut Vec<Ended>);
}

/// See the module's head. Nothing is ever under way.
pub(super) struct Inline(pub(super) Arc<File>);

impl Carrier for Inline {
    fn give(&mut self, number: usize, mut work: Work) -> Option<Ended> {
        let result = work.carry_out(&self.0);
        Some(Ended { number, work, result })
    }

    fn collect(&mut self, _: &mut Vec<Ended>) {}

    fn is_ready(&self) -> bool {
        false
    }

    fn finish(&mut self, _: &mut Vec<Ended>) {}
}
