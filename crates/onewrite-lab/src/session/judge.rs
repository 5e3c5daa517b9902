//! Judge: replays the log of an image, checks all metadata, and repairs it if asked to.

use onewrite_block::{Cause, DevicePort, Page, Request};
use onewrite_fs::check::{CheckOptions, ReadBlocks, ReadError, Report, check};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, replay};
use onewrite_fs::journal::Recovered;
use onewrite_fs::repair::{Manner, RepairOptions, Repaired, repair};
use onewrite_fs::{BlockNo, FileSystem, FsError, FsResult};

/// Reads blocks through a port.
struct Reader<'a>(&'a DevicePort);

impl ReadBlocks for Reader<'_> {
    async fn read_block(&self, block: BlockNo) -> Result<Page, ReadError> {
        let read = self.0.submit(Request::read(block.page(), 1, Cause::Metadata)).await;
        let failed = |reason: String| ReadError { reason };
        read.map_err(|error| failed(error.to_string()))?.pop().ok_or_else(|| failed("nothing came back".to_owned()))
    }
}

/// Result of a check.
pub struct Judgement {
    /// What the replay of the log did, if the log was not empty.
    pub recovered: Option<Recovered>,
    /// Inodes on the list of orphans whose removal or truncation was finished.
    pub finished: u64,
    /// What the check found after it.
    pub report: Report,
}

/// Replays the log of the image on `port` and checks all metadata. If nothing is wrong, it finishes the removals and
/// truncations that the last use of the image began, as a mount does; a file system that cannot be mounted here keeps
/// them.
///
/// # Errors
/// If the log cannot be replayed, or the device fails; the report contains other damage.
pub async fn judge(port: &DevicePort) -> FsResult<Judgement> {
    let recovered = replay(port).await?;
    let report = checked(port).await;
    let unfinished = report.orphans;
    if !report.is_clean() || unfinished == 0 {
        return Ok(Judgement { recovered, finished: 0, report });
    }
    match Ext4::mount(port.clone(), MountOptions::new(Mode::Ordered)).await {
        Ok(mounted) => mounted.unmount().await?,
        Err(_) => return Ok(Judgement { recovered, finished: 0, report }),
    }
    Ok(Judgement { recovered, finished: unfinished, report: checked(port).await })
}

async fn checked(port: &DevicePort) -> Report {
    check(&Reader(port), &CheckOptions::default()).await
}

/// Which repairs would put an image right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// The safe repairs are enough.
    Safe,
    /// It needs all repairs.
    All,
    /// No repair here is enough; the reason, if known.
    None(Option<String>),
}

/// Plans the repair of the image on `port`, whose log was replayed, and says which repairs it needs. Writes nothing.
pub async fn prospect(port: &DevicePort) -> Prospect {
    let unix_time = (port.runtime().civil_now().0 / 1_000_000_000) as u32;
    prospect_of(&repair(&Reader(port), &RepairOptions { manner: Manner::All, unix_time }).await)
}

fn prospect_of(planned: &Repaired) -> Prospect {
    match planned.is_complete {
        true if planned.changes.iter().all(|change| change.is_safe) => Prospect::Safe,
        true => Prospect::All,
        false => Prospect::None(planned.refusal.clone()),
    }
}

/// Result of a repair.
pub struct Mended {
    /// What the replay of the log did, if the log was not empty.
    pub recovered: Option<Recovered>,
    /// Damage found, repairs made, and damage that is left.
    pub repaired: Repaired,
    /// Repairs that the image needed.
    pub prospect: Prospect,
}

/// Replays the log of the image on `port`, repairs it in the manner `manner`, and writes the changed blocks.
///
/// The superblock is written last, after a flush. A power cut before leaves an image that can be repaired again.
///
/// # Errors
/// If the device fails, or the image has unknown features. A log that cannot be replayed counts as damage and is
/// emptied.
pub async fn mend(port: &DevicePort, manner: Manner) -> FsResult<Mended> {
    let recovered = match replay(port).await {
        Ok(recovered) => recovered,
        Err(FsError::Damaged { .. }) => None,
        Err(error) => return Err(error),
    };
    let unix_time = (port.runtime().civil_now().0 / 1_000_000_000) as u32;
    let mut repaired = repair(&Reader(port), &RepairOptions { manner, unix_time }).await;
    for (&target, &source) in &repaired.copies {
        let page = port.request(Request::read(source.page(), 1, Cause::Metadata)).await?;
        port.request(Request::write(target.page(), page, Cause::Metadata)).await?;
    }
    let superblock = repaired.blocks.remove(&BlockNo::FIRST);
    for (&block, page) in &repaired.blocks {
        port.request(Request::write(block.page(), vec![page.clone()], Cause::Metadata)).await?;
    }
    if !repaired.blocks.is_empty() {
        port.request(Request::flush(Cause::Metadata)).await?;
    }
    if let Some(page) = superblock {
        port.request(Request::write(BlockNo::FIRST.page(), vec![page.clone()], Cause::Metadata)).await?;
        port.request(Request::flush(Cause::Metadata)).await?;
        repaired.blocks.insert(BlockNo::FIRST, page);
    }
    Ok(Mended { recovered, prospect: prospect_of(&repaired), repaired })
}
