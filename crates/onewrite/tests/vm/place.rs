//! Place: a scratch directory, the program run in it, mounts of ours, and the checkers of both file systems.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed in the end.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Place {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onewrite-vm-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("mnt")).unwrap();
        Place(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs the program here; it must succeed. Returns what it says.
    pub fn onewrite(&self, arguments: &str) -> String {
        let mut program = Command::new("env");
        program.args(["--default-signal", env!("CARGO_BIN_EXE_onewrite")]).args(arguments.split_whitespace());
        text(&program.current_dir(&self.0).output().unwrap())
    }

    /// Runs another program here; it must succeed. Returns what it says.
    pub fn other(&self, program: &str, arguments: &str) -> String {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command.args(arguments.split_whitespace()).current_dir(&self.0).env("PATH", path);
        text(&command.output().unwrap_or_else(|error| panic!("{program}: {error}")))
    }

    /// Asserts that both checkers find an F2FS image clean.
    pub fn assert_clean_f2fs(&self, image: &str) {
        self.onewrite(&format!("fsck {image}"));
        let said = self.other("fsck.f2fs", &format!("--dry-run {image}"));
        assert!(!said.contains("[Fail]") && !said.contains("[ASSERT]"), "{said}");
    }

    /// Mounts an image by ours; `at` is below the scratch directory.
    pub fn mount(&self, image: &Path, options: &str) -> Mount<'_> {
        let more = if options.is_empty() { String::new() } else { format!("-o {options}") };
        self.onewrite(&format!("mount {} mnt --log log {more}", image.display()));
        let told: Value = serde_json::from_str(&self.onewrite("stats mnt --json")).unwrap();
        Mount { place: self, process: told["pid"].as_u64().unwrap() as i32, is_mounted: true }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A mount of ours on `mnt`; dropped, it is killed.
pub struct Mount<'p> {
    place: &'p Place,
    process: i32,
    is_mounted: bool,
}

impl Mount<'_> {
    pub fn root(&self) -> PathBuf {
        self.place.path("mnt")
    }

    /// Unmounts it, and waits until its process has ended.
    pub fn unmount(mut self) {
        self.is_mounted = false;
        let ended = (0..100).any(|_| Command::new("umount").arg(self.root()).status().unwrap().success() || pause(50));
        assert!(ended, "the mount stays busy");
        self.wait_for_end();
    }

    /// Kills its process.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.is_mounted = false;
        let _ = kill_process(Pid::from_raw(self.process).unwrap(), Signal::KILL);
        self.wait_for_end();
        let _ = Command::new("umount").arg("-l").arg(self.root()).output();
    }

    fn wait_for_end(&self) {
        // A zombie has no open files.
        let files = PathBuf::from(format!("/proc/{}/fd", self.process));
        let is_gone = || std::fs::read_dir(&files).map_or(true, |mut files| files.next().is_none());
        assert!((0..2_000).any(|_| is_gone() || pause(20)), "the process of the mount does not end");
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if self.is_mounted {
            self.end();
        }
    }
}

/// Waits; false.
#[expect(clippy::disallowed_methods, reason = "waits for another process")]
fn pause(milliseconds: u64) -> bool {
    std::thread::sleep(Duration::from_millis(milliseconds));
    false
}

/// What a program said that must have succeeded.
fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}{err}", output.status);
    out.into_owned()
}

/// Asserts that two listings are equal, and shows where they are not.
pub fn assert_same(one: &[String], other: &[String], what: &str) {
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).take(5).cloned().collect()
    };
    if one != other {
        panic!("{what}: {} and {} lines\n{:#?}\n{:#?}", one.len(), other.len(), only(one, other), only(other, one));
    }
    assert!(!one.is_empty(), "{what}: nothing is there");
}
