//! Device commands of a commit; and runs with the same seed are equal to the byte.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::Traced;
use onewrite_block::{
    Cause, Choices, Counters, Device, EvictionOrder, Executor, Geometry, Nanos, PAGE_SIZE, RamDisk, TrimRead,
    WriteBuffer,
};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::journal::EvictionSpot;
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Manner, NewNode, Position};

use crate::support::volume::{image, new_disk};

const MIB: u64 = 1024 * 1024;

/// A disk with an ext4, with or without FUA.
fn disk(fua: bool) -> RamDisk {
    let made = new_disk(64 * MIB, 1024);
    let plain = Geometry::plain("ram", 64 * MIB / PAGE_SIZE as u64);
    let geometry = Geometry { fua, share_pairs_max: 100, share_atomic: true, ..plain };
    RamDisk::with_image(made.image().clone(), geometry)
}

/// The same disk, with the promise to evict everything after 1 MiB of further writes.
fn evicting_disk() -> RamDisk {
    let plain = disk(false);
    let buffer = WriteBuffer {
        bytes: MIB,
        eviction_order: EvictionOrder::LeastRecentlyWritten,
        eviction_begins_bytes: MIB / 2,
        eviction_certain_bytes: MIB,
    };
    let (write_buffer, trim_read) = (Some(buffer), TrimRead::Zeros);
    let geometry = Geometry { write_buffer, trim_read, oob_hints: true, ..plain.geometry().clone() };
    RamDisk::with_image(plain.image().clone(), geometry)
}

/// Device counters of an fsync after a write, and of an fsync with nothing to commit.
fn cost_of_fsync(mode: Mode, fua: bool) -> (Counters, Counters) {
    cost_on(disk(fua), mode)
}

fn cost_on(disk: RamDisk, mode: Mode) -> (Counters, Counters) {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
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
    let barriers = [(Mode::Writeback, 2), (Mode::Ordered, 2), (Mode::Data, 2), (Mode::DataLazy, 2)];
    let checksums = [(Mode::DataAsync, 1), (Mode::DataCmp, 1), (Mode::Ldj, 1), (Mode::LdjPaper, 1)];
    for (mode, flushes) in barriers.into_iter().chain(checksums) {
        let (commit, idle) = cost_of_fsync(mode, false);
        assert_eq!((commit.flushes, commit.fua_writes), (flushes, 0), "{mode}");
        assert_eq!((idle.flushes, idle.host_write_bytes()), (1, 0), "{mode}: an fsync without a commit");
    }
}

#[test]
fn a_commit_that_pads_sends_no_flush_and_an_fsync_without_one_pads_once() {
    for (mode, trims) in [("zp", 1), ("zp-data", 1), ("zp+no-trim", 0), ("zp-data+no-trim", 0)] {
        let (commit, idle) = cost_on(evicting_disk(), mode.parse().expect("mode"));
        assert_eq!((commit.flushes, idle.flushes), (0, 0), "{mode}");
        assert_eq!(commit.host_write_bytes_of(Cause::Padding), 2 * MIB, "{mode}");
        assert_eq!(idle.host_write_bytes_of(Cause::Padding), MIB, "{mode}");
        assert_eq!((commit.trims, idle.trims), (2 * trims, trims), "{mode}");
    }
}

#[test]
fn a_commit_that_pads_falls_back_to_flush_where_it_cannot_know_what_is_evicted() {
    let (commit, idle) = cost_of_fsync("zp".parse().expect("mode"), false);
    assert_eq!((commit.flushes, idle.flushes), (2, 1), "the spot is not known");
    assert_eq!(commit.host_write_bytes_of(Cause::Padding), 0);
    for mode in ["zp+reread", "zp-data+hybrid"] {
        let (commit, idle) = cost_on(evicting_disk(), mode.parse().expect("mode"));
        assert_eq!((commit.flushes, idle.flushes), (2, 1), "{mode}: its reads take no time");
    }
}

#[test]
fn mounting_a_mode_that_pads_warns_where_padding_may_not_be_enough() {
    let geometry = evicting_disk().geometry().clone();
    let buffer = geometry.write_buffer.expect("it has one");
    let in_no_order = WriteBuffer { eviction_order: EvictionOrder::Unspecified, ..buffer };
    let small = EvictionSpot { bytes: MIB - 4096, flash_read_min: None };
    let cases = [
        (geometry.clone(), None, None),
        (Geometry { oob_hints: false, ..geometry.clone() }, None, Some("out-of-band hints")),
        (Geometry { write_buffer: Some(in_no_order), ..geometry.clone() }, None, Some("oldest pages first")),
        (geometry.clone(), Some(small), Some("too small")),
        (Geometry { write_buffer: None, ..geometry.clone() }, None, Some("not known")),
    ];
    for (geometry, eviction_spot, expected) in cases {
        let warnings = |mode: &str| {
            let mode = mode.parse().expect("mode");
            MountOptions { eviction_spot, ..MountOptions::new(mode) }.warnings(&geometry)
        };
        let found = warnings("zp");
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        assert!(expected.is_none_or(|expected| found[0].contains(expected)), "{found:?}");
        assert!(warnings("zp+reread").is_empty() && warnings("ordered").is_empty());
    }
}

#[test]
fn a_log_without_room_for_padding_is_refused_with_the_size_it_needs() {
    let plain = evicting_disk();
    let buffer = WriteBuffer { eviction_certain_bytes: 3 * MIB, ..plain.geometry().write_buffer.expect("it has one") };
    let geometry = Geometry { write_buffer: Some(buffer), ..plain.geometry().clone() };
    let port_disk = RamDisk::with_image(plain.image().clone(), geometry);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(port_disk));
    let options = MountOptions::new("zp".parse().expect("mode"));
    let outcome = executor.block_on(async move { Ext4::mount(port, options).await.map(drop) });
    let error = outcome.expect("nothing halts").expect_err("1,024 blocks are too few").to_string();
    assert!(error.contains("at least 5 MiB"), "{error}");
}

#[test]
fn with_fua_the_commit_block_needs_no_second_flush() {
    for (mode, commands) in [(Mode::Ordered, (1, 1)), (Mode::Data, (1, 1)), (Mode::DataAsync, (1, 0))] {
        let (commit, _) = cost_of_fsync(mode, true);
        assert_eq!((commit.flushes, commit.fua_writes), commands, "{mode}");
    }
}

/// Bytes of the log that an fsync after a second overwrite of the same page writes, `later` after the first one.
fn log_bytes_of_second_overwrite(mode: Mode, later: Nanos) -> u64 {
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(Box::new(disk(false)));
    let counted = executor.block_on(async move {
        let fs = Ext4::mount(port.clone(), MountOptions::new(mode)).await?;
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.write(file, Position::At(0), Content::Bytes(b"first"), Manner::default()).await?;
        fs.fsync(file).await?;
        runtime.sleep(later).await;
        port.device_mut().reset_counters();
        fs.write(file, Position::At(0), Content::Bytes(b"again"), Manner::default()).await?;
        fs.fsync(file).await?;
        let logged = port.device().counters().host_write_bytes_of(Cause::Journal);
        let found = fs.read(file, 0, 5, Manner::default()).await?.to_vec();
        FsResult::Ok((logged, found))
    });
    let (logged, found) = counted.expect("nothing halts").expect("no error");
    assert_eq!(found, b"again");
    logged
}

#[test]
fn an_overwrite_within_one_tick_of_the_clock_logs_its_content_and_no_inode() {
    for mode in [Mode::Data, Mode::DataAsync, Mode::DataLazy, Mode::Sdj, Mode::SdjAsync] {
        let [same_tick, later] = [Nanos::ZERO, Nanos::from_millis(10)]
            .map(|later| log_bytes_of_second_overwrite(mode, later) / PAGE_SIZE as u64);
        assert_eq!((same_tick, later), (3, 4), "{mode}: descriptor, page, commit block; later the inode, too");
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

#[test]
fn a_frame_of_zeros_takes_one_log_block_where_plain_blocks_take_many() {
    let written = |mode| {
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(disk(false)));
        let counted = executor.block_on(async move {
            let fs = Ext4::mount(port.clone(), MountOptions::new(mode)).await?;
            let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            fs.fsync(file).await?;
            port.device_mut().reset_counters();
            fs.write(file, Position::At(0), Content::Bytes(&[0; 200 * PAGE_SIZE]), Manner::default()).await?;
            fs.fsync(file).await?;
            FsResult::Ok((port.device().counters().host_write_bytes_of(Cause::Journal), fs.counters()))
        });
        counted.expect("nothing halts").expect("no error")
    };
    let (plain, compressed) = (written(Mode::Data).0, written(Mode::Ldj));
    assert!(plain > 200 * PAGE_SIZE as u64);
    assert_eq!(compressed.0, PAGE_SIZE as u64 * 2, "head and index of 200 blocks, and next to nothing");
    assert!(
        compressed.1.packed_raw_bytes > 200 * PAGE_SIZE as u64 && compressed.1.packed_bytes <= 2 * PAGE_SIZE as u64
    );
}

/// Sixteen tasks write and sync. Returns every request with its time, and the digest of the final image.
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

#[test]
fn nothing_of_a_run_is_left_in_memory() {
    for mode in Mode::ALL {
        let token = Rc::new(());
        let held = Rc::clone(&token);
        let executor = Executor::ideal();
        let traced = Traced::new(Box::new(disk(false)), move |_| drop(Rc::clone(&held)));
        let port = executor.runtime().attach(Box::new(traced));
        let outcome = executor.block_on(async move {
            let fs = Rc::new(Ext4::mount(port, MountOptions::new(mode)).await?);
            let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            fs.write(file, Position::At(0), Content::Bytes(&[1; 50_000]), Manner::default()).await?;
            fs.fsync(file).await?;
            fs.unmount().await
        });
        outcome.expect("nothing halts").expect("no error");
        drop(executor);
        assert_eq!(Rc::strong_count(&token), 1, "{mode}: the device lives on");
    }
}
