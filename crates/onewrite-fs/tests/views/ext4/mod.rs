//! Views of images of every common kind. The kernel fills an image and a view reads it: names, bytes and attributes are
//! the same. Further tests: logs that wait for replay, damage with and without a rescue, mutations.

mod damage;
mod dirty;
mod foreign_log;
mod fuzz;
mod log;
mod ours;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use onewrite_testing::skipped;
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags, fallocate, makedev, mknodat, setxattr};

use crate::seen::{Entry, assert_same, by_kernel, by_view};
use crate::support::{Scratch, many, output, run, text};

/// An image mounted by the kernel.
pub struct Mounted(std::path::PathBuf);

impl Mounted {
    /// Mounts `image`; the error is the kernel's message.
    pub fn new(image: &Path, options: &str) -> Result<Mounted, String> {
        let point = image.with_extension("mnt");
        fs::create_dir_all(&point).expect("mount point");
        let options = format!("loop,{options}");
        let mounted = output("mount", &["-t", "ext4", "-o", &options, text(image), text(&point)]);
        match mounted.status.success() {
            true => Ok(Mounted(point)),
            false => Err(String::from_utf8_lossy(&mounted.stderr).trim().to_owned()),
        }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let is_unmounted = (0..50).any(|_| output("umount", &[text(&self.0)]).status.success());
        if !is_unmounted {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

/// Makes an image of `size` with mke2fs.
pub fn make(image: &Path, arguments: &str, size: &str) {
    let mut all = vec!["-q", "-F"];
    all.extend(arguments.split_whitespace());
    all.extend([text(image), size]);
    run("mke2fs", &all);
}

/// Fills a tree with everything that a view must read. Leaves out what the file system does not support.
pub fn fill(root: &Path, far: u64) {
    fs::create_dir_all(root.join("sub/deep/er")).expect("directories");
    for size in [0, 1, 59, 60, 61, 100, 150, 1023, 1024, 1025, 5000] {
        fs::write(root.join(format!("sub/of-{size}")), vec![size as u8 | 1; size]).expect("file");
    }
    let large: Vec<u8> = (0..3_000_000_u32).map(|index| (index / 7) as u8).collect();
    fs::write(root.join("large"), large).expect("file");
    fs::hard_link(root.join("large"), root.join("sub/again")).expect("link");
    for length in [1, 59, 60, 61, 400, 900] {
        std::os::unix::fs::symlink("t".repeat(length), root.join(format!("link-{length}"))).expect("link");
    }
    let file = fs::File::create(root.join("sparse")).expect("file");
    let places = [0, 5_000, 11 * 1024, 12 * 1024, 300 * 1024, 268 * 1024, 1 << 20, 9 << 20, far];
    places.iter().for_each(|place| file.write_all_at(&[7; 3000], *place).expect("write"));
    (0..400).for_each(|piece| file.write_all_at(b"piece", (2 << 20) + piece * 16_384).expect("write"));
    let reserved = fs::File::create(root.join("reserved")).expect("file");
    let _ = fallocate(&reserved, FallocateFlags::empty(), 0, 200_000);
    reserved.write_all_at(&[9; 100], 70_000).expect("write");
    for count in [1, 2, 6, 20] {
        many(&root.join(format!("of-{count}-names")), count, 12);
    }
    many(&root.join("many"), 1500, 40);
    run("mkfifo", &[text(&root.join("fifo"))]);
    let nodes = [("char", FileType::CharacterDevice, (5, 1)), ("block", FileType::BlockDevice, (259, 70_000))];
    for (name, kind, (major, minor)) in nodes {
        mknodat(CWD, root.join(name), kind, Mode::from_raw_mode(0o640), makedev(major, minor)).expect("mknod");
    }
    drop(std::os::unix::net::UnixListener::bind(root.join("sub/s")).expect("socket"));
    attribute(&root.join("large"), "user.small", 5);
    attribute(&root.join("sub"), "user.of-a-directory", 40);
    attribute(&root.join("sparse"), "user.larger", 700);
    attribute(&root.join("sub/of-100"), "trusted.hidden", 20);
    attribute(&root.join("sub/of-60"), "security.other", 30);
    let _ = output("setfacl", &["-m", "u:1000:r,g:50:rw", text(&root.join("large"))]);
    let _ = output("setfacl", &["-d", "-m", "u:1001:rwx", text(&root.join("sub"))]);
    std::os::unix::fs::chown(root.join("large"), Some(70_000), Some(80_000)).expect("chown");
    run("touch", &["-h", "-d", "1935-03-04 05:06:07.123456789", text(&root.join("link-1"))]);
    run("touch", &["-d", "2031-03-04 05:06:07.5", text(&root.join("sub/of-61"))]);
    run("chmod", &["6751", text(&root.join("sub/of-61"))]);
}

fn attribute(path: &Path, name: &str, length: usize) -> bool {
    let value: Vec<u8> = (0..length).map(|index| index as u8 ^ 0x55).collect();
    setxattr(path, name, &value, XattrFlags::empty()).is_ok()
}

/// Name, arguments of mke2fs, and features that only debugfs can set.
const KINDS: [(&str, &str, &str); 24] = [
    ("ext2-1k", "-t ext2 -b 1024", ""),
    ("ext2-2k", "-t ext2 -b 2048", ""),
    ("ext2-4k", "-t ext2 -b 4096", ""),
    ("ext2-revision-0", "-t ext2 -b 1024 -r 0 -O none", ""),
    ("ext3-1k", "-t ext3 -b 1024", ""),
    ("ext3-4k", "-t ext3 -b 4096 -I 128", ""),
    ("ext4-1k", "-t ext4 -b 1024", ""),
    ("ext4-2k", "-t ext4 -b 2048", ""),
    ("ext4-4k", "-t ext4 -b 4096", ""),
    ("ext4-64k", "-t ext4 -b 65536 -N 4096", ""),
    ("inline-data", "-t ext4 -b 4096 -O inline_data", ""),
    ("inline-data-1k", "-t ext4 -b 1024 -I 512 -O inline_data", ""),
    ("ea-inode", "-t ext4 -b 4096 -O ea_inode", ""),
    ("ea-inode-1k", "-t ext4 -b 1024 -O ea_inode,^metadata_csum", ""),
    ("meta-bg", "-t ext4 -b 1024 -g 1024 -O meta_bg,^resize_inode", ""),
    ("meta-bg-4k", "-t ext4 -b 4096 -g 512 -O meta_bg,^resize_inode,^64bit", ""),
    ("bigalloc", "-t ext4 -b 4096 -C 16384 -O bigalloc", ""),
    ("quota-project", "-t ext4 -b 4096 -O quota,project", ""),
    ("large-dir", "-t ext4 -b 1024 -O large_dir", ""),
    ("128-byte-inodes", "-t ext4 -b 4096 -I 128", ""),
    ("no-filetype", "-t ext4 -b 4096 -O ^filetype", ""),
    ("uninit-bg", "-t ext4 -b 2048 -O ^metadata_csum,uninit_bg,^flex_bg", ""),
    ("sparse-super2", "-t ext4 -b 1024 -O sparse_super2,^resize_inode,metadata_csum_seed", ""),
    ("mmp-and-bits", "-t ext4 -b 4096 -O mmp", "feature encrypt casefold verity quota project"),
];

fn judge(kind: &str, arguments: &str, bits: &str) {
    let scratch = Scratch::new(&format!("view-{kind}"));
    let image = scratch.path("image");
    make(&image, arguments, "96M");
    // Beyond the reach of double tables with 1 KiB blocks.
    let far = if arguments.contains("-b 1024") { 70 << 20 } else { 20 << 20 };
    let expected = match Mounted::new(&image, "rw") {
        Ok(mount) => {
            fill(mount.path(), far);
            let has_large = attribute(&mount.path().join("sub/of-1"), "user.largest", 60_000);
            assert_eq!(has_large, arguments.contains("ea_inode"), "{kind}: an attribute of 60 KB");
            run("sync", &["-f", text(mount.path())]);
            drop(mount);
            let mount = Mounted::new(&image, "ro").expect("mounts again");
            by_kernel(mount.path())
        }
        Err(refusal) => {
            eprintln!("{kind}: the kernel does not mount it ({refusal}); mke2fs -d fills it");
            filled_by_mke2fs(&scratch, &image, arguments)
        }
    };
    if !bits.is_empty() {
        run("debugfs", &["-w", "-R", bits, text(&image)]);
    }
    let seen = by_view(&image, false).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert!(expected.len() > 1_500, "{kind}: {} entries", expected.len());
    assert_same(&expected, &seen.entries, kind);
    assert!(seen.warnings.is_empty() && seen.losses.count == 0, "{kind}: {:?} {:?}", seen.warnings, seen.losses);
    let rescued = by_view(&image, true).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_same(&expected, &rescued.entries, kind);
    assert_eq!(rescued.losses.told, Vec::<String>::new(), "{kind}");
}

/// For images that the kernel cannot mount: mke2fs copies a tree, and the host shows what the tree holds.
fn filled_by_mke2fs(scratch: &Scratch, image: &Path, arguments: &str) -> Vec<Entry> {
    let tree = scratch.path("tree");
    fs::create_dir(&tree).expect("directory");
    fill(&tree, 20 << 20);
    // mke2fs does not copy sockets.
    fs::remove_file(tree.join("sub/s")).expect("rm");
    make(image, &format!("{arguments} -d {}", text(&tree)), "96M");
    let mut expected = by_kernel(&tree);
    let ours = by_view(image, false).expect("a view");
    for (expected, ours) in expected.iter_mut().zip(&ours.entries) {
        // Used blocks and sizes of directories depend on the image.
        expected.sectors = ours.sectors;
        if expected.kind == "Directory" {
            (expected.size, expected.links, expected.modified) = (ours.size, ours.links, ours.modified);
        }
        (expected.modified.1, expected.owner) = (ours.modified.1, ours.owner);
    }
    expected
}

#[test]
fn every_kind_of_image_reads_as_the_kernel_reads_it() {
    if Mounted::new(Path::new("/nonexistent"), "rw").is_err_and(|said| said.contains("permission")) {
        skipped!("not root, so nothing can be mounted");
        return;
    }
    let wanted = std::env::var("ONEWRITE_KIND").ok();
    for (kind, arguments, bits) in KINDS {
        if wanted.as_deref().is_none_or(|wanted| wanted == kind) {
            judge(kind, arguments, bits);
        }
    }
}

/// Read-only-compatible features, with those that Linux names but does not implement, and an unknown one.
#[test]
fn features_that_forbid_writing_do_not_forbid_reading() {
    let scratch = Scratch::new("view-bits");
    let image = scratch.path("image");
    let tree = scratch.path("tree");
    fs::create_dir(&tree).expect("directory");
    fs::write(tree.join("file"), b"content").expect("file");
    make(&image, &format!("-t ext4 -b 1024 -d {}", text(&tree)), "16M");
    let plain = fs::read(&image).expect("image");
    // snapshot, replica, read-only, shared_blocks, and a bit without a name.
    run("debugfs", &["-w", "-R", "set_super_value feature_ro_compat 0x405ceb", text(&image)]);
    let seen = by_view(&image, false).expect("a view");
    assert!(seen.entries.iter().any(|entry| entry.path == "/file" && entry.size == 7));
    for (bits, name) in [("0x2c3", "compression"), ("0x12c2", "dirdata"), ("0x2ca", "journal_dev")] {
        fs::write(&image, &plain).expect("image");
        run("debugfs", &["-w", "-R", &format!("set_super_value feature_incompat {bits}"), text(&image)]);
        let refusal = by_view(&image, false).err().expect("refused").to_string();
        assert!(refusal.contains("unsupported") && refusal.contains(name), "{refusal}");
    }
}
