//! Writes that take a second on an otherwise instant disk: what overtakes them must not be undone by them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use onewrite_block::{
    Cause, Completion, Counters, Device, DevicePort, Geometry, Nanos, NextEvent, Operation, PAGE_SIZE, RamDisk,
    Request, Token,
};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{AttributeChanges, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;
const LATE: Nanos = Nanos::from_secs(1);

/// The cause of the writes that are late, and how many of them are.
type Plan = Rc<Cell<(Cause, u32)>>;

/// A disk that takes some writes in a second later than they came.
struct LateDisk {
    disk: RamDisk,
    plan: Plan,
    /// Oldest first.
    late: VecDeque<(Nanos, Token, Request)>,
}

impl Device for LateDisk {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let (cause, left) = self.plan.get();
        if left > 0 && request.cause == cause && matches!(request.operation, Operation::Write { .. }) {
            self.plan.set((cause, left - 1));
            return self.late.push_back((now + LATE, token, request));
        }
        self.disk.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        let late = self.late.front().map(|(moment, ..)| *moment);
        late.into_iter().chain(self.disk.next_event().moment()).min().into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while let Some((moment, token, request)) = self.late.pop_front_if(|(moment, ..)| *moment <= to) {
            self.disk.submit(token, request, moment);
        }
        self.disk.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn reset_counters(&mut self) {
        self.disk.reset_counters();
    }
}

/// Runs `work` on a disk whose late writes it plans. e2fsck must find nothing afterwards.
fn on_late_disk<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    options: MountOptions,
    work: impl FnOnce(Rc<Ext4>, DevicePort, Plan) -> F + 'static,
) -> T {
    let plan = Rc::new(Cell::new((Cause::Data, 0)));
    let disk = LateDisk { disk: new_disk(64 * MIB, 1024), plan: Rc::clone(&plan), late: VecDeque::new() };
    let (outcome, device) = with_mount(Box::new(disk), options, |fs, port| work(fs, port, plan));
    let outcome = outcome.expect("work");
    let scratch = Scratch::new(std::thread::current().name().expect("the name of the test"));
    save(&image(device), &scratch.path("image"));
    assert_clean(&scratch.path("image"));
    outcome
}

async fn create(fs: &Ext4, name: &[u8]) -> FsResult<Ino> {
    fs.create(fs.root(), name, NewNode::FILE).await
}

async fn write(fs: &Ext4, file: Ino, page: u64, bytes: &[u8]) -> FsResult<()> {
    fs.write(file, Position::At(page * PAGE), Content::Bytes(bytes), Manner::default()).await.map(drop)
}

async fn resize(fs: &Ext4, file: Ino, size: u64) -> FsResult<()> {
    fs.set_attributes(file, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
}

async fn read(fs: &Ext4, file: Ino) -> FsResult<Vec<u8>> {
    Ok(fs.read(file, 0, u64::MAX / 2, Manner::default()).await?.to_vec())
}

#[test]
fn a_write_that_a_truncation_overtakes_does_not_land_in_the_next_file() {
    on_late_disk(MountOptions::new(Mode::Ordered), |fs, port, plan| async move {
        let (old, new) = (create(&fs, b"old").await?, create(&fs, b"new").await?);
        plan.set((Cause::Data, 1));
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
        plan.set((Cause::Checkpoint, u32::MAX));
        for number in 0..32 {
            fs.create(fs.root(), format!("d{number}").as_bytes(), NewNode::DIRECTORY).await?;
        }
        fs.sync().await?;
        // The blocks of the directories are on their way home now, for a second.
        port.runtime().sleep(Nanos::from_millis(20)).await;
        plan.set((Cause::Checkpoint, 0));
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
        plan.set((Cause::Data, 1));
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
