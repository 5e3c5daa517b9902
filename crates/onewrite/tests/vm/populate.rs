//! Populate: a tree of the structures that a file system has: content in inodes and behind each kind of node, large
//! directories and small ones, links, attributes, pipes and devices.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use crate::work::content;

/// Names in the large directory.
const NAMES: u32 = 5_000;
/// Where the sparse file has content: in the inode, behind direct, indirect and double indirect nodes of F2FS.
const PLACES: [u64; 6] = [0, 3 << 20, 9 << 20, 40 << 20, 6 << 30, 11 << 30];

/// Fills `root`.
pub fn populate(root: &Path) {
    let root = &root.join("tree");
    fs::create_dir_all(root.join("deep/er/still")).unwrap();
    files(root);
    names(&root.join("large"), NAMES);
    names(&root.join("small"), 5);
    names(&root.join("medium"), 300);
    others(root);
    // Holes in a directory, and numbers of files that are free again.
    for number in (0..NAMES).step_by(7) {
        fs::remove_file(root.join(format!("large/name {number} of some length"))).unwrap();
    }
}

fn files(root: &Path) {
    for (index, length) in [0, 1, 100, 3_000, 3_500, 4_096, 4_097, 70_000, 5_000_000].into_iter().enumerate() {
        fs::write(root.join(format!("file of {length}")), content(index as u64, 0, length)).unwrap();
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    for place in PLACES {
        sparse.write_all_at(&content(99, place, 6_000), place + 123).unwrap();
    }
    sparse.set_len(12 << 30).unwrap();
    fs::set_permissions(root.join("file of 100"), Permissions::from_mode(0o4751)).unwrap();
    chown(root.join("file of 3000"), Some(70_000), Some(80_000)).unwrap();
}

fn names(directory: &Path, count: u32) {
    fs::create_dir(directory).unwrap();
    for number in 0..count {
        File::create_new(directory.join(format!("name {number} of some length"))).unwrap();
    }
}

fn others(root: &Path) {
    fs::hard_link(root.join("file of 100"), root.join("deep/again")).unwrap();
    symlink("file of 100", root.join("link")).unwrap();
    symlink("far/".repeat(700), root.join("deep/er/long link")).unwrap();
    for (name, length) in [("user.short", 10), ("user.medium", 120), ("user.long", 2_000)] {
        setxattr(root.join("file of 100"), name, &content(7, 0, length), XattrFlags::empty()).unwrap();
        setxattr(root.join("deep"), name, &content(8, 0, length / 2), XattrFlags::empty()).unwrap();
    }
    mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    mknodat(CWD, root.join("device"), FileType::CharacterDevice, Mode::RUSR, makedev(1, 7)).unwrap();
}
