//! Names at the edges of their blocks: where a directory's hash tree splits, and attributes that two files share.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use onewrite_block::{Geometry, RamDisk};
use onewrite_fs::ext4::format::{Layout, RawSuperblock};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{AttributeManner, FileSystem, FileView, FsError, FsResult, Ino, NewNode, RenameManner};

use crate::support::volume::{image, load, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, output, run, text};

const MIB: u64 = 1024 * 1024;
/// Names of 255 bytes that fit one block.
const NAMES_IN_BLOCK: u64 = 15;

fn name(number: u64) -> Vec<u8> {
    format!("{number:0255}").into_bytes()
}

/// Runs `work` on the image at `path`, in full scope, and checks the image with e2fsck.
fn on_image<F: Future<Output = FsResult<()>> + 'static>(path: &Path, work: impl FnOnce(Rc<Ext4>) -> F + 'static) {
    let content = load(path);
    let disk = RamDisk::with_image(content.clone(), Geometry::plain("ram", content.pages()));
    let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(Mode::Data), |fs, _| work(fs));
    outcome.expect("work");
    save(&image(device), path);
    assert_clean(path);
}

/// A new image in a directory of its own.
fn new_image(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.path("image");
    save(&image(Box::new(new_disk(64 * MIB, 1024))), &path);
    path
}

/// A directory with files of these names.
async fn directory_of(fs: &Ext4, names: impl Iterator<Item = Vec<u8>>) -> FsResult<Ino> {
    let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
    for name in names {
        fs.create(directory, &name, NewNode::FILE).await?;
    }
    Ok(directory)
}

/// Numbers of names that fill a block. In the order of their hashes, the two in the middle have one hash.
fn names_around_a_pair(layout: &Layout) -> Vec<u64> {
    let hash = |number: u64| layout.hash_version.hash(&name(number), layout.hash_seed).major;
    let mut seen = BTreeMap::new();
    let pair = (0..).find_map(|number| seen.insert(hash(number), number).map(|before| [before, number]));
    let pair = pair.expect("31 bits");
    let lower = (0..).filter(|number| hash(*number) < hash(pair[0])).take(6);
    let higher = (0..).filter(|number| hash(*number) > hash(pair[0])).take(7);
    pair.into_iter().chain(lower).chain(higher).collect()
}

#[test]
fn names_with_one_hash_are_found_on_both_sides_of_a_split() {
    let scratch = Scratch::new("one-hash");
    let path = new_image(&scratch);
    let superblock = std::fs::read(&path).expect("image");
    let layout = Layout::decode(RawSuperblock::in_first_block(&superblock).expect("superblock")).expect("layout");
    let numbers = names_around_a_pair(&layout);
    assert_eq!(numbers.len() as u64, NAMES_IN_BLOCK);
    let last = (0..).find(|number| !numbers.contains(number)).expect("a further name");
    on_image(&path, move |fs| async move {
        let directory = directory_of(&fs, numbers.iter().map(|number| name(*number))).await?;
        fs.create(directory, &name(last), NewNode::FILE).await?;
        for number in numbers {
            fs.lookup(directory, &name(number)).await?;
            fs.unlink(directory, &name(number)).await?;
        }
        Ok(())
    });
}

#[test]
fn a_rename_that_splits_the_block_of_the_old_name_removes_that_name() {
    let scratch = Scratch::new("rename-splits");
    for renamed in 0..NAMES_IN_BLOCK {
        on_image(&new_image(&scratch), move |fs| async move {
            let directory = directory_of(&fs, (0..NAMES_IN_BLOCK).map(name)).await?;
            let (old, new) = (name(renamed), name(NAMES_IN_BLOCK));
            let moved = fs.lookup(directory, &old).await?;
            fs.rename((directory, &old), (directory, &new), RenameManner::Replace).await?;
            assert_eq!(fs.lookup(directory, &new).await?, moved);
            for number in 0..NAMES_IN_BLOCK {
                let found = fs.lookup(directory, &name(number)).await;
                assert_eq!(found.is_ok(), number != renamed, "{number}: {found:?}");
            }
            Ok(())
        });
    }
}

#[test]
fn a_directory_whose_names_lie_behind_its_first_block_is_not_empty() {
    let scratch = Scratch::new("not-empty");
    on_image(&new_image(&scratch), |fs| async move {
        let directory = directory_of(&fs, (0..=NAMES_IN_BLOCK).map(name)).await?;
        let refused = fs.remove_directory(fs.root(), b"directory").await;
        assert!(matches!(refused, Err(FsError::NotEmpty(_))), "{refused:?}");
        for number in 0..=NAMES_IN_BLOCK {
            fs.unlink(directory, &name(number)).await?;
        }
        fs.remove_directory(fs.root(), b"directory").await
    });
}

async fn set(fs: &Ext4, ino: Ino, name: &[u8], value: &[u8]) -> FsResult<()> {
    fs.set_extended_attribute(ino, name, Some(value), AttributeManner::Either).await
}

/// Lets `two` refer to the attribute block of `one`, as the kernel does for equal attributes.
fn share_attributes(path: &Path) {
    let told = run("debugfs", &["-R", "stat /one", text(path)]);
    let block = told.split("File ACL: ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a block");
    for change in [format!("sif /two file_acl {block}"), "sif /two blocks 8".into()] {
        run("debugfs", &["-w", "-R", &change, text(path)]);
    }
    // It sets the count of references; 1 means "errors corrected".
    assert_eq!(output("e2fsck", &["-fy", text(path)]).status.code(), Some(1));
    assert_clean(path);
}

#[test]
fn an_attribute_set_for_one_file_leaves_others_that_share_its_block_alone() {
    let scratch = Scratch::new("shared-attributes");
    let path = new_image(&scratch);
    on_image(&path, |fs| async move {
        let one = fs.create(fs.root(), b"one", NewNode::FILE).await?;
        fs.create(fs.root(), b"two", NewNode::FILE).await?;
        set(&fs, one, b"user.shared", &[b'w'; 2000]).await
    });
    share_attributes(&path);
    on_image(&path, |fs| async move {
        let (one, two) = (fs.lookup(fs.root(), b"one").await?, fs.lookup(fs.root(), b"two").await?);
        set(&fs, one, b"user.shared", &[b'o'; 1000]).await?;
        assert_eq!(fs.extended_attribute(two, b"user.shared").await?, [b'w'; 2000]);
        fs.unlink(fs.root(), b"one").await?;
        assert_eq!(fs.extended_attribute(two, b"user.shared").await?, [b'w'; 2000]);
        Ok(())
    });
}
