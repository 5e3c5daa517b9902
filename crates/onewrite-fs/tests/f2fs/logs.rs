//! What docs/f2fs.md says of logs, fsyncs and trims: which log takes what, where an fsync is a checkpoint, and that
//! freed segments are trimmed.

use std::rc::Rc;

use onewrite_block::{Choices, Device, Geometry, Image, Lpn, PAGE_SIZE, RamDisk, Zones};
use onewrite_fs::BlockNo;
use onewrite_fs::f2fs::format::Nid;
use onewrite_fs::f2fs::format::sit::LogKind;
use onewrite_fs::f2fs::mkfs::{MkfsError, MkfsOptions, plan};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{AttributeManner, Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position};

use crate::support::f2fs::Editor;
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, with_mount};
use crate::support::volume::image;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

async fn write_page(fs: &F2fs, ino: Ino, page: u64) -> FsResult<()> {
    fs.write(ino, Position::At(page * PAGE), Content::Bytes(&[7; PAGE as usize]), Manner::default()).await.map(drop)
}

/// The next block of each log, as the checkpoint of an image says.
fn logs(image: &Image) -> Vec<u64> {
    let editor = editor(image);
    let place = |kind| {
        let log = editor.checkpoint.log(kind);
        editor.layout.segment_start(log.segment).0 + u64::from(log.next)
    };
    LogKind::ALL.map(place).to_vec()
}

/// Blocks that `work` takes from each log: hot, warm and cold content, hot, warm and cold nodes.
fn taken<F: Future<Output = FsResult<()>> + 'static>(
    before: &Image,
    work: impl FnOnce(Rc<F2fs>) -> F + 'static,
) -> (Vec<u64>, Image) {
    let disk = RamDisk::with_image(before.clone(), Geometry::plain("ram", before.pages()));
    let ((), disk) = with_mount(Box::new(disk), F2fsOptions::default(), Left::Unmounted, |fs, _| work(fs));
    let after = image(disk);
    let counts = logs(before).into_iter().zip(logs(&after)).map(|(before, after)| after - before).collect();
    (counts, after)
}

#[test]
fn each_sort_of_block_has_its_log() {
    assert_eq!(LogKind::ALL[0], LogKind::HotData, "the order of the counts below");
    let empty = image(Box::new(new_disk(64 * MIB)));
    let (counts, with_file) = taken(&empty, |fs| async move {
        let directory = fs.create(fs.root(), b"d", NewNode::DIRECTORY).await?;
        fs.create(directory, b"f", NewNode::FILE).await.map(drop)
    });
    assert_eq!(counts, [2, 0, 0, 2, 1, 0], "names of two directories, their inodes, and a file's");
    let (counts, with_content) = taken(&with_file, |fs| async move {
        let directory = fs.lookup(fs.root(), b"d").await?;
        write_page(&fs, fs.lookup(directory, b"f").await?, 0).await
    });
    assert_eq!(counts, [0, 1, 0, 0, 1, 0], "content and its inode");
    let (counts, _) = taken(&with_content, |fs| async move {
        let directory = fs.lookup(fs.root(), b"d").await?;
        // Behind the inode's addresses and two nodes of 1018.
        write_page(&fs, fs.lookup(directory, b"f").await?, 4000).await
    });
    assert_eq!(counts, [0, 1, 0, 0, 2, 1], "content, inode and its node, and the node that names that one");
}

/// Whether an fsync of `ino` is a checkpoint.
async fn is_checkpoint(fs: &F2fs, ino: Ino) -> FsResult<bool> {
    write_page(fs, ino, 0).await?;
    let before = fs.counters().checkpoints;
    fs.fsync(ino).await?;
    Ok(fs.counters().checkpoints > before)
}

#[test]
fn an_fsync_is_a_checkpoint_where_recovery_could_not_follow() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let root = fs.root();
        let file = fs.create(root, b"file", NewNode::FILE).await?;
        assert!(is_checkpoint(&fs, file).await?, "the first one behind an unmount");
        assert!(!is_checkpoint(&fs, file).await?, "the second");
        let new = fs.create(root, b"new", NewNode::FILE).await?;
        assert!(!is_checkpoint(&fs, new).await?, "a new file");
        let directory = fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        let inside = fs.create(directory, b"inside", NewNode::FILE).await?;
        assert!(is_checkpoint(&fs, inside).await?, "in a new directory");
        fs.link(file, root, b"second name").await?;
        assert!(is_checkpoint(&fs, file).await?, "two names");
        let large = vec![1; 3000];
        fs.set_extended_attribute(new, b"user.large", Some(&large), AttributeManner::Either).await?;
        assert!(is_checkpoint(&fs, new).await?, "a new node of attributes");
        assert!(!is_checkpoint(&fs, new).await?, "the node is there");
        fs.unlink(root, b"new").await?;
        let again = fs.create(root, b"new", NewNode::FILE).await?;
        assert!(is_checkpoint(&fs, again).await?, "a name that something else had");
        let before = fs.counters().checkpoints;
        fs.create(directory, b"name", NewNode::FILE).await?;
        fs.fsync(directory).await?;
        assert_eq!(fs.counters().checkpoints, before + 1, "a directory");
        // Each page gets a new block, and the inode names it.
        let mut between = 0;
        while !is_checkpoint(&fs, inside).await? {
            between += 1;
        }
        assert_eq!(between, 1024, "nodes in a chain");
        Ok(())
    });
}

/// A power cut keeps the nodes of the first and the third fsync, but not that of the second. A node that the recovery
/// itself writes must not fill the gap: were the recovery cut off then, the next one would go on to the third.
#[test]
fn recovery_writes_nothing_where_the_chain_ended() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.sync().await?;
        for byte in 1..=3 {
            fs.write(file, Position::At(0), Content::Bytes(&[byte; 4096]), Manner::default()).await?;
            fs.fsync(file).await?;
        }
        Ok(())
    });
    let mut cut = image(disk);
    let start = Lpn(logs(&cut)[LogKind::WarmNode as usize]);
    let has_mark = |image: &Image, page: Lpn| image.page(page).bytes()[4080] & 2 != 0;
    assert!((0..3).all(|at| has_mark(&cut, start.offset(at))), "three nodes beside each other");
    let gap = start.offset(1);
    cut.set(gap, onewrite_block::Page::ZEROS);
    let disk = RamDisk::with_image(cut, Geometry::plain("ram", 64 * MIB / PAGE));
    let (content, disk) = with_mount(Box::new(disk), F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        assert_eq!(fs.recovered().map(|recovered| recovered.nodes), Some(1));
        let file = fs.lookup(fs.root(), b"file").await?;
        Ok(fs.read(file, 0, PAGE, Manner::default()).await?.to_vec())
    });
    assert_eq!(content, [1; PAGE as usize]);
    assert!(image(disk).page(gap).is_zeros(), "the gap is as it was");
}

/// The bytes of an image, to be changed.
fn editor(image: &Image) -> Editor {
    Editor::of((0..image.pages()).flat_map(|page| image.page(Lpn(page)).bytes().to_vec()).collect())
}

/// A disk with what an editor has.
fn disk(editor: &Editor) -> Box<dyn Device> {
    let mut image = Image::new(64 * MIB / PAGE);
    for (page, bytes) in (0..).map(Lpn).zip(editor.bytes.as_chunks::<PAGE_SIZE>().0) {
        image.set(page, onewrite_block::Page::new(*bytes));
    }
    Box::new(RamDisk::with_image(image, Geometry::plain("ram", 64 * MIB / PAGE)))
}

#[test]
fn nodes_of_a_file_that_nothing_tells_of_are_passed_over() {
    const BEHIND_THE_INODE: u64 = 1000;
    let empty: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let ((), cut) = with_mount(empty, F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        write_page(&fs, file, BEHIND_THE_INODE).await?;
        fs.sync().await?;
        // Within one tick of the clock, so the inode is as it was: the one node of the chain has the address.
        let content = Content::Bytes(&[8; PAGE as usize]);
        fs.write(file, Position::At(BEHIND_THE_INODE * PAGE), content, Manner::default()).await?;
        fs.fsync(file).await
    });
    let cut = image(cut);
    let node = BlockNo(logs(&cut)[LogKind::WarmNode as usize]);
    let mut editor = editor(&cut);
    let owner = 4076..4080;
    assert_eq!(editor.block(node)[4080], 1 | 2 | 1 << 3, "cold, synced, the first behind its inode");
    editor.block(node)[owner].copy_from_slice(&9999_u32.to_le_bytes());
    let (content, left) = with_mount(disk(&editor), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        assert_eq!(fs.recovered().map(|recovered| recovered.files), Some(0));
        let file = fs.lookup(fs.root(), b"file").await?;
        Ok(fs.read(file, BEHIND_THE_INODE * PAGE, PAGE, Manner::default()).await?.to_vec())
    });
    assert_eq!(content, [7; PAGE as usize], "as of the checkpoint");
    assert_clean(&image(left));
}

/// As Linux leaves a file that was renamed over another one and synced.
#[test]
fn a_file_that_is_rolled_forward_takes_its_name_from_the_one_that_had_it() {
    let empty: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let (synced, cut) = with_mount(empty, F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let old = fs.create(fs.root(), b"a", NewNode::FILE).await?;
        write_page(&fs, old, 0).await?;
        fs.sync().await?;
        let new = fs.create(fs.root(), b"b", NewNode::FILE).await?;
        fs.write(new, Position::At(0), Content::Bytes(b"new"), Manner::default()).await?;
        fs.fsync(new).await.map(|()| new)
    });
    let cut = image(cut);
    let node = BlockNo(logs(&cut)[LogKind::WarmNode as usize]);
    let mut editor = editor(&cut);
    let name = 88..93;
    assert_eq!(editor.block(node)[name.clone()], [1, 0, 0, 0, b'b'], "the length of its name, and the name");
    editor.block(node)[name.end - 1] = b'a';
    editor.seal_inode_in(node, Nid::from_ino(synced));
    let ((), left) = with_mount(disk(&editor), F2fsOptions::default(), Left::Unmounted, move |fs, _| async move {
        assert_eq!(fs.lookup(fs.root(), b"a").await?, synced);
        assert_eq!(fs.read(synced, 0, PAGE, Manner::default()).await?.to_vec(), b"new");
        assert!(matches!(fs.lookup(fs.root(), b"b").await, Err(FsError::NotFound(_))));
        Ok(())
    });
    assert_clean(&image(left));
}

#[test]
fn freed_segments_are_trimmed() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let (trims, disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, port| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        for page in 0..3000 {
            write_page(&fs, file, page).await?;
        }
        fs.sync().await?;
        let before = port.device().counters().trims;
        fs.unlink(fs.root(), b"file").await?;
        fs.sync().await?;
        Ok(port.device().counters().trims - before)
    });
    assert!(trims > 0, "nothing was trimmed");
    let left = image(disk);
    let content = onewrite_block::Page::new([7; PAGE_SIZE]);
    let kept = (0..left.pages()).filter(|page| *left.page(Lpn(*page)) == content).count();
    assert!(kept < 1024, "{kept} pages of the deleted file are still there");
}

#[test]
fn few_zones_are_refused() {
    let zones = |count| Zones { first: Lpn(8 * 512), count, zone_pages: 1024, open_max: 16 };
    let planned = |count| {
        let size_bytes = (8 * 512 + count * 1024) * PAGE;
        plan(&MkfsOptions { zones: Some(zones(count)), ..MkfsOptions::new(size_bytes, &mut Choices::new(1)) })
    };
    assert!(planned(32).is_ok(), "{:?}", planned(32).err());
    assert!(matches!(planned(31), Err(MkfsError::FewZones { zones: 31, least: 32 })), "{:?}", planned(31).err());
}
