//! Summaries against owners: what the summary of a segment says about a block, and who owns it.

use super::Checker;
use crate::api::FsResult;
use crate::block::BlockNo;
use crate::f2fs::format::summary::{self, Summary, SummaryKind};
use crate::f2fs::format::{Nid, Place, SegmentNo};

impl Checker {
    /// Compares the summary of a block with its owner.
    pub(super) async fn check_summary(&mut self, block: BlockNo, kind: SummaryKind, owner: Summary) -> FsResult<()> {
        let Some((segment, index)) = self.tables.layout.position(block) else { return Ok(()) };
        if self.summaries.is_unsaid(segment) {
            return Ok(());
        }
        let seen = |bytes: &[u8]| (summary::entry(bytes, index), summary::kind(bytes), summary::version(bytes, index));
        let (found, found_kind, version) = match self.summaries.of(segment) {
            Some(bytes) => seen(bytes),
            None => {
                let page = self.tables.blocks.block(self.tables.layout.ssa + u64::from(segment.0)).await?;
                seen(&page.bytes()[..])
            }
        };
        let place = Place::Summary(segment);
        if found_kind != Some(kind) {
            let said = found_kind.map_or("neither content nor nodes", SummaryKind::name);
            self.report.add(place, format!("it says {said}, block {block} is {}", kind.name()));
        }
        if found.nid != owner.nid || (kind == SummaryKind::Data && found.slot != owner.slot) {
            let Summary { nid, slot } = found;
            let problem = format!("block {block} belongs to slot {} of node {}", owner.slot, owner.nid);
            self.report.add(place, format!("{problem}; it says slot {slot} of node {nid}"));
        }
        self.check_version((segment, block), (kind, owner.nid), version);
        Ok(())
    }

    /// Notes content whose summary has another version than its node has in the NAT: cleaning would take the block for
    /// one that nothing owns any more.
    fn check_version(&mut self, (segment, block): (SegmentNo, BlockNo), (kind, nid): (SummaryKind, Nid), found: u8) {
        let Some(entry) = self.nat.get(&nid).filter(|_| kind == SummaryKind::Data) else { return };
        if entry.version != found {
            let expected = entry.version;
            let problem = format!("block {block} has version {found}, its node {nid} version {expected}");
            self.report.note(Place::Summary(segment), problem);
        }
    }
}
