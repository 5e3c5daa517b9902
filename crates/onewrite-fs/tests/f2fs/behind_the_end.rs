//! Bytes that another implementation left behind the end of a file never become readable, by whatever the file grows;
//! and none are left behind it for others.

use std::rc::Rc;

use onewrite_block::{Lpn, MIB, PAGE_SIZE};
use onewrite_fs::f2fs::format::{DataAddress, Nid};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{AttributeChanges, Content, FileSystem, FileView, Manner, NewNode, Position};

use crate::support::f2fs::Editor;
use crate::support::f2fs_volume::{Left, new_disk, with_mount};
use crate::support::grown::{ALL, grow, leave_bytes, make, shown};
use crate::support::volume::image;

#[test]
fn f2fs_hides_them() {
    for growth in ALL {
        let (options, left) = (F2fsOptions::default, Left::Unmounted);
        let disk = Box::new(new_disk(64 * MIB));
        let ((), disk) = with_mount(disk, options(), left, |fs, _| async move { make(&*fs).await });
        let work = move |fs: Rc<F2fs>, _| async move { grow(&*fs, growth).await };
        let ((), disk) = with_mount(leave_bytes(disk), options(), left, work);
        let look = move |fs: Rc<F2fs>, _| async move { shown(&*fs, growth).await };
        let (shown, _) = with_mount(disk, options(), left, look);
        assert!(shown.is_empty(), "{growth:?} shows what lay behind the end");
    }
}

/// Linux makes a file longer without a look at its last page.
#[test]
fn a_truncation_leaves_zeros_behind_the_end_for_others() {
    const USED: usize = 904;
    let disk = Box::new(new_disk(64 * MIB));
    let (file, disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        fs.write(file, Position::At(0), Content::Bytes(&[7; 2 * PAGE_SIZE]), Manner::default()).await?;
        fs.sync().await?;
        let size = Some((PAGE_SIZE + USED) as u64);
        fs.set_attributes(file, AttributeChanges { size, ..AttributeChanges::default() }).await?;
        // More than the checkpoint has room for: the NAT itself has all of them.
        for number in 0..100 {
            fs.create(fs.root(), format!("{number}").as_bytes(), NewNode::FILE).await?;
        }
        Ok(file)
    });
    let image = image(disk);
    let mut editor = Editor::of((0..image.pages()).flat_map(|page| image.page(Lpn(page)).bytes().to_vec()).collect());
    let DataAddress::Block(block) = editor.inode(Nid::from_ino(file)).address(1) else { panic!("a block") };
    let (used, rest) = editor.block(block).split_at(USED);
    assert!(used.iter().all(|byte| *byte == 7), "what the file has");
    assert!(rest.iter().all(|byte| *byte == 0), "what lies behind its end");
}
