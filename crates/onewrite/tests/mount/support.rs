//! Support: mounts an image in a scratch directory.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onewrite_fs::ext4::Mode;
use onewrite_fs::journal::CheckpointBy;
use onewrite_testing::skipped;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// What scripts of Python on a mount begin with.
pub const PRELUDE: &str = "
import errno, fcntl, os, shutil, signal, struct, subprocess, sys, time

def refusal(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return 'allowed'

def file(name, content):
    with open(name, 'wb') as new:
        new.write(content)
    return os.open(name, os.O_RDWR)

def equal(found, wanted):
    assert found == wanted, (found[:40] if isinstance(found, bytes) else found, wanted)
";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A scratch directory with `image` and the mount point `mnt` in it. Drop removes all of it.
pub struct Mounted {
    scratch: PathBuf,
    process: u32,
    kind: &'static str,
}

impl Mounted {
    /// A new image of `megabytes` MiB, mounted with `options`; prints a message and returns `None` if mounting is
    /// impossible.
    pub fn new(megabytes: u32, options: &str) -> Option<Mounted> {
        let place = Mounted::unmounted(megabytes)?;
        place.mounted(options)
    }

    /// A new image of `megabytes` MiB, not mounted yet; `None` if mounting is impossible.
    pub fn unmounted(megabytes: u32) -> Option<Mounted> {
        Mounted::made(megabytes, "ext4")
    }

    /// As [`Mounted::unmounted`], with F2FS.
    pub fn unmounted_f2fs(megabytes: u32) -> Option<Mounted> {
        Mounted::made(megabytes, "f2fs")
    }

    /// The emulated device `profile`, mounted with `options`; its latencies are real.
    pub fn emulated(profile: &str, options: &str) -> Option<Mounted> {
        let mut place = Mounted::scratch("emulated")?;
        text(&place.mount(profile, options));
        place.process = place.stats()["pid"].as_u64().unwrap() as u32;
        Some(place)
    }

    fn made(megabytes: u32, kind: &'static str) -> Option<Mounted> {
        let place = Mounted::scratch(kind)?;
        text(&place.onewrite(&["mkfs", "image", "--fs", kind, "--size", &format!("{megabytes}MiB")]));
        Some(place)
    }

    fn scratch(kind: &'static str) -> Option<Mounted> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            skipped!("a mount needs root and /dev/fuse");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let scratch = std::env::temp_dir().join(format!("onewrite-mount-{}-{number}", std::process::id()));
        std::fs::create_dir_all(scratch.join("mnt")).unwrap();
        Some(Mounted { scratch, process: 0, kind })
    }

    /// Mounts the image.
    pub fn mounted(mut self, options: &str) -> Option<Mounted> {
        text(&self.mount("image", options));
        self.process = self.stats()["pid"].as_u64().unwrap() as u32;
        Some(self)
    }

    /// Runs `onewrite mount`; the log goes to the scratch directory.
    pub fn mount(&self, source: &str, options: &str) -> Output {
        self.onewrite(&["mount", source, "mnt", "--log", "log", "-o", options])
    }

    /// Runs the program in the scratch directory. It takes every signal as usual, even if the tests run where some are
    /// ignored.
    pub fn onewrite(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new("env");
        program
            .args(["--default-signal", env!("CARGO_BIN_EXE_onewrite")])
            .args(arguments)
            .current_dir(&self.scratch)
            .output()
            .unwrap()
    }

    /// A path on the mount.
    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.join("mnt").join(name)
    }

    /// A path in the scratch directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    pub fn stats(&self) -> Value {
        serde_json::from_str(&text(&self.onewrite(&["stats", "mnt", "--json"]))).unwrap()
    }

    /// The process that serves.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Runs a program on the mount; prints a message and returns `None` if it is not installed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Option<Output> {
        let found = Command::new(program).args(arguments).current_dir(self.at("")).output();
        match found {
            Ok(output) => Some(output),
            Err(error) => {
                skipped!("{program}: {error}");
                None
            }
        }
    }

    /// Runs a script of Python on the mount, behind [`PRELUDE`] and `help`; it asserts by itself.
    pub fn python(&self, help: &str, script: &str) {
        text(&self.run("python3", &["-c", &format!("{PRELUDE}{help}{script}")]).expect("python3"));
    }

    /// Runs a shell line on the mount; returns its output.
    pub fn shell(&self, line: &str) -> String {
        text(&self.run("sh", &["-ec", line]).unwrap())
    }

    /// Runs a shell line in the scratch directory; returns its output.
    pub fn shell_beside(&self, line: &str) -> String {
        text(&Command::new("sh").args(["-ec", line]).current_dir(&self.scratch).output().unwrap())
    }

    /// Waits until no process has the image open.
    pub fn wait_until_free(&self) {
        assert!(self.fsck_after_kill().status.success());
    }

    /// Checks the image of a mount that was killed. The kernel lets go of the image a moment after the process ended.
    pub fn fsck_after_kill(&self) -> Output {
        for _ in 0..500 {
            let checked = self.onewrite(&["fsck", "image"]);
            if !String::from_utf8_lossy(&checked.stderr).contains("is in use by") {
                return checked;
            }
            pause(20);
        }
        panic!("the image is in use ten seconds after the process ended");
    }

    /// Waits until the process that serves has ended.
    pub fn wait_for_end(&self) {
        let path = PathBuf::from(format!("/proc/{}/fd", self.process));
        for _ in 0..6000 {
            // A zombie process has no open files.
            if std::fs::read_dir(&path).is_err_and(|_| true) || is_zombie(self.process) {
                return;
            }
            pause(20);
        }
        panic!("the process of the mount did not end within two minutes");
    }

    /// Runs umount(8).
    pub fn umount(&self) {
        patiently(|| Command::new("umount").arg(self.at("")).output().unwrap());
    }

    /// Unmounts; asserts that e2fsck or fsck.f2fs finds nothing wrong with the image.
    pub fn unmount(&mut self) {
        self.umount();
        self.wait_for_end();
        self.process = 0;
        self.check();
    }

    /// Asserts that e2fsck or fsck.f2fs finds nothing wrong with the image.
    pub fn check(&self) {
        if self.kind == "f2fs" {
            return self.check_f2fs();
        }
        let checked = Command::new("e2fsck").args(["-fn"]).arg(self.beside("image")).output().unwrap();
        text(&checked);
    }
}

impl Mounted {
    fn check_f2fs(&self) {
        text(&self.onewrite(&["fsck", "image"]));
        match Command::new("fsck.f2fs").arg("--dry-run").arg(self.beside("image")).output() {
            Ok(checked) => {
                let said = text(&checked);
                assert!(!said.contains("[Fail]") && !said.contains("[ASSERT]"), "{said}");
            }
            Err(error) => skipped!("fsck.f2fs: {error}"),
        }
    }
}

/// Every mode that needs no SHARE, which a plain file on this host may lack.
pub fn modes() -> impl Iterator<Item = &'static str> {
    let plain = Mode::ALL.into_iter().filter(|mode| mode.checkpoint() != CheckpointBy::Share);
    plain.map(|mode| mode.name())
}

fn is_zombie(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.is_empty() || status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-q", "-l"]).arg(self.at("")).output();
        if self.process != 0 {
            self.wait_for_end();
        }
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Standard output of a program that must have succeeded.
pub fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}{err}", output.status);
    out.into_owned()
}

/// Runs a program that ends a mount, again while the mount is busy: a process that another test has just started keeps
/// our open files until it becomes its program.
pub fn patiently(end: impl Fn() -> Output) {
    for _ in 0..500 {
        let ended = end();
        if ended.status.success() || !String::from_utf8_lossy(&ended.stderr).contains("busy") {
            text(&ended);
            return;
        }
        pause(20);
    }
    panic!("the mount stays busy: {:?}", end());
}

/// Standard error of a program that must have ended with `code`.
pub fn refusal(output: &Output, code: i32) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    err.into_owned()
}

#[expect(clippy::disallowed_methods, reason = "waits for another process")]
pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Kills the process of the mount.
pub fn kill(place: &Mounted) {
    kill_process(Pid::from_raw(place.process() as i32).unwrap(), Signal::KILL).unwrap();
}

/// Detaches what a killed mount leaves.
pub fn detach(place: &Mounted) {
    place.wait_for_end();
    text(&Command::new("umount").arg("-l").arg(place.at("")).output().unwrap());
}

/// Runs a Python script on the mount and kills the mount some time after the script's first line. Returns its lines.
pub fn lines_before_kill(place: &Mounted, script: &str, argument: &str, after_milliseconds: u64) -> Vec<String> {
    let mut load = Command::new("python3")
        .args(["-c", script, argument])
        .current_dir(place.at(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(load.stdout.take().unwrap()).lines();
    let mut said = vec![lines.next().expect("the script says a line").unwrap()];
    pause(after_milliseconds);
    kill(place);
    said.extend(lines.map_while(Result::ok));
    load.wait().unwrap();
    detach(place);
    said
}
