//! False recovery (`papers/001` §4.3): log blocks of the last transaction are left out on purpose, so that older
//! content lies in their place. Recovery must not replay that transaction.
//!
//! Files are overwritten at random with content that compresses more or less, over a log that goes around several
//! times. For each commit of several log blocks, some blocks are left out, and the rest is recovered.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{
    Cause, Choices, DevicePort, Executor, Geometry, Image, Lpn, MIB, Nanos, Operation, PAGE_SIZE, Page, RamDisk,
    TrimRead,
};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, replay};
use onewrite_fs::{Content, FileSystem, FileView, Manner, NewNode, Position};

use crate::error::LabError;

const DISK_BYTES: u64 = 32 * MIB;
const LOG_BYTES: u64 = 4 * MIB;
/// Commits of the measured row.
pub(super) const COMMITS: u64 = 800;
/// States tried for each commit.
const TRIALS: usize = 4;

/// Result for one kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct FalseRecoveries {
    /// Whether recovery uses a checksum (`ldj`); else it accepts what decompresses (`ldj-paper`).
    pub by_checksum: bool,
    /// Whether log space is trimmed before it is used again.
    pub trimmed: bool,
    /// States in which blocks of the last transaction are missing.
    pub states: u64,
    /// States in which recovery replays that transaction all the same.
    pub believed: u64,
}

/// How a log is written.
#[derive(Clone, Copy)]
struct Log {
    mode: Mode,
    /// As [`FalseRecoveries::trimmed`].
    trimmed: bool,
}

/// Measures all four kinds, with so many commits each.
///
/// # Errors
/// If a run fails.
pub(crate) fn false_recoveries(commits: u64) -> Result<Vec<FalseRecoveries>, LabError> {
    let logs =
        [Mode::LdjPaper, Mode::Ldj].into_iter().flat_map(|mode| [false, true].map(|trimmed| Log { mode, trimmed }));
    logs.map(|log| measure(log, commits)).collect()
}

/// The kind that the papers claim to be safe: with self-trimming.
pub(super) fn with_self_trimming() -> Result<f64, LabError> {
    Ok(measure(Log { mode: Mode::LdjPaper, trimmed: true }, COMMITS)?.believed as f64)
}

fn geometry() -> Geometry {
    Geometry { trim_read: TrimRead::Zeros, ..Geometry::plain("ram", DISK_BYTES / PAGE_SIZE as u64) }
}

fn measure(log: Log, commits: u64) -> Result<FalseRecoveries, LabError> {
    let (base, events) = recorded(log, commits)?;
    let by_checksum = log.mode == Mode::Ldj;
    let mut found = FalseRecoveries { by_checksum, trimmed: log.trimmed, states: 0, believed: 0 };
    let mut image = base;
    let mut commit: Vec<(Lpn, Page)> = Vec::new();
    let mut chance = Choices::new(9);
    for event in events {
        let RecordedEvent::Submitted(_, request) = event else { continue };
        match (request.cause, &request.operation) {
            (Cause::Journal, Operation::Write { start, pages, .. }) => {
                commit.extend((start.0..).map(Lpn).zip(pages.iter().cloned()));
                continue;
            }
            (_, Operation::Flush) => try_without_some(&image, &commit, &mut chance, &mut found)?,
            _ => (),
        }
        commit.drain(..).for_each(|(lpn, page)| image.set(lpn, page));
        image.apply(&request.operation);
    }
    Ok(found)
}

/// Recovers `image` with only some of the log blocks of `commit`.
fn try_without_some(
    image: &Image,
    commit: &[(Lpn, Page)],
    chance: &mut Choices,
    found: &mut FalseRecoveries,
) -> Result<(), LabError> {
    if commit.len() < 2 {
        return Ok(());
    }
    let whole = recovered(image, commit.iter())?;
    for _ in 0..TRIALS {
        let kept: Vec<bool> = commit.iter().map(|_| chance.chance(3, 4)).collect();
        let is_missing = |((lpn, page), kept): (&(Lpn, Page), &bool)| !kept && image.page(*lpn) != page;
        if !commit.iter().zip(&kept).any(is_missing) {
            continue;
        }
        let left = commit.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(block, _)| block);
        found.states += 1;
        found.believed += u64::from(recovered(image, left)? == whole);
    }
    Ok(())
}

/// Number of transactions that recovery finds on `image` after `blocks` are written to it.
fn recovered<'a>(image: &Image, blocks: impl Iterator<Item = &'a (Lpn, Page)>) -> Result<u64, LabError> {
    let mut image = image.clone();
    blocks.for_each(|(lpn, page)| image.set(*lpn, page.clone()));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry())));
    let done = executor.block_on(async move { replay(&port).await })?;
    // A falsely accepted transaction may name blocks outside the device. This counts as accepted.
    Ok(done.map_or(u64::MAX, |done| done.map_or(0, |done| done.transactions)))
}

/// A formatted disk, and the requests that it then receives.
fn recorded(log: Log, commits: u64) -> Result<(Image, Vec<RecordedEvent>), LabError> {
    let base = formatted(DISK_BYTES, LOG_BYTES)?;
    let executor = Executor::ideal();
    let recording = Rc::new(RefCell::new(Recording::default()));
    let disk = Box::new(RamDisk::with_image(base.clone(), geometry()));
    let port = executor.runtime().attach(Box::new(Recorded::new(disk, Rc::clone(&recording))));
    executor.block_on(async move { work(port, log, commits).await })??;
    let events = std::mem::take(&mut recording.borrow_mut().events);
    Ok((base, events))
}

/// An ext4 image with these sizes of disk and log in bytes.
pub(super) fn formatted(disk_bytes: u64, log_bytes: u64) -> Result<Image, LabError> {
    let mut options = MkfsOptions::new(disk_bytes, &mut Choices::new(1));
    options.journal_blocks = Some((log_bytes / PAGE_SIZE as u64) as u32);
    options.device_is_zeroed = true;
    let mut image = Image::new(disk_bytes / PAGE_SIZE as u64);
    plan(&options)?.into_iter().for_each(|(block, page)| image.set(block.page(), page));
    Ok(image)
}

async fn work(port: DevicePort, log: Log, commits: u64) -> Result<(), LabError> {
    let runtime = port.runtime().clone();
    let options = MountOptions {
        self_trimming: Some(log.trimmed),
        checkpoint_age: Nanos::from_millis(20),
        ..MountOptions::new(log.mode)
    };
    let fs = Ext4::mount(port, options).await?;
    let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
    let mut choices = Choices::new(3);
    for _ in 0..commits {
        let seed = choices.bits();
        let compressible_percent = choices.below(4) as u8 * 30;
        let length = (1 + choices.below(8)) * PAGE_SIZE as u64;
        let content = Content::Pattern { seed, compressible_percent, length };
        let offset = choices.below(1000) * PAGE_SIZE as u64;
        fs.write(file, Position::At(offset), content, Manner::default()).await?;
        fs.fsync(file).await?;
        runtime.sleep(Nanos::from_millis(5)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_never_deceived_and_length_alone_is() {
        let found = false_recoveries(COMMITS / 4).unwrap();
        assert!(found.iter().all(|kind| kind.states > 300), "{found:?}");
        assert!(found.iter().filter(|kind| kind.by_checksum).all(|kind| kind.believed == 0), "{found:?}");
        assert!(found[0].believed > 0, "{found:?}");
    }
}
