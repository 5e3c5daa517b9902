//! A file system of the host in a file of its own, mounted through a loop device. The drop unmounts and removes it,
//! even if the test fails. The file can be in memory that is too small for it: then write-back fails at some moment.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onewrite_testing::skipped;

/// File systems that can be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Xfs,
    /// XFS made without reflinks.
    XfsPlain,
    Btrfs,
    Ext4,
}

impl Host {
    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Host::Xfs => ("mkfs.xfs", &["-q", "-m", "reflink=1"]),
            Host::XfsPlain => ("mkfs.xfs", &["-q", "-m", "reflink=0"]),
            Host::Btrfs => ("mkfs.btrfs", &["-q"]),
            Host::Ext4 => ("mkfs.ext4", &["-q", "-E", "nodiscard"]),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Host::Xfs | Host::XfsPlain => "xfs",
            Host::Btrfs => "btrfs",
            Host::Ext4 => "ext4",
        }
    }
}

/// See the module's head.
pub struct HostMount {
    scratch: PathBuf,
    host: Host,
}

/// Bytes of the sparse file.
const BYTES: u64 = 512 << 20;

impl HostMount {
    /// Mounts a new one. If that is not possible, says so and returns `None`.
    pub fn new(host: Host, name: &str) -> Option<HostMount> {
        HostMount::in_room(host, name, None)
    }

    /// Mounts a new one with its file in `room` bytes of memory, if `room` is given.
    pub fn in_room(host: Host, name: &str, room: Option<u64>) -> Option<HostMount> {
        static MOUNTS: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), MOUNTS.fetch_add(1, Ordering::Relaxed));
        let scratch = std::env::temp_dir().join(format!("onewrite-{name}-{process}-{number}"));
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(scratch.join("mount")).expect("scratch directory");
        fs::create_dir_all(scratch.join("room")).expect("scratch directory");
        let mount = HostMount { scratch, host };
        let memory = |room: u64| {
            tool("mount").args(["-t", "tmpfs", "-o", &format!("size={room}"), "none"]).arg(mount.room()).output()
        };
        let has_room = room.is_none_or(|room| memory(room).is_ok_and(|output| output.status.success()));
        fs::File::create(mount.disk()).and_then(|disk| disk.set_len(BYTES)).expect("scratch file");
        let (program, options) = host.mkfs();
        if !has_room || !succeeds(tool(program).args(options).arg(mount.disk())) || !mount.mount() {
            skipped!("{host:?} cannot be made and mounted here (root, loop devices, xfsprogs, btrfs-progs?)");
            return None;
        }
        Some(mount)
    }

    /// A path in the mounted file system.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join("mount").join(name)
    }

    fn room(&self) -> PathBuf {
        self.scratch.join("room")
    }

    fn disk(&self) -> PathBuf {
        self.room().join("disk")
    }

    fn mount(&self) -> bool {
        let (disk, place) = (self.disk(), self.scratch.join("mount"));
        // Another test may take the same loop device at the same moment.
        patiently(5, || succeeds(tool("mount").args(["-t", self.host.name(), "-o", "loop"]).args([&disk, &place])))
    }

    fn unmount(&self) -> bool {
        unmount(&self.scratch.join("mount"))
    }

    /// Stops XFS as in a power cut: it loses what is not durable. Its files cannot be used until [`HostMount::start`].
    pub fn stop(&self) {
        assert_eq!(self.host, Host::Xfs, "only XFS has a command for it");
        assert!(succeeds(tool("xfs_io").args(["-x", "-c", "shutdown"]).arg(self.scratch.join("mount"))));
    }

    /// Mounts a stopped file system again; it replays its log. No file of it may be open.
    pub fn start(&self) {
        assert!(self.unmount() && self.mount(), "{:?} at {} comes back", self.host, self.scratch.display());
    }

    /// Whether a file shares blocks with another place.
    pub fn has_shared_blocks(&self, file: &Path) -> bool {
        let output = tool("filefrag").arg("-v").arg(file).output().expect("filefrag, of e2fsprogs");
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.contains("shared"))
    }
}

impl Drop for HostMount {
    fn drop(&mut self) {
        for place in [self.scratch.join("mount"), self.room()] {
            let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
            let is_mounted = mounts.contains(&*place.to_string_lossy());
            if is_mounted && !unmount(&place) && !succeeds(tool("umount").arg("-l").arg(&place)) {
                eprintln!("{} stays mounted", place.display());
                return;
            }
        }
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn unmount(place: &Path) -> bool {
    // A program that another test starts now may hold a file of the mount until its exec.
    patiently(50, || succeeds(tool("umount").arg(place)))
}

/// Tries up to `times` times, with a pause between.
fn patiently(times: u32, attempt: impl Fn() -> bool) -> bool {
    (0..times).any(|time| {
        pause(Duration::from_millis(20) * time.min(5));
        attempt()
    })
}

/// Waits in wall time.
#[expect(clippy::disallowed_methods, reason = "programs of the host need their time")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn tool(program: &str) -> Command {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.env("PATH", path).env("LC_ALL", "C");
    command
}

fn succeeds(command: &mut Command) -> bool {
    match command.output() {
        Ok(Output { status, .. }) if status.success() => true,
        Ok(output) => {
            eprintln!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
            false
        }
        Err(error) => {
            eprintln!("{command:?}: {error}");
            false
        }
    }
}
