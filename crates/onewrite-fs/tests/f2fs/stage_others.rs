//! What a sync of one file takes along of others: a transaction has all inodes so far, so content that moved goes with
//! them. And what it must not take: more than the image has room for.

use onewrite_block::{Cause, Lpn, Nanos};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{
    Allocation, AttributeManner, Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position,
};

use super::full::inline_disk;
use super::stage::{
    MIB, after, again, crashed, discarding, empty, get, put, run_on_both_with, staged, viewed, with_both, with_both_at,
};
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, new_staged_disk, with_mount};
use crate::support::late::{Late, LateDisk, Plan};
use crate::support::volume::image;

const PAGE: u64 = 4096;

async fn overwrite(fs: &F2fs, ino: Ino, offset: u64, bytes: &[u8]) -> FsResult<()> {
    fs.write(ino, Position::At(offset), Content::Bytes(bytes), Manner::default()).await.map(drop)
}

/// Five pages that tell one from another.
fn pages() -> Vec<u8> {
    (1..=5).flat_map(|page| [page; PAGE as usize]).collect()
}

#[test]
fn content_that_a_shift_moved_goes_with_its_inode() {
    let left = crashed(staged(MIB), |fs| async move {
        let longer = put(&fs, "longer", 0, &pages()).await?;
        let shorter = put(&fs, "shorter", 0, &pages()).await?;
        let other = put(&fs, "other", 0, b"x").await?;
        fs.sync().await?;
        fs.allocate(longer, PAGE, 2 * PAGE, Allocation::InsertRange).await?;
        fs.allocate(shorter, PAGE, 2 * PAGE, Allocation::CollapseRange).await?;
        overwrite(&fs, other, 0, b"y").await?;
        fs.fsync(other).await
    });
    after(&left, |fs| async move {
        let (hole, pages) = ([0; 2 * PAGE as usize], pages());
        let (first, rest) = pages.split_at(PAGE as usize);
        assert!(get(&*fs, "longer").await? == [first, &hole, rest].concat(), "inserted");
        assert!(get(&*fs, "shorter").await? == [first, &rest[2 * PAGE as usize..]].concat(), "collapsed");
        Ok(())
    });
}

#[test]
fn content_that_moved_out_of_an_inode_goes_with_it() {
    let both = with_both((inline_disk(), empty()), |fs| async move {
        let small = fs.lookup(fs.root(), b"small").await?;
        overwrite(&fs, small, 100, &[9; 10]).await?;
        let other = put(&fs, "other", 0, b"x").await?;
        fs.fsync(other).await
    });
    let cut = both.expect("a mount");
    let both = with_both((again(&cut.0), again(&cut.1)), |fs| async move {
        assert_eq!(get(&fs, "other").await?, b"x");
        let small = get(&fs, "small").await?;
        assert_eq!((small.len(), &small[..100], &small[110..]), (300, &[6; 100][..], &[6; 190][..]));
        fs.unmount().await
    });
    assert_clean(&both.expect("the next mount").0);
}

#[test]
fn a_sync_writes_what_changed_however_much_is_staged() {
    crashed(staged(16 * MIB), |fs| async move {
        let file = put(&fs, "file", 0, &[1; 400 * PAGE as usize]).await?;
        fs.sync().await?;
        for page in 0..400 {
            let before = fs.counters().journal_bytes;
            overwrite(&fs, file, page * PAGE + 7, &[2; 1000]).await?;
            fs.fsync(file).await?;
            assert_eq!(fs.counters().journal_bytes - before, PAGE, "sync {page}");
        }
        Ok(())
    });
}

/// Records need no blocks, but the checkpoint that brings them in does: each page another one.
#[test]
fn no_more_is_staged_than_the_image_has_room_for() {
    let options = F2fsOptions { cache_pages: 100_000, ..F2fsOptions::default() };
    let disk = Box::new(new_staged_disk(320 * MIB, 64 * MIB));
    let ((), disk) = with_mount(disk, options, Left::AsItIs, |fs, _| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        let mut pages = 0;
        loop {
            match overwrite(&fs, file, pages * PAGE, &[1; PAGE as usize]).await {
                Ok(()) => pages += 1,
                Err(FsError::NoSpace { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        fs.sync().await?;
        for page in 0..pages {
            overwrite(&fs, file, page * PAGE + page % PAGE, &[2]).await?;
            if page == pages / 2 {
                fs.fsync(file).await?;
            }
        }
        fs.fsync(file).await?;
        fs.sync().await
    });
    after(&image(disk), |fs| async move {
        let found = get(&*fs, "file").await?;
        let pages = found.chunks(PAGE as usize);
        assert!(pages.len() > 40_000, "{} pages", pages.len());
        let is_as_synced = |(page, bytes): (usize, &[u8])| {
            let (changed, others) = (page % PAGE as usize, bytes.iter().filter(|byte| **byte == 1).count());
            bytes[changed] == 2 && others == bytes.len() - 1
        };
        assert_eq!(pages.enumerate().position(|page| !is_as_synced(page)), None);
        Ok(())
    });
}

/// One transaction does not name more than 65,536 pages.
#[test]
fn more_whole_pages_than_a_transaction_names_come_in_by_a_checkpoint() {
    for (pages, makes_one) in [(1_000, false), (66_000, true)] {
        let options = F2fsOptions { checkpoint_interval: Nanos::from_secs(10_000), ..F2fsOptions::default() };
        let disk = Box::new(new_staged_disk(512 * MIB, 4 * MIB));
        let ((), disk) = with_mount(disk, options, Left::AsItIs, move |fs, _| async move {
            let file = put(&fs, "file", 0, b"").await?;
            fs.sync().await?;
            let before = fs.counters().checkpoints;
            for page in 0..pages {
                overwrite(&fs, file, page * PAGE, &[page as u8; PAGE as usize]).await?;
            }
            fs.fsync(file).await?;
            assert_eq!(fs.counters().checkpoints > before, makes_one, "a checkpoint for {pages} pages");
            Ok(())
        });
        after(&image(disk), move |fs| async move {
            let found = get(&*fs, "file").await?;
            assert_eq!(found.len() as u64, pages * PAGE);
            let wrong =
                found.chunks(PAGE as usize).zip(0..).find(|(bytes, page)| *bytes != [*page as u8; PAGE as usize]);
            assert!(wrong.is_none(), "page {:?}", wrong.map(|(_, page): (_, u64)| page));
            Ok(())
        });
    }
}

/// The pack of a checkpoint is whole before the area begins its log anew.
#[test]
fn a_log_that_the_checkpoint_holds_already_is_not_told_of() {
    let before = crashed(staged(MIB), |fs| async move {
        let file = put(&fs, "file", 0, b"staged").await?;
        fs.fsync(file).await
    });
    let mut between = crashed(again(&before), |fs| async move { fs.sync().await });
    for page in (64 * MIB / PAGE..before.pages()).map(Lpn) {
        between.set(page, before.page(page).clone());
    }
    for shown in [&before, &between] {
        let content = viewed(shown, |view| async move {
            assert_eq!(view.warnings(), [""; 0]);
            get(&view, "file").await
        });
        assert_eq!(content, b"staged");
    }
}

#[test]
fn an_area_that_is_given_up_is_not_applied() {
    // The image comes back as it was, and both areas continue one version of its checkpoint.
    let fresh = with_both((Box::new(new_disk(64 * MIB)), empty()), |fs| async move {
        put(&fs, "file", 0, b"saved").await?;
        fs.unmount().await
    });
    let fresh = fresh.expect("a mount").0;
    let [(first, _), (_, other)] = [(1, b"first one"), (2, b"the other")].map(|(second, content)| {
        let both = with_both_at(Nanos::from_secs(second), (again(&fresh), empty()), move |fs| async move {
            let file = put(&fs, "file", 0, content).await?;
            fs.fsync(file).await
        });
        both.expect("a mount")
    });
    let given_up = run_on_both_with(discarding(), Nanos::ZERO, (again(&first), again(&other)), |fs| async move {
        assert_eq!(get(&fs, "file").await?, b"saved");
        fs.unmount().await
    });
    assert_clean(&image(given_up.expect("it is given up").0));
}

/// What was staged of it is no page of any file from then on, and a checkpoint would miss it.
#[test]
fn a_removal_that_cannot_read_the_attributes_leaves_nothing_staged() {
    let plan = Plan::default();
    let disk = LateDisk::new(new_staged_disk(64 * MIB + MIB, MIB), &plan);
    let ((), left) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let file = put(&fs, "file", 0, &[1; 100]).await?;
        fs.set_extended_attribute(file, b"user.x", Some(&[7; 3000]), AttributeManner::Either).await?;
        fs.sync().await?;
        overwrite(&fs, file, 100, &[2; 100]).await?;
        fs.fsync(file).await?;
        fs.drop_caches();
        fs.lookup(fs.root(), b"file").await?;
        plan.set(&[Late::failing_reads(Cause::Metadata, 1)]);
        fs.unlink(fs.root(), b"file").await.expect_err("its attributes cannot be read");
        assert!(matches!(fs.lookup(fs.root(), b"file").await, Err(FsError::NotFound(_))), "its name is gone");
        fs.sync().await
    });
    assert_clean(&image(left));
}
