//! What Linux programs expect beyond plain files: extended attributes, holes, device nodes, reads of a changing
//! directory, large directories and files.

use std::fs;
use std::rc::Rc;

use onewrite_block::{Choices, Device, Geometry, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AttributeChanges, AttributeManner, Content, DeviceNumber, FileKind, FileSystem, FileView, FsError,
    FsResult, Ino, Manner, NewNode, Position, SeekTarget,
};
use onewrite_testing::skipped;

use crate::support::volume::{image, load, new_disk, save, with_mount};
use crate::support::{LoopMount, Scratch, assert_clean, coming_to, output, run, text};

const MIB: u64 = 1024 * 1024;

/// Runs `work` on a new disk in ordered mode and checks it with e2fsck; returns the image's directory and path.
fn judged<F: Future<Output = FsResult<()>> + 'static>(
    name: &str,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> (Scratch, std::path::PathBuf) {
    judged_on(128 * MIB, name, work)
}

/// The same on a disk of another size.
fn judged_on<F: Future<Output = FsResult<()>> + 'static>(
    size_bytes: u64,
    name: &str,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> (Scratch, std::path::PathBuf) {
    let options = MountOptions::new(Mode::Ordered);
    let (outcome, device) = with_mount(Box::new(new_disk(size_bytes, 1024)), options, |fs, _| work(fs));
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    let scratch = Scratch::new(name);
    let path = scratch.path("image");
    save(&image(device), &path);
    assert_clean(&path);
    (scratch, path)
}

async fn names(fs: &Ext4, directory: Ino, mut cursor: u64) -> FsResult<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    loop {
        let entries = fs.read_directory(directory, cursor).await?;
        let Some(last) = entries.last() else { return Ok(names) };
        cursor = last.next;
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
}

#[test]
fn extended_attributes_are_kept_in_the_inode_and_in_a_block() {
    let (_scratch, path) = judged("xattr", |fs| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        let set = async |name: &[u8], value: &[u8]| {
            fs.set_extended_attribute(file, name, Some(value), AttributeManner::Either).await
        };
        set(b"user.small", b"in the inode").await?;
        set(b"user.large", &[b'v'; 3000]).await?;
        set(b"security.other", b"").await?;
        set(b"user.gone", b"x").await?;
        fs.set_extended_attribute(file, b"user.gone", None, AttributeManner::Replace).await?;
        assert_eq!(fs.extended_attribute(file, b"user.large").await?, [b'v'; 3000]);
        let gone = fs.extended_attribute(file, b"user.gone").await;
        assert!(matches!(gone, Err(FsError::NoData(_))), "{gone:?}");
        let again = fs.set_extended_attribute(file, b"user.small", Some(b""), AttributeManner::Create).await;
        assert!(matches!(again, Err(FsError::Exists(_))), "{again:?}");
        let huge = set(b"user.huge", &[0; 5000]).await;
        assert!(matches!(huge, Err(FsError::NoSpace { .. })), "{huge:?}");
        let odd = set(b"colour", b"red").await;
        assert!(matches!(odd, Err(FsError::Unsupported(_))), "{odd:?}");
        let deleted = fs.create(fs.root(), b"deleted", NewNode::FILE).await?;
        fs.set_extended_attribute(deleted, b"user.x", Some(&[1; 2000]), AttributeManner::Either).await?;
        fs.unlink(fs.root(), b"deleted").await
    });
    let listed = run("debugfs", &["-R", "ea_list /file", text(&path)]);
    assert!(listed.contains("user.small (12)") && listed.contains("user.large (3000)"), "{listed}");
    assert!(!listed.contains("gone"), "{listed}");
}

#[test]
fn attributes_set_by_the_kernel_are_read_and_shared_blocks_copied() {
    let (_scratch, path) = judged("xattr-kernel", |_| async { Ok(()) });
    let Some(mount) = LoopMount::new(&path) else { return };
    for name in ["one", "two"] {
        fs::write(mount.path().join(name), b"").expect("write");
        let value = "w".repeat(2000);
        let file = mount.path().join(name);
        let set = output("setfattr", &["-n", "user.shared", "-v", &value, text(&file)]);
        if !set.status.success() {
            skipped!("setfattr (package attr) is not installed");
            return;
        }
    }
    drop(mount);
    let content = load(&path);
    let disk = RamDisk::with_image(content.clone(), Geometry::plain("ram", content.pages()));
    let work = |fs: Rc<Ext4>, _| async move {
        let (one, two) = (fs.lookup(fs.root(), b"one").await?, fs.lookup(fs.root(), b"two").await?);
        fs.set_extended_attribute(one, b"user.own", Some(&[b'o'; 500]), AttributeManner::Either).await?;
        assert_eq!(fs.extended_attribute(one, b"user.shared").await?, [b'w'; 2000]);
        assert_eq!(fs.extended_attributes(two).await?, [b"user.shared"]);
        fs.unlink(fs.root(), b"one").await?;
        assert_eq!(fs.extended_attribute(two, b"user.shared").await?, [b'w'; 2000]);
        Ok(())
    };
    let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(Mode::Data), work);
    outcome.expect("no error");
    save(&image(device), &path);
    assert_clean(&path);
}

#[test]
fn seeking_tells_data_from_holes() {
    judged("seek", |fs| async move {
        let file = fs.create(fs.root(), b"sparse", NewNode::FILE).await?;
        fs.write(file, Position::At(5 * MIB), Content::Bytes(b"data"), Manner::default()).await?;
        fs.allocate(file, 6 * MIB, MIB, Allocation::Extend).await?;
        assert_eq!(fs.seek(file, 0, SeekTarget::Data).await?, 5 * MIB);
        assert_eq!(fs.seek(file, 5 * MIB + 1, SeekTarget::Data).await?, 5 * MIB + 1);
        assert_eq!(fs.seek(file, 5 * MIB, SeekTarget::Hole).await?, 5 * MIB + 4096);
        assert!(matches!(fs.seek(file, 6 * MIB, SeekTarget::Data).await, Err(FsError::BeyondEnd(_))));
        assert_eq!(fs.seek(file, 6 * MIB, SeekTarget::Hole).await?, 6 * MIB);
        assert!(matches!(fs.seek(file, 7 * MIB, SeekTarget::Hole).await, Err(FsError::BeyondEnd(_))));
        Ok(())
    });
}

#[test]
fn a_directory_that_changes_while_it_is_read_gives_each_old_name_once() {
    judged("cursor", |fs| async move {
        let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
        let name = |number: u32| format!("a-name-of-some-length-{number:06}").into_bytes();
        for number in 0..100 {
            fs.create(directory, &name(number), NewNode::FILE).await?;
        }
        let first = fs.read_directory(directory, 0).await?;
        let (seen, cursor) = (first.iter().map(|entry| entry.name.clone()), first.last().expect("entries").next);
        let mut seen: Vec<Vec<u8>> = seen.collect();
        // Leaves split many times between the reads.
        for number in 100..3000 {
            fs.create(directory, &name(number), NewNode::FILE).await?;
        }
        seen.extend(names(&fs, directory, cursor).await?);
        for number in 0..100 {
            let times = seen.iter().filter(|seen| **seen == name(number)).count();
            assert_eq!(times, 1, "name {number}");
        }
        Ok(())
    });
}

#[test]
fn device_nodes_and_pipes_look_right_to_the_kernel() {
    let (_scratch, path) = judged("nodes", |fs| async move {
        let node = |kind, device| NewNode { kind, device, ..NewNode::FILE };
        fs.create(fs.root(), b"null", node(FileKind::CharacterDevice, DeviceNumber::new(1, 3))).await?;
        fs.create(fs.root(), b"big", node(FileKind::BlockDevice, DeviceNumber::new(259, 70_000))).await?;
        fs.create(fs.root(), b"pipe", node(FileKind::Fifo, DeviceNumber::NONE)).await?;
        fs.create(fs.root(), b"socket", node(FileKind::Socket, DeviceNumber::NONE)).await?;
        let big = fs.lookup(fs.root(), b"big").await?;
        assert_eq!(fs.attributes(big).await?.device, DeviceNumber::new(259, 70_000));
        Ok(())
    });
    let Some(mount) = LoopMount::new(&path) else { return };
    let shape = |name: &str| run("stat", &["-c", "%F %t %T", text(&mount.path().join(name))]);
    assert_eq!(shape("null"), "character special file 1 3\n");
    assert_eq!(shape("big"), format!("block special file {:x} {:x}\n", 259, 70_000));
    assert_eq!(shape("pipe"), "fifo 0 0\n");
    assert_eq!(shape("socket"), "socket 0 0\n");
}

#[test]
fn a_hundred_thousand_files_fit_one_directory_and_go_again() {
    judged("hundred-thousand", |fs| async move {
        let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
        let mut made = 0;
        for number in 0..100_000_u32 {
            match fs.create(directory, format!("file-{number}").as_bytes(), NewNode::FILE).await {
                Ok(_) => made += 1,
                // 128 MiB have 32,768 inodes: the other names are hard links.
                Err(FsError::NoSpace { what: "inodes", .. }) => break,
                Err(error) => return Err(error),
            }
        }
        let target = fs.lookup(directory, b"file-0").await?;
        for number in made..100_000_u32 {
            if number % 60_000 == 0 {
                continue;
            }
            let linked =
                fs.lookup(directory, format!("file-{}", number % made.max(1)).as_bytes()).await.unwrap_or(target);
            fs.link(linked, directory, format!("link-{number}").as_bytes()).await?;
        }
        let all = names(&fs, directory, 0).await?;
        assert!(all.len() > 99_900, "{} names", all.len());
        for name in all.iter().filter(|name| !name.starts_with(b".")) {
            fs.unlink(directory, name).await?;
        }
        assert_eq!(names(&fs, directory, 0).await?.len(), 2);
        fs.remove_directory(fs.root(), b"directory").await
    });
}

/// 1.6 million names of 255 bytes.
#[test]
#[ignore = "deep: a gigabyte of names, a minute"]
fn a_hash_tree_without_room_refuses_a_name_and_keeps_the_others() {
    let work = |fs: Rc<Ext4>| async move {
        let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
        let name = |number: u32| format!("{number:0255}").into_bytes();
        let (mut file, mut made) = (fs.root(), 0_u32);
        let refused = loop {
            // A file has 65,000 names at most.
            let outcome = match made % 60_000 {
                0 => fs.create(directory, &name(made), NewNode::FILE).await.map(|new| file = new),
                _ => fs.link(file, directory, &name(made)).await,
            };
            match outcome {
                Ok(()) => made += 1,
                Err(error) => break error,
            }
        };
        println!("{made} names: {refused}");
        assert!(matches!(&refused, FsError::NoSpace { what, .. } if what.contains("hash tree")), "{refused}");
        fs.unlink(directory, &name(made / 2)).await?;
        fs.link(file, directory, &name(made / 2)).await?;
        assert_eq!(names(&fs, directory, 0).await?.len(), made as usize + 2);
        Ok(())
    };
    coming_to("htree full", || judged_on(1200 * MIB, "hash-tree", work));
}

#[test]
fn a_file_beyond_four_gibibytes_is_sparse_and_read_back() {
    judged("large", |fs| async move {
        let file = fs.create(fs.root(), b"large", NewNode::FILE).await?;
        for far in [5, 300, 16_000] {
            fs.write(file, Position::At(far << 30), Content::Bytes(b"far"), Manner::default()).await?;
            assert_eq!(fs.read(file, (far << 30) - 1, 4, Manner::default()).await?.to_vec(), b"\0far");
        }
        let beyond = fs.write(file, Position::At(16 << 40), Content::Bytes(b"x"), Manner::default()).await;
        assert!(matches!(beyond, Err(FsError::TooLarge { .. })), "{beyond:?}");
        let changes = AttributeChanges { size: Some(1 << 44), ..Default::default() };
        let beyond = fs.set_attributes(file, changes).await;
        assert!(matches!(beyond, Err(FsError::TooLarge { .. })), "{beyond:?}");
        Ok(())
    });
}

#[test]
fn a_file_whose_end_is_punched_out_before_it_is_written_keeps_its_size() {
    let (_scratch, path) = judged("punched-end", |fs| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.write(file, Position::At(0), Content::Bytes(&[1; 100_000]), Manner::default()).await?;
        fs.allocate(file, 50_000, 60_000, Allocation::PunchHole).await
    });
    assert!(run("debugfs", &["-R", "stat /file", text(&path)]).contains("Size: 100000"));
}

/// Fails unless the file has the expected content.
async fn assert_content(fs: &Ext4, file: Ino, expected: &[u8], what: &str) -> FsResult<()> {
    let found = fs.read(file, 0, expected.len() as u64 + 1, Manner::default()).await?.to_vec();
    assert_eq!(found.len(), expected.len(), "{what}");
    let place = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(place, None, "{what}");
    Ok(())
}

#[test]
fn ranges_go_out_of_and_into_a_file_of_many_extents() {
    judged("shifts", |fs| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        let mut expected = vec![0; 2_000 * 8_192 - 4_096];
        for piece in 0..2_000_usize {
            let bytes = [(piece % 251) as u8 + 1; 4_096];
            expected[piece * 8_192..piece * 8_192 + 4_096].copy_from_slice(&bytes);
            fs.write(file, Position::At(piece as u64 * 8_192), Content::Bytes(&bytes), Manner::default()).await?;
        }
        let mut choices = Choices::new(1);
        for round in 0..60 {
            let (offset, length) = (choices.index(3_000) * 4_096, (1 + choices.index(40)) * 4_096);
            if round % 2 == 0 {
                fs.allocate(file, offset as u64, length as u64, Allocation::CollapseRange).await?;
                expected.drain(offset..offset + length);
            } else {
                fs.allocate(file, offset as u64, length as u64, Allocation::InsertRange).await?;
                expected.splice(offset..offset, vec![0; length]);
            }
            assert_content(&fs, file, &expected, &format!("round {round}")).await?;
        }
        let end = expected.len() as u64;
        let refused = fs.allocate(file, end - 4_096, 4_096, Allocation::CollapseRange).await;
        assert!(matches!(&refused, Err(FsError::Invalid(text)) if text.contains("truncate")), "{refused:?}");
        let odd = fs.allocate(file, 100, 4_096, Allocation::InsertRange).await;
        assert!(matches!(&odd, Err(FsError::Invalid(text)) if text.contains("multiples of 4096")), "{odd:?}");
        let far = fs.allocate(file, 0, (1 << 44) - 4_096, Allocation::InsertRange).await;
        assert!(matches!(far, Err(FsError::TooLarge { .. })), "{far:?}");
        assert_content(&fs, file, &expected, "after refusals").await
    });
}

#[test]
fn a_range_over_the_border_of_two_nodes_of_a_map_goes_out_and_nothing_else() {
    // A node holds 340 extents, here of two blocks each. When it is full, its last one begins the next node: the range
    // ends in the middle of that extent, the blocks 1,356 and 1,357.
    for first in [1_346, 1_353, 1_355] {
        judged(&format!("border-{first}"), move |fs| async move {
            let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            let mut expected = vec![0; 1_398 * 4_096];
            for page in (0..1_400).step_by(4) {
                let bytes = [(page % 251) as u8 + 1; 8_192];
                expected[page * 4_096..][..8_192].copy_from_slice(&bytes);
                fs.write(file, Position::At(page as u64 * 4_096), Content::Bytes(&bytes), Manner::default()).await?;
            }
            fs.fsync(file).await?;
            let gap = first * 4_096..1_357 * 4_096;
            fs.allocate(file, gap.start as u64, gap.len() as u64, Allocation::CollapseRange).await?;
            expected.drain(gap);
            fs.drop_caches();
            assert_content(&fs, file, &expected, &format!("from {first}")).await
        });
    }
}

/// If a file is deleted while an operation waits for its lock, the operation must not write to the inode: it may belong
/// to another file by then.
#[test]
fn a_change_that_waits_while_the_file_is_deleted_finds_it_gone() {
    type Change = fn(Rc<Ext4>, Ino) -> std::pin::Pin<Box<dyn Future<Output = FsResult<()>>>>;
    let changes: [Change; 4] = [
        |fs, file| {
            Box::pin(async move {
                fs.write(file, Position::At(0), Content::Bytes(b"late"), Manner::default()).await.map(drop)
            })
        },
        |fs, file| Box::pin(async move { fs.allocate(file, 0, 8192, Allocation::Extend).await }),
        |fs, file| {
            let changes = AttributeChanges { size: Some(9), ..AttributeChanges::default() };
            Box::pin(async move { fs.set_attributes(file, changes).await })
        },
        |fs, file| {
            let manner = AttributeManner::default();
            Box::pin(async move { fs.set_extended_attribute(file, b"user.late", Some(&[1; 900]), manner).await })
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (outcome, device) = with_mount(
            Box::new(new_disk(64 * MIB, 1024)),
            MountOptions::new(Mode::Ordered),
            move |fs, port| async move {
                let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
                let content = Content::Pattern { seed: 1, compressible_percent: 0, length: 100_000 };
                fs.write(file, Position::At(0), content, Manner::default()).await?;
                fs.sync().await?;
                fs.drop_cached(file);
                let (reader, remover) = (Rc::clone(&fs), Rc::clone(&fs));
                // The read holds the file's lock for a while; then comes the removal, then the change.
                let read = port.runtime().start(async move { reader.read(file, 0, 100_000, Manner::default()).await });
                let removed = port.runtime().start(async move { remover.unlink(remover.root(), b"file").await });
                let changed = port.runtime().start(change(Rc::clone(&fs), file));
                read.await?;
                removed.await?;
                assert!(matches!(changed.await, Err(FsError::NotFound(_))), "change {number} of a deleted file");
                fs.sync().await
            },
        );
        outcome.expect("work");
        let scratch = Scratch::new(&format!("late-change-{number}"));
        save(&image(device), &scratch.path("image"));
        assert_clean(&scratch.path("image"));
    }
}

/// Mounts `device` again and runs `work`.
fn again<F: Future<Output = FsResult<()>> + 'static>(
    device: Box<dyn Device>,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> Box<dyn Device> {
    let (outcome, device) = with_mount(device, MountOptions::new(Mode::Ordered), |fs, _| work(fs));
    outcome.unwrap_or_else(|error| panic!("{error}"));
    device
}

#[test]
fn an_open_inode_outlives_its_name_even_if_it_was_not_in_memory() {
    let made = Rc::new(std::cell::Cell::new(Ino(0)));
    let (note, number) = (Rc::clone(&made), made);
    let device = again(Box::new(new_disk(64 * MIB, 1024)), |fs| async move {
        note.set(fs.create(fs.root(), b"file", NewNode::FILE).await?);
        fs.write(note.get(), Position::At(0), Content::Bytes(b"content"), Manner::default()).await?;
        Ok(())
    });
    let device = again(device, |fs| async move {
        let file = number.get();
        fs.open(file).await?;
        fs.open(file).await?;
        fs.unlink(fs.root(), b"file").await?;
        fs.release(file).await?;
        assert_eq!(fs.read(file, 0, 100, Manner::default()).await?.to_vec(), b"content");
        fs.release(file).await?;
        assert!(matches!(fs.attributes(file).await, Err(FsError::NotFound(_))), "nothing keeps it");
        assert!(matches!(fs.open(file).await, Err(FsError::NotFound(_))), "there is no such inode any more");
        assert!(matches!(fs.open(Ino(12345)).await, Err(FsError::NotFound(_))), "there never was");
        Ok(())
    });
    let scratch = Scratch::new("open");
    save(&image(device), &scratch.path("image"));
    assert_clean(&scratch.path("image"));
}

#[test]
fn attributes_come_with_names_in_one_call() {
    judged("attributes with names", |fs| async move {
        let made = fs.create_attributes(fs.root(), b"file", NewNode::FILE).await?;
        assert_eq!(made, fs.attributes(made.ino).await?);
        assert_eq!(fs.lookup_attributes(fs.root(), b"file").await?, made);
        let missing = fs.lookup_attributes(fs.root(), b"other").await;
        assert!(matches!(missing, Err(FsError::NotFound(_))), "{missing:?}");
        fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            let entries = fs.read_directory_attributes(fs.root(), cursor).await?;
            let Some((last, _)) = entries.last() else { break };
            cursor = last.next;
            for (entry, attributes) in entries {
                let attributes = attributes.expect("every inode can be read");
                assert_eq!((attributes.ino, attributes.kind), (entry.ino, entry.kind));
                assert_eq!(attributes, fs.attributes(entry.ino).await?);
                seen.push(entry.name);
            }
        }
        assert_eq!(seen, names(&fs, fs.root(), 0).await?);
        Ok(())
    });
}

#[test]
fn a_device_that_ext4_has_no_use_for_is_refused_by_name() {
    let executor = onewrite_block::Executor::ideal();
    let image = executor.runtime().attach(Box::new(new_disk(64 * MIB, 1024)));
    let log = executor.runtime().attach(Box::new(RamDisk::volatile(1024)));
    let devices = onewrite_fs::Devices { log: Some(log), ..image.into() };
    let mount = async move { Ext4::mount(devices, MountOptions::new(Mode::Ordered)).await.err() };
    let error = executor.block_on(mount).expect("nothing halts").expect("refused").to_string();
    assert_eq!(error, "unsupported: a log device of its own, which ext4 has no use for; leave it out");
}
