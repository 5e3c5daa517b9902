//! What fsync made durable behind the checkpoint: found and told, not shown.
//!
//! An fsync writes the file's nodes into the log of warm nodes and marks them. Each node names the block that its log
//! takes next, so a chain begins where the checkpoint's log stood. A node belongs to it if its footer has the version
//! of this checkpoint, that of an unmount, too: Linux writes no other before its first fsync. With a staging area,
//! fsyncs write transactions there instead.

use std::collections::BTreeSet;

use onewrite_block::DevicePort;

use super::F2fsView;
use crate::api::FsResult;
use crate::f2fs::format::node;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::stage::area::{Area, problem_of};
use crate::f2fs::stage::merge::Merged;

impl F2fsView {
    /// Warns that a staging area continues the checkpoint which cannot be seen from here, or is damaged.
    pub(super) async fn unseen_area(&self, port: &DevicePort) -> FsResult<Option<String>> {
        let Some(mark) = self.tables.checkpoint.stage else { return Ok(None) };
        let area = Area::behind(port, &self.tables.layout).await?;
        let problem = match area.filter(|area| area.mark() == mark) {
            Some(area) => {
                let version = self.tables.checkpoint.version();
                let scanned = area.scan(version, true).await?;
                let outcome = scanned.expect_whole(version).and_then(|()| Merged::of(&scanned).map(drop));
                outcome.err().as_ref().map(problem_of)
            }
            None => Some(mark.place.missing().to_owned()),
        };
        Ok(problem.map(|problem| format!("{problem}; the checkpoint alone is shown")))
    }

    /// Counts the transactions in the staging area behind the image, if they continue this checkpoint.
    pub(super) async fn count_staged(&self, port: &DevicePort) -> FsResult<u64> {
        let Some(area) = Area::behind(port, &self.tables.layout).await? else { return Ok(0) };
        let version = self.tables.checkpoint.version();
        let scanned = area.scan(version, false).await?;
        match scanned.version == version {
            // Damage is told by `unseen_area`.
            true => Ok(Merged::of(&scanned).map_or(0, |merged| merged.transactions)),
            false => Ok(0),
        }
    }

    /// Counts the nodes that fsyncs made durable behind the checkpoint.
    pub(super) async fn count_fsyncs(&self) -> FsResult<u64> {
        let checkpoint = &self.tables.checkpoint;
        let layout = &self.tables.layout;
        let log = checkpoint.log(LogKind::WarmNode);
        let mut block = layout.segment_start(log.segment) + u64::from(log.next);
        let mut synced = 0_u64;
        // A chain that leads back into itself is damage, and ends there.
        let mut seen = BTreeSet::new();
        while layout.main.contains(block) && seen.insert(block) {
            let footer = node::footer(&self.tables.blocks.block(block).await?.bytes()[..]);
            if footer.version != checkpoint.footer_version() {
                break;
            }
            synced += u64::from(footer.is_fsynced);
            block = footer.next;
        }
        Ok(synced)
    }
}
