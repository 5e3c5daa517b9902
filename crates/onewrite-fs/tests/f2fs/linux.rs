//! F2FS as Linux leaves it and we do not: inodes without their node of attributes, names in inodes with the end of an
//! older one. `make vm` found them; here they are made by hand.

use std::rc::Rc;

use onewrite_block::{Device, Geometry, Image, Page, RamDisk};
use onewrite_fs::f2fs::format::inode::{CHECKSUM, Inode, checksum};
use onewrite_fs::f2fs::format::{Layout, Nid, xattr};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{AttributeManner, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::Scratch;
use crate::support::f2fs::Editor;
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, with_mount};
use crate::support::volume::{image, save};

const MIB: u64 = 1 << 20;
/// Bytes of the footer's marks, of the inode's number, and of the name that an inode keeps and its length.
const MARKS: usize = 4080;
const NUMBER: usize = 4072;
const NAME: usize = 92;
const NAME_LENGTH: usize = 88;

async fn put(fs: &F2fs, name: &str, bytes: &[u8]) -> FsResult<Ino> {
    let ino = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
    fs.write(ino, Position::At(0), Content::Bytes(bytes), Manner::default()).await?;
    Ok(ino)
}

async fn get(fs: &F2fs, name: &str) -> FsResult<Vec<u8>> {
    let ino = fs.lookup(fs.root(), name.as_bytes()).await?;
    Ok(fs.read(ino, 0, u64::MAX, Manner::default()).await?.to_vec())
}

fn ram(image: Image) -> Box<dyn Device> {
    let geometry = Geometry::plain("ram", image.pages());
    Box::new(RamDisk::with_image(image, geometry))
}

/// An image with the file `old` in its checkpoint, which has an attribute, and behind it an fsync of it and of `new`.
fn chained() -> Image {
    let ((), disk) =
        with_mount(Box::new(new_disk(64 * MIB)), F2fsOptions::default(), Left::AsItIs, async |fs: Rc<F2fs>, _| {
            let old = put(&fs, "old", b"before").await?;
            fs.set_extended_attribute(old, b"user.a", Some(b"first"), AttributeManner::Either).await?;
            fs.sync().await?;
            fs.write(old, Position::At(0), Content::Bytes(b"behind"), Manner::default()).await?;
            fs.fsync(old).await?;
            let new = put(&fs, "new", b"behind").await?;
            fs.fsync(new).await
        });
    image(disk)
}

/// The layout of an image.
fn layout_of(image: &Image) -> Layout {
    let scratch = Scratch::new(&format!("f2fs-linux-{:?}", std::thread::current().id()));
    let path = scratch.path("image");
    save(image, &path);
    Editor::open(&path).layout
}

/// Gives the chain's inode of a file an attribute that goes on in a node which is not there.
fn cut_attribute(shown: &mut Image, name: &[u8]) {
    let is_it = |page: &Page| page.bytes()[NAME..].starts_with(name) && page.bytes()[MARKS] & 2 != 0;
    let found = shown.written().find(|(_, page)| is_it(page)).map(|(at, page)| (at, page.clone()));
    let (at, mut page) = found.expect("an fsync");
    let layout = layout_of(shown);
    let nid = Nid(u32::from_le_bytes(page.bytes()[NUMBER..NUMBER + 4].try_into().expect("four bytes")));
    let room = Inode::decode(&page.bytes()[..], nid, &layout).expect("an inode").shape().xattr_range();
    assert!(room.len() > 100, "{room:?}");
    let list = [&xattr::MAGIC.to_le_bytes()[..], &[0; 20], &[1, 1, 0, 8, b'a', 7]].concat();
    page.bytes_mut()[room][..list.len()].copy_from_slice(&list);
    let sum = checksum(&page.bytes()[..], nid, &layout);
    page.bytes_mut()[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    shown.set(at, page);
}

#[test]
fn attributes_whose_end_the_chain_lacks_are_those_of_the_checkpoint() {
    let mut shown = chained();
    cut_attribute(&mut shown, b"old");
    cut_attribute(&mut shown, b"new");
    let ((), disk) = with_mount(ram(shown), F2fsOptions::default(), Left::Unmounted, async |fs: Rc<F2fs>, _| {
        let (old, new) = (fs.lookup(fs.root(), b"old").await?, fs.lookup(fs.root(), b"new").await?);
        assert_eq!(fs.extended_attribute(old, b"user.a").await?, b"first");
        assert!(fs.extended_attributes(new).await?.is_empty());
        assert_eq!(get(&fs, "old").await?, b"behind");
        Ok(())
    });
    assert_clean(&image(disk));
}

#[test]
fn an_inode_may_keep_the_end_of_a_longer_name() {
    let ((), disk) =
        with_mount(Box::new(new_disk(64 * MIB)), F2fsOptions::default(), Left::Unmounted, async |fs: Rc<F2fs>, _| {
            put(&fs, "file", b"content").await.map(drop)
        });
    let shown = image(disk);
    let is_it = |page: &Page| page.bytes()[NAME..].starts_with(b"file\0");
    let (at, mut page) = shown.written().find(|(_, page)| is_it(page)).map(|(at, page)| (at, page.clone())).unwrap();
    let mut changed = shown.clone();
    page.bytes_mut()[NAME..NAME + 11].copy_from_slice(b"file of old");
    assert_eq!(page.bytes()[NAME_LENGTH], 4);
    let nid = Nid(u32::from_le_bytes(page.bytes()[NUMBER..NUMBER + 4].try_into().expect("four bytes")));
    let sum = checksum(&page.bytes()[..], nid, &layout_of(&shown));
    page.bytes_mut()[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    changed.set(at, page);
    assert_clean(&changed);
}
