//! Drafts that spill, where it is narrow or another task is beside them: volumes of many groups, disks full of crumbs,
//! changes between the steps of a long write, a device that fails behind the commit.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::{Cause, DevicePort, Lpn, Nanos, Request};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AtomicFiles, Content, DraftId, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position,
};

use super::spill::overwrite;
use super::{MIB, PAGE, on, on_data};
use crate::support::shorthand::{content, file};
use crate::support::volume::{new_disk, with_mount};

const PATTERN: Content<'static> = Content::Pattern { seed: 2, compressible_percent: 0, length: PAGE };

/// Lets other tasks go on for the time of some reads.
async fn pause(port: &DevicePort, reads: u64) {
    for _ in 0..reads {
        port.request(Request::read(Lpn(0), 1, Cause::Data)).await.expect("read");
    }
}

/// How many bytes have a value.
fn count(bytes: &[u8], value: u8) -> u64 {
    bytes.iter().filter(|byte| **byte == value).count() as u64
}

/// A draft of one file on a volume of `size` bytes: `change` and the commit have to succeed.
fn drafted<F: Future<Output = FsResult<()>> + 'static>(
    (size, journal): (u64, u32),
    options: MountOptions,
    change: impl FnOnce(Rc<Ext4>, (DraftId, Ino)) -> F + 'static,
) {
    let (outcome, _) = with_mount(Box::new(new_disk(size, journal)), options, move |fs, _| async move {
        let one = file(&fs, b"one", b"").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        change(Rc::clone(&fs), (draft, one)).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await
    });
    outcome.unwrap_or_else(|error| panic!("{} GiB: {error}", size >> 30));
}

#[test]
fn scattered_pages_and_long_writes_commit_on_volumes_of_many_groups() {
    let small = MountOptions { cache_pages: 512, ..MountOptions::new(Mode::Data) };
    let volumes = [(16 << 30, 4_096, small, 2_000), (1 << 40, 65_536, MountOptions::new(Mode::Data), 10_000)];
    for (size, journal, options, pages) in volumes {
        drafted((size, journal), options, move |fs, owned| async move {
            for page in 0..pages {
                overwrite(&fs, owned, 2 * page, 1).await?;
            }
            Ok(())
        });
    }
    drafted((256 << 30, 65_536), MountOptions::new(Mode::Data), |fs, (draft, one)| async move {
        let long = Content::Pattern { seed: 2, compressible_percent: 0, length: 20 * MIB };
        fs.draft_write(draft, one, Position::At(0), long).await.map(drop)
    });
}

/// What a second task does between the steps of a long write.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Commit,
    Abort,
    Truncate,
    Write,
}

#[test]
fn what_comes_between_the_steps_of_a_write_waits_for_the_last() {
    for beside in [Beside::Commit, Beside::Abort, Beside::Truncate, Beside::Write] {
        for reads in 0..14 {
            on("steps", Mode::Data, move |fs, port| async move {
                let one = file(&fs, b"one", &[1; 5_000]).await?;
                fs.sync().await?;
                port.runtime().sleep(Nanos::from_secs(60)).await;
                fs.drop_caches();
                let draft = fs.begin_draft()?;
                fs.claim(draft, one).await?;
                let (writer, done) = (Rc::clone(&fs), Rc::new(RefCell::new(None)));
                let ended = Rc::clone(&done);
                port.runtime().spawn(async move {
                    let bytes = vec![9; 12 * MIB as usize];
                    let position = Position::At(20_000);
                    let written = writer.draft_write(draft, one, position, Content::Bytes(&bytes)).await;
                    *ended.borrow_mut() = Some(written);
                });
                pause(&port, reads).await;
                match beside {
                    Beside::Commit => (),
                    Beside::Abort => fs.abort_drafts(&[draft]).await?,
                    Beside::Truncate => fs.draft_set_size(draft, one, 100).await?,
                    Beside::Write => {
                        let bytes = vec![8; 5 * MIB as usize];
                        fs.draft_write(draft, one, Position::At(13 * MIB), Content::Bytes(&bytes)).await?;
                    }
                }
                // A commit beside the write takes all of it or nothing.
                fs.commit_drafts(&[draft]).await?;
                let nines = count(&content(&fs, one).await, 9);
                assert!(nines == 0 || nines == 12 * MIB, "{beside:?} after {reads} reads: {nines} bytes of a write");
                while done.borrow().is_none() {
                    port.runtime().sleep(Nanos::from_millis(1)).await;
                }
                // A write that begins beside a commit is refused.
                let is_refused = matches!(*done.borrow(), Some(Err(FsError::Busy(_))));
                assert!(is_refused || matches!(*done.borrow(), Some(Ok(20_000))), "{beside:?}: {:?}", done.borrow());
                fs.commit_drafts(&[draft]).await?;
                let size = fs.attributes(one).await?.size as usize;
                fs.end_draft(draft).await?;
                fs.write(one, Position::At(30 * MIB), Content::Bytes(b"x"), Manner::default()).await?;
                let behind = &content(&fs, one).await[size..30 * MIB as usize];
                assert!(behind.iter().all(|byte| *byte == 0), "{beside:?} after {reads} reads: content behind the end");
                Ok(())
            });
        }
    }
}

#[test]
fn maps_of_many_files_have_their_blocks_on_a_full_disk() {
    for files in [20, 50, 80] {
        drafted((64 * MIB, 4_096), MountOptions::new(Mode::Data), move |fs, (draft, bulk)| async move {
            let filler = file(&fs, b"filler", b"").await?;
            let mut others = Vec::new();
            for number in 0..files {
                let other = file(&fs, format!("f{number}").as_bytes(), b"").await?;
                fs.claim(draft, other).await?;
                others.push((draft, other));
            }
            for owned in &others {
                overwrite(&fs, *owned, 0, 7).await?;
                overwrite(&fs, *owned, 2, 7).await?;
            }
            // Memory is short: all files get spill files.
            fs.draft_write(draft, bulk, Position::At(0), Content::Bytes(&vec![3; 3 * MIB as usize])).await?;
            for owned in &others {
                for page in [4, 6, 8, 10] {
                    overwrite(&fs, *owned, page, 7).await?;
                }
            }
            while fs.write(filler, Position::End, PATTERN, Manner::default()).await.is_ok() {}
            Ok(())
        });
    }
}

#[test]
fn crumbs_of_many_groups_take_spilled_pages() {
    let options = MountOptions { cache_pages: 8_192, ..MountOptions::new(Mode::Data) };
    drafted((50 << 30, 32_768), options, |fs, (draft, one)| async move {
        let filler = file(&fs, b"filler", b"").await?;
        let (mut end, mut step) = (0, 1 << 30);
        while step >= PAGE {
            match fs.allocate(filler, end, step, Allocation::Extend).await {
                Ok(()) => end += step,
                Err(FsError::NoSpace { .. }) => step /= 2,
                Err(error) => return Err(error),
            }
        }
        for hole in 0..3_200 {
            fs.allocate(filler, hole * (end / 3_200) / PAGE * PAGE, PAGE, Allocation::PunchHole).await?;
        }
        fs.sync().await?;
        let bytes = vec![3; 2_100 * PAGE as usize];
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(&bytes)).await.map(drop)
    });
}

#[test]
fn what_was_preallocated_stays_unwritten() {
    on_data("preallocated", |fs| async move {
        let one = file(&fs, b"one", &[1; 10_000]).await?;
        fs.allocate(one, 0, 16 * MIB, Allocation::KeepSize).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        for page in 0..1_500 {
            overwrite(&fs, (draft, one), 2 * page, 7).await?;
        }
        fs.draft_set_size(draft, one, 3_100 * PAGE).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.drop_caches();
        for (page, bytes) in content(&fs, one).await.chunks(PAGE as usize).enumerate().skip(3) {
            let expected = if page % 2 == 0 && page < 3_000 { 7 } else { 0 };
            assert!(bytes.iter().all(|byte| *byte == expected), "page {page}");
        }
        fs.end_draft(draft).await
    });
}

#[test]
fn an_inode_that_was_a_spill_file_reads_as_nothing() {
    on_data("reused", |fs| async move {
        let one = file(&fs, b"one", b"abc").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(&vec![9; 8 * MIB as usize])).await?;
        drop(fs.draft_read(draft, one, 0, u64::MAX).await?);
        fs.abort_drafts(&[draft]).await?;
        for number in 0..3 {
            let new = fs.create(fs.root(), format!("{number}").as_bytes(), NewNode::FILE).await?;
            fs.write(new, Position::At(8 * MIB), Content::Bytes(b"x"), Manner::default()).await?;
            assert_eq!(count(&content(&fs, new).await, 9), 0, "{new}");
        }
        fs.end_draft(draft).await
    });
}

#[test]
fn spilled_pages_that_were_dropped_need_nothing_in_the_commit() {
    on_data("dropped", |fs| async move {
        let one = file(&fs, b"one", b"").await?;
        let (draft, names) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(draft, one).await?;
        let free = fs.space().await?.blocks_free;
        for page in 0..1_200 {
            overwrite(&fs, (draft, one), 2 * page, 1).await?;
        }
        for _ in 0..4_000 {
            fs.draft_punch(draft, one, 0, PAGE).await?;
        }
        fs.draft_set_size(draft, one, 0).await?;
        fs.sync().await?;
        let now = fs.space().await?.blocks_free;
        // 32 are kept for trees while anything is reserved.
        assert!(now + 50 > free, "what the draft dropped is free again: {free} blocks before, {now} now");
        for name in 0.. {
            if fs.draft_create(names, fs.root(), format!("{name}").as_bytes(), NewNode::FILE).await.is_err() {
                break;
            }
        }
        fs.sync().await?;
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await?;
        fs.end_draft(names).await
    });
}

/// A commit that says that the device failed has left the draft as it was, or the mount is read-only.
#[test]
fn a_device_that_fails_behind_the_commit_does_not_undo_its_word() {
    let outcomes = Rc::new(RefCell::new([0; 3]));
    for survivors in 0..30 {
        let plan = Rc::new(RefCell::new(FaultPlan::default()));
        let disk = Box::new(Faulty::new(Box::new(new_disk(32 * MIB, 1_024)), Rc::clone(&plan)));
        let counted = Rc::clone(&outcomes);
        let work = move |fs: Rc<Ext4>, port: DevicePort| async move {
            let one = file(&fs, b"one", b"old").await?;
            let draft = fs.begin_draft()?;
            fs.claim(draft, one).await?;
            fs.draft_write(draft, one, Position::At(0), Content::Bytes(&vec![3; 5 * MIB as usize])).await?;
            fs.sync().await?;
            port.runtime().sleep(Nanos::from_secs(60)).await;
            fs.drop_caches();
            let first = plan.borrow().requests;
            plan.borrow_mut().faults.push(Fault::Request(first + survivors));
            let committed = fs.commit_drafts(&[draft]).await;
            plan.borrow_mut().faults.clear();
            let (size, is_changed) = (fs.attributes(one).await?.size, fs.is_draft_changed(draft)?);
            let kind = match &committed {
                Ok(()) => {
                    assert_eq!((size, is_changed), (5 * MIB, false), "after {survivors} requests");
                    0
                }
                Err(FsError::Device(_)) => {
                    assert_eq!((size, is_changed), (3, true), "after {survivors} requests");
                    1
                }
                Err(FsError::ReadOnly(_)) => {
                    assert!(fs.sync().await.is_err(), "after {survivors} requests");
                    2
                }
                Err(error) => panic!("after {survivors} requests: {error}"),
            };
            counted.borrow_mut()[kind] += 1;
            Ok(())
        };
        // Where the journal stopped, the unmount says so again.
        let _ = with_mount(disk, MountOptions::new(Mode::Data), work);
    }
    let counted = *outcomes.borrow();
    assert!(counted.iter().all(|count| *count >= 2) && counted.iter().sum::<i32>() == 30, "{counted:?}");
}
