//! LDJ trims log space before it uses it again. A TRIM takes its time, and takes nothing but what is free.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{
    Cause, DevicePort, Executor, Geometry, Image, Nanos, Operation, Page, Pattern, PowerLoss, RamDisk, Request,
    TrimRead,
};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use super::late::{Late, Platter};
use crate::support::volume::{new_disk, with_mount};

const TASKS: u64 = 4;
const ROUNDS: u64 = 250;
const PAGE: u64 = 4096;
const DISK_BYTES: u64 = 64 << 20;
/// A file holds the content of so many rounds.
const FILE_ROUNDS: u64 = 10;

fn geometry() -> Geometry {
    let plain = Geometry::plain("ram", DISK_BYTES / PAGE);
    Geometry { trim_read: TrimRead::Zeros, on_power_loss: PowerLoss::KeepsCompleted, ..plain }
}

/// The log fills faster than the checkpoint empties it, and a TRIM takes longer than a commit.
fn span(request: &Request) -> Nanos {
    Nanos(match (&request.operation, request.cause) {
        (Operation::Trim { .. }, _) => 2_000_000,
        (_, Cause::Checkpoint) => 5_000_000,
        _ => 50_000,
    })
}

/// What a power cut leaves, with the number of syncs of each task that had returned.
type Cut = (Image, Vec<u64>);

fn content(task: u64, round: u64) -> Vec<u8> {
    let pattern = |index| Pattern { seed: task << 32 | round << 8 | index, compressible_percent: 0 };
    (0..4).flat_map(|index| *Page::pattern(pattern(index)).bytes()).collect()
}

fn offset(round: u64) -> u64 {
    round % FILE_ROUNDS * 4 * PAGE
}

/// Writes four pages and syncs them, again and again.
async fn work(fs: Rc<Ext4>, file: Ino, task: u64, synced: Rc<RefCell<Vec<u64>>>) -> FsResult<()> {
    for round in 0..ROUNDS {
        fs.write(file, Position::At(offset(round)), Content::Bytes(&content(task, round)), Manner::default()).await?;
        fs.fsync(file).await?;
        synced.borrow_mut()[task as usize] = round + 1;
    }
    Ok(())
}

/// Runs all tasks in LDJ and cuts the power every few milliseconds.
async fn cuts(port: DevicePort, platter: Platter) -> FsResult<Vec<Cut>> {
    let runtime = port.runtime().clone();
    let fs = Rc::new(Ext4::mount(port, MountOptions::new(Mode::Ldj)).await?);
    let synced = Rc::new(RefCell::new(vec![0; TASKS as usize]));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let file = fs.create(fs.root(), format!("file-{task}").as_bytes(), NewNode::FILE).await?;
        tasks.push(work(Rc::clone(&fs), file, task, Rc::clone(&synced)));
    }
    fs.sync().await?;
    let tasks: Vec<_> = tasks.into_iter().map(|task| runtime.start(task)).collect();
    let mut cuts = Vec::new();
    while synced.borrow().iter().any(|count| *count < ROUNDS) {
        runtime.sleep(Nanos::from_millis(3)).await;
        cuts.push((platter.borrow().image().clone(), synced.borrow().clone()));
    }
    for task in tasks {
        task.await?;
    }
    Ok(cuts)
}

/// Mounts what a cut left: each of the last rounds that had been synced is there.
fn assert_keeps((image, synced): &Cut, number: usize) {
    let (disk, synced) = (RamDisk::with_image(image.clone(), geometry()), synced.clone());
    let (outcome, _) = with_mount(Box::new(disk), MountOptions::new(Mode::Ldj), move |fs, _| async move {
        for (task, count) in (0..TASKS).zip(synced) {
            let file = fs.lookup(fs.root(), format!("file-{task}").as_bytes()).await?;
            // The round that is under way overwrites the one before these.
            for round in (count + 1).saturating_sub(FILE_ROUNDS)..count {
                let found = fs.read(file, offset(round), 4 * PAGE, Manner::default()).await?;
                assert!(found.to_vec() == content(task, round), "cut {number}: round {round} of task {task}");
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("cut {number}: {error}"));
}

#[test]
fn a_trim_of_freed_log_space_takes_nothing_that_was_committed_since() {
    let executor = Executor::ideal();
    let made = RamDisk::with_image(new_disk(DISK_BYTES, 1024).image().clone(), geometry());
    let (late, platter) = Late::on(made, span);
    let port = executor.runtime().attach(Box::new(late));
    let door = port.clone();
    let cuts = executor.block_on(cuts(door, platter)).expect("nothing halts").expect("no error");
    let trimmed = port.device().counters().trimmed_pages;
    assert!(trimmed > 3000, "{trimmed} log blocks trimmed");
    cuts.iter().enumerate().for_each(|(number, cut)| assert_keeps(cut, number));
}
