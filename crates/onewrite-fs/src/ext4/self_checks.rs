//! Breaks once what ext4 checks of itself: each check and each assertion must see it.

use std::rc::Rc;

use onewrite_block::{Choices, Executor, MIB, PAGE_SIZE, RamDisk};

use super::balloc::{Bit, set_bits};
use super::mkfs::{MkfsOptions, plan};
use super::volume::Volume;
use super::{Ext4, Mode, MountOptions};
use crate::block::BlockNo;

/// Runs `work` on a new, mounted file system.
fn on_volume<T: 'static>(work: impl AsyncFnOnce(&Rc<Volume>) -> T + 'static) -> T {
    let mut options = MkfsOptions::new(32 * MIB, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let mut disk = RamDisk::new(32 * MIB / PAGE_SIZE as u64);
    plan(&options).expect("plan").into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let whole = async move {
        let fs = Ext4::mount(port, MountOptions::new(Mode::Ordered)).await.expect("mount");
        fs.check().expect("nothing was broken yet");
        work(&fs.volume).await
    };
    executor.block_on(whole).expect("nothing halts")
}

/// Returns what the allocator's check says after `change` to the block bitmap of group 0 in memory.
fn told_of_bitmap(change: impl FnOnce(&mut onewrite_block::PageBytes) + 'static) -> String {
    on_volume(async move |volume| {
        let block = volume.allocator().load_block_bitmap(0).await.expect("bitmap");
        let mut handle = volume.journal.start(1).await.expect("room");
        volume.change(&mut handle, block, change);
        volume.allocator().check().expect_err("the bitmap is another")
    })
}

/// Allocates a block of group 0 and frees it again. Returns its bit; the block waits for its transaction now.
async fn waiting_bit(volume: &Rc<Volume>) -> u32 {
    let allocator = volume.allocator();
    let mut handle = volume.journal.start(8).await.expect("room");
    let taken = allocator.allocate_blocks(&mut handle, BlockNo(1), 1).await.expect("a free block");
    allocator.free_blocks(&mut handle, taken).await.expect("it was taken");
    allocator.check().expect("a block that waits is no fault");
    volume.layout.index_in_group(taken.start)
}

#[test]
fn a_bit_that_the_descriptor_does_not_count_is_told() {
    let told = told_of_bitmap(|bitmap| set_bits(bitmap, 8000..8001, Bit::Taken));
    assert!(told.contains("blocks of group 0 are free; counted"), "{told}");
    let told = told_of_bitmap(|bitmap| set_bits(bitmap, 0..1, Bit::Free));
    assert!(told.contains("blocks of group 0 are free; counted"), "{told}");
}

#[test]
fn a_block_that_is_taken_while_it_waits_is_told() {
    let told = on_volume(async |volume| {
        let bit = waiting_bit(volume).await;
        let bitmap = volume.allocator().load_block_bitmap(0).await.expect("bitmap");
        let mut handle = volume.journal.start(1).await.expect("room");
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
        let (block, offset) = volume.layout.position_of_descriptor(0);
        let mut handle = volume.journal.start(1).await.expect("room");
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
        let mut handle = volume.journal.start(1).await.expect("room");
        volume.change_superblock(&mut handle, |superblock| superblock.blocks_per_group.set(0));
    });
}
