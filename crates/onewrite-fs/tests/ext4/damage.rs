//! Damage that once made the code panic or run for ever; fuzzing found it. Each is now an error that names place and
//! problem.

use std::rc::Rc;

use onewrite_block::{Geometry, Image, Lpn, Page, RamDisk};
use onewrite_fs::BlockNo;
use onewrite_fs::api::resolve;
use onewrite_fs::ext4::format::extent::{Index, NodeMut};
use onewrite_fs::ext4::format::{Extent, InodeNo, Place};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::journal::format::{JournalSuperblock, Sequence};
use onewrite_fs::{
    AttributeChanges, Content, FileSystem, FileView, FsError, FsResult, Manner, NewNode, Position, RenameManner,
};

use crate::support::patient::Patient;
use crate::support::volume::with_mount;
use crate::support::{Scratch, make_image, many, sparse};

/// An image of four groups with files of several extents, nested directories, and a hash tree.
fn patient(name: &str) -> (Scratch, Patient) {
    let scratch = Scratch::new(&format!("damage-{name}"));
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    std::fs::create_dir_all(tree.join("one/two")).expect("directories");
    std::fs::create_dir_all(tree.join("other")).expect("directories");
    std::fs::write(tree.join("file"), vec![7; 100_000]).expect("file");
    sparse(&tree.join("pieces"), 500);
    many(&tree.join("many"), 100, 200);
    make_image(&path, Some(&tree), "16M", &["-g", "1024", "-J", "size=4", "-O", "^resize_inode"]);
    let patient = Patient::new(&path);
    (scratch, patient)
}

/// Mounts the patient in its current state, runs `work` and unmounts.
fn used<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    patient: &Patient,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> FsResult<T> {
    let blocks = patient.layout.block_count;
    let mut image = Image::new(blocks);
    (0..blocks).for_each(|block| image.set(Lpn(block), Page::from_slice(patient.block(BlockNo(block)))));
    let disk = RamDisk::with_image(image, Geometry::plain("ram", blocks));
    with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), |fs, _| work(fs)).0
}

fn assert_damaged<T: std::fmt::Debug>(outcome: FsResult<T>, problem: &str) {
    match outcome {
        Err(FsError::Damaged { problem: found, .. }) if found.contains(problem) => (),
        other => panic!("{other:?}, expected damage: {problem}"),
    }
}

async fn create_and_write(fs: Rc<Ext4>) -> FsResult<()> {
    let file = fs.create(fs.root(), b"new", NewNode::FILE).await?;
    let content = Content::Pattern { seed: 1, compressible_percent: 0, length: 100_000 };
    fs.write(file, Position::At(0), content, Manner::default()).await?;
    fs.sync().await
}

async fn unlink(fs: Rc<Ext4>, name: &'static str) -> FsResult<()> {
    fs.unlink(fs.root(), name.as_bytes()).await?;
    fs.sync().await
}

fn change_log(patient: &mut Patient, change: impl FnOnce(&mut JournalSuperblock)) {
    let block = patient.place_of(InodeNo(8), 0);
    let bytes: &mut [u8; 4096] = patient.block_mut(block).try_into().expect("a block");
    let mut superblock = JournalSuperblock::decode(bytes).expect("log superblock");
    change(&mut superblock);
    superblock.encode_into(bytes);
}

#[test]
fn a_log_whose_sequence_is_zero_is_used() {
    let (_scratch, mut patient) = patient("sequence");
    change_log(&mut patient, |log| log.sequence = Sequence(0));
    used(&patient, create_and_write).expect("sound");
}

#[test]
fn a_log_whose_first_block_lies_too_late_for_a_transaction_refuses_changes() {
    let (_scratch, mut patient) = patient("late");
    change_log(&mut patient, |log| log.first = log.length - 100);
    let outcome = used(&patient, create_and_write);
    assert!(matches!(&outcome, Err(FsError::Invalid(said)) if said.contains("larger log")), "{outcome:?}");
}

/// Found by the deep fuzz run: with a log of four blocks, a change of one block waited for room for ever.
#[test]
fn a_log_of_a_few_blocks_refuses_even_the_smallest_change() {
    let change = async |fs: Rc<Ext4>| {
        let changes = AttributeChanges { permissions: Some(0o700), ..Default::default() };
        fs.set_attributes(fs.root(), changes).await
    };
    for blocks in 1..=20 {
        let (_scratch, mut patient) = patient("few");
        change_log(&mut patient, |log| log.first = log.length - blocks);
        let outcome = used(&patient, change);
        let is_refused = matches!(&outcome, Err(FsError::Invalid(said)) if said.contains("larger log"));
        assert!(is_refused || outcome.is_ok() && blocks > 4, "{blocks} blocks: {outcome:?}");
    }
}

#[test]
fn a_journal_on_another_device_is_refused_whatever_inode_it_names() {
    let (_scratch, mut patient) = patient("outside");
    patient.superblock(|raw| {
        raw.journal_dev.set(7);
        raw.journal_inum.set(u32::MAX);
    });
    let outcome = used(&patient, create_and_write);
    assert!(matches!(outcome, Err(FsError::Unsupported(_))), "{outcome:?}");
}

#[test]
fn descriptors_that_name_blocks_beyond_the_image_are_refused() {
    for (group, block) in [(0, u64::MAX), (3, 1 << 40)] {
        let (_scratch, mut patient) = patient(&format!("beyond-{group}"));
        patient.change_descriptor(group, |raw| raw.set_inode_table(BlockNo(block)));
        assert_damaged(used(&patient, create_and_write), "lie beyond the image");
    }
}

#[test]
fn bitmaps_that_share_a_block_are_refused() {
    let (_scratch, mut patient) = patient("shared");
    let other = patient.descriptor(0).block_bitmap();
    patient.change_descriptor(1, |raw| raw.set_inode_bitmap(other));
    assert_damaged(used(&patient, create_and_write), "two of them lie there");
}

#[test]
fn a_descriptor_that_counts_fewer_free_blocks_than_its_bitmap_is_refused_on_allocation() {
    let (_scratch, mut patient) = patient("fewer");
    (0..4).for_each(|group| patient.change_descriptor(group, |raw| raw.set_free_blocks(1)));
    assert_damaged(used(&patient, async |fs| write_more(fs, "pieces").await), "its bitmap others");
}

async fn write_more(fs: Rc<Ext4>, name: &str) -> FsResult<()> {
    let file = fs.lookup(fs.root(), name.as_bytes()).await?;
    fs.write(file, Position::End, Content::Bytes(&[1; 20_000]), Manner::default()).await?;
    fs.sync().await
}

#[test]
fn a_descriptor_that_counts_too_many_free_blocks_is_refused_on_freeing() {
    let (_scratch, mut patient) = patient("many-free");
    (0..4).for_each(|group| patient.change_descriptor(group, |raw| raw.set_free_blocks(1024)));
    assert_damaged(used(&patient, |fs| unlink(fs, "pieces")), "its bitmap others");
}

#[test]
fn structure_that_a_bitmap_calls_free_is_not_taken() {
    let (_scratch, mut patient) = patient("free");
    for group in 0..4 {
        patient.block_bitmap(group, |bitmap| bitmap[..128].fill(0));
        patient.change_descriptor(group, |raw| raw.set_free_blocks(1024));
    }
    assert_damaged(used(&patient, create_and_write), "inode tables or the log lie there");
}

#[test]
fn an_inode_in_use_that_its_bitmap_calls_free_is_not_taken() {
    let (_scratch, mut patient) = patient("inode-free");
    patient.inode_bitmap(0, |bitmap| bitmap[1..8].fill(0));
    assert_damaged(used(&patient, create_and_write), "in use is marked free");
}

#[test]
fn extents_over_structure_are_neither_read_nor_freed() {
    let (_scratch, mut patient) = patient("extents");
    let (file, table) = (patient.inode_of("/file"), patient.descriptor(0).inode_table());
    patient.change_inode(file, |inode| {
        let mut root = NodeMut::parse(&mut inode.block, Place::Inode(file)).expect("root");
        let extent = root.node().extent(0);
        root.set_extent(0, Extent { physical: table, ..extent });
    });
    let read = |fs: Rc<Ext4>| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        fs.read(file, 0, 10, Manner::default()).await.map(drop)
    };
    assert_damaged(used(&patient, read), "inode tables or the log lie there");
    assert_damaged(used(&patient, |fs| unlink(fs, "file")), "inode tables or the log lie there");
}

#[test]
fn a_node_that_maps_blocks_outside_its_part_of_the_file_is_refused() {
    let (_scratch, mut patient) = patient("part");
    let pieces = patient.inode_of("/pieces");
    patient.change_inode(pieces, |inode| {
        let mut root = NodeMut::parse(&mut inode.block, Place::Inode(pieces)).expect("root");
        let index = root.node().index(0);
        root.set_index(0, Index { logical: 100, ..index });
    });
    assert_damaged(used(&patient, |fs| unlink(fs, "pieces")), "outside the part of the file");
}

#[test]
fn an_empty_node_is_refused() {
    let (_scratch, mut patient) = patient("empty");
    let pieces = patient.inode_of("/pieces");
    patient.change_node(pieces, |node| node[2..4].fill(0));
    assert_damaged(used(&patient, |fs| unlink(fs, "pieces")), "it is empty");
}

#[test]
fn a_file_that_counts_too_few_blocks_is_deleted_all_the_same() {
    let (_scratch, mut patient) = patient("sectors");
    let pieces = patient.inode_of("/pieces");
    patient.change_inode(pieces, |inode| inode.sectors = 8);
    used(&patient, |fs| unlink(fs, "pieces")).expect("sound but for a count");
}

#[test]
fn sizes_that_no_file_can_have_are_refused() {
    for (path, size) in [("/file", u64::MAX), ("/one", 0), ("/one", 5000)] {
        let (_scratch, mut patient) = patient(&format!("size-{size}"));
        let inode = patient.inode_of(path);
        patient.change_inode(inode, |inode| inode.size = size);
        let look = async move |fs: Rc<Ext4>| fs.attributes(resolve(&*fs, path.as_bytes()).await?).await;
        assert_damaged(used(&patient, look), "is impossible for its kind");
    }
}

#[test]
fn parents_in_a_circle_end_a_rename() {
    let (_scratch, mut patient) = patient("circle");
    let (one, two) = (patient.inode_of("/one"), patient.inode_of("/one/two"));
    patient.change_entry(one, "..", |entry| entry[..4].copy_from_slice(&two.0.to_le_bytes()));
    let rename = |fs: Rc<Ext4>| async move {
        let two = resolve(&*fs, b"/one/two").await?;
        fs.rename((fs.root(), b"other"), (two, b"moved"), RenameManner::Replace).await
    };
    assert_damaged(used(&patient, rename), "leads back to it");
}

#[test]
fn an_entry_that_names_its_own_directory_is_refused() {
    let (_scratch, mut patient) = patient("own");
    let one = patient.inode_of("/one");
    patient.change_entry(one, "two", |entry| entry[..4].copy_from_slice(&one.0.to_le_bytes()));
    let remove = |fs: Rc<Ext4>| async move { fs.remove_directory(resolve(&*fs, b"/one").await?, b"two").await };
    assert_damaged(used(&patient, remove), "the directory itself");
}

#[test]
fn reserved_inodes_are_refused_to_names_and_orphans() {
    let (_scratch, mut patient) = patient("reserved");
    let root = patient.inode_of("/");
    patient.change_entry(root, "file", |entry| entry[..4].copy_from_slice(&8_u32.to_le_bytes()));
    assert_damaged(used(&patient, |fs| unlink(fs, "file")), "reserved for the file system");
    patient.superblock(|raw| raw.last_orphan.set(8));
    assert_damaged(used(&patient, create_and_write), "reserved for the file system");
}
