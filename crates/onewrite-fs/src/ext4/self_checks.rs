//! Breaks once what ext4 checks of itself: each check and each assertion must see it.

use std::rc::Rc;

use onewrite_block::sync::Signal;
use onewrite_block::{Choices, Executor, HostProfile, MIB, PAGE_SIZE, RamDisk, Time};

use super::balloc::{Bit, set_bits};
use super::format::InodeNo;
use super::format::group::BLOCK_UNINIT;
use super::mkfs::{MkfsOptions, plan};
use super::volume::Volume;
use super::{Ext4, Mode, MountOptions};
use crate::api::{Allocation, FileSystem, FileView, Manner, NewNode, Position};
use crate::atomic::AtomicFiles;
use crate::block::BlockNo;
use crate::content::Content;
use crate::drafts::Spills;

/// Runs `work` on the volume of a new, mounted file system.
fn on_volume<T: 'static>(work: impl AsyncFnOnce(&Rc<Volume>) -> T + 'static) -> T {
    on_mount(Mode::Ordered, async |fs| work(fs.volume()).await)
}

/// Runs `work` on a new, mounted file system.
fn on_mount<T: 'static>(mode: Mode, work: impl AsyncFnOnce(&Ext4) -> T + 'static) -> T {
    on_host(HostProfile::ideal(), mode, work)
}

/// Runs `work` on a new file system, mounted on a machine of that profile.
fn on_host<T: 'static>(host: HostProfile, mode: Mode, work: impl AsyncFnOnce(&Ext4) -> T + 'static) -> T {
    let mut options = MkfsOptions::new(32 * MIB, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let mut disk = RamDisk::new(32 * MIB / PAGE_SIZE as u64);
    plan(&options).expect("plan").into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    let executor = Executor::new(Time::Virtual, host);
    let port = executor.runtime().attach(Box::new(disk));
    let whole = async move {
        let fs = Ext4::mount(port, MountOptions::new(mode)).await.expect("mount");
        fs.check().expect("nothing was broken yet");
        work(&fs).await
    };
    executor.block_on(whole).expect("nothing halts")
}

/// Returns what the allocator's check says after `change` to the block bitmap of group 0 in memory.
fn told_of_bitmap(change: impl FnOnce(&mut onewrite_block::PageBytes) + 'static) -> String {
    on_volume(async move |volume| {
        let block = volume.allocator().load_block_bitmap(0).await.expect("bitmap");
        let mut handle = volume.journal().start(1).await.expect("room");
        volume.change(&mut handle, block, change);
        volume.allocator().check().expect_err("the bitmap is another")
    })
}

/// Allocates a block of group 0 and frees it again. Returns its bit; the block waits for its transaction now.
async fn waiting_bit(volume: &Rc<Volume>) -> u32 {
    let allocator = volume.allocator();
    let mut handle = volume.journal().start(8).await.expect("room");
    let taken = allocator.allocate_blocks(&mut handle, BlockNo(1), 1).await.expect("a free block");
    allocator.free_blocks(&mut handle, taken).await.expect("it was taken");
    allocator.check().expect("a block that waits is no fault");
    volume.layout().index_in_group(taken.start)
}

#[test]
fn a_bit_that_the_descriptor_does_not_count_is_told() {
    let told = told_of_bitmap(|bitmap| set_bits(bitmap, 8000..8001, Bit::Taken));
    assert!(told.contains("blocks of group 0 are free; counted"), "{told}");
    let told = told_of_bitmap(|bitmap| set_bits(bitmap, 0..1, Bit::Free));
    assert!(told.contains("blocks of group 0 are free; counted"), "{told}");
}

#[test]
fn a_bitmap_that_was_never_written_has_no_free_block_behind_the_image() {
    let taken_behind = on_volume(async |volume| {
        let allocator = volume.allocator();
        let mut handle = volume.journal().start(1).await.expect("room");
        allocator.load_descriptor(0).await.expect("descriptor");
        allocator.change_descriptor(&mut handle, 0, |descriptor| {
            descriptor.flags.set(descriptor.flags.get() | BLOCK_UNINIT);
        });
        let bitmap = allocator.load_block_bitmap(0).await.expect("it is computed");
        let bitmap = volume.block(bitmap, |_| Ok(())).await.expect("in memory");
        let end = volume.layout().blocks_in_group(0) as usize;
        (end..8 * PAGE_SIZE).all(|bit| bitmap.bytes()[bit / 8] >> (bit % 8) & 1 == 1)
    });
    assert!(taken_behind, "a block that is not there could be taken");
}

#[test]
fn a_block_that_is_taken_while_it_waits_is_told() {
    let told = on_volume(async |volume| {
        let bit = waiting_bit(volume).await;
        let bitmap = volume.allocator().load_block_bitmap(0).await.expect("bitmap");
        let mut handle = volume.journal().start(1).await.expect("room");
        volume.change(&mut handle, bitmap, |bytes| {
            set_bits(bytes, bit..bit + 1, Bit::Taken);
            // As many are free as before.
            set_bits(bytes, 0..1, Bit::Free);
        });
        volume.allocator().check().expect_err("a waiting block is taken")
    });
    assert!(told.contains("waits to be free and is taken"), "{told}");
}

#[test]
fn a_descriptor_that_is_another_in_its_block_is_told() {
    let told = on_volume(async |volume| {
        volume.allocator().load_descriptor(0).await.expect("descriptors");
        let (block, offset) = volume.layout().position_of_descriptor(0);
        let mut handle = volume.journal().start(1).await.expect("room");
        volume.change(&mut handle, block, |bytes| bytes[offset + 0xc] ^= 1);
        volume.allocator().check().expect_err("the block says something else")
    });
    assert!(told.contains("the descriptor of group 0"), "{told}");
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "the superblock would be refused"))]
fn a_superblock_that_would_be_refused_is_not_written() {
    on_volume(async |volume| {
        volume.load_superblock().await.expect("superblock");
        let mut handle = volume.journal().start(1).await.expect("room");
        volume.change_superblock(&mut handle, |superblock| superblock.blocks_per_group.set(0));
    });
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "would be refused when it is read again"))]
fn a_descriptor_that_would_be_refused_is_not_written() {
    on_volume(async |volume| {
        let allocator = volume.allocator();
        allocator.load_descriptor(0).await.expect("descriptors");
        let mut handle = volume.journal().start(1).await.expect("room");
        let end = volume.layout().end();
        allocator.change_descriptor(&mut handle, 0, |descriptor| descriptor.set_inode_table(end));
    });
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "has 1 more free bits than it counts; 0 when loaded"))]
fn a_commit_sees_a_bit_that_the_descriptor_does_not_count() {
    on_volume(async |volume| {
        let block = volume.allocator().load_block_bitmap(0).await.expect("bitmap");
        let mut handle = volume.journal().start(1).await.expect("room");
        volume.change(&mut handle, block, |bitmap| set_bits(bitmap, 0..1, Bit::Free));
        drop(handle);
        volume.commit_now().await.expect("a commit");
    });
}

#[test]
fn reserved_blocks_that_no_page_needs_are_told() {
    let told = on_volume(async |volume| {
        volume.groups().reserve(3);
        volume.contents().check_delayed().expect_err("nothing is delayed")
    });
    assert_eq!(told, "3 blocks are reserved for 0 delayed pages and 0 in drafts");
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "1 blocks are reserved for 0 delayed pages"))]
fn a_commit_sees_reserved_blocks_that_no_page_needs() {
    on_volume(async |volume| {
        volume.allocator().load_superblock().await.expect("superblock");
        let mut handle = volume.journal().start(1).await.expect("room");
        volume.change_superblock(&mut handle, |_| ());
        drop(handle);
        volume.groups().reserve(1);
        volume.commit_now().await.expect("a commit");
    });
}

/// What a write in steps leaves that failed before its first one: a spill file without pages, and a size.
#[test]
fn a_spill_file_without_pages_gives_its_blocks_back_at_the_commit() {
    on_mount(Mode::Data, async |fs| {
        let ino = fs.create(fs.root(), b"f", NewNode::FILE).await.expect("a file");
        let draft = fs.begin_draft().expect("a draft");
        fs.claim(draft, ino).await.expect("a claim");
        let volume = fs.volume();
        let node = volume.inodes().get(InodeNo(ino.0 as u32)).expect("it is open");
        volume.atomics().promise(draft, &node, 0..9).await.expect("room");
        let promised = volume.groups().reserved_blocks();
        assert!(promised >= 9, "{promised} blocks for 9 pages");
        volume.atomics().end_promise(draft, &node);
        fs.draft_set_size(draft, ino, 5_000).await.expect("a size");
        fs.commit_drafts(&[draft]).await.expect("a commit");
        assert_eq!((volume.contents().check_delayed(), volume.groups().reserved_blocks()), (Ok(()), 0));
    });
}

#[test]
fn a_write_asks_the_map_once() {
    for mode in [Mode::Ordered, Mode::Data, Mode::Writeback] {
        let lookups = on_mount(mode, async |fs| {
            let file = fs.create(fs.root(), b"file", NewNode::FILE).await.expect("file");
            let content = Content::Pattern { seed: 1, compressible_percent: 0, length: 16 * PAGE_SIZE as u64 };
            let mut lookups = Vec::new();
            for _ in 0..2 {
                let before = fs.volume().map_lookups();
                fs.write(file, Position::At(0), content, Manner::default()).await.expect("write");
                lookups.push(fs.volume().map_lookups() - before);
                fs.fsync(file).await.expect("fsync");
            }
            lookups
        });
        assert_eq!(lookups, [1, 1], "{mode:?}: into a hole, and over its own content");
    }
}

#[test]
fn a_read_costs_what_it_gives_however_much_it_asks_for() {
    let host = HostProfile { syscall_ns: 700, copy_page_ns: 400, ..HostProfile::ideal() };
    let costs = on_host(host, Mode::Ordered, async |fs| {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await.expect("file");
        let content = vec![1; 4 * PAGE_SIZE];
        fs.write(file, Position::At(0), Content::Bytes(&content), Manner::default()).await.expect("write");
        let runtime = fs.volume().runtime();
        let mut costs = Vec::new();
        for (offset, length) in [(0, 4 * PAGE_SIZE as u64), (0, MIB), (4 * PAGE_SIZE as u64, MIB)] {
            let before = runtime.now();
            fs.read(file, offset, length, Manner::default()).await.expect("read");
            costs.push((runtime.now() - before).0);
        }
        costs
    });
    assert_eq!(
        costs,
        [2_300, 2_300, 700],
        "nanoseconds of a file of 16 KiB, asked for as 16 KiB, as 1 MiB, at its end"
    );
}

#[test]
fn a_direct_write_into_blocks_walks_the_map_once() {
    let lookups = on_mount(Mode::Ordered, async |fs| {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await.expect("file");
        let page = PAGE_SIZE as u64;
        fs.allocate(file, 0, 16 * page, Allocation::Extend).await.expect("blocks");
        let (content, direct) = (vec![1; 2 * PAGE_SIZE], Manner { direct: true, once: false });
        let mut lookups = Vec::new();
        for _ in 0..2 {
            let before = fs.volume().map_lookups();
            fs.write(file, Position::At(4 * page), Content::Bytes(&content), direct).await.expect("write");
            lookups.push(fs.volume().map_lookups() - before);
        }
        lookups
    });
    assert_eq!(lookups, [1, 1], "into unwritten blocks, and over its own content");
}

#[test]
fn a_commit_that_is_asked_for_waits_for_the_one_under_way_though_the_running_transaction_stays_empty() {
    on_mount(Mode::Data, async |fs| {
        let (journal, runtime) = (Rc::clone(fs.volume().journal()), fs.volume().runtime().clone());
        fs.create(fs.root(), b"file", NewNode::FILE).await.expect("file");
        let before = journal.running_tid();
        journal.request_commit(before);
        while journal.running_tid() == before {
            let turn = Rc::new(Signal::new(&runtime));
            let after_others = Rc::clone(&turn);
            runtime.spawn(async move { after_others.notify_all() });
            turn.wait().await;
        }
        assert!(!journal.is_committed(before), "it is under way");
        let adds_nothing = journal.start(1).await.expect("room");
        runtime.spawn(async move { drop(adds_nothing) });
        fs.volume().commit_now().await.expect("a commit");
        assert!(journal.is_committed(before));
    });
}
