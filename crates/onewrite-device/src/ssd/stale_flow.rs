//! Stale flow: when a device notes stale content, and when it drops it; see [`stale`](super::stale).

use super::Ssd;
use crate::address::Ppn;

impl Ssd {
    /// Notes that the flash page `ppn` has lost its last owner.
    #[inline]
    pub(super) fn went_stale(&mut self, ppn: Ppn) {
        let (block, page) = self.model.shape.place(ppn);
        self.blocks.lose(block);
        if self.flash.holds_payload(block, page) {
            self.stale.push(ppn);
        }
    }

    /// Notes that the new batch holds every change so far.
    pub(super) fn cover_stale(&mut self) {
        self.stale.cover();
    }

    /// Drops the payloads that the batch under way superseded; the batch is durable.
    pub(super) fn drop_stale(&mut self) {
        let mut covered = self.stale.take_covered();
        for ppn in covered.drain(..) {
            let (block, page) = self.model.shape.place(ppn);
            if !self.map.is_valid(ppn) {
                self.flash.drop_payload(block, page);
            }
        }
        self.stale.give_back(covered);
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Cause, Device, Durable, Lpn, MIB, Nanos, Operation, Page, Request, Token};

    use super::*;
    use crate::Profile;
    use crate::address::each;

    /// Does `rounds` writes of one page, each with different bytes and a FLUSH after it. Takes the first `lpns` pages
    /// in turn.
    fn overwrite(ssd: &mut Ssd, lpns: u64, rounds: u64) {
        let mut now = Nanos(ssd.now);
        for round in 0..rounds {
            let pages = vec![Page::from_slice(&round.to_le_bytes())];
            let write = Operation::Write { start: Lpn(round % lpns), pages, durable: Durable::AfterFlush };
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
