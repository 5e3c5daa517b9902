//! What a commit costs in commands to the device, and that runs repeat to the byte.

mod support;

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::Traced;
use onewrite_block::{Cause, Choices, Counters, Executor, Geometry, Nanos, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FsResult, Manner, NewNode, Position};
use support::volume::{image, new_disk};

const MIB: u64 = 1024 * 1024;

/// A disk with an ext4, with or without FUA.
fn disk(fua: bool) -> RamDisk {
    let made = new_disk(64 * MIB, 1024);
    let plain = Geometry::plain("ram", 64 * MIB / PAGE_SIZE as u64);
    let geometry = Geometry { fua, share_pairs_max: 100, share_atomic: true, ..plain };
    RamDisk::with_image(made.image().clone(), geometry)
}

/// What the device counts while a written page is synced, and then while there is nothing to commit.
fn cost_of_fsync(mode: Mode, fua: bool) -> (Counters, Counters) {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk(fua)));
    let counted = executor.block_on(async move {
        let fs = Ext4::mount(port.clone(), MountOptions::new(mode)).await?;
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.fsync(file).await?;
        port.device_mut().reset_counters();
        fs.write(file, Position::At(0), Content::Bytes(b"x"), Manner::default()).await?;
        fs.fsync(file).await?;
        let with_commit = port.device().counters();
        port.device_mut().reset_counters();
        fs.fsync(file).await?;
        FsResult::Ok((with_commit, port.device().counters()))
    });
    counted.expect("nothing halts").expect("no error")
}

#[test]
fn a_commit_flushes_twice_with_a_barrier_and_once_with_a_checksum() {
    for (mode, flushes) in [(Mode::Writeback, 2), (Mode::Ordered, 2), (Mode::Data, 2), (Mode::DataAsync, 1)] {
        let (commit, idle) = cost_of_fsync(mode, false);
        assert_eq!((commit.flushes, commit.fua_writes), (flushes, 0), "{mode}");
        assert_eq!((idle.flushes, idle.host_write_bytes()), (1, 0), "{mode}: an fsync without a commit");
    }
}

#[test]
fn with_fua_the_commit_block_needs_no_second_flush() {
    for (mode, commands) in [(Mode::Ordered, (1, 1)), (Mode::Data, (1, 1)), (Mode::DataAsync, (1, 0))] {
        let (commit, _) = cost_of_fsync(mode, true);
        assert_eq!((commit.flushes, commit.fua_writes), commands, "{mode}");
    }
}

#[test]
fn data_is_written_once_in_ordered_and_to_the_log_in_data() {
    let (ordered, _) = cost_of_fsync(Mode::Ordered, false);
    assert_eq!(ordered.host_write_bytes_of(Cause::Data), PAGE_SIZE as u64);
    let (data, _) = cost_of_fsync(Mode::Data, false);
    assert_eq!(data.host_write_bytes_of(Cause::Data), 0);
    assert!(data.host_write_bytes_of(Cause::Journal) > ordered.host_write_bytes_of(Cause::Journal));
}

/// Sixteen tasks write and sync; gives every request with its time, and the final image's digest.
fn interleaving(mode: Mode, seed: u64) -> (Vec<String>, u32) {
    let executor = Executor::ideal();
    let trace = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&trace);
    let traced = Traced::new(Box::new(disk(false)), move |event| sink.borrow_mut().push(format!("{event:?}")));
    let port = executor.runtime().attach(Box::new(traced));
    let (door, runtime) = (port.clone(), executor.runtime());
    let outcome = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(door, MountOptions::new(mode)).await?);
        let tasks: Vec<_> =
            (0..16).map(|task| runtime.start(task_of(Rc::clone(&fs), runtime.clone(), task, seed))).collect();
        for task in tasks {
            task.await?;
        }
        fs.unmount().await
    });
    outcome.expect("nothing halts").expect("no error");
    drop(executor);
    let image = image(port.unplug());
    let digest = image.written().fold(0, |sum: u32, (lpn, page)| sum.rotate_left(1) ^ page.digest() ^ lpn.0 as u32);
    (trace.take(), digest)
}

async fn task_of(fs: Rc<Ext4>, runtime: onewrite_block::Runtime, task: u64, seed: u64) -> FsResult<()> {
    let mut choices = Choices::new(seed).stream("task", task);
    let file = fs.create(fs.root(), format!("file-{task}").as_bytes(), NewNode::FILE).await?;
    for _ in 0..20 {
        let length = 1 + choices.below(20_000);
        let content = Content::Pattern { seed: choices.bits(), compressible_percent: 0, length };
        fs.write(file, Position::At(choices.below(100_000)), content, Manner::default()).await?;
        runtime.sleep(Nanos(choices.below(3_000_000))).await;
        fs.fsync(file).await?;
    }
    Ok(())
}

#[test]
fn sixteen_tasks_interleave_identically_on_every_run() {
    for mode in Mode::ALL {
        let (trace, digest) = interleaving(mode, 1);
        assert!(trace.len() > 300, "{mode}: {} requests", trace.len());
        assert_eq!(interleaving(mode, 1), (trace.clone(), digest), "{mode}");
        assert_ne!(interleaving(mode, 2).0, trace, "{mode}");
    }
}
