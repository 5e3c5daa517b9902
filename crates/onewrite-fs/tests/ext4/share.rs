//! SHARE for applications: targets read as sources do, at once and for good, and nothing is written for it.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::{Cause, Choices, Counters, Device, DevicePort, Geometry, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AtomicFiles, AttributeChanges, Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode,
    Position, RenameManner, ShareBy, SharePages, ShareRange,
};

use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, seeds};

const PAGE: u64 = 4096;
const MIB: u64 = 1024 * 1024;

fn disk() -> Box<dyn Device> {
    Box::new(new_disk(64 * MIB, 2048))
}

/// The same without SHARE.
fn plain_disk() -> Box<dyn Device> {
    let content = image(disk());
    let geometry = Geometry { fua: true, ..Geometry::plain("RAM disk", content.pages()) };
    Box::new(RamDisk::with_image(content, geometry))
}

/// Runs `work` on a file system, and has e2fsck look at it. Gives the device back.
fn on<F: Future<Output = FsResult<()>> + 'static>(
    name: &str,
    mode: Mode,
    device: Box<dyn Device>,
    work: impl FnOnce(Rc<Ext4>, DevicePort) -> F + 'static,
) -> Box<dyn Device> {
    let (outcome, device) = with_mount(device, MountOptions::new(mode), work);
    outcome.unwrap_or_else(|error| panic!("{mode}: {error}"));
    clean(&format!("share-{name}-{mode}"), device)
}

/// Has e2fsck look at the image. Gives the device back.
fn clean(name: &str, device: Box<dyn Device>) -> Box<dyn Device> {
    let scratch = Scratch::new(name);
    let geometry = device.geometry().clone();
    let whole = image(device);
    save(&whole, &scratch.path("image"));
    assert_clean(&scratch.path("image"));
    Box::new(RamDisk::with_image(whole, geometry))
}

/// All modes but those that need a device with a known write buffer.
fn modes() -> impl Iterator<Item = Mode> {
    Mode::ALL.into_iter().filter(|mode| !matches!(mode, Mode::Zp(_) | Mode::ZpData(_)))
}

/// `count` pages, each full of its own byte from `first` on.
fn bytes(first: u8, count: u64) -> Vec<u8> {
    (0..count).flat_map(|page| vec![first + page as u8; PAGE as usize]).collect()
}

async fn file(fs: &Ext4, name: &[u8], content: &[u8]) -> FsResult<Ino> {
    let file = fs.create(fs.root(), name, NewNode::FILE).await?;
    fs.write(file, Position::At(0), Content::Bytes(content), Manner::default()).await?;
    Ok(file)
}

async fn content(fs: &Ext4, ino: Ino) -> FsResult<Vec<u8>> {
    Ok(fs.read(ino, 0, u64::MAX, Manner::default()).await?.to_vec())
}

async fn content_at(fs: &Ext4, name: &[u8]) -> FsResult<Vec<u8>> {
    content(fs, fs.lookup(fs.root(), name).await?).await
}

fn range(source: (Ino, u64), target: (Ino, u64), pages: u64) -> ShareRange {
    ShareRange {
        source: source.0,
        source_offset: source.1 * PAGE,
        target: target.0,
        target_offset: target.1 * PAGE,
        length: pages * PAGE,
    }
}

/// The double-write area of a database: pages are written there once, and SHARE brings them home.
async fn double_write(fs: Rc<Ext4>, port: DevicePort) -> FsResult<()> {
    let (home, area) = (file(&fs, b"home", &bytes(10, 16)).await?, file(&fs, b"area", &bytes(1, 3)).await?);
    fs.sync().await?;
    for round in 1..4 {
        let first = 50 * round;
        fs.write(area, Position::At(0), Content::Bytes(&bytes(first, 3)), Manner::default()).await?;
        fs.fdatasync(area).await?;
        let before = port.device().counters();
        fs.share(&[range((area, 0), (home, 5), 1), range((area, 1), (home, 2), 2)]).await?;
        let after = port.device().counters();
        let bytes_of = |cause: Cause| {
            let at = |counters: &Counters| counters.host_write_bytes_by_cause[cause as usize];
            at(&after) - at(&before)
        };
        assert_eq!((bytes_of(Cause::Data), bytes_of(Cause::Journal)), (0, 0), "round {round}: no content is written");
        let shared = (after.shares - before.shares, after.shared_pages - before.shared_pages);
        match logs_content(&fs) {
            false => assert_eq!((shared, after.host_write_bytes() - before.host_write_bytes()), ((1, 3), 0)),
            // What was logged before goes home first: in the first round all files, then the area and its inode.
            true => {
                assert!(shared.1 >= 3, "{shared:?}");
                let rest = bytes_of(Cause::Checkpoint) + bytes_of(Cause::LogTail);
                assert!(rest <= if round == 1 { 25 * PAGE } else { 5 * PAGE }, "round {round}: {rest} bytes");
            }
        }
        let mut expected = bytes(10, 16);
        expected[5 * 4096..6 * 4096].fill(first);
        expected[2 * 4096..4 * 4096].copy_from_slice(&bytes(first + 1, 2));
        assert!(content(&fs, home).await? == expected, "round {round}");
        fs.drop_caches();
        assert!(content(&fs, home).await? == expected, "round {round}, from the device");
    }
    Ok(())
}

fn logs_content(fs: &Ext4) -> bool {
    fs.has_drafts()
}

#[test]
fn a_double_write_area_is_written_once_in_every_mode() {
    for mode in modes() {
        let device = on("double", mode, disk(), double_write);
        on("double-again", mode, device, |fs, _| async move {
            let home = content_at(&fs, b"home").await?;
            assert!(home[5 * 4096..6 * 4096] == bytes(150, 1) && home[2 * 4096..4 * 4096] == bytes(151, 2));
            Ok(())
        });
    }
}

/// Compaction of an append-only store: the live pages of the old file become the new file.
async fn compact(fs: Rc<Ext4>, port: DevicePort) -> FsResult<()> {
    let store = file(&fs, b"store", &bytes(1, 60)).await?;
    let compacted = file(&fs, b"compacted", b"").await?;
    fs.sync().await?;
    let live: Vec<u64> = (0..60).filter(|page| page % 3 == 0).collect();
    let ranges: Vec<_> =
        live.iter().zip(0..).map(|(page, place)| range((store, *page), (compacted, place), 1)).collect();
    assert_eq!(fs.sharing()?.by, ShareBy::Remapping);
    let before = port.device().counters();
    fs.share(&ranges).await?;
    let after = port.device().counters();
    let [data, log] = [Cause::Data, Cause::Journal]
        .map(|cause| [&after, &before].map(|counters| counters.host_write_bytes_by_cause[cause as usize]))
        .map(|[after, before]| after - before);
    assert!(data == 0 && log <= 8 * PAGE, "20 pages of content are not written: {data}, {log} bytes of log");
    assert!(after.shared_pages - before.shared_pages >= 20);
    fs.rename((fs.root(), b"compacted"), (fs.root(), b"store"), RenameManner::Replace).await?;
    fs.sync().await?;
    let expected: Vec<u8> = live.iter().flat_map(|page| bytes(1 + *page as u8, 1)).collect();
    assert!(content_at(&fs, b"store").await? == expected);
    // The blocks of the old store are free and get other content: the new one keeps its own.
    file(&fs, b"other", &vec![255; 8 << 20]).await?;
    fs.sync().await?;
    fs.drop_caches();
    assert!(content_at(&fs, b"store").await? == expected);
    Ok(())
}

#[test]
fn an_append_only_store_is_compacted_without_copying() {
    modes().for_each(|mode| drop(on("compact", mode, disk(), compact)));
}

#[test]
fn later_changes_of_a_source_leave_the_target_as_it_is() {
    for mode in modes() {
        on("later", mode, disk(), |fs, _| async move {
            let (one, two) = (file(&fs, b"one", &bytes(1, 4)).await?, file(&fs, b"two", &bytes(9, 4)).await?);
            fs.share(&[range((one, 0), (two, 0), 4)]).await?;
            fs.write(one, Position::At(4096), Content::Bytes(&bytes(100, 2)), Manner::default()).await?;
            fs.sync().await?;
            fs.drop_caches();
            assert!(content(&fs, two).await? == bytes(1, 4));
            fs.allocate(one, 0, 2 * PAGE, Allocation::PunchHole).await?;
            fs.unlink(fs.root(), b"one").await?;
            fs.sync().await?;
            fs.drop_caches();
            assert!(content(&fs, two).await? == bytes(1, 4));
            Ok(())
        });
    }
}

#[test]
fn pages_of_one_file_are_shared_within_it_and_into_its_holes() {
    for mode in modes() {
        on("within", mode, disk(), |fs, _| async move {
            let one = file(&fs, b"one", &bytes(1, 8)).await?;
            fs.allocate(one, 4 * PAGE, 2 * PAGE, Allocation::PunchHole).await?;
            fs.share(&[range((one, 0), (one, 3), 3)]).await?;
            let mut expected = bytes(1, 8);
            expected[4 * 4096..6 * 4096].fill(0);
            expected.copy_within(0..3 * 4096, 3 * 4096);
            fs.drop_caches();
            assert!(content(&fs, one).await? == expected);
            // Beyond the end, behind a page that is not full.
            fs.write(one, Position::End, Content::Bytes(b"tail"), Manner::default()).await?;
            fs.share(&[range((one, 1), (one, 10), 2)]).await?;
            expected.extend(b"tail");
            expected.resize(10 * 4096, 0);
            expected.extend(bytes(2, 2));
            fs.sync().await?;
            fs.drop_caches();
            assert!(content(&fs, one).await? == expected);
            Ok(())
        });
    }
}

#[test]
fn what_was_shared_survives_a_power_cut_with_all_that_was_logged_before() {
    for mode in modes() {
        for seed in seeds(1, 8) {
            let (outcome, mut device) = with_mount(disk(), MountOptions::new(mode), |fs, _| async move {
                let (home, area) = (file(&fs, b"home", &bytes(10, 8)).await?, file(&fs, b"area", &bytes(1, 8)).await?);
                fs.sync().await?;
                // The log of a mode that logs content holds versions of these pages now.
                fs.write(home, Position::At(0), Content::Bytes(&bytes(30, 4)), Manner::default()).await?;
                fs.fsync(home).await?;
                fs.write(home, Position::At(0), Content::Bytes(&bytes(40, 2)), Manner::default()).await?;
                fs.share(&[range((area, 0), (home, 1), 2)]).await?;
                Err::<(), _>(FsError::Invalid("here the power goes".into()))
            });
            assert!(matches!(outcome, Err(FsError::Invalid(_))), "{mode}: {outcome:?}");
            let switch = device.as_power_cut().expect("a RAM disk can be cut");
            switch.cut(&mut Choices::new(seed));
            switch.recover(Default::default()).expect("recovers");
            on(&format!("cut-{seed}"), mode, device, |fs, _| async move {
                let home = content_at(&fs, b"home").await?;
                assert!(home[4096..3 * 4096] == bytes(1, 2), "what was shared");
                assert!(home[3 * 4096..] == [bytes(33, 1), bytes(14, 4)].concat(), "what was synced");
                Ok(())
            });
        }
    }
}

/// The pages that a failing share left: all as before, or all shared.
async fn is_shared(fs: &Ext4) -> FsResult<bool> {
    let home = content_at(fs, b"home").await?;
    let shared = [bytes(1, 2), bytes(12, 6)].concat();
    assert!(home == bytes(10, 8) || home == shared, "a part is shared");
    Ok(home == shared)
}

#[test]
fn a_share_on_a_device_that_fails_is_whole_or_absent() {
    for mode in [Mode::Ordered, Mode::Data, Mode::SdjAsync] {
        let (mut absent, mut whole) = (0, 0);
        for survivors in 0..30 {
            for fault in [Fault::Request, Fault::From] {
                let plan = Rc::new(RefCell::new(FaultPlan::default()));
                let during = Rc::clone(&plan);
                let faulty = Box::new(Faulty::new(disk(), Rc::clone(&plan)));
                let (outcome, device) = with_mount(faulty, MountOptions::new(mode), move |fs, _| async move {
                    let home = file(&fs, b"home", &bytes(10, 8)).await?;
                    let area = file(&fs, b"area", &bytes(1, 2)).await?;
                    fs.sync().await?;
                    fs.drop_caches();
                    let first = during.borrow().requests;
                    during.borrow_mut().faults.push(fault(first + survivors));
                    let outcome = fs.share(&[range((area, 0), (home, 0), 2)]).await;
                    if outcome.is_ok() {
                        during.borrow_mut().faults.clear();
                    }
                    outcome
                });
                plan.borrow_mut().faults.clear();
                let (found, device) =
                    with_mount(device, MountOptions::new(mode), |fs, _| async move { is_shared(&fs).await });
                let found = found.unwrap_or_else(|error| panic!("{mode}, {survivors} requests: {error}"));
                assert!(found || outcome.is_err(), "{mode}, {survivors} requests: acknowledged and lost");
                *(if found { &mut whole } else { &mut absent }) += 1;
                clean(&format!("share-faults-{mode}"), device);
            }
        }
        assert!(absent >= 1 && whole >= 3, "{mode}: {absent} absent, {whole} whole: the faults fell beside the share");
    }
}

#[test]
fn without_share_the_content_goes_through_the_log_or_the_call_is_refused() {
    on("logged", Mode::DataAsync, plain_disk(), |fs, _| async move {
        assert_eq!(fs.sharing().map(|sharing| sharing.by), Ok(ShareBy::Logging));
        double_write_area(&fs).await
    });
    on("refused", Mode::Ordered, plain_disk(), |fs, _| async move {
        let error = double_write_area(&fs).await.expect_err("refused");
        assert!(error.to_string().contains("data=data+async"), "{error}");
        Ok(())
    });
}

async fn double_write_area(fs: &Ext4) -> FsResult<()> {
    let (home, area) = (file(fs, b"home", &bytes(10, 4)).await?, file(fs, b"area", &bytes(1, 2)).await?);
    fs.share(&[range((area, 0), (home, 1), 1), range((area, 1), (home, 6), 1)]).await?;
    let mut expected = bytes(10, 4);
    expected[4096..8192].fill(1);
    expected.resize(6 * 4096, 0);
    expected.extend(bytes(2, 1));
    assert!(content(fs, home).await? == expected);
    Ok(())
}

#[test]
fn impossible_calls_are_refused_and_change_nothing() {
    on("bad", Mode::Data, disk(), |fs, _| async move {
        let (one, two) = (file(&fs, b"one", &bytes(1, 8)).await?, file(&fs, b"two", &bytes(9, 8)).await?);
        fs.set_attributes(one, AttributeChanges { size: Some(8 * PAGE + 100), ..Default::default() }).await?;
        fs.allocate(one, PAGE, PAGE, Allocation::PunchHole).await?;
        let good = range((one, 2), (two, 0), 1);
        let bad = [
            (ShareRange { source_offset: 2 * PAGE + 1, ..good }, "multiples of 4096"),
            (ShareRange { length: 100, ..good }, "multiples of 4096"),
            (ShareRange { length: 0, ..good }, "multiples of 4096"),
            (ShareRange { target_offset: u64::MAX - 4095, length: 8192, ..good }, "largest offset"),
            (range((one, 1), (two, 0), 1), "a hole in 4096 bytes at 4096"),
            (range((one, 8), (two, 0), 1), "which has 32868 bytes"),
            (range((one, 4), (two, 7), 2), "extends inode"),
            (range((one, 4), (one, 5), 2), "is source and target"),
            (range((fs.root(), 0), (two, 0), 1), "is a directory"),
            (range((one, 4), (two, 1 << 32), 1), "grow to"),
        ];
        for (range, why) in bad {
            let error = fs.share(&[range]).await.expect_err(why);
            assert!(error.to_string().contains(why), "{error}, not {why}");
        }
        let twice = [good, ShareRange { source_offset: 4 * PAGE, ..good }];
        assert!(fs.share(&twice).await.expect_err("twice").to_string().contains("a target twice"));
        let many = file(&fs, b"many", &vec![1; 300 * 4096]).await?;
        let error = fs.share(&[range((many, 0), (two, 0), 257)]).await.expect_err("too many");
        assert_eq!(error, FsError::TooManyPages { pages: 257, pages_max: 256 });
        let draft = fs.begin_draft()?;
        fs.claim(draft, two).await?;
        assert!(matches!(fs.share(&[good]).await, Err(FsError::Busy(_))));
        fs.end_draft(draft).await?;
        assert!(content(&fs, two).await? == bytes(9, 8));
        fs.share(&[]).await
    });
}

/// Free blocks once nothing waits for a commit.
async fn free(fs: &Ext4) -> FsResult<u64> {
    fs.sync().await?;
    fs.sync().await?;
    Ok(fs.space().await?.blocks_free)
}

#[test]
fn a_call_that_is_refused_keeps_no_block() {
    for mode in modes() {
        on("refused", mode, disk(), |fs, _| async move {
            let source = file(&fs, b"source", &vec![7; 200 * 4096]).await?;
            let mut ranges = Vec::new();
            for number in 0..64 {
                let target = fs.create(fs.root(), format!("{number}").as_bytes(), NewNode::FILE).await?;
                ranges.push(range((source, number), (target, 0), 1));
            }
            let before = free(&fs).await?;
            let error = fs.share(&ranges).await.expect_err("more maps than a transaction takes");
            assert_eq!(error.errno(), 27, "{error}");
            assert_eq!(free(&fs).await?, before);
            for part in ranges.chunks(8) {
                fs.share(part).await?;
            }
            let target = file(&fs, b"target", b"").await?;
            let spare = free(&fs).await? - 80;
            let ballast = file(&fs, b"ballast", b"").await?;
            fs.allocate(ballast, 0, spare * PAGE, Allocation::Extend).await?;
            let before = free(&fs).await?;
            let error = fs.share(&[range((source, 0), (target, 3), 200)]).await.expect_err("a full disk");
            assert!(matches!(error, FsError::NoSpace { .. }), "{error}");
            assert_eq!(free(&fs).await?, before);
            assert_eq!((fs.attributes(target).await?.size, fs.attributes(target).await?.sectors), (0, 0));
            fs.unlink(fs.root(), b"ballast").await?;
            fs.share(&[range((source, 0), (target, 3), 200)]).await
        });
    }
}

#[test]
fn random_shares_are_as_the_model_says() {
    for seed in seeds(1, 4) {
        for mode in modes() {
            let mut options = MountOptions::new(mode);
            options.cache_pages = 512;
            let (outcome, device) = with_mount(disk(), options, move |fs, _| random(fs, seed));
            let files = outcome.unwrap_or_else(|error| panic!("seed {seed}, {mode}: {error}"));
            let (outcome, device) = with_mount(device, options, move |fs, _| async move {
                for (ino, expected) in files {
                    assert!(content(&fs, ino).await? == expected, "seed {seed}, {mode}: {ino} after a remount");
                }
                Ok(())
            });
            outcome.expect("remount");
            clean(&format!("share-random-{seed}-{mode}"), device);
        }
    }
}

/// Shares, writes, punches and truncations of three files. Returns their contents as the model has them.
async fn random(fs: Rc<Ext4>, seed: u64) -> FsResult<Vec<(Ino, Vec<u8>)>> {
    let mut choices = Choices::new(seed);
    let mut files = Vec::new();
    for name in [b"0", b"1", b"2"] {
        files.push((file(&fs, name, b"").await?, Vec::new()));
    }
    let mut shared = 0;
    for step in 0..300 {
        let (at, other) = (choices.below(3) as usize, choices.below(3) as usize);
        let (place, length) = (choices.below(40), 1 + choices.below(6));
        match choices.below(10) {
            0..3 => {
                let new = vec![1 + choices.below(255) as u8; (length * 9000) as usize];
                let start = (place * 3000) as usize;
                fs.write(files[at].0, Position::At(start as u64), Content::Bytes(&new), Manner::default()).await?;
                let content = &mut files[at].1;
                content.resize(content.len().max(start + new.len()), 0);
                content[start..start + new.len()].copy_from_slice(&new);
            }
            3..8 => {
                let from = choices.below(40);
                let (source, target) = (files[other].0, files[at].0);
                match fs.share(&[range((source, from), (target, place), length)]).await {
                    Ok(()) => {
                        shared += 1;
                        let new = files[other].1[(from * PAGE) as usize..((from + length) * PAGE) as usize].to_vec();
                        let start = (place * PAGE) as usize;
                        let content = &mut files[at].1;
                        content.resize(content.len().max(start + new.len()), 0);
                        content[start..start + new.len()].copy_from_slice(&new);
                    }
                    Err(FsError::Invalid(_)) => (),
                    Err(error) => return Err(error),
                }
            }
            8 => {
                fs.allocate(files[at].0, place * 2000, length * 3000, Allocation::PunchHole).await?;
                let size = files[at].1.len();
                let (start, end) = ((place * 2000) as usize, (place * 2000 + length * 3000) as usize);
                files[at].1[start.min(size)..end.min(size)].fill(0);
            }
            _ => {
                let size = place * 4000;
                fs.set_attributes(files[at].0, AttributeChanges { size: Some(size), ..Default::default() }).await?;
                files[at].1.resize(size as usize, 0);
            }
        }
        match choices.below(8) {
            0 => fs.drop_caches(),
            1 => fs.sync().await?,
            _ => (),
        }
        for (ino, expected) in &files {
            let found = content(&fs, *ino).await?;
            let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
            assert_eq!((wrong, found.len()), (None, expected.len()), "step {step}: {ino}");
        }
        fs.check().unwrap_or_else(|broken| panic!("step {step}: {broken}"));
    }
    assert!(shared > 20, "only {shared} calls could be done");
    Ok(files)
}
