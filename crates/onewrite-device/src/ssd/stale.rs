//! Stale content: a flash page without owners frees its bytes before the erase of its block.
//!
//! Real flash keeps such a page until the erase. So does this one: program order, out-of-band area and page count stay.
//! Only the payload goes. So a long run takes memory only for pages that the host can still read.
//!
//! ```text
//!   last owner leaves ──► fresh ──batch begins──► covered ──batch durable──► payload dropped
//! ```
//!
//! The payload stays until the batch of the map log that supersedes the page is durable: before that, recovery may
//! still need it. The lists name each flash page at most once between two erases, so they take at most 4 bytes for
//! each.

use crate::address::Ppn;

/// Flash pages without owners that still have their payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stale {
    /// Superseded by changes that are in no batch yet.
    fresh: Vec<Ppn>,
    /// Superseded by the batch under way.
    covered: Vec<Ppn>,
}

impl Stale {
    /// Notes a flash page that has lost its last owner.
    #[inline]
    pub(super) fn push(&mut self, ppn: Ppn) {
        self.fresh.push(ppn);
    }

    /// A new batch holds every change so far.
    pub(super) fn cover(&mut self) {
        self.covered.append(&mut self.fresh);
    }

    /// Takes the pages that the batch under way superseded; it is durable.
    pub(super) fn take_covered(&mut self) -> Vec<Ppn> {
        std::mem::take(&mut self.covered)
    }

    /// Gives the emptied list of [`Stale::take_covered`] back, so that its memory is used again.
    pub(super) fn give_back(&mut self, emptied: Vec<Ppn>) {
        debug_assert!(emptied.is_empty() && self.covered.is_empty(), "no page may be forgotten");
        self.covered = emptied;
    }
}
