//! What a power cut leaves, on a disk that loses nothing that reached it: sizes follow content, in the order of both.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::{Device, DevicePort, Image, Nanos, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{AttributeChanges, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::volume::{contents, image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;
const DIRECT: Manner = Manner { direct: true, once: false };

/// Runs `work` on a new disk, then gives what the disk holds; the power is cut then.
fn cut_after<F: Future<Output = FsResult<()>> + 'static>(
    mode: Mode,
    work: impl FnOnce(Rc<Ext4>, DevicePort) -> F + 'static,
) -> Image {
    let options = MountOptions::new(mode);
    let (outcome, _) = with_mount(Box::new(new_disk(64 * MIB, 1024)), options, move |fs, port| async move {
        work(Rc::clone(&fs), port.clone()).await?;
        contents(&port).await
    });
    outcome.unwrap_or_else(|error| panic!("{mode}: {error}"))
}

/// Mounts what a cut left, runs `work`, and checks the image with e2fsck.
fn after_cut<F: Future<Output = FsResult<()>> + 'static>(
    left: Image,
    mode: Mode,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) {
    let geometry = RamDisk::volatile(left.pages()).geometry().clone();
    let disk: Box<dyn Device> = Box::new(RamDisk::with_image(left, geometry));
    let (outcome, device) = with_mount(disk, MountOptions::new(mode), |fs, _| async move {
        fs.check().expect("the invariants hold");
        work(fs).await
    });
    outcome.unwrap_or_else(|error| panic!("{mode}: {error}"));
    let scratch = Scratch::new(&format!("cut-{mode}"));
    save(&image(device), &scratch.path("image"));
    assert_clean(&scratch.path("image"));
}

/// Appends pages of ones.
async fn append(fs: &Ext4, file: Ino, pages: u64) -> FsResult<()> {
    let ones = vec![1; (pages * PAGE) as usize];
    fs.write(file, Position::End, Content::Bytes(&ones), Manner::default()).await.map(drop)
}

async fn resize(fs: &Ext4, file: Ino, size: u64) -> FsResult<()> {
    fs.set_attributes(file, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
}

async fn create(fs: &Ext4, name: &[u8]) -> FsResult<Ino> {
    fs.create(fs.root(), name, NewNode::FILE).await
}

/// Sends the first page of a file to its place, and no other, and makes durable what the file system knows then.
async fn send_first_page(fs: &Ext4, port: &DevicePort, file: Ino) -> FsResult<()> {
    fs.read(file, 0, PAGE, DIRECT).await?;
    port.runtime().sleep(Nanos::from_millis(1)).await;
    let other = create(fs, b"other").await?;
    fs.fsync(other).await
}

/// What `file` holds after a cut must be one page of ones.
fn assert_one_page(left: Image) {
    after_cut(left, Mode::Ordered, |fs| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        assert_eq!(fs.read(file, 0, u64::MAX / 2, Manner::default()).await?.to_vec(), [1; PAGE_SIZE]);
        Ok(())
    });
}

#[test]
fn a_size_does_not_run_ahead_of_content_that_has_not_arrived() {
    assert_one_page(cut_after(Mode::Ordered, |fs, port| async move {
        let file = create(&fs, b"file").await?;
        append(&fs, file, 8).await?;
        send_first_page(&fs, &port, file).await
    }));
}

#[test]
fn what_arrived_before_a_truncation_says_nothing_about_content_after_it() {
    assert_one_page(cut_after(Mode::Ordered, |fs, port| async move {
        let file = create(&fs, b"file").await?;
        append(&fs, file, 8).await?;
        fs.fsync(file).await?;
        resize(&fs, file, 0).await?;
        append(&fs, file, 8).await?;
        send_first_page(&fs, &port, file).await
    }));
}

#[test]
fn content_under_way_at_a_truncation_says_nothing_about_content_after_it() {
    assert_one_page(cut_after(Mode::Ordered, |fs, port| async move {
        let file = create(&fs, b"file").await?;
        append(&fs, file, 8).await?;
        let (reader, cutter) = (Rc::clone(&fs), Rc::clone(&fs));
        let send = port.runtime().start(async move { reader.sync().await });
        let cut = port.runtime().start(async move {
            resize(&cutter, file, 0).await?;
            append(&cutter, file, 8).await
        });
        cut.await?;
        send.await?;
        send_first_page(&fs, &port, file).await
    }));
}

#[test]
fn bytes_behind_a_truncation_are_zeros_as_soon_as_the_truncation_is_durable() {
    for mode in Mode::ALL.into_iter().filter(|mode| *mode != Mode::Writeback) {
        let left = cut_after(mode, |fs, _| async move {
            let (file, other) = (create(&fs, b"file").await?, create(&fs, b"other").await?);
            append(&fs, file, 2).await?;
            fs.sync().await?;
            resize(&fs, file, 5_000).await?;
            resize(&fs, file, 2 * PAGE).await?;
            append(&fs, other, 1).await?;
            fs.fsync(other).await
        });
        after_cut(left, mode, move |fs| async move {
            let file = fs.lookup(fs.root(), b"file").await?;
            let found = fs.read(file, 0, 2 * PAGE, Manner::default()).await?.to_vec();
            assert_eq!(found, [vec![1; 5_000], vec![0; 2 * PAGE_SIZE - 5_000]].concat(), "{mode}");
            Ok(())
        });
    }
}

#[test]
fn a_mount_that_replays_counts_as_the_replayed_descriptors_do() {
    for mode in Mode::ALL {
        let left = cut_after(mode, |fs, _| async move {
            for name in [b"a", b"b", b"c"] {
                let file = create(&fs, name).await?;
                append(&fs, file, 20).await?;
                fs.fsync(file).await?;
            }
            Ok(())
        });
        after_cut(left, mode, |fs| async move {
            let file = create(&fs, b"d").await?;
            append(&fs, file, 3).await?;
            fs.fsync(file).await
        });
    }
}

#[test]
fn pages_that_got_blocks_give_back_the_blocks_that_were_kept_for_them() {
    let disk = Box::new(new_disk(16 * MIB, 1024));
    let (outcome, _) = with_mount(disk, MountOptions::new(Mode::Ordered), |fs, _| async move {
        let free = fs.space().await?.blocks_free;
        for name in [b"a", b"b"] {
            let file = create(&fs, name).await?;
            append(&fs, file, free * 2 / 5).await?;
            fs.fsync(file).await?;
        }
        Ok(())
    });
    outcome.expect("there is room for both");
}

#[test]
fn an_overwrite_in_the_tick_of_the_last_stamp_is_durable_after_fsync() {
    // No time passes, so the second write changes no inode.
    for mode in [Mode::Data, Mode::Ldj, Mode::Sdj, Mode::Ordered] {
        let left = cut_after(mode, |fs, _| async move {
            let file = create(&fs, b"file").await?;
            append(&fs, file, 1).await?;
            fs.fsync(file).await?;
            fs.write(file, Position::At(7), Content::Bytes(b"newer"), Manner::default()).await?;
            fs.fsync(file).await
        });
        after_cut(left, mode, |fs| async move {
            let file = fs.lookup(fs.root(), b"file").await?;
            assert_eq!(fs.read(file, 7, 5, Manner::default()).await?.to_vec(), b"newer");
            Ok(())
        });
    }
}

#[test]
fn a_name_made_in_the_tick_of_the_last_stamp_is_durable_after_an_fsync_of_its_directory() {
    for mode in [Mode::Data, Mode::Ordered] {
        let left = cut_after(mode, |fs, _| async move {
            let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
            let file = fs.create(directory, b"first", NewNode::FILE).await?;
            fs.fsync(directory).await?;
            fs.link(file, directory, b"second").await?;
            fs.fsync(directory).await
        });
        after_cut(left, mode, |fs| async move {
            let directory = fs.lookup(fs.root(), b"directory").await?;
            fs.lookup(directory, b"second").await.map(drop)
        });
    }
}

#[test]
fn an_aborted_journal_is_told_by_every_fsync() {
    for mode in [Mode::Data, Mode::Ordered, Mode::Ldj] {
        let plan = Rc::new(RefCell::new(FaultPlan::default()));
        let disk = Box::new(Faulty::new(Box::new(new_disk(64 * MIB, 1024)), Rc::clone(&plan)));
        let told = Rc::new(Cell::new(None));
        let heard = Rc::clone(&told);
        let _ = with_mount(disk, MountOptions::new(mode), move |fs, _| async move {
            let file = create(&fs, b"file").await?;
            append(&fs, file, 1).await?;
            fs.fsync(file).await?;
            let other = create(&fs, b"other").await?;
            plan.borrow_mut().faults.push(Fault::FullFrom(0));
            let refused = fs.fsync(other).await.is_err();
            plan.borrow_mut().faults.clear();
            heard.set(Some((refused, fs.fsync(file).await.is_err())));
            Ok(())
        });
        assert_eq!(told.get(), Some((true, true)), "{mode}: everything of the file is committed, and nothing will be");
    }
}
