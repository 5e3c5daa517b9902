//! Orphans: inodes without a name that somebody has open. A checkpoint lists them; the next mount deletes them.

use super::volume::Volume;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::{Nid, Place, orphan};

impl Volume {
    /// Notes an inode without a name that is open.
    pub(super) fn add_orphan(&self, nid: Nid) {
        self.orphans.borrow_mut().insert(nid);
        self.has_new_orphans.set(true);
    }

    /// Notes that an orphan is gone; no-op for others.
    pub(super) fn drop_orphan(&self, nid: Nid) {
        if self.orphans.borrow_mut().remove(&nid) {
            self.has_new_orphans.set(true);
        }
    }

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
        self.orphans.borrow_mut().extend(&found);
        for nid in found {
            let _changes = self.changes.read().await;
            match self.file(nid.into()).await {
                Ok(file) => {
                    file.change_raw(|raw| raw.i_links.set(0));
                    self.delete(&file).await?;
                }
                Err(FsError::NotFound(_)) => self.drop_orphan(nid),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
