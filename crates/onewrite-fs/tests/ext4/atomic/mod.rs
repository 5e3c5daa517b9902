//! Atomic files: what a draft changes is seen by nobody before its commit, and whole after it.

mod attacks;
mod beside;
mod faults;
mod model;
mod spill;

use std::rc::Rc;

use onewrite_block::{Cause, Device, DevicePort, Lpn, RamDisk, Request};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AtomicFiles, AttributeChanges, Content, FileSystem, FileView, FsError, FsResult, Manner, NewNode,
    Position,
};

use crate::support::shorthand::{content, content_at, exists, file};
use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = 4096;

/// The modes that log content and need no SHARE.
fn modes() -> impl Iterator<Item = Mode> {
    let is_full = |mode: &Mode| mode.scope() == onewrite_fs::ext4::Scope::Full;
    let needs_share = |mode: &Mode| mode.checkpoint() == onewrite_fs::journal::CheckpointBy::Share;
    Mode::ALL.into_iter().filter(move |mode| is_full(mode) && !needs_share(mode))
}

/// Runs `work` on a new file system in mode `data`; e2fsck has to find no fault afterwards.
fn on_data<F: Future<Output = FsResult<()>> + 'static>(name: &str, work: impl FnOnce(Rc<Ext4>) -> F + 'static) {
    on(name, Mode::Data, move |fs, _| work(fs));
}

fn on<F: Future<Output = FsResult<()>> + 'static>(
    name: &str,
    mode: Mode,
    work: impl FnOnce(Rc<Ext4>, DevicePort) -> F + 'static,
) -> Box<dyn Device> {
    let (outcome, device) = with_mount(Box::new(new_disk(64 * MIB, 4096)), MountOptions::new(mode), work);
    outcome.unwrap_or_else(|error| panic!("{mode}: {error}"));
    let scratch = Scratch::new(&format!("atomic-{name}-{mode}"));
    let geometry = device.geometry().clone();
    let whole = image(device);
    save(&whole, &scratch.path("image"));
    assert_clean(&scratch.path("image"));
    Box::new(RamDisk::with_image(whole, geometry))
}

#[test]
fn changes_of_two_files_are_seen_at_once_and_survive_a_remount() {
    for mode in modes() {
        let work = |fs: Rc<Ext4>, _| async move {
            let (one, two) = (file(&fs, b"one", b"old one").await?, file(&fs, b"two", &[7; 10_000]).await?);
            let draft = fs.begin_draft()?;
            fs.claim(draft, one).await?;
            fs.claim(draft, two).await?;
            fs.draft_write(draft, one, Position::At(4), Content::Bytes(b"ONE, and longer")).await?;
            fs.draft_write(draft, two, Position::At(5_000), Content::Bytes(&[8; 20_000])).await?;
            assert_eq!((content(&fs, one).await, content(&fs, two).await), (b"old one".to_vec(), vec![7; 10_000]));
            assert_eq!(fs.draft_read(draft, one, 0, 99).await?.to_vec(), b"old ONE, and longer");
            assert_eq!((fs.draft_size(draft, two)?, fs.attributes(two).await?.size), (25_000, 10_000));
            fs.commit_drafts(&[draft]).await?;
            assert_eq!(content(&fs, one).await, b"old ONE, and longer");
            assert_eq!(content(&fs, two).await, [vec![7; 5_000], vec![8; 20_000]].concat());
            fs.end_draft(draft).await
        };
        let device = on("two", mode, work);
        let (outcome, _) = with_mount(device, MountOptions::new(mode), |fs, _| async move {
            assert_eq!(content_at(&fs, b"one").await, b"old ONE, and longer");
            assert_eq!(content_at(&fs, b"two").await, [vec![7; 5_000], vec![8; 20_000]].concat());
            Ok(())
        });
        outcome.expect("remount");
    }
}

#[test]
fn an_abort_leaves_the_last_commit_and_writes_nothing() {
    on("abort", Mode::Data, |fs, port| async move {
        let one = file(&fs, b"one", &[1; 9_000]).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(&[2; 9_000])).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.sync().await?;
        let (space, written) = (fs.space().await?, port.device().counters().host_write_bytes());
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(&[3; 50_000])).await?;
        fs.draft_set_size(draft, one, 10).await?;
        fs.draft_punch(draft, one, 0, 5).await?;
        fs.abort_drafts(&[draft]).await?;
        assert_eq!((content(&fs, one).await, fs.draft_size(draft, one)?), (vec![2; 9_000], 9_000));
        assert_eq!((fs.space().await?, port.device().counters().host_write_bytes()), (space, written));
        fs.draft_write(draft, one, Position::End, Content::Bytes(b"end")).await?;
        fs.end_draft(draft).await?;
        assert_eq!(content(&fs, one).await, vec![2; 9_000], "a draft that ends is aborted");
        fs.check().expect("invariants");
        Ok(())
    });
}

#[test]
fn a_file_has_one_draft_and_others_cannot_change_it() {
    on_data("claims", |fs| async move {
        let one = file(&fs, b"one", b"abc").await?;
        let (draft, other) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(draft, one).await?;
        fs.claim(draft, one).await?;
        assert!(matches!(fs.claim(other, one).await, Err(FsError::Busy(_))));
        assert_eq!(fs.claimant(one).await?, Some(draft));
        let write = fs.write(one, Position::At(0), Content::Bytes(b"x"), Manner::default()).await;
        assert!(matches!(write, Err(FsError::Busy(_))), "{write:?}");
        let size = AttributeChanges { size: Some(0), ..AttributeChanges::default() };
        assert!(matches!(fs.set_attributes(one, size).await, Err(FsError::Busy(_))));
        assert!(matches!(fs.allocate(one, 0, 9, Allocation::PunchHole).await, Err(FsError::Busy(_))));
        let unclaimed = fs.draft_write(other, one, Position::At(0), Content::Bytes(b"x")).await;
        assert!(unclaimed.expect_err("not claimed").to_string().contains("claim it first"));
        let mode = AttributeChanges { permissions: Some(0o600), ..AttributeChanges::default() };
        fs.set_attributes(one, mode).await?;
        fs.end_draft(draft).await?;
        assert!(matches!(fs.draft_size(draft, one), Err(FsError::NotFound(_))), "it has ended");
        fs.write(one, Position::At(0), Content::Bytes(b"x"), Manner::default()).await?;
        fs.claim(other, one).await?;
        fs.end_draft(other).await
    });
}

#[test]
fn modes_that_write_content_in_place_refuse_drafts_and_name_others() {
    for mode in [Mode::Ordered, Mode::Writeback] {
        on("refused", mode, |fs, _| async move {
            let error = fs.begin_draft().expect_err("content is written in place").to_string();
            assert!(error.contains("mount with data"), "{error}");
            Ok(())
        });
    }
}

#[test]
fn sizes_and_holes_are_drafted_too() {
    on_data("sizes", |fs| async move {
        let one = file(&fs, b"one", &[9; 5 * PAGE as usize]).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_set_size(draft, one, PAGE + 100).await?;
        fs.draft_set_size(draft, one, 4 * PAGE).await?;
        fs.draft_write(draft, one, Position::At(3 * PAGE), Content::Bytes(b"three")).await?;
        let mut expected = vec![9; PAGE as usize + 100];
        expected.resize(3 * PAGE as usize, 0);
        expected.extend(b"three");
        expected.resize(4 * PAGE as usize, 0);
        assert_eq!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec(), expected);
        let sectors = fs.attributes(one).await?.sectors;
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, expected);
        assert_eq!(fs.attributes(one).await?.sectors, sectors - 2 * 8, "pages 2 and 4 are holes now");
        fs.draft_punch(draft, one, 10, 2 * PAGE).await?;
        expected[10..10 + 2 * PAGE as usize].fill(0);
        assert_eq!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec(), expected);
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, expected);
        fs.end_draft(draft).await
    });
}

#[test]
fn names_change_with_the_content() {
    on_data("names", |fs| async move {
        let root = fs.root();
        file(&fs, b"gone", b"1").await?;
        file(&fs, b"target", b"2").await?;
        let moved = file(&fs, b"moved", b"3").await?;
        let directory = fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, moved).await?;
        let new = fs.draft_create(draft, directory, b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), Content::Bytes(b"fresh")).await?;
        fs.draft_unlink(draft, root, b"gone").await?;
        fs.draft_rename(draft, (root, b"moved"), (root, b"target")).await?;
        fs.draft_write(draft, moved, Position::At(0), Content::Bytes(b"4")).await?;
        assert!(exists(&fs, b"gone").await && exists(&fs, b"moved").await);
        assert!(fs.lookup(directory, b"new").await.is_err(), "it has no name yet");
        assert_eq!(content_at(&fs, b"target").await, b"2");
        fs.commit_drafts(&[draft]).await?;
        assert!(!exists(&fs, b"gone").await && !exists(&fs, b"moved").await);
        assert_eq!(content_at(&fs, b"target").await, b"4");
        assert_eq!(fs.lookup(directory, b"new").await?, new);
        assert_eq!((content(&fs, new).await, fs.attributes(new).await?.links), (b"fresh".to_vec(), 1));
        fs.end_draft(draft).await
    });
}

/// Its orphans are linked through the times of their deletion, which files with names must not have.
#[test]
fn created_files_are_no_orphans_once_they_are_committed() {
    on_data("created", |fs| async move {
        let draft = fs.begin_draft()?;
        for name in [b"one", b"two", b"six"] {
            fs.draft_create(draft, fs.root(), name, NewNode::FILE).await?;
        }
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await
    });
}

#[test]
fn names_that_cannot_change_are_refused_and_nothing_happens() {
    on_data("refusals", |fs| async move {
        let root = fs.root();
        file(&fs, b"here", b"1").await?;
        fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        let draft = fs.begin_draft()?;
        assert!(matches!(fs.draft_create(draft, root, b"here", NewNode::FILE).await, Err(FsError::Exists(_))));
        assert!(matches!(fs.draft_unlink(draft, root, b"nothing").await, Err(FsError::NotFound(_))));
        assert!(matches!(fs.draft_unlink(draft, root, b"directory").await, Err(FsError::IsDirectory(_))));
        assert!(matches!(fs.draft_unlink(draft, root, b"..").await, Err(FsError::Invalid(_))));
        fs.draft_unlink(draft, root, b"here").await?;
        assert!(matches!(fs.draft_unlink(draft, root, b"here").await, Err(FsError::NotFound(_))));
        let new = fs.draft_create(draft, root, b"here", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), Content::Bytes(b"2")).await?;
        // Somebody takes the name away meanwhile: the commit has to refuse, and the draft stays.
        fs.unlink(root, b"here").await?;
        assert!(matches!(fs.commit_drafts(&[draft]).await, Err(FsError::NotFound(_))));
        assert!(!exists(&fs, b"here").await);
        file(&fs, b"here", b"3").await?;
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content_at(&fs, b"here").await, b"2");
        fs.end_draft(draft).await?;
        fs.check().expect("invariants");
        Ok(())
    });
}

#[test]
fn a_created_file_vanishes_with_its_draft() {
    on_data("vanish", |fs| async move {
        let inodes = fs.space().await?.inodes_free;
        let draft = fs.begin_draft()?;
        let new = fs.draft_create(draft, fs.root(), b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), Content::Bytes(&[1; 100_000])).await?;
        fs.abort_drafts(&[draft]).await?;
        assert_eq!(fs.space().await?.inodes_free, inodes);
        assert!(fs.attributes(new).await.is_err() && !exists(&fs, b"new").await);
        let left_open = fs.begin_draft()?;
        fs.draft_create(left_open, fs.root(), b"open", NewNode::FILE).await?;
        // The unmount ends the drafts that are left.
        Ok(())
    });
}

#[test]
fn a_commit_has_the_space_that_its_writes_were_promised() {
    on_data("full", |fs| async move {
        let (one, filler) = (file(&fs, b"one", b"").await?, file(&fs, b"filler", b"").await?);
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(&[5; 300_000])).await?;
        fs.draft_create(draft, fs.root(), b"new", NewNode::FILE).await?;
        let fill = Content::Pattern { seed: 2, compressible_percent: 0, length: MIB };
        while fs.write(filler, Position::End, fill, Manner::default()).await.is_ok() {}
        let more = fs.draft_write(draft, one, Position::At(MIB), Content::Bytes(&[6; 900_000])).await;
        assert!(matches!(more, Err(FsError::NoSpace { .. })), "{more:?}");
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, vec![5; 300_000]);
        assert!(exists(&fs, b"new").await);
        fs.end_draft(draft).await
    });
}

#[test]
fn drafts_that_are_committed_together_are_one_transaction() {
    on_data("together", |fs| async move {
        let (one, two) = (file(&fs, b"one", b"1").await?, file(&fs, b"two", b"2").await?);
        let (first, second) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(first, one).await?;
        fs.claim(second, two).await?;
        fs.sync().await?;
        fs.draft_write(first, one, Position::At(0), Content::Bytes(b"A")).await?;
        fs.draft_write(second, two, Position::At(0), Content::Bytes(b"B")).await?;
        let commits = fs.counters().commits;
        assert!(matches!(fs.commit_drafts(&[first, first]).await, Err(FsError::Invalid(_))));
        fs.commit_drafts(&[first, second]).await?;
        assert_eq!(fs.counters().commits, commits + 1);
        assert_eq!((content(&fs, one).await, content(&fs, two).await), (b"A".to_vec(), b"B".to_vec()));
        fs.abort_drafts(&[first, second]).await?;
        assert_eq!(content(&fs, one).await, b"A", "what is committed stays");
        Ok(())
    });
}

#[test]
fn an_unlinked_file_keeps_its_draft_until_the_end() {
    on_data("unlinked", |fs| async move {
        let free = fs.space().await?.inodes_free;
        let one = file(&fs, b"one", b"1").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.unlink(fs.root(), b"one").await?;
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(b"2")).await?;
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(fs.draft_read(draft, one, 0, 9).await?.to_vec(), b"2");
        fs.end_draft(draft).await?;
        assert_eq!(fs.space().await?.inodes_free, free);
        Ok(())
    });
}

#[test]
fn an_overwrite_within_a_tick_logs_the_pages_and_two_blocks() {
    on("bytes", Mode::DataAsync, |fs, port| async move {
        let one = file(&fs, b"one", &[1; 40_960]).await?;
        fs.sync().await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        for pages in [1, 3] {
            let (bytes, flushes) = (fs.counters().journal_bytes, port.device().counters().flushes);
            fs.draft_write(draft, one, Position::At(0), Content::Bytes(&vec![2; pages * PAGE as usize])).await?;
            fs.commit_drafts(&[draft]).await?;
            assert_eq!(
                fs.counters().journal_bytes - bytes,
                (pages as u64 + 2) * PAGE,
                "descriptor, pages, commit block"
            );
            fs.fsync(one).await?;
            assert_eq!(port.device().counters().flushes - flushes, 1, "nothing is left for the fsync");
        }
        fs.end_draft(draft).await?;
        fs.write(one, Position::At(0), Content::Bytes(b"later"), Manner::default()).await?;
        fs.fsync(one).await?;
        let flushes = port.device().counters().flushes;
        fs.fsync(one).await?;
        assert_eq!(port.device().counters().flushes - flushes, 1, "as before drafts: an fsync of nothing is a FLUSH");
        Ok(())
    });
}

#[test]
fn a_read_beside_an_abort_sees_the_draft_or_the_last_commit() {
    // Several requests of the device.
    const BYTES: usize = 4 * MIB as usize;
    for changes in [false, true] {
        on("beside", Mode::Data, move |fs, port| async move {
            let one = file(&fs, b"one", &vec![1; BYTES]).await?;
            let draft = fs.begin_draft()?;
            fs.claim(draft, one).await?;
            fs.draft_write(draft, one, Position::At(BYTES as u64 - PAGE), Content::Bytes(&[2; PAGE as usize])).await?;
            fs.sync().await?;
            // Until the checkpoint brings the pages home, the journal has them in memory.
            port.runtime().sleep(onewrite_block::Nanos::from_secs(60)).await;
            fs.drop_caches();
            let seen = Rc::new(std::cell::RefCell::new(None));
            let (reader, found) = (Rc::clone(&fs), Rc::clone(&seen));
            port.runtime().spawn(async move {
                let found_now = match changes {
                    // A write of a part of a cold page waits, too.
                    true => reader.draft_write(draft, one, Position::At(10), Content::Bytes(b"x")).await.map(drop),
                    false => Ok(()),
                };
                found_now.expect("it is drafted before the abort, or after it");
                let data = reader.draft_read(draft, one, 0, u64::MAX).await.expect("read");
                *found.borrow_mut() = Some(data.to_vec());
            });
            // Meanwhile the other task waits for a cold page.
            port.request(Request::read(Lpn(0), 1, Cause::Data)).await?;
            fs.abort_drafts(&[draft]).await?;
            while seen.borrow().is_none() {
                port.runtime().sleep(onewrite_block::Nanos::from_millis(1)).await;
            }
            let last = seen.borrow().as_ref().map(|bytes| bytes[BYTES - 1]).expect("it has read");
            assert!(last == 1 || last == 2, "{last}");
            // What the write changed is dropped, or came after the abort; nothing older comes back.
            fs.abort_drafts(&[draft]).await?;
            assert!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec() == vec![1; BYTES]);
            fs.end_draft(draft).await?;
            assert!(content(&fs, one).await == vec![1; BYTES]);
            fs.check().expect("invariants");
            Ok(())
        });
    }
}

#[test]
fn a_commit_stamps_the_file_also_when_nothing_else_of_it_changes() {
    on("stamp", Mode::Data, |fs, port| async move {
        let one = file(&fs, b"one", &[1; 4096]).await?;
        let before = fs.attributes(one).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        port.runtime().sleep(onewrite_block::Nanos::from_secs(2)).await;
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(b"x")).await?;
        assert_eq!(fs.attributes(one).await?.modified, before.modified, "nobody sees the draft");
        fs.commit_drafts(&[draft]).await?;
        let after = fs.attributes(one).await?;
        assert_eq!(after.modified.seconds, before.modified.seconds + 2);
        assert_eq!(after.changed, after.modified);
        fs.end_draft(draft).await
    });
}
