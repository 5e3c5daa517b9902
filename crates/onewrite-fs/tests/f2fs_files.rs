//! F2FS mounted on a RAM disk: what operations leave is there after an unmount, an fsync or a checkpoint, and
//! fsck.f2fs and our checker call every image clean.

mod support;

use onewrite_block::{Device, RamDisk};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};
use support::f2fs_volume::{Left, assert_clean, new_disk, with_mount};
use support::volume::image;

const MIB: u64 = 1 << 20;

async fn put(fs: &F2fs, directory: Ino, name: &str, bytes: &[u8]) -> FsResult<Ino> {
    let ino = fs.create(directory, name.as_bytes(), NewNode::FILE).await?;
    fs.write(ino, Position::At(0), Content::Bytes(bytes), Manner::default()).await?;
    Ok(ino)
}

async fn get(fs: &F2fs, directory: Ino, name: &str) -> FsResult<Vec<u8>> {
    let ino = fs.lookup(directory, name.as_bytes()).await?;
    Ok(fs.read(ino, 0, u64::MAX, Manner::default()).await?.to_vec())
}

#[test]
fn a_tree_is_there_after_an_unmount() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let content: Vec<u8> = (0..3 * MIB).map(|at| (at % 251) as u8).collect();
    let expected = content.clone();
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let root = fs.root();
        let directory = fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        put(&fs, directory, "large", &content).await?;
        for number in 0..1000 {
            put(&fs, directory, &format!("file {number}"), format!("content of {number}").as_bytes()).await?;
        }
        fs.symlink(root, b"link", b"directory/large").await?;
        for number in (0..1000).step_by(3) {
            fs.unlink(directory, format!("file {number}").as_bytes()).await?;
        }
        Ok(())
    });
    let shown = image(disk);
    assert_clean(&shown);
    let geometry = onewrite_block::Geometry::plain("ram", shown.pages());
    let ((), _) = with_mount(
        Box::new(RamDisk::with_image(shown, geometry)),
        F2fsOptions::default(),
        Left::Unmounted,
        |fs, _| async move {
            let root = fs.root();
            let directory = fs.lookup(root, b"directory").await?;
            assert_eq!(get(&fs, directory, "large").await?, expected);
            for number in 0..1000 {
                let found = get(&fs, directory, &format!("file {number}")).await;
                match number % 3 {
                    0 => assert!(found.is_err(), "{number}"),
                    _ => assert_eq!(found?, format!("content of {number}").as_bytes()),
                }
            }
            let link = fs.lookup(root, b"link").await?;
            assert_eq!(fs.read_link(link).await?, b"directory/large");
            Ok(())
        },
    );
}

#[test]
fn what_was_synced_is_rolled_forward() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let content: Vec<u8> = (0..9 * MIB).map(|at| (at % 241) as u8).collect();
    let expected = content.clone();
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let root = fs.root();
        put(&fs, root, "first", b"before the first checkpoint").await?;
        fs.sync().await?;
        let large = put(&fs, root, "large", &content).await?;
        fs.fsync(large).await?;
        let first = fs.lookup(root, b"first").await?;
        fs.write(first, Position::At(7), Content::Bytes(b"again"), Manner::default()).await?;
        fs.fsync(first).await?;
        put(&fs, root, "lost", b"never synced").await?;
        assert_eq!(fs.counters().checkpoints, 1, "an fsync is no checkpoint");
        Ok(())
    });
    let shown = image(disk);
    let geometry = onewrite_block::Geometry::plain("ram", shown.pages());
    let (recovered, disk) = with_mount(
        Box::new(RamDisk::with_image(shown, geometry)),
        F2fsOptions::default(),
        Left::Unmounted,
        |fs, _| async move {
            let root = fs.root();
            assert_eq!(get(&fs, root, "first").await?, b"before againirst checkpoint");
            assert_eq!(get(&fs, root, "large").await?, expected);
            assert!(fs.lookup(root, b"lost").await.is_err());
            Ok(fs.recovered())
        },
    );
    assert_eq!(recovered.expect("a chain").files, 2);
    assert_clean(&image(disk));
}
