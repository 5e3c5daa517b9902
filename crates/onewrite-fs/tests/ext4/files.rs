//! Files and directories on our ext4: reads return what was written, also after a remount, and e2fsck finds no fault.

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{
    Allocation, AttributeChanges, Content, FileKind, FileSystem, FileView, FsError, FsResult, Manner, NewNode,
    Position, RenameManner, pattern_page,
};
use std::rc::Rc;

use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean};

const MIB: u64 = 1024 * 1024;

/// Runs `work` in every mode on a fresh disk, then `after` on a remount, and checks the disk with e2fsck.
fn in_every_mode<A, B>(
    name: &str,
    work: impl Fn(Rc<onewrite_fs::ext4::Ext4>) -> A + Clone + 'static,
    after: impl Fn(Rc<onewrite_fs::ext4::Ext4>) -> B + Clone + 'static,
) where
    A: Future<Output = FsResult<()>> + 'static,
    B: Future<Output = FsResult<()>> + 'static,
{
    for mode in Mode::ALL {
        let options = MountOptions::new(mode);
        let (work, after) = (work.clone(), after.clone());
        let disk = new_disk(64 * MIB, 1024);
        let (outcome, device) = with_mount(Box::new(disk), options, move |fs, _| work(fs));
        outcome.unwrap_or_else(|error| panic!("{mode}: {error}"));
        let (outcome, device) = with_mount(device, options, move |fs, _| after(fs));
        outcome.unwrap_or_else(|error| panic!("{mode}, after a remount: {error}"));
        let scratch = Scratch::new(&format!("{name}-{mode}"));
        let path = scratch.path("image");
        save(&image(device), &path);
        assert_clean(&path);
    }
}

async fn nothing(_: Rc<onewrite_fs::ext4::Ext4>) -> FsResult<()> {
    Ok(())
}

#[test]
fn bytes_come_back_after_a_remount() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.write(file, Position::At(0), Content::Bytes(b"hello"), Manner::default()).await?;
        fs.write(file, Position::End, Content::Bytes(b", world"), Manner::default()).await?;
        let long = Content::Pattern { seed: 3, compressible_percent: 0, length: 3 * MIB + 5 };
        fs.write(file, Position::At(100_000), long, Manner::default()).await?;
        assert_eq!(fs.read(file, 0, 12, Manner::default()).await?.to_vec(), b"hello, world");
        Ok(())
    };
    let after = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        assert_eq!(fs.attributes(file).await?.size, 100_000 + 3 * MIB + 5);
        assert_eq!(fs.read(file, 0, 14, Manner::default()).await?.to_vec(), b"hello, world\0\0");
        let data = fs.read(file, 40 * 4096, 8192, Manner::default()).await?;
        assert_eq!(data.pages, [pattern_page(3, 0, 40), pattern_page(3, 0, 41)]);
        let end = fs.read(file, 100_000 + 3 * MIB, 100, Manner::default()).await?;
        assert_eq!(end.length, 5);
        Ok(())
    };
    in_every_mode("bytes", work, after);
}

#[test]
fn a_directory_of_five_thousand_names_keeps_them_all() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let directory = fs.create(fs.root(), b"many", NewNode::DIRECTORY).await?;
        for number in 0..5000 {
            fs.create(directory, format!("file-{number:05}").as_bytes(), NewNode::FILE).await?;
        }
        for number in (0..5000).step_by(3) {
            fs.unlink(directory, format!("file-{number:05}").as_bytes()).await?;
        }
        Ok(())
    };
    let after = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let directory = fs.lookup(fs.root(), b"many").await?;
        let (mut names, mut cursor) = (Vec::new(), 0);
        loop {
            let entries = fs.read_directory(directory, cursor).await?;
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            names.extend(entries.into_iter().map(|entry| entry.name));
        }
        names.sort();
        assert_eq!(names.len(), 2 + 5000 - 1667);
        for number in 0..5000 {
            let name = format!("file-{number:05}");
            let found = fs.lookup(directory, name.as_bytes()).await;
            assert_eq!(found.is_ok(), number % 3 != 0, "{name}: {found:?}");
        }
        Ok(())
    };
    in_every_mode("many", work, after);
}

#[test]
fn names_are_linked_renamed_and_removed() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let root = fs.root();
        let (a, b) =
            (fs.create(root, b"a", NewNode::DIRECTORY).await?, fs.create(root, b"b", NewNode::DIRECTORY).await?);
        let file = fs.create(a, b"file", NewNode::FILE).await?;
        fs.write(file, Position::At(0), Content::Bytes(&[7; 10_000]), Manner::default()).await?;
        fs.link(file, b, b"second").await?;
        assert_eq!(fs.attributes(file).await?.links, 2);
        fs.rename((a, b"file"), (b, b"third"), RenameManner::Replace).await?;
        let sub = fs.create(a, b"sub", NewNode::DIRECTORY).await?;
        fs.rename((root, b"a"), (b, b"moved"), RenameManner::Replace).await?;
        assert_eq!(fs.lookup(a, b"..").await?, b);
        let below = fs.rename((root, b"b"), (sub, b"below"), RenameManner::Replace).await;
        assert!(matches!(below, Err(FsError::Invalid(_))), "{below:?}");
        fs.symlink(b, b"short", b"third").await?;
        fs.symlink(b, b"long", &[b'x'; 1000]).await?;
        assert!(matches!(fs.remove_directory(root, b"b").await, Err(FsError::NotEmpty(_))));
        let (c, d) = (fs.create(root, b"c", NewNode::FILE).await?, fs.create(root, b"d", NewNode::DIRECTORY).await?);
        fs.rename((root, b"c"), (b, b"moved"), RenameManner::Exchange).await?;
        assert_eq!((fs.lookup(b, b"moved").await?, fs.lookup(root, b"c").await?), (c, a));
        fs.rename((root, b"c"), (root, b"d"), RenameManner::Replace).await?;
        assert_eq!(fs.lookup(root, b"d").await?, a);
        assert!(matches!(fs.attributes(d).await, Err(FsError::NotFound(_))));
        fs.unlink(b, b"second").await?;
        Ok(())
    };
    let after = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let b = fs.lookup(fs.root(), b"b").await?;
        let third = fs.lookup(b, b"third").await?;
        assert_eq!(fs.read(third, 9_999, 10, Manner::default()).await?.to_vec(), [7]);
        assert_eq!(fs.attributes(third).await?.links, 1);
        let long = fs.lookup(b, b"long").await?;
        assert_eq!(fs.read_link(long).await?, [b'x'; 1000]);
        assert_eq!(fs.attributes(long).await?.kind, FileKind::Symlink);
        Ok(())
    };
    in_every_mode("names", work, after);
}

#[test]
fn a_file_is_cut_extended_punched_and_deleted() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        // Every second block, so that the extent tree gets deep.
        for index in 0..1500 {
            let one = Content::Pattern { seed: 1, compressible_percent: 0, length: 4096 };
            fs.write(file, Position::At(index * 8192), one, Manner::default()).await?;
        }
        let resize = |size| AttributeChanges { size: Some(size), ..AttributeChanges::default() };
        fs.set_attributes(file, resize(1000 * 8192 + 10)).await?;
        fs.set_attributes(file, resize(2000 * 8192)).await?;
        let tail = fs.read(file, 1000 * 8192, 4096, Manner::default()).await?.to_vec();
        assert_eq!(tail[..10], pattern_page(1, 0, 2000).bytes()[..10]);
        assert!(tail[10..].iter().all(|byte| *byte == 0));
        fs.allocate(file, 100 * 8192 + 5, 50 * 8192, Allocation::PunchHole).await?;
        assert_eq!(fs.read(file, 120 * 8192, 4096, Manner::default()).await?.to_vec(), [0; 4096]);
        fs.allocate(file, 20 * MIB, MIB, Allocation::Extend).await?;
        fs.write(file, Position::At(20 * MIB + 8192), Content::Bytes(b"x"), Manner::default()).await?;
        let gone = fs.create(fs.root(), b"gone", NewNode::FILE).await?;
        for index in 0..1500 {
            fs.write(gone, Position::At(index * 8192), Content::Bytes(b"y"), Manner::default()).await?;
        }
        fs.open(gone).await?;
        fs.unlink(fs.root(), b"gone").await?;
        assert_eq!(fs.read(gone, 8192, 1, Manner::default()).await?.to_vec(), b"y");
        fs.release(gone).await?;
        assert!(matches!(fs.attributes(gone).await, Err(FsError::NotFound(_))));
        Ok(())
    };
    let after = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let file = fs.lookup(fs.root(), b"file").await?;
        assert_eq!(fs.attributes(file).await?.size, 21 * MIB);
        assert_eq!(fs.read(file, 20 * MIB + 8191, 3, Manner::default()).await?.to_vec(), b"\0x\0");
        let kept = fs.read(file, 99 * 8192, 4096, Manner::default()).await?;
        assert_eq!(kept.pages, [pattern_page(1, 0, 198)]);
        fs.unlink(fs.root(), b"file").await
    };
    in_every_mode("cut", work, after);
}

#[test]
fn a_full_disk_is_a_clear_error_and_loses_nothing() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let kept = fs.create(fs.root(), b"kept", NewNode::FILE).await?;
        fs.write(kept, Position::At(0), Content::Bytes(&[5; 5000]), Manner::default()).await?;
        let big = fs.create(fs.root(), b"big", NewNode::FILE).await?;
        let all = Content::Pattern { seed: 2, compressible_percent: 0, length: 200 * MIB };
        let error = fs.write(big, Position::At(0), all, Manner::default()).await.unwrap_err();
        assert!(matches!(error, FsError::NoSpace { what: "blocks", .. }), "{error}");
        fs.unlink(fs.root(), b"big").await?;
        let again = fs.create(fs.root(), b"again", NewNode::FILE).await?;
        let half = Content::Pattern { seed: 2, compressible_percent: 0, length: 30 * MIB };
        fs.write(again, Position::At(0), half, Manner::default()).await?;
        Ok(())
    };
    let after = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let kept = fs.lookup(fs.root(), b"kept").await?;
        assert_eq!(fs.read(kept, 0, 5000, Manner::default()).await?.to_vec(), [5; 5000]);
        let again = fs.lookup(fs.root(), b"again").await?;
        let last = 30 * MIB / 4096 - 1;
        assert_eq!(fs.read(again, last * 4096, 4096, Manner::default()).await?.pages, [pattern_page(2, 0, last)]);
        Ok(())
    };
    in_every_mode("full", work, after);
}

#[test]
fn a_small_cache_and_a_small_log_hold_a_large_workload() {
    for mode in Mode::ALL {
        let options = MountOptions { cache_pages: MountOptions::CACHE_PAGES_MIN, ..MountOptions::new(mode) };
        let work = move |fs: Rc<onewrite_fs::ext4::Ext4>, _| async move {
            let mut files = Vec::new();
            for number in 0..200_u64 {
                let name = format!("f{number}");
                let file = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
                let content = Content::Pattern { seed: number, compressible_percent: 0, length: 100_000 };
                fs.write(file, Position::At(0), content, Manner::default()).await?;
                if number % 10 == 0 {
                    fs.fsync(file).await?;
                }
                files.push(file);
            }
            for (number, file) in files.iter().enumerate() {
                let page = fs.read(*file, 4096 * 7, 4096, Manner::default()).await?;
                assert_eq!(page.pages, [pattern_page(number as u64, 0, 7)]);
            }
            Ok(fs.counters())
        };
        let (outcome, device) = with_mount(Box::new(new_disk(64 * MIB, 1024)), options, work);
        let counters = outcome.unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert!(counters.commits > 10, "{mode}: {counters:?}");
        let scratch = Scratch::new(&format!("small-{mode}"));
        save(&image(device), &scratch.path("image"));
        assert_clean(&scratch.path("image"));
    }
}

#[test]
fn an_unmounted_volume_takes_nothing() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>, _| async move {
        fs.unmount().await?;
        let late = fs.create(fs.root(), b"late", NewNode::FILE).await;
        assert!(matches!(late, Err(FsError::ReadOnly(_))), "{late:?}");
        fs.unmount().await
    };
    let options = MountOptions::new(Mode::Ordered);
    let (outcome, _) = with_mount(Box::new(new_disk(64 * MIB, 1024)), options, work);
    assert!(matches!(outcome, Err(FsError::Invalid(_))), "{outcome:?}");
    in_every_mode("nothing", nothing, nothing);
}

#[test]
fn a_sync_beside_an_operation_that_changes_nothing_returns() {
    let work = |fs: Rc<onewrite_fs::ext4::Ext4>| async move {
        let fill = fs.create(fs.root(), b"fill", NewNode::FILE).await?;
        let all = Content::Pattern { seed: 2, compressible_percent: 0, length: 200 * MIB };
        assert!(fs.write(fill, Position::At(0), all, Manner::default()).await.is_err());
        fs.sync().await?;
        // The disk is full: the write opens a handle, waits for an empty commit, and fails.
        for number in 0..200 {
            let name = format!("a-long-name-so-that-the-directory-needs-another-block-{number}");
            if fs.create(fs.root(), name.as_bytes(), NewNode::DIRECTORY).await.is_err() {
                break;
            }
        }
        fs.sync().await
    };
    in_every_mode("sync-beside", work, nothing);
}
