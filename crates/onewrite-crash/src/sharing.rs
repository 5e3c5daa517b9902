//! Sharing: carries out the actions that share pages.

use onewrite_block::PAGE_SIZE;
use onewrite_fs::{FsResult, Ino, ShareRange};

use crate::action::SharePart;
use crate::history::Syncs;
use crate::model::{NodeId, SharedPages, Step};
use crate::opened::Opened;
use crate::player::{Plan, Player};
use crate::subject::Subject;

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

impl<S: Subject> Player<S> {
    pub(crate) async fn share(
        &self,
        parts: &[SharePart],
        lazily: bool,
        open: &Opened,
        plan: &mut Plan,
    ) -> FsResult<()> {
        let (mut ranges, mut shared) = (Vec::new(), Vec::new());
        for part in parts {
            let (source, target) = (self.target(&part.source, open).await?, self.target(&part.target, open).await?);
            ranges.push(range(part, source.0, target.0));
            shared.push(pages(part, source.1, target.1));
        }
        plan.steps = vec![Step::Share(shared)];
        match lazily {
            true => self.subject.share_lazily(&self.fs, &ranges).await,
            false => {
                plan.syncs = Some(Syncs::Shares);
                self.subject.share(&self.fs, &ranges).await
            }
        }
    }
}

const fn range(part: &SharePart, source: Ino, target: Ino) -> ShareRange {
    let SharePart { source_offset, target_offset, length, .. } = *part;
    ShareRange { source, source_offset, target, target_offset, length }
}

const fn pages(part: &SharePart, source: NodeId, target: NodeId) -> SharedPages {
    let first = part.target_offset / PAGE_BYTES;
    let target_pages = first..first + part.length / PAGE_BYTES;
    SharedPages { source, source_index: part.source_offset / PAGE_BYTES, target, target_pages }
}
