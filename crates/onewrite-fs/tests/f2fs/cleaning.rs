//! Cleaning in quiet times, and checkpoints that free segments, beside requests that take long: nothing that was
//! written is lost, and nothing that was cut off comes back.

use std::rc::Rc;

use onewrite_block::{Cause, DevicePort, Geometry, Nanos, RamDisk};
use onewrite_fs::f2fs::{Clean, F2fs, F2fsOptions};
use onewrite_fs::{AttributeChanges, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::coming_to;
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, with_mount};
use crate::support::late::{Late, LateDisk, Plan};
use crate::support::volume::image;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Longer than cleaning waits for quiet times.
const VERY_LATE: Nanos = Nanos::from_secs(100);

async fn write(fs: &F2fs, file: Ino, pages: std::ops::Range<u64>, byte: u8) -> FsResult<()> {
    for page in pages {
        let content = Content::Bytes(&[byte; PAGE as usize]);
        fs.write(file, Position::At(page * PAGE), content, Manner::default()).await?;
    }
    Ok(())
}

async fn resize(fs: &F2fs, file: Ino, size: u64) -> FsResult<()> {
    fs.set_attributes(file, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
}

async fn page(fs: &F2fs, file: Ino, page: u64) -> FsResult<Vec<u8>> {
    Ok(fs.read(file, page * PAGE, PAGE, Manner::default()).await?.to_vec())
}

/// A file of `pages` pages on an image of which less than a third is free. All of it was written twice but for the
/// pages `old`, so that their segment is the best to clean.
async fn aged(fs: &F2fs, pages: u64, old: std::ops::Range<u64>) -> FsResult<Ino> {
    let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
    write(fs, file, 0..pages, 1).await?;
    let filler = fs.create(fs.root(), b"filler", NewNode::FILE).await?;
    write(fs, filler, 0..20_000, 2).await?;
    fs.sync().await?;
    write(fs, file, 0..old.start, 1).await?;
    write(fs, file, old.end..pages, 1).await?;
    fs.sync().await?;
    fs.drop_caches();
    Ok(file)
}

/// Runs `work` on a disk whose late requests it plans. fsck.f2fs must find nothing afterwards.
fn on_late_disk<F: Future<Output = FsResult<()>> + 'static>(
    options: F2fsOptions,
    work: impl FnOnce(Rc<F2fs>, DevicePort, Plan) -> F + 'static,
) {
    let plan = Plan::default();
    let disk = LateDisk::new(new_disk(160 * MIB), &plan);
    let ((), left) = with_mount(disk, options, Left::Unmounted, |fs, port| work(fs, port, plan));
    assert_clean(&image(left));
}

fn cleaned(fs: &F2fs) -> u64 {
    fs.counters().cleaning.segments
}

#[test]
fn a_page_on_its_way_over_its_block_is_not_cleaned_by_share() {
    let options = F2fsOptions { clean: Clean::Share, in_place_below: 16, ..F2fsOptions::default() };
    on_late_disk(options, |fs, port, plan| async move {
        let file = aged(&fs, 2_400, 100..120).await?;
        plan.set(&[Late::writes(Cause::Data, 1).by(VERY_LATE)]);
        let before = cleaned(&fs);
        write(&fs, file, 105..106, 3).await?;
        let syncer = Rc::clone(&fs);
        let sync = port.runtime().start(async move { syncer.fsync(file).await });
        port.runtime().sleep(Nanos::from_secs(70)).await;
        assert!(cleaned(&fs) > before, "nothing is cleaned while the page is on its way");
        sync.await?;
        fs.drop_caches();
        assert_eq!(page(&fs, file, 105).await?, [3; PAGE as usize], "what was synced");
        Ok(())
    });
}

#[test]
fn what_the_device_cannot_share_is_copied() {
    let options = F2fsOptions { clean: Clean::Share, ..F2fsOptions::default() };
    on_late_disk(options, |fs, port, plan| async move {
        let file = aged(&fs, 2_400, 100..120).await?;
        let before = cleaned(&fs);
        plan.set(&[Late::refused_shares(Cause::Cleaning, u32::MAX)]);
        port.runtime().sleep(Nanos::from_secs(70)).await;
        assert!(cleaned(&fs) > before, "nothing is cleaned");
        assert!(plan.has_met(), "no SHARE was refused");
        fs.sync().await?;
        fs.drop_caches();
        for at in 100..120 {
            assert_eq!(page(&fs, file, at).await?, [1; PAGE as usize], "page {at}");
        }
        Ok(())
    });
}

/// The flusher has begun to write what cleaning moved, when cleaning ends and lets the fsync go on.
#[test]
fn an_fsync_waits_for_what_cleaning_moved_meanwhile() {
    let plan = Plan::default();
    let disk = LateDisk::new(new_disk(160 * MIB), &plan);
    // No checkpoint asks for its turn before the fsync does.
    let options = F2fsOptions { checkpoint_interval: Nanos::from_secs(10_000), ..F2fsOptions::default() };
    let (commits, left) = with_mount(disk, options, Left::AsItIs, |fs, port| async move {
        let file = aged(&fs, 2_400, 100..120).await?;
        // Cleaning reads sixteen pages, moves them, and reads the others.
        plan.set(&[
            Late::reads(Cause::Data, u32::MAX).by(VERY_LATE),
            Late::writes(Cause::Cleaning, 1).by(Nanos::from_secs(1_000)),
        ]);
        port.runtime().sleep(Nanos::from_secs(70)).await;
        fs.fsync(file).await?;
        assert!(cleaned(&fs) > 0, "nothing was cleaned meanwhile");
        Ok(fs.counters().commits)
    });
    assert!(commits > 0, "the fsync wrote no nodes");
    let shown = image(left);
    let disk = Box::new(RamDisk::with_image(shown.clone(), Geometry::plain("ram", shown.pages())));
    with_mount(disk, options, Left::Unmounted, |fs, _| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        for at in 100..120 {
            assert_eq!(page(&fs, file, at).await?, [1; PAGE as usize], "page {at} behind a cut");
        }
        Ok(())
    });
}

/// A page that cleaning moved is dirty again, if its write fails while the fsync of its file waits for it.
#[test]
fn an_fsync_tells_that_what_cleaning_moved_did_not_arrive() {
    let options = F2fsOptions { checkpoint_interval: Nanos::from_secs(10_000), ..F2fsOptions::default() };
    let work = |fs: Rc<F2fs>, port: DevicePort, plan: Plan| async move {
        let file = aged(&fs, 2_400, 100..120).await?;
        plan.set(&[
            Late::reads(Cause::Data, u32::MAX).by(VERY_LATE),
            Late::failing_writes(Cause::Cleaning, 1).by(Nanos::from_secs(1_000)),
        ]);
        port.runtime().sleep(Nanos::from_secs(70)).await;
        fs.fsync(file).await.expect_err("a write failed");
        plan.set(&[]);
        fs.fsync(file).await?;
        fs.drop_caches();
        for at in 100..120 {
            assert_eq!(page(&fs, file, at).await?, [1; PAGE as usize], "page {at}");
        }
        Ok(())
    };
    coming_to("fsync finds pages that cleaning moved", || on_late_disk(options, work));
}

/// All that is clean leaves memory each millisecond, while each read takes five.
#[test]
fn a_page_that_leaves_memory_before_it_is_moved_is_not_lost() {
    let work = |fs: Rc<F2fs>, port: DevicePort, plan: Plan| async move {
        let file = aged(&fs, 2_400, 100..120).await?;
        let slow = [Cause::Data, Cause::Metadata].map(|cause| Late::reads(cause, u32::MAX).by(Nanos::from_millis(5)));
        plan.set(&slow);
        for _ in 0..70_000 {
            port.runtime().sleep(Nanos::from_millis(1)).await;
            fs.drop_caches();
        }
        plan.set(&[]);
        for at in 100..120 {
            assert_eq!(page(&fs, file, at).await?, [1; PAGE as usize], "page {at}");
        }
        Ok(())
    };
    coming_to("content changed while it was cleaned", || on_late_disk(F2fsOptions::default(), work));
}

#[test]
fn cleaning_waits_for_a_truncation_that_is_under_way() {
    on_late_disk(F2fsOptions::default(), |fs, port, plan| async move {
        // Pages that a second node of addresses names.
        let file = aged(&fs, 2_400, 2_000..2_020).await?;
        let before = cleaned(&fs);
        plan.set(&[Late::reads(Cause::Metadata, 1).by(VERY_LATE)]);
        let cutter = Rc::clone(&fs);
        let cut = port.runtime().start(async move { resize(&cutter, file, 1_000 * PAGE).await });
        port.runtime().sleep(Nanos::from_secs(70)).await;
        assert_eq!(cleaned(&fs), before, "it is cleaned beside a truncation");
        cut.await?;
        resize(&fs, file, 2_400 * PAGE).await?;
        for at in [2_000, 2_010, 2_019] {
            assert_eq!(page(&fs, file, at).await?, [0; PAGE as usize], "page {at} is a hole");
        }
        Ok(())
    });
}

#[test]
fn nothing_is_written_to_a_freed_segment_before_its_trim() {
    // All pages may be dirty at once.
    let options = F2fsOptions { cache_pages: 100_000, ..F2fsOptions::default() };
    on_late_disk(options, |fs, port, plan| async move {
        let old = fs.create(fs.root(), b"old", NewNode::FILE).await?;
        write(&fs, old, 0..16_000, 1).await?;
        let filler = fs.create(fs.root(), b"filler", NewNode::FILE).await?;
        write(&fs, filler, 0..30_000, 2).await.expect_err("the disk is full");
        fs.sync().await?;
        fs.unlink(fs.root(), b"old").await?;
        let new = fs.create(fs.root(), b"new", NewNode::FILE).await?;
        // More than the segments that are free without those of `old`.
        write(&fs, new, 0..14_000, 3).await?;
        plan.set(&[Late::trims(Cause::Checkpoint, u32::MAX)]);
        let syncer = Rc::clone(&fs);
        let checkpoint = port.runtime().start(async move { syncer.fsync(syncer.root()).await });
        port.runtime().sleep(Nanos::from_millis(1)).await;
        fs.fsync(new).await?;
        checkpoint.await?;
        fs.drop_caches();
        for at in 0..14_000 {
            assert_eq!(page(&fs, new, at).await?, [3; PAGE as usize], "page {at}");
        }
        Ok(())
    });
}
