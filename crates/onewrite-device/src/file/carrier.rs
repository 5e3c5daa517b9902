//! Carrier: does the work.
//!
//! [`Inline`] does it at once with blocking calls. [`Threads`](super::threads::Threads) do the same beside the run. The
//! [`Ring`](super::ring::Ring) gives it to the kernel.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::work::{Extent, Work};

/// Ended work, with the number under which it was given.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) number: usize,
    pub(super) work: Work,
    pub(super) result: io::Result<()>,
}

/// Does many pieces of work at once, in any order; [`Line`](super::line::Line) gives no two that conflict.
///
/// # Contract
/// All given work ends. It returns its memory when the kernel no longer uses it. If work ends while the run waits, the
/// carrier rings the bell that it was made with. Dropping the carrier waits for work under way.
pub(super) trait Carrier {
    /// Starts work; returns it if it ends at once.
    fn give(&mut self, number: usize, work: Work) -> Option<Ended>;

    /// Appends the ended work. Does not wait.
    fn collect(&mut self, ended: &mut Vec<Ended>);

    /// Asks the kernel to begin writing these bytes of its page cache out, as a hint: nobody waits for it, and errors
    /// are left to the next FLUSH.
    fn begin_writeback(&mut self, _: Extent) {}

    /// Whether [`Carrier::collect`] has work to do before the run may wait.
    fn is_ready(&self) -> bool;

    /// Waits until no work is under way, and appends the ended work.
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
