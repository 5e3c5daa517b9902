//! Orphans at a mount: what the last checkpoint lists is deleted.

use super::views::Recovery;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::{Nid, Place, orphan};

impl Recovery<'_> {
    /// Reads the orphans of the last checkpoint.
    pub(super) async fn read_orphans(&self) -> FsResult<Vec<Nid>> {
        let (start, blocks, pack) = {
            let checkpoint = self.checkpoint.borrow();
            let first = u64::from(1 + self.layout.payload_blocks);
            let blocks = u64::from(checkpoint.raw.cp_pack_start_sum.get()).saturating_sub(first);
            let blocks = if checkpoint.has(flags::ORPHANS) { blocks } else { 0 };
            (self.layout.pack(checkpoint.pack) + first, blocks, checkpoint.pack)
        };
        let mut found = Vec::new();
        for index in 0..blocks {
            let page = self.read_block(start + index).await?;
            found.extend(orphan::inodes(&page.bytes()[..], Place::Checkpoint(pack))?);
        }
        Ok(found)
    }

    /// Deletes orphans that a mount found.
    pub(super) async fn delete_orphans(&self, found: Vec<Nid>) -> FsResult<()> {
        self.orphans.load(&found);
        for nid in found {
            let _changes = self.changes.read().await;
            match self.nodes().file(nid.into()).await {
                Ok(file) => {
                    file.change_raw(|raw| raw.i_links.set(0));
                    self.contents().delete(&file).await?;
                }
                Err(FsError::NotFound(_)) => self.orphans.remove(nid),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
