//! Images made and judged by e2fsprogs, for the tests of the format, mkfs and the checker.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod bystanders;
pub mod f2fs;
pub mod f2fs_volume;
pub mod grown;
pub mod late;
pub mod patient;
pub mod shorthand;
pub mod tree;
pub mod volume;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use onewrite_block::mark::{self, Listener};
use onewrite_testing::skipped;

/// A directory; dropping it removes it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory of its own: tests that run side by side may give the same `name`.
    pub fn new(name: &str) -> Scratch {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onewrite-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("scratch directory");
        Scratch(path)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `work`, which has to come to the situation of this mark.
pub fn coming_to<T>(mark: &str, work: impl FnOnce() -> T) -> T {
    let _listener = Listener::new();
    let (outcome, reached) = mark::during(work);
    assert!(reached.contains(mark::number(mark)), "this test is for {mark:?}, and did not come to it");
    outcome
}

/// The seeds of a test: `count` seeds from `first` on. `ONEWRITE_SEED` (the first) and `ONEWRITE_SEEDS` (their number)
/// override them.
pub fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("ONEWRITE_SEED").unwrap_or(first);
    first..first + number("ONEWRITE_SEEDS").unwrap_or(count)
}

/// A system program; the caller adds arguments.
pub fn tool(program: &str) -> Command {
    // The tools of e2fsprogs are not on every user's path.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.env("PATH", path).env("LC_ALL", "C");
    command
}

/// Runs a program to its end.
pub fn output(program: &str, arguments: &[&str]) -> Output {
    let finished = tool(program).args(arguments).output();
    finished.unwrap_or_else(|error| panic!("{program}: {error} (install e2fsprogs)"))
}

/// Runs a program that must succeed and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}\n{errors}", output.status);
    text
}

/// Runs `e2fsck -fn`; returns its exit status and its output.
pub fn e2fsck(image: &Path) -> (i32, String) {
    let output = output("e2fsck", &["-fn", text(image)]);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

/// Fails unless `e2fsck -fn` finds no fault.
pub fn assert_clean(image: &Path) {
    let (status, said) = e2fsck(image);
    assert_eq!(status, 0, "{said}");
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}

/// Makes a tree that uses every kind of structure: files of all map depths, links, devices, directories of
/// one block and of several.
pub fn populate(root: &Path) {
    fs::create_dir_all(root.join("sub/deep/er")).expect("directories");
    fs::write(root.join("empty"), b"").expect("file");
    fs::write(root.join("hello"), b"hello, world\n").expect("file");
    fs::write(root.join("large"), vec![7; 3_000_000]).expect("file");
    fs::hard_link(root.join("hello"), root.join("sub/again")).expect("link");
    std::os::unix::fs::symlink("hello", root.join("short-link")).expect("link");
    std::os::unix::fs::symlink("x/".repeat(200), root.join("long-link")).expect("link");
    run("mkfifo", &[text(&root.join("fifo"))]);
    sparse(&root.join("holes"), 2_000);
    many(&root.join("some"), 300, 8);
}

/// Makes a file of `extents` blocks with a hole before each.
pub fn sparse(path: &Path, extents: u64) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::create(path).expect("file");
    for extent in 0..extents {
        file.write_all_at(&[1; 4096], extent * 8192 + 4096).expect("write");
    }
}

/// A directory of `count` empty files with names of `length` characters.
pub fn many(path: &Path, count: u32, length: usize) {
    fs::create_dir_all(path).expect("directory");
    for number in 0..count {
        fs::write(path.join(format!("{number:0length$}")), b"").expect("file");
    }
}

/// Fills an image through the kernel, which is much faster for large directories. False, with a message, if that is
/// impossible here.
pub fn fill_by_kernel(image: &Path, fill: impl FnOnce(&Path)) -> bool {
    let Some(mount) = LoopMount::new(image) else { return false };
    fill(mount.path());
    true
}

/// Makes an image with `mke2fs -t ext4` and blocks of 4 KiB, filled from `tree`. Large directories get an index.
pub fn make_image(image: &Path, tree: Option<&Path>, size: &str, extra: &[&str]) {
    let mut arguments = vec!["-q", "-F", "-t", "ext4", "-b", "4096"];
    arguments.extend(extra);
    if let Some(tree) = tree {
        arguments.extend(["-d", text(tree)]);
    }
    arguments.extend([text(image), size]);
    run("mke2fs", &arguments);
    if tree.is_some() {
        // 1 means "errors corrected"; e2fsck also returns it for optimised directories.
        let status = output("e2fsck", &["-fyD", text(image)]).status.code();
        assert!(matches!(status, Some(0 | 1)), "e2fsck -D: {status:?}");
    }
}

/// An image mounted by the kernel on a loop device of its own; unmounted and detached when dropped.
pub struct LoopMount {
    device: String,
    path: PathBuf,
}

impl LoopMount {
    /// Mounts `image`; `None`, with a message, if that is impossible here.
    pub fn new(image: &Path) -> Option<LoopMount> {
        LoopMount::with_options(image, "rw")
    }

    /// Mounts `image` with the options `options` of mount(8).
    pub fn with_options(image: &Path, options: &str) -> Option<LoopMount> {
        let attached = output("losetup", &["-f", "--show", text(image)]);
        if !attached.status.success() {
            skipped!("no loop device (not root?): {}", String::from_utf8_lossy(&attached.stderr));
            return None;
        }
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        let path = image.with_extension("mount");
        fs::create_dir_all(&path).expect("mount point");
        let mount = LoopMount { device, path };
        run("mount", &["-t", "ext4", "-o", options, &mount.device, text(&mount.path)]);
        Some(mount)
    }

    /// The kernel's message when it refuses to mount `image`; `None`, with a message, if there are no loop devices.
    ///
    /// # Panics
    /// If the kernel mounts it.
    pub fn refusal(image: &Path) -> Option<String> {
        let attached = output("losetup", &["-f", "--show", text(image)]);
        if !attached.status.success() {
            skipped!("no loop device (not root?): {}", String::from_utf8_lossy(&attached.stderr));
            return None;
        }
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        let path = image.with_extension("refused");
        fs::create_dir_all(&path).expect("mount point");
        let mounted = output("mount", &["-t", "ext4", &device, text(&path)]);
        if mounted.status.success() {
            output("umount", &[text(&path)]);
        }
        output("losetup", &["-d", &device]);
        assert!(!mounted.status.success(), "the kernel mounts {}", image.display());
        Some(String::from_utf8_lossy(&mounted.stderr).into_owned())
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        // Another test may just start a program, which inherits an open file of the mount until exec.
        let is_unmounted = (0..50).any(|_| output("umount", &[text(&self.path)]).status.success());
        if !is_unmounted {
            eprintln!("{} stays mounted", self.path.display());
        }
        output("losetup", &["-d", &self.device]);
    }
}
