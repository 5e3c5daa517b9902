//! What the walk did not meet, and what does not add up: NAT, bitmaps, link counts, the checkpoint's counts.

use super::Checker;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::{Place, SegmentNo};

impl Checker {
    /// Each inode has as many names as it says.
    pub(super) fn check_links(&mut self) {
        let layout = &self.tables.layout;
        let mut wrong = Vec::new();
        for (nid, known) in &self.inodes {
            let is_nameless = self.orphans.binary_search(nid).is_ok() || layout.quota_inodes.contains(nid);
            if known.links != known.found && !is_nameless {
                wrong.push((*nid, format!("says {} links, {} were found", known.links, known.found)));
            }
            if self.orphans.binary_search(nid).is_ok() && known.links > 0 {
                wrong.push((*nid, format!("is on the list of orphans and says {} links", known.links)));
            }
        }
        wrong.into_iter().for_each(|(nid, problem)| self.report.add(Place::Inode(nid), problem));
    }

    /// NAT and bitmaps name exactly what the walk met.
    pub(super) fn check_claims(&mut self) {
        for nid in self.nat.keys().filter(|nid| !self.nodes.contains(nid)) {
            self.report.add(Place::Nat(*nid), "nothing names the node");
        }
        for (index, entry) in self.sit.iter().enumerate() {
            let segment = SegmentNo(index as u32);
            let found = self.claims.of(segment);
            let count = |bits: &mut dyn Iterator<Item = u8>| bits.map(u8::count_ones).sum::<u32>();
            let unmet = count(&mut entry.map.iter().zip(found).map(|(said, met)| said & !met));
            let unsaid = count(&mut entry.map.iter().zip(found).map(|(said, met)| met & !said));
            if unmet > 0 {
                self.report.add(Place::Sit(segment), format!("{unmet} blocks are marked that nothing owns"));
            }
            if unsaid > 0 {
                self.report.add(Place::Sit(segment), format!("{unsaid} blocks are in use and not marked"));
            }
        }
        let used_blocks = self.claims.count() + self.reserved;
        (self.report.used_inodes, self.report.used_blocks) = (self.inodes.len() as u64, used_blocks);
    }

    /// The checkpoint counts what the walk met.
    pub(super) fn check_counts(&mut self) {
        let raw = &self.tables.checkpoint.raw;
        let logs = LogKind::ALL.map(|kind| self.tables.checkpoint.log(kind).segment);
        let is_free = |index: usize| {
            let segment = SegmentNo(index as u32);
            self.claims.of(segment).iter().all(|byte| *byte == 0) && !logs.contains(&segment)
        };
        let free = (0..self.sit.len()).filter(|index| is_free(*index)).count() as u64;
        let counts = [
            ("valid_block_count", raw.valid_block_count.get(), self.report.used_blocks),
            ("valid_node_count", raw.valid_node_count.get().into(), self.nodes.len() as u64),
            ("valid_inode_count", raw.valid_inode_count.get().into(), self.report.used_inodes),
            ("free_segment_count", raw.free_segment_count.get().into(), free),
        ];
        for (field, said, found) in counts {
            if said != found {
                self.report.add(Place::Current, format!("{field} is {said}, {found} were found"));
            }
        }
        self.check_sizes();
        let next = self.tables.checkpoint.raw.next_free_nid.get();
        if next >= self.tables.layout.nid_end() {
            self.report.add(Place::Current, format!("next_free_nid is {next}; there is no such number"));
        }
    }

    /// What the checkpoint says about the whole image is possible.
    fn check_sizes(&mut self) {
        let raw = &self.tables.checkpoint.raw;
        let layout = &self.tables.layout;
        let (user, valid) = (raw.user_block_count.get(), raw.valid_block_count.get());
        let (reserved, spare) = (raw.rsvd_segment_count.get(), raw.overprov_segment_count.get());
        let mut wrong = Vec::new();
        if user == 0 || user >= layout.main.count || valid > user {
            wrong.push(format!("user_block_count is {user}, of {} blocks, with {valid} in use", layout.main.count));
        }
        let is_spare = |segments: u32| segments > 0 && segments < layout.main_segments;
        if !is_spare(reserved) || !is_spare(spare) {
            wrong.push(format!("rsvd_segment_count is {reserved}, overprov_segment_count {spare}: some, but not all"));
        }
        let start = raw.cp_pack_start_sum.get();
        let (end, total) = (start + self.summaries.blocks() + 1, raw.cp_pack_total_block_count.get());
        if end != total {
            wrong.push(format!("cp_pack_total_block_count is {total}, the summaries end the pack after {end}"));
        }
        wrong.into_iter().for_each(|problem| self.report.add(Place::Current, problem));
    }
}
