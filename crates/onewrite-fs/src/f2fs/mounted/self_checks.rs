//! Puts F2FS into states that workloads rarely reach, and checks what it does there.

use std::rc::Rc;

use onewrite_block::mark::{self, Listener};
use onewrite_block::{Choices, DevicePort, Executor, Geometry, Image, MIB, PAGE_SIZE, RamDisk};

use super::volume::Volume;
use super::{F2fs, F2fsOptions, LogMode};
use crate::api::{AttributeChanges, FileSystem, FileView, FsError, FsResult, Manner, NewNode, Position};
use crate::content::Content;
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::Summary;
use crate::f2fs::format::{Nid, SegmentNo};
use crate::f2fs::mkfs::{MkfsOptions, plan};
use crate::f2fs::space::{Owner, Prepared, Reserve, Space};

/// Runs `work` on a new, mounted file system, which stays as it is then.
fn on_mount<T: 'static>(work: impl AsyncFnOnce(&F2fs) -> FsResult<T> + 'static) -> T {
    on_mount_with(F2fsOptions::default(), work)
}

fn on_mount_with<T: 'static>(mounted: F2fsOptions, work: impl AsyncFnOnce(&F2fs) -> FsResult<T> + 'static) -> T {
    let (executor, port) = new_device();
    let whole = async move { work(&F2fs::mount(port, mounted).await?).await };
    executor.block_on(whole).expect("nothing halts").expect("no error")
}

/// A new file system on a disk of its own.
fn new_device() -> (Executor, DevicePort) {
    let mut options = MkfsOptions::new(64 * MIB, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let pages = 64 * MIB / PAGE_SIZE as u64;
    let mut disk = RamDisk::with_image(Image::new(pages), Geometry::plain("ram", pages));
    plan(&options).expect("plan").into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    (executor, port)
}

/// Recovery follows the nodes of fsyncs from each to the next, and would end before a log that went on elsewhere.
#[test]
fn an_fsync_makes_a_checkpoint_where_the_chain_of_nodes_would_break() {
    on_mount(async |fs| {
        let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        fs.sync().await?;
        for (breaks, checkpoints) in [(false, 0), (true, 1)] {
            if breaks {
                fs.volume().chain_end.set(None);
            }
            let before = fs.counters().checkpoints;
            fs.write(file, Position::At(0), Content::Bytes(&[1; PAGE_SIZE]), Manner::default()).await?;
            fs.fsync(file).await?;
            assert_eq!(fs.counters().checkpoints - before, checkpoints);
        }
        Ok(())
    });
}

/// Nothing of what an fsync promises is in it, and its mark would be where recovery never reads.
#[test]
fn an_fsync_leaves_an_indirect_node_that_cleaning_moved_to_the_checkpoint() {
    on_mount(async |fs| {
        let ino = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        let (owner, volume) = (Nid::from_ino(ino), fs.volume());
        // Below the first indirect node.
        let far = Position::At((923 + 2 * 1018) * PAGE_SIZE as u64);
        fs.write(ino, far, Content::Bytes(&[1; PAGE_SIZE]), Manner::default()).await?;
        let indirect = volume.nodes().dirty_nodes_of(owner)[0];
        assert!(!volume.nodes().is_in_chain(indirect));
        fs.sync().await?;
        volume.nodes().change_node(indirect, owner, |_| ());
        fs.fsync(ino).await?;
        assert_eq!(volume.nodes().dirty_nodes_of(owner), [indirect]);
        Ok(())
    });
}

fn is_free(volume: &Volume, segment: SegmentNo) -> bool {
    let start = volume.layout.segment_start(segment);
    volume.space.borrow().free_runs().iter().any(|run| run.start <= start && start < run.end())
}

#[test]
fn a_segment_in_which_a_full_log_stands_is_not_free() {
    on_mount(async |fs| {
        let volume: &Rc<Volume> = fs.volume();
        let last = volume.space.borrow().free_runs().last().expect("most of it is free").end();
        let segment = SegmentNo(((last - volume.layout.main.start) / SEGMENT_BLOCKS - 1) as u32);
        assert!(is_free(volume, segment));
        let prepared = Prepared { segment, owners: Box::new([0; PAGE_SIZE]) };
        assert!(volume.space.borrow_mut().move_log(LogKind::ColdNode, prepared));
        assert!(!is_free(volume, segment), "another log may enter it");
        Ok(())
    });
}

/// Blocks beyond the reserve that content leaves while so many pages are staged, and it is none of them.
fn blocks_left(space: &mut Space, staged: usize) -> usize {
    let owner = Owner { summary: Summary { nid: Nid::NONE, slot: 0 }, version: 0 };
    let has_room = |space: &mut Space| space.room_for_content(LogKind::WarmData, 1, false, staged) > 0;
    has_room(space);
    space.look_again();
    while has_room(space) {
        space.take(LogKind::WarmData, owner);
    }
    space.open_blocks()
}

#[test]
fn a_checkpoint_without_a_block_for_a_node_is_refused_and_the_last_one_counts() {
    let (executor, port) = new_device();
    let door = port.clone();
    let full = async move {
        let fs = F2fs::mount(port, F2fsOptions::default()).await?;
        let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        fs.sync().await?;
        fs.set_attributes(file, AttributeChanges { permissions: Some(0o600), ..Default::default() }).await?;
        {
            let mut space = fs.volume().space.borrow_mut();
            space.open_reserve(Reserve::ForAll);
            let owner = Owner { summary: Summary { nid: Nid::NONE, slot: 0 }, version: 0 };
            LogKind::ALL.into_iter().for_each(|kind| while space.take(kind, owner).is_some() {});
        }
        FsResult::Ok([fs.sync().await, fs.sync().await])
    };
    let _listener = Listener::new();
    let (refused, reached) = mark::during(|| executor.block_on(full).expect("nothing halts").expect("no error"));
    assert!(reached.contains(mark::number("no block for a node")));
    assert!(matches!(refused[0], Err(FsError::NoSpace { what: "blocks for nodes", .. })), "{refused:?}");
    assert!(refused[1].is_err(), "the second is acknowledged");
    drop(executor);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(door.unplug());
    let again = async move {
        let fs = F2fs::mount(port, F2fsOptions::default()).await?;
        let file = fs.lookup(fs.root(), b"f").await?;
        fs.attributes(file).await
    };
    let found = executor.block_on(again).expect("nothing halts").expect("the file is there");
    assert_ne!(found.permissions, 0o600, "a part of the refused checkpoint counts");
}

/// The next checkpoint brings in what only the staging area has.
#[test]
fn on_whole_ground_other_content_leaves_staged_pages_their_room() {
    let options = F2fsOptions { log_mode: LogMode::Lfs, ..F2fsOptions::default() };
    on_mount_with(options, async |fs| {
        let mut space = fs.volume().space.borrow_mut();
        let segment = SEGMENT_BLOCKS as usize;
        for (staged, left) in [(2 * segment + 1, 3 * segment), (segment, segment), (0, 0)] {
            assert_eq!(blocks_left(&mut space, staged), left, "{staged} pages are staged");
        }
        Ok(())
    });
}
