//! Views of images that our own file system made.

use onewrite_block::Executor;
use onewrite_fs::ext4::view::ViewOptions;
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{Allocation, AnyView, Content, FileSystem, FileView, FsResult, Manner, NewNode, Position};

use crate::support::volume::{new_disk, with_mount};

const MIB: u64 = 1024 * 1024;

#[test]
fn a_view_ends_where_the_file_ends_and_shows_reserved_blocks_as_zeros() {
    let (outcome, device) =
        with_mount(Box::new(new_disk(64 * MIB, 1024)), MountOptions::new(Mode::Ordered), |fs, _| async move {
            let old = fs.create(fs.root(), b"old", NewNode::FILE).await?;
            fs.write(old, Position::At(0), Content::Bytes(&[7; 100_000]), Manner::default()).await?;
            fs.sync().await?;
            fs.unlink(fs.root(), b"old").await?;
            fs.sync().await?;
            let new = fs.create(fs.root(), b"new", NewNode::FILE).await?;
            fs.allocate(new, 0, 100_000, Allocation::Extend).await?;
            fs.write(new, Position::At(0), Content::Bytes(b"new"), Manner::default()).await.map(drop)
        });
    outcome.expect("work");
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let seen = executor.block_on(async move {
        let view = AnyView::open(&port, ViewOptions::default()).await?;
        let new = view.lookup(view.root(), b"new").await?;
        FsResult::Ok(view.read(new, 0, u64::MAX, Manner::default()).await?.to_vec())
    });
    let seen = seen.expect("nothing halts").expect("a view");
    assert_eq!((seen.len(), &seen[..3]), (100_000, &b"new"[..]));
    assert!(seen[3..].iter().all(|byte| *byte == 0), "it shows what the blocks held before");
}
