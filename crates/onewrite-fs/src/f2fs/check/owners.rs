//! Summaries against owners: what the summary of a segment says about a block, and who owns it.

use super::Checker;
use crate::api::FsResult;
use crate::block::BlockNo;
use crate::f2fs::format::Place;
use crate::f2fs::format::summary::{self, Summary, SummaryKind};

impl Checker {
    /// Compares the summary of a block with its owner.
    pub(super) async fn check_summary(&mut self, block: BlockNo, kind: SummaryKind, owner: Summary) -> FsResult<()> {
        let Some((segment, index)) = self.tables.layout.position(block) else { return Ok(()) };
        let (found, found_kind) = match self.summaries.of(segment) {
            Some(bytes) => (summary::entry(bytes, index), summary::kind(bytes)),
            None => {
                let page = self.tables.blocks.block(self.tables.layout.ssa + u64::from(segment.0)).await?;
                let bytes = page.bytes();
                (summary::entry(&bytes[..], index), summary::kind(&bytes[..]))
            }
        };
        let place = Place::Summary(segment);
        if found_kind != Some(kind) {
            self.report.add(place, format!("it says {found_kind:?}, block {block} is {kind:?}"));
        }
        if found.nid != owner.nid || (kind == SummaryKind::Data && found.slot != owner.slot) {
            let Summary { nid, slot } = found;
            let problem = format!("block {block} belongs to slot {} of node {}", owner.slot, owner.nid);
            self.report.add(place, format!("{problem}; it says slot {slot} of node {nid}"));
        }
        Ok(())
    }
}
