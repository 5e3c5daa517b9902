//! Views of F2FS images that f2fs-tools made: names, bytes, attributes are those of the tree that was copied in.
//! Further tests: refused features, damaged copies, fsyncs behind the checkpoint, maps of all depths, mutations.

mod crafted;
mod fuzz;
mod hostile;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use onewrite_fs::api::resolve;
use onewrite_fs::{AnyView, FileView};

use crate::seen::{Entry, assert_same, by_kernel, by_view, names, on_view};
use crate::support::f2fs::{fill, make};
use crate::support::{Scratch, many, run, text};

/// Bytes of a MiB.
pub const MIB: u64 = 1 << 20;

/// A tree with every kind of structure; `large_bytes` is the size of its largest file.
pub fn grow(root: &Path, large_bytes: usize) {
    fs::create_dir_all(root.join("sub/deep/er")).expect("directories");
    for size in [0, 1, 100, 3390, 3487, 3488, 3489, 3687, 3688, 3689, 4095, 4096, 4097, 50_000] {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 + size) as u8).collect();
        fs::write(root.join(format!("sub/of-{size}")), bytes).expect("file");
    }
    let large: Vec<u8> = (0..large_bytes).map(|at| (at / 7) as u8).collect();
    fs::write(root.join("large"), large).expect("file");
    let sparse = fs::File::create(root.join("sparse")).expect("file");
    let places = [0, 70_000, large_bytes as u64 / 2, large_bytes as u64 - 3000];
    places.iter().for_each(|place| sparse.write_all_at(&[7; 3000], *place).expect("write"));
    for length in [1, 60, 400, 4000] {
        std::os::unix::fs::symlink("t".repeat(length), root.join(format!("link-{length}"))).expect("link");
    }
    for (count, length) in [(1, 8), (2, 255), (20, 9), (150, 12), (3000, 40)] {
        many(&root.join(format!("names-{count}")), count, length);
    }
    std::os::unix::fs::chown(root.join("large"), Some(1_000), Some(2_000)).expect("chown");
    run("touch", &["-d", "2031-03-04 05:06:07", text(&root.join("sub/of-100"))]);
    run("chmod", &["6751", text(&root.join("sub/of-1"))]);
}

/// The tree at `root`, as sload.f2fs copies it: without what depends on the file system that holds it.
fn expected(root: &Path, seen: &[Entry], has_lost_and_found: bool) -> Vec<Entry> {
    let mut expected = by_kernel(root);
    for (expected, seen) in expected.iter_mut().zip(seen) {
        expected.modified.1 = 0;
        if expected.path.is_empty() {
            // The root keeps the times of mkfs, and may have lost+found.
            expected.modified = seen.modified;
            expected.links += u64::from(has_lost_and_found);
        }
        expected.extended = Vec::new();
        expected.sectors = seen.sectors;
        if expected.kind == "Directory" {
            expected.size = seen.size;
        }
    }
    expected
}

/// A new image with arguments of mkfs.f2fs, with a tree in it; and the tree.
fn filled(scratch: &Scratch, arguments: &str, large_bytes: usize) -> (PathBuf, PathBuf) {
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    fs::create_dir_all(&tree).expect("directory");
    grow(&tree, large_bytes);
    make(&image, 256 * MIB, arguments);
    fill(&image, &tree, "");
    (image, tree)
}

/// Arguments of mkfs.f2fs, and bytes of the largest file. With flexible_inline_xattr, sload.f2fs 1.15 loses 50 blocks
/// of a file that does not fit its inode (dump.f2fs shows the same loss).
const KINDS: [(&str, usize); 7] = [
    ("", 14_000_000),
    ("-O extra_attr,inode_checksum,sb_checksum,inode_crtime,lost_found", 14_000_000),
    ("-O extra_attr,flexible_inline_xattr,inode_checksum,sb_checksum,inode_crtime,lost_found", 3_400_000),
    ("-O extra_attr,project_quota,quota", 14_000_000),
    ("-i", 9_000_000),
    ("-s 4 -z 2", 9_000_000),
    ("-w 4096 -l label", 9_000_000),
];

#[test]
fn images_of_f2fs_tools_read_as_the_tree_that_was_copied_in() {
    for (arguments, large_bytes) in KINDS {
        let scratch = Scratch::new("f2fs-view");
        let (image, tree) = filled(&scratch, arguments, large_bytes);
        let seen = by_view(&image, false).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert!(seen.entries.len() > 3_200, "{arguments}: {} entries", seen.entries.len());
        let expected = expected(&tree, &seen.entries, arguments.contains("lost_found"));
        assert_same(&expected, &seen.entries, arguments);
        assert_eq!(seen.warnings, Vec::<String>::new(), "{arguments}");
        assert_eq!((seen.transactions, seen.losses.count), (0, 0), "{arguments}");
    }
}

#[test]
fn every_name_is_found_by_its_hash() {
    let scratch = Scratch::new("f2fs-names");
    let (image, _) = filled(&scratch, "", 4_000_000);
    let looked_up = on_view(&image, false, async |view: &AnyView| {
        let mut count = 0;
        for path in ["/", "/names-1", "/names-2", "/names-20", "/names-150", "/names-3000"] {
            let directory = resolve(view, path.as_bytes()).await?;
            for (name, ino) in names(view, directory).await? {
                assert_eq!(view.lookup(directory, name.as_bytes()).await?, ino, "{path}/{name}");
                count += 1;
            }
            assert_eq!(view.lookup(directory, b"..").await?, view.root());
            assert!(view.lookup(directory, b"no such name").await.is_err());
        }
        Ok(count)
    });
    assert!(looked_up.expect("a view") > 3_170);
}

#[test]
fn features_that_are_not_supported_are_refused_by_name() {
    let scratch = Scratch::new("f2fs-refused");
    let image = scratch.path("image");
    for (arguments, name) in [
        ("-O encrypt", "encrypt"),
        ("-O extra_attr,verity", "verity"),
        ("-O extra_attr,casefold -C utf8", "casefold"),
        ("-O extra_attr,compression", "compression"),
        ("-O ro", "ro"),
    ] {
        make(&image, 64 * MIB, arguments);
        let refusal = by_view(&image, false).err().expect("refused").to_string();
        assert!(refusal.starts_with("unsupported: F2FS with the features") && refusal.contains(name), "{refusal}");
    }
    let refusal = by_view(&image, true).err().expect("refused").to_string();
    assert!(refusal.contains("rescue"), "{refusal}");
}

#[test]
fn an_image_over_several_devices_is_refused() {
    let scratch = Scratch::new("f2fs-devices");
    let (image, second) = (scratch.path("image"), scratch.path("second"));
    fs::File::create(&second).and_then(|file| file.set_len(64 * MIB)).expect("image");
    make(&image, 64 * MIB, &format!("-c {}", text(&second)));
    let refusal = by_view(&image, false).err().expect("refused").to_string();
    assert_eq!(refusal, "unsupported: F2FS over several devices");
}

#[test]
fn labels_of_security_come_from_the_inode() {
    let scratch = Scratch::new("f2fs-xattr");
    let (image, tree, contexts) = (scratch.path("image"), scratch.path("tree"), scratch.path("contexts"));
    fs::create_dir(&tree).expect("directory");
    fs::write(tree.join("file"), b"content").expect("file");
    fs::write(&contexts, "/.* u:object_r:system_file:s0\n").expect("file");
    make(&image, 64 * MIB, "");
    fill(&image, &tree, &format!("-s {}", text(&contexts)));
    let seen = by_view(&image, false).expect("a view");
    let file = seen.entries.iter().find(|entry| entry.path == "/file").expect("the file");
    assert_eq!(file.extended, [("security.selinux".to_owned(), b"u:object_r:system_file:s0".to_vec())]);
}

/// Writes more than 8 GiB of zeros into an image, so it runs only if asked for.
#[test]
fn a_file_past_the_double_indirect_border_reads_as_it_was_written() {
    if std::env::var_os("ONEWRITE_LARGE").is_none() {
        onewrite_testing::skipped!("writes an image of 12 GiB; ONEWRITE_LARGE=1 runs it");
        return;
    }
    let scratch = Scratch::new("f2fs-large");
    let (image, tree) = (scratch.path("image"), scratch.path("tree"));
    fs::create_dir(&tree).expect("directory");
    let border = (923 - 50 + 2 * 1018 + 2 * 1018 * 1018) * 4096;
    let places = [0, 3_575_000, 3 << 30, border - 5_000, border + 5_000_000];
    let file = fs::File::create(tree.join("large")).expect("file");
    places
        .iter()
        .for_each(|place| file.write_all_at(&place.to_string().repeat(900).into_bytes(), *place).expect("write"));
    make(&image, 12 << 30, "");
    fill(&image, &tree, "");
    let read = read_pieces(&image, places.map(|place| (place, 9_000)).to_vec());
    for ((place, length), ours) in places.map(|place| (place, 9_000)).into_iter().zip(read) {
        let mut theirs = vec![0; length as usize];
        let got = file.read_at(&mut theirs, place).expect("read");
        assert!(ours == theirs[..got], "at {place}");
    }
}

/// Bytes of `/large` at each place. Reads the file itself: such an image does not fit memory.
fn read_pieces(image: &Path, pieces: Vec<(u64, u64)>) -> Vec<Vec<u8>> {
    use onewrite_block::{Executor, HostProfile, Nanos, Time};
    let disk = onewrite_device::FileDisk::view(image).expect("disk");
    let executor = Executor::new(Time::Wall { civil_start: Nanos(0) }, HostProfile::default());
    let port = executor.runtime().attach(Box::new(disk));
    let read = async move {
        let view = AnyView::open(&port, Default::default()).await?;
        let ino = resolve(&view, b"/large").await?;
        let mut read = Vec::new();
        for (offset, length) in pieces {
            read.push(view.read(ino, offset, length, Default::default()).await?.to_vec());
        }
        onewrite_fs::FsResult::Ok(read)
    };
    executor.block_on(read).expect("nothing halts").expect("a view")
}
