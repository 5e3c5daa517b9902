//! Requests that take a second on an otherwise instant disk: what overtakes them must not be undone by them.

use std::rc::Rc;

use onewrite_block::{Cause, DevicePort, Geometry, Image, Nanos, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{AttributeChanges, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::late::{LATE, Late, LateDisk, Plan};
use crate::support::volume::{contents, image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, coming_to};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;

/// Runs `work` on a disk whose late requests it plans. e2fsck must find nothing afterwards.
pub fn on_late_disk<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    options: MountOptions,
    work: impl FnOnce(Rc<Ext4>, DevicePort, Plan) -> F + 'static,
) -> T {
    let plan = Plan::default();
    let disk = LateDisk::new(new_disk(64 * MIB, 1024), &plan);
    let (outcome, device) = with_mount(disk, options, |fs, port| work(fs, port, plan));
    let outcome = outcome.expect("work");
    assert_image_is_clean(&image(device));
    outcome
}

fn assert_image_is_clean(image: &Image) {
    let scratch = Scratch::new(std::thread::current().name().expect("the name of the test"));
    save(image, &scratch.path("image"));
    assert_clean(&scratch.path("image"));
}

/// Mounts an image and runs `work` on it.
fn on_image<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    image: Image,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> T {
    let geometry = Geometry::plain("ram", image.pages());
    let disk = Box::new(RamDisk::with_image(image, geometry));
    with_mount(disk, MountOptions::new(Mode::Ordered), |fs, _| work(fs)).0.expect("work")
}

async fn change_mode(fs: &Ext4, file: Ino) -> FsResult<()> {
    fs.set_attributes(file, AttributeChanges { permissions: Some(0o600), ..AttributeChanges::default() }).await
}

pub async fn create(fs: &Ext4, name: &[u8]) -> FsResult<Ino> {
    fs.create(fs.root(), name, NewNode::FILE).await
}

pub async fn write(fs: &Ext4, file: Ino, page: u64, bytes: &[u8]) -> FsResult<()> {
    fs.write(file, Position::At(page * PAGE), Content::Bytes(bytes), Manner::default()).await.map(drop)
}

async fn resize(fs: &Ext4, file: Ino, size: u64) -> FsResult<()> {
    fs.set_attributes(file, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
}

/// Writes each second page of the first `pages`, so that each is an extent of its own; all are home then.
pub async fn write_scattered(fs: &Ext4, port: &DevicePort, file: Ino, pages: u64) -> FsResult<()> {
    for page in (0..pages).step_by(2) {
        write(fs, file, page, &[1; PAGE_SIZE]).await?;
    }
    come_home(fs, port).await
}

/// Waits for a commit and its checkpoint, of a `checkpoint_age` of ten milliseconds.
pub async fn come_home(fs: &Ext4, port: &DevicePort) -> FsResult<()> {
    fs.sync().await?;
    port.runtime().sleep(Nanos::from_millis(50)).await;
    Ok(())
}

pub async fn read(fs: &Ext4, file: Ino) -> FsResult<Vec<u8>> {
    Ok(fs.read(file, 0, u64::MAX / 2, Manner::default()).await?.to_vec())
}

#[test]
fn a_write_that_a_truncation_overtakes_does_not_land_in_the_next_file() {
    on_late_disk(MountOptions::new(Mode::Ordered), |fs, port, plan| async move {
        let (old, new) = (create(&fs, b"old").await?, create(&fs, b"new").await?);
        plan.set(&[Late::writes(Cause::Data, 1)]);
        write(&fs, old, 0, &[1; 8 * PAGE_SIZE]).await?;
        let syncer = Rc::clone(&fs);
        let sync = port.runtime().start(async move { syncer.sync().await });
        port.runtime().sleep(Nanos::from_millis(1)).await;
        resize(&fs, old, 0).await?;
        // Commits the truncation.
        fs.fsync(new).await?;
        write(&fs, new, 0, &[2; 8 * PAGE_SIZE]).await?;
        fs.fsync(new).await?;
        sync.await?;
        port.runtime().sleep(LATE).await;
        fs.drop_caches();
        assert!(read(&fs, new).await?.iter().all(|byte| *byte == 2), "it holds content of the truncated file");
        Ok(())
    });
}

#[test]
fn a_block_on_its_way_home_is_not_given_to_a_file_before_it_is_there() {
    let options = MountOptions { checkpoint_age: Nanos::from_millis(10), ..MountOptions::new(Mode::Ordered) };
    on_late_disk(options, |fs, port, plan| async move {
        plan.set(&[Late::writes(Cause::Checkpoint, u32::MAX)]);
        for number in 0..32 {
            fs.create(fs.root(), format!("d{number}").as_bytes(), NewNode::DIRECTORY).await?;
        }
        fs.sync().await?;
        // The blocks of the directories are on their way home now, for a second.
        port.runtime().sleep(Nanos::from_millis(20)).await;
        plan.set(&[Late::writes(Cause::Checkpoint, 0)]);
        for number in 0..32 {
            fs.remove_directory(fs.root(), format!("d{number}").as_bytes()).await?;
        }
        fs.sync().await?;
        // Small files take the first free blocks.
        let mut files = Vec::new();
        for number in 0..64 {
            let file = create(&fs, format!("f{number}").as_bytes()).await?;
            write(&fs, file, 0, &[2; PAGE_SIZE]).await?;
            fs.fsync(file).await?;
            files.push(file);
        }
        port.runtime().sleep(LATE).await;
        fs.drop_caches();
        for file in files {
            assert!(read(&fs, file).await?.iter().all(|byte| *byte == 2), "{file} holds a directory's block");
        }
        Ok(())
    });
}

#[test]
fn content_that_arrives_while_its_file_is_deleted_leaves_the_next_file_of_its_inode_alone() {
    on_late_disk(MountOptions::new(Mode::Ordered), |fs, port, plan| async move {
        // An operation holds its directory.
        let mut directories = [fs.root(); 2];
        for (directory, name) in directories.iter_mut().zip([b"d", b"e"]) {
            *directory = fs.create(fs.root(), name, NewNode::DIRECTORY).await?;
        }
        let [of_other, of_next] = directories;
        let old = create(&fs, b"old").await?;
        fs.sync().await?;
        plan.set(&[Late::writes(Cause::Data, 1)]);
        write(&fs, old, 0, &[1; 8 * PAGE_SIZE]).await?;
        let (runtime, millisecond) = (port.runtime().clone(), Nanos::from_millis(1));
        let all = Rc::clone(&fs);
        let sync = runtime.start(async move { all.sync().await });
        runtime.sleep(millisecond).await;
        // Waits in its transaction until the content has arrived.
        let deleter = Rc::clone(&fs);
        let unlink = runtime.start(async move { deleter.unlink(deleter.root(), b"old").await });
        runtime.sleep(millisecond).await;
        // Waits until that transaction is complete; nobody joins it meanwhile.
        let committer = Rc::clone(&fs);
        let commit = runtime.start(async move {
            let other = committer.create(of_other, b"other", NewNode::FILE).await?;
            committer.fsync(other).await
        });
        runtime.sleep(millisecond).await;
        // Joins the next transaction, before the conversion of what has arrived does.
        let next = fs.create(of_next, b"next", NewNode::FILE).await?;
        assert_eq!(next, old, "the number that the deleted file had");
        for outcome in [unlink.await, commit.await, sync.await] {
            outcome?;
        }
        fs.fsync(next).await
    });
}

#[test]
fn an_unmount_waits_for_a_commit_that_was_asked_for_meanwhile() {
    let plan = Plan::default();
    let (disk, late) = (LateDisk::new(new_disk(64 * MIB, 1024), &plan), plan);
    let (outcome, device) = with_mount(disk, MountOptions::new(Mode::Ordered), |fs, port| async move {
        late.set(&[Late::writes(Cause::Journal, u32::MAX)]);
        let (runtime, millisecond) = (port.runtime().clone(), Nanos::from_millis(1));
        let (one, two, clock) = (Rc::clone(&fs), fs, runtime.clone());
        runtime.spawn(async move {
            let file = create(&one, b"one").await.expect("created");
            one.fsync(file).await.expect("durable");
        });
        runtime.sleep(millisecond).await;
        // The unmount waits for the first commit by then.
        runtime.spawn(async move {
            clock.sleep(millisecond).await;
            let file = create(&two, b"two").await.expect("created");
            two.fsync(file).await.expect("durable");
        });
        Ok(())
    });
    outcome.expect("unmounted");
    let left = image(device);
    assert_image_is_clean(&left);
    on_image(left, |fs| async move { fs.lookup(fs.root(), b"two").await });
}

/// Runs of new content are converted in two transactions, of which a cut leaves the first.
#[test]
fn the_size_waits_for_the_last_run_that_is_converted() {
    let options = MountOptions { checkpoint_age: Nanos::from_millis(10), ..MountOptions::new(Mode::Ordered) };
    let left = on_late_disk(options, |fs, port, plan| async move {
        let (runtime, tenth) = (port.runtime().clone(), Nanos::from_millis(100));
        let file = create(&fs, b"file").await?;
        let mut others = Vec::new();
        // In another block of the inode table.
        for number in 0..32 {
            others.push(create(&fs, format!("other{number}").as_bytes()).await?);
        }
        let other = others.pop().expect("the last");
        fs.sync().await?;
        plan.set(&[Late::writes(Cause::Data, 4)]);
        for page in [0, 100, 200, 300] {
            write(&fs, file, page, &[1; PAGE_SIZE]).await?;
        }
        let syncer = Rc::clone(&fs);
        let sync = runtime.start(async move { syncer.fsync(file).await });
        runtime.sleep(tenth).await;
        // The transaction that allocated is committed and home, and the file's inode leaves memory.
        change_mode(&fs, other).await?;
        fs.fsync(other).await?;
        runtime.sleep(tenth).await;
        change_mode(&fs, other).await?;
        fs.drop_caches();
        plan.set(&[Late::reads(Cause::Metadata, 1), Late::writes(Cause::Journal, u32::MAX)]);
        runtime.sleep(LATE).await;
        // The first run waits for the inode now, and perhaps the second for the map. This commit takes what they
        // change.
        fs.fsync(other).await?;
        let left = contents(&port).await?;
        sync.await?;
        Ok(left)
    });
    let found = on_image(left, |fs| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        read(&fs, file).await
    });
    let last = found.get(300 * PAGE_SIZE..).unwrap_or_default();
    assert!(last.iter().all(|byte| *byte == 1), "{} bytes, the last page without its content", found.len());
}

#[test]
fn a_directory_block_that_leaves_memory_before_it_gets_a_name_is_loaded_again() {
    let options = MountOptions { checkpoint_age: Nanos::from_millis(10), ..MountOptions::new(Mode::Ordered) };
    on_late_disk(options, |fs, port, plan| async move {
        create(&fs, b"there").await?;
        fs.sync().await?;
        port.runtime().sleep(LATE).await;
        fs.drop_caches();
        assert!(fs.lookup(fs.root(), b"new").await.is_err(), "its search loads the block");
        // The next read of metadata, of a bitmap or an inode, takes a second.
        plan.set(&[Late::reads(Cause::Metadata, 1)]);
        let creator = Rc::clone(&fs);
        let made = port.runtime().start(async move { create(&creator, b"new").await });
        port.runtime().sleep(Nanos::from_millis(1)).await;
        fs.drop_caches();
        let made = made.await?;
        assert_eq!(fs.lookup(fs.root(), b"new").await?, made);
        Ok(())
    });
}

#[test]
fn a_map_that_changes_while_it_is_read_is_read_again() {
    let options = MountOptions { checkpoint_age: Nanos::from_millis(10), ..MountOptions::new(Mode::Ordered) };
    let work = |fs: Rc<Ext4>, port: DevicePort, plan: Plan| async move {
        let file = create(&fs, b"file").await?;
        write_scattered(&fs, &port, file, 1400).await?;
        write(&fs, file, 1301, &[2; PAGE_SIZE]).await?;
        fs.drop_caches();
        plan.set(&[Late::reads(Cause::Metadata, 1)]);
        let reader = Rc::clone(&fs);
        let reading = port.runtime().start(async move { reader.read(file, 20 * PAGE, PAGE, Manner::default()).await });
        port.runtime().sleep(Nanos::from_millis(1)).await;
        // Another leaf of the map, which is there at once.
        fs.fsync(file).await?;
        assert!(reading.await?.to_vec().iter().all(|byte| *byte == 1));
        Ok(())
    };
    coming_to("map changed while it was read", || on_late_disk(options, work));
}
