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

use super::Ssd;
use crate::address::Ppn;

/// Flash pages without owners that still have their payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stale {
    /// Superseded by changes that are in no batch yet.
    fresh: Vec<Ppn>,
    /// Superseded by the batch under way.
    covered: Vec<Ppn>,
}

impl Ssd {
    /// Notes that the flash page `ppn` has lost its last owner.
    #[inline]
    pub(super) fn went_stale(&mut self, ppn: Ppn) {
        let (block, page) = self.model.shape.place(ppn);
        self.blocks.lose(block);
        if self.flash.holds_payload(block, page) {
            self.stale.fresh.push(ppn);
        }
    }

    /// Notes that the new batch holds every change so far.
    pub(super) fn cover_stale(&mut self) {
        self.stale.covered.append(&mut self.stale.fresh);
    }

    /// Drops the payloads that the batch under way superseded; the batch is durable.
    pub(super) fn drop_stale(&mut self) {
        let mut covered = std::mem::take(&mut self.stale.covered);
        for ppn in covered.drain(..) {
            let (block, page) = self.model.shape.place(ppn);
            if !self.map.is_valid(ppn) {
                self.flash.drop_payload(block, page);
            }
        }
        self.stale.covered = covered;
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Cause, Device, Lpn, MIB, Nanos, Operation, Page, Request, Token};

    use super::*;
    use crate::Profile;
    use crate::address::each;

    /// Does `rounds` writes of one page, each with different bytes and a FLUSH after it. Takes the first `lpns` pages
    /// in turn.
    fn overwrite(ssd: &mut Ssd, lpns: u64, rounds: u64) {
        let mut now = Nanos(ssd.now);
        for round in 0..rounds {
            let pages = vec![Page::from_slice(&round.to_le_bytes())];
            let write = Operation::Write { start: Lpn(round % lpns), pages, fua: false };
            for operation in [write, Operation::Flush] {
                ssd.submit(Token(round as u32), Request::new(operation, Cause::Data), now);
                let mut completed = Vec::new();
                while completed.is_empty() {
                    now = ssd.next_event().moment().expect("a request goes on");
                    ssd.advance(now, &mut completed);
                }
            }
        }
    }

    fn payloads(ssd: &Ssd) -> usize {
        let blocks = each(ssd.model.shape.data_range());
        let in_block =
            |block| (0..ssd.flash.programmed(block)).filter(move |&page| ssd.flash.holds_payload(block, page));
        blocks.map(|block| in_block(block).count()).sum()
    }

    #[test]
    fn superseded_content_takes_no_memory_once_the_map_is_durable() {
        let mut ssd = Profile::load("sata-850pro").unwrap().ssd(Some(16 * MIB)).unwrap();
        overwrite(&mut ssd, 8, 1_000);
        let held = payloads(&ssd);
        assert!((8..=16).contains(&held), "{held} pages of payload for 8 logical pages");
    }

    #[test]
    fn a_fork_keeps_what_its_origin_forgets() {
        let mut ssd = Profile::load("sata-850pro").unwrap().ssd(Some(16 * MIB)).unwrap();
        overwrite(&mut ssd, 8, 8);
        let fork = ssd.clone();
        overwrite(&mut ssd, 8, 200);
        assert!(payloads(&fork) >= 8);
        for lpn in 0..8_u64 {
            let ppn = fork.map.get(crate::address::Lpn(lpn as u32)).page().expect("a written page");
            let (block, page) = fork.model.shape.place(ppn);
            assert_eq!(fork.flash.content(block, page), Page::from_slice(&lpn.to_le_bytes()));
        }
    }
}
