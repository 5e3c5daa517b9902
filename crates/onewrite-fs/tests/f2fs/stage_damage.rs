//! Damaged staging areas, and those of other times: what fsyncs made durable is never dropped without a word, and what
//! can still be shown is.

use onewrite_block::{Executor, Geometry, Image, Lpn, Page, RamDisk, crc32c};
use onewrite_fs::f2fs::F2fsOptions;
use onewrite_fs::f2fs::check::{CheckOptions, check};
use onewrite_fs::f2fs::format::Layout;
use onewrite_fs::f2fs::format::superblock::RawSuperblock;
use onewrite_fs::{FileSystem, FileView, FsResult, Manner, SeekTarget};

use super::stage::{
    MIB, again, crashed, discarding, empty, get, put, refusal, refused_with, staged, viewed, with_both,
};
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, with_mount};
use crate::support::volume::image;

/// Page of the label of an area behind an image of 64 MiB; its log begins three pages later.
const LABEL: u64 = 64 * MIB / 4096;
const LOG: u64 = LABEL + 3;

fn read_only() -> F2fsOptions {
    F2fsOptions { read_only: true, ..F2fsOptions::default() }
}

/// Files of 300 bytes, one after another, an fsync after each.
fn several(count: u8) -> Image {
    crashed(staged(MIB), move |fs| async move {
        for number in 0..count {
            let file = put(&fs, &format!("file {number}"), 0, &[number; 300]).await?;
            fs.fsync(file).await?;
        }
        Ok(())
    })
}

/// The same image with a bit of this page turned round.
fn damaged(image: &Image, page: u64) -> Image {
    let (mut damaged, mut bytes) = (image.clone(), *image.page(Lpn(page)).bytes());
    bytes[500] ^= 4;
    damaged.set(Lpn(page), Page::new(bytes));
    damaged
}

/// The same image on a device of so many pages.
fn cut(image: &Image, pages: u64) -> Image {
    let mut short = Image::new(pages);
    image.written().filter(|(lpn, _)| lpn.0 < pages).for_each(|(lpn, page)| short.set(lpn, page.clone()));
    short
}

/// The files that a mount shows, of those of [`several`], and how many warnings it gives.
fn shown(image: &Image, options: F2fsOptions) -> (Vec<u8>, usize) {
    let left = if options.read_only { Left::AsItIs } else { Left::Unmounted };
    let (found, _) = with_mount(again(image), options, left, |fs, _| async move {
        let mut found = Vec::new();
        for number in 0..10 {
            if let Ok(bytes) = get(&*fs, &format!("file {number}")).await {
                assert_eq!(bytes, [number; 300]);
                found.push(number);
            }
        }
        FsResult::Ok((found, fs.warnings().len()))
    });
    found
}

/// The same image with a record in the first page of the log that no mount can decode, under a right checksum.
fn with_odd_record(image: &Image) -> Image {
    let raw = RawSuperblock::in_block(&image.page(Lpn(0)).bytes()[..], 0).expect("a superblock");
    let layout = Layout::decode(&raw, 0).expect("a layout");
    let (mut odd, mut bytes) = (image.clone(), *image.page(Lpn(LOG)).bytes());
    // Behind the head: a mapping of one and a half pages.
    (bytes[32], bytes[34], bytes[35]) = (4, 12, 0);
    let sum = crc32c(crc32c(layout.inode_seed, &bytes[..4]), &bytes[8..]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    odd.set(Lpn(LOG), Page::new(bytes));
    odd
}

fn findings(image: &Image) -> Vec<String> {
    let executor = Executor::ideal();
    let geometry = Geometry::plain("ram", image.pages());
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image.clone(), geometry)));
    let report = executor.block_on(async move { check(&port, &CheckOptions::default()).await });
    report.expect("nothing halts").expect("a check").findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_read_only_mount_knows_where_staged_content_is() {
    let left = crashed(staged(MIB), |fs| async move {
        put(&fs, "file", 5000, &[7; 500]).await?;
        let file = put(&fs, "file", 20_000, &[8; 500]).await?;
        fs.fsync(file).await
    });
    with_mount(again(&left), read_only(), Left::AsItIs, |fs, _| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        assert_eq!(fs.seek(file, 0, SeekTarget::Data).await?, 4096);
        assert_eq!(fs.seek(file, 4096, SeekTarget::Hole).await?, 8192);
        assert_eq!(fs.seek(file, 8192, SeekTarget::Data).await?, 16_384);
        let direct = fs.read(file, 4096, 4096, Manner { direct: true, ..Manner::default() }).await?.to_vec();
        assert_eq!(direct[904..1404], [7; 500]);
        FsResult::Ok(())
    });
}

#[test]
fn a_transaction_that_is_damaged_before_durable_ones_is_told() {
    let left = several(6);
    assert_eq!(shown(&left, F2fsOptions::default()), (vec![0, 1, 2, 3, 4, 5], 0));
    // A page of the log for each transaction, from number 1 on.
    let torn = damaged(&left, LOG + 2);
    let refused = refusal(&torn, F2fsOptions::default()).expect("it is told");
    assert!(refused.contains("transaction 3 ") && refused.contains("up to 5 were durable"), "{refused}");
    assert!(refused.contains("discard_stage"), "{refused}");
    assert!(findings(&torn).iter().any(|finding| finding.contains("transaction 3 ")), "{:?}", findings(&torn));
    assert_eq!(shown(&torn, discarding()), (vec![0, 1], 0));
    assert_eq!(shown(&torn, read_only()), (vec![], 1));
    let told = viewed(&torn, |view| async move { Ok(view.warnings().to_vec()) });
    assert!(told.iter().any(|warning| warning.contains("transaction 3 ")), "{told:?}");
}

#[test]
fn a_lost_first_transaction_is_told_once_a_later_one_shows_that_it_was_durable() {
    for count in [2, 4] {
        let torn = damaged(&several(count), LOG);
        assert!(refusal(&torn, F2fsOptions::default()).is_some_and(|said| said.contains("transaction 1 ")), "{count}");
    }
    let early = crashed(staged(MIB), |fs| async move { put(&fs, "file", 0, b"nobody synced this").await.map(drop) });
    assert_eq!(refusal(&damaged(&early, LOG), F2fsOptions::default()), None);
}

#[test]
fn a_log_that_nobody_can_decode_is_told_and_given_up_when_asked() {
    let odd = with_odd_record(&several(3));
    let is_told = |said: &str| said.contains("a record of kind 4") && said.contains("with 12 bytes");
    let refused = refusal(&odd, F2fsOptions::default()).expect("it is refused");
    assert!(is_told(&refused), "{refused}");
    assert!(findings(&odd).iter().any(|finding| is_told(finding)));
    let warnings = viewed(&odd, |view| async move { Ok(view.warnings().to_vec()) });
    assert!(warnings.iter().any(|warning| is_told(warning)), "{warnings:?}");
    assert_eq!(shown(&odd, discarding()), (Vec::new(), 0));
}

#[test]
fn the_last_transaction_may_be_torn() {
    let left = several(4);
    assert_eq!(shown(&damaged(&left, LOG + 3), F2fsOptions::default()), (vec![0, 1, 2], 0));
    assert_eq!(findings(&damaged(&left, LOG + 3)), Vec::<String>::new());
}

#[test]
fn an_older_copy_of_the_image_does_not_go_with_the_newest_area() {
    let round = |disks, name: &'static str| {
        let both = with_both(disks, move |fs| async move {
            let file = put(&fs, name, 0, b"staged").await?;
            fs.fsync(file).await
        });
        both.expect("a mount")
    };
    let (older, area) = round((Box::new(new_disk(64 * MIB)), empty()), "first");
    let (newer, area) = round((again(&older), again(&area)), "second");
    let refused = refused_with((&older, again(&area))).expect("the image is an older one");
    assert!(refused.contains("older copy") && refused.contains("discard_stage"), "{refused}");
    let own = with_both((again(&newer), again(&area)), |fs| async move {
        assert_eq!((get(&fs, "first").await?, get(&fs, "second").await?), (b"staged".to_vec(), b"staged".to_vec()));
        fs.unmount().await
    });
    assert_clean(&own.expect("its own image").0);
}

/// A checkpoint has the number that one of another time of the image had; what continued that one is still in the area.
#[test]
fn what_another_time_of_the_image_staged_is_not_taken_for_what_follows() {
    let left = several(4);
    // The same image three mounts later, whose area says more, under the next numbers.
    let mut area = left.clone();
    for _ in 0..3 {
        area = crashed(again(&area), |fs| async move {
            for number in 5..9 {
                let file = put(&fs, &format!("file {number}"), 0, &[number; 300]).await?;
                fs.fsync(file).await?;
            }
            Ok(())
        });
        let mut older = left.clone();
        area.written().filter(|(lpn, _)| lpn.0 >= LABEL).for_each(|(lpn, page)| older.set(lpn, page.clone()));
        assert!(refusal(&older, F2fsOptions::default()).is_some_and(|said| said.contains("older copy")));
        for count in [0, 1] {
            let (_, disk) = with_mount(again(&older), discarding(), Left::AsItIs, move |fs, _| async move {
                for number in 0..count {
                    let file = put(&fs, &format!("file {number}"), 0, &[number; 300]).await?;
                    fs.fsync(file).await?;
                }
                Ok(())
            });
            assert_eq!(shown(&image(disk), F2fsOptions::default()), ((0..count).collect(), 0));
        }
    }
}

/// A backup that was unmounted continues no area, so it is mounted. Its next checkpoints have numbers that the area
/// knows.
#[test]
fn a_backup_beside_a_newer_area_loses_nothing_that_it_syncs() {
    let ((), disk) = with_mount(staged(MIB), F2fsOptions::default(), Left::Unmounted, |_, _| async { Ok(()) });
    let backup = image(disk);
    let mut area = backup.clone();
    for rounds in 1..4 {
        let ((), disk) = with_mount(again(&area), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
            for number in 4..9 {
                let file = put(&fs, &format!("file {number}"), 0, &[number; 300]).await?;
                fs.fsync(file).await?;
            }
            Ok(())
        });
        area = image(disk);
        let mut mixed = backup.clone();
        area.written().filter(|(lpn, _)| lpn.0 >= LABEL).for_each(|(lpn, page)| mixed.set(lpn, page.clone()));
        // Each crash is followed by a mount under the next number.
        for synced in 0..3 {
            mixed = crashed(again(&mixed), move |fs| async move {
                let file = put(&fs, &format!("file {synced}"), 0, &[synced; 300]).await?;
                fs.fsync(file).await
            });
        }
        assert_eq!(shown(&mixed, F2fsOptions::default()), (vec![0, 1, 2], 0), "{rounds} rounds");
    }
}

#[test]
fn an_area_that_was_cut_or_lost_its_label_is_told_and_made_anew_when_asked() {
    let left = several(3);
    for broken in [cut(&left, LABEL + 100), damaged(&left, LABEL)] {
        let refused = refusal(&broken, F2fsOptions::default()).expect("it is told");
        assert!(refused.contains("label of the staging area") && refused.contains("discard_stage"), "{refused}");
        assert_eq!(shown(&broken, read_only()), (vec![], 1));
        assert_eq!(findings(&broken).len(), 1, "{:?}", findings(&broken));
        // Its log was not damaged. The area is made anew, and works.
        let (_, disk) = with_mount(again(&broken), discarding(), Left::AsItIs, |fs, _| async move {
            let file = put(&fs, "file 5", 0, &[5; 300]).await?;
            fs.fsync(file).await
        });
        assert_eq!(shown(&image(disk), F2fsOptions::default()), (vec![0, 1, 2, 5], 0));
    }
}

#[test]
fn behind_an_unmount_a_broken_area_is_made_anew() {
    let ((), disk) = with_mount(again(&several(3)), F2fsOptions::default(), Left::Unmounted, |_, _| async { Ok(()) });
    let left = image(disk);
    for broken in [cut(&left, LABEL + 100), damaged(&left, LABEL), cut(&left, LABEL + 10)] {
        assert_eq!(shown(&broken, read_only()).0, [0, 1, 2]);
        assert_eq!(shown(&broken, F2fsOptions::default()), (vec![0, 1, 2], 0));
    }
}
