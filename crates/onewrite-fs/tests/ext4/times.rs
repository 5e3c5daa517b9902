//! Times at the limits of an inode, with inodes of 256 and of 128 bytes. Times set through the kernel's ext4 and
//! through ours read the same: at once, after a remount, and through the other file system.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use onewrite_block::{Geometry, RamDisk};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{AttributeChanges, FileSystem, FileView, NewNode, Timestamp};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::support::volume::{image, load, save, with_mount};
use crate::support::{LoopMount, Scratch, make_image};

/// The years 1800 and 2500, and both sides of each limit: 1901, 1970, 2038, 2106, 2242, 2310 and 2446.
const SECONDS: [i64; 20] = [
    -5_364_662_400,
    -0x8000_0001,
    -0x8000_0000,
    -0x7fff_ffff,
    -31_536_000,
    -1,
    0,
    0x7fff_fffe,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_7fff_ffff,
    0x1_8000_0000,
    0x2_7fff_ffff,
    0x2_8000_0000,
    0x3_7fff_fffe,
    0x3_7fff_ffff,
    0x3_8000_0000,
    16_725_225_600,
];
const NANOSECONDS: [u32; 3] = [0, 1, 999_999_999];

/// Access time and modification time.
type Pair = (Timestamp, Timestamp);

/// Two times for each file; they always differ.
fn wanted() -> Vec<Pair> {
    let all =
        || SECONDS.into_iter().flat_map(|seconds| NANOSECONDS.map(|nanoseconds| Timestamp { seconds, nanoseconds }));
    all().zip(all().skip(7).chain(all())).collect()
}

fn name(number: usize) -> String {
    format!("file-{number}")
}

fn by_stat(root: &Path) -> Vec<Pair> {
    let stamp = |seconds, nanoseconds: i64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
    let read = |number| {
        let found = root.join(name(number)).metadata().expect("stat");
        (stamp(found.atime(), found.atime_nsec()), stamp(found.mtime(), found.mtime_nsec()))
    };
    (0..wanted().len()).map(read).collect()
}

/// Sets the times through the kernel; `None`, with a message, if it cannot mount here.
fn set_by_kernel(image: &Path) -> Option<Vec<Pair>> {
    let mount = LoopMount::with_options(image, "rw,noatime")?;
    let time = |at: Timestamp| Timespec { tv_sec: at.seconds, tv_nsec: at.nanoseconds.into() };
    for (number, (accessed, modified)) in wanted().into_iter().enumerate() {
        let path = mount.path().join(name(number));
        std::fs::write(&path, b"").expect("file");
        let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
        utimensat(CWD, &path, &times, AtFlags::empty()).expect("utimensat");
    }
    Some(by_stat(mount.path()))
}

/// Sets the times through ours, or only reads them. Writes the image back to the file.
fn by_ours(path: &Path, sets: bool) -> Vec<Pair> {
    let pages = load(path);
    let geometry = Geometry::plain("ram", pages.pages());
    let disk = Box::new(RamDisk::with_image(pages, geometry));
    let work = async move |fs: std::rc::Rc<onewrite_fs::ext4::Ext4>, _| {
        let mut read = Vec::new();
        for (number, (accessed, modified)) in wanted().into_iter().enumerate() {
            let name = name(number);
            let ino = match sets {
                true => fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?,
                false => fs.lookup(fs.root(), name.as_bytes()).await?,
            };
            if sets {
                let (accessed, modified) = (Some(accessed), Some(modified));
                fs.set_attributes(ino, AttributeChanges { accessed, modified, ..Default::default() }).await?;
            }
            let found = fs.attributes(ino).await?;
            read.push((found.accessed, found.modified));
        }
        Ok(read)
    };
    let (read, device) = with_mount(disk, MountOptions::new(Mode::Ordered), work);
    save(&image(device), path);
    read.expect("times")
}

fn compare(inode_size: &str) {
    let scratch = Scratch::new(&format!("times-{inode_size}"));
    let (theirs, own) = (scratch.path("theirs"), scratch.path("own"));
    for path in [&theirs, &own] {
        make_image(path, None, "32M", &["-I", inode_size]);
    }
    let Some(by_kernel) = set_by_kernel(&theirs) else { return };
    let told = |one: &[Pair], other: &[Pair], what: &str| {
        let rows = wanted().into_iter().zip(one.iter().zip(other));
        let wrong: Vec<String> =
            rows.filter(|(_, (one, other))| one != other).map(|(asked, got)| format!("{asked:?}: {got:?}")).collect();
        assert!(wrong.is_empty() && one.len() == other.len(), "inodes of {inode_size}, {what}:\n{}", wrong.join("\n"));
    };
    told(&by_kernel, &by_ours(&own, true), "set by the kernel, set by ours");
    told(&by_kernel, &by_ours(&own, false), "set by the kernel, set by ours and mounted again");
    told(&by_kernel, &by_ours(&theirs, false), "set by the kernel, the same read by ours");
    for (path, what) in [(&theirs, "its own"), (&own, "ours")] {
        let mount = LoopMount::with_options(path, "ro").expect("it mounted before");
        told(&by_kernel, &by_stat(mount.path()), &format!("set by the kernel, read by it from {what}"));
    }
    crate::support::assert_clean(&own);
}

#[test]
fn times_at_the_limits_of_large_inodes_are_those_of_the_kernel() {
    compare("256");
}

#[test]
fn times_at_the_limits_of_small_inodes_are_those_of_the_kernel() {
    compare("128");
}
