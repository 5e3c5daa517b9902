//! Systems: what is measured, each mounted in a directory of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fuser::BackgroundSession;

use crate::null::{self, Behind};

const IMAGE_BYTES: &str = "2G";

/// A file system.
pub enum System {
    /// Ours, in a mode.
    Ours(&'static str),
    /// e2fsprogs' own, through FUSE.
    Fuse2fs,
    /// The kernel's ext4 on a loop device, with these options.
    Kernel(&'static str, &'static str),
    /// FUSE without a file system behind it.
    Null,
    /// FUSE that does each request on a file of the host.
    Relay,
    /// FUSE whose kernel reads and writes files of the host, past it.
    Passthrough,
    /// The directory of the images.
    Host,
}

impl System {
    pub fn all() -> Vec<System> {
        vec![
            System::Ours("ordered"),
            System::Ours("data+async"),
            System::Fuse2fs,
            System::Kernel("kernel", "data=ordered"),
            System::Kernel("kernel data", "data=journal"),
            System::Null,
            System::Relay,
            System::Passthrough,
            System::Host,
        ]
    }

    pub fn name(&self) -> &'static str {
        match self {
            System::Ours(name) | System::Kernel(name, _) => name,
            System::Fuse2fs => "fuse2fs",
            System::Null => "null",
            System::Relay => "relay",
            System::Passthrough => "passthrough",
            System::Host => "host",
        }
    }

    /// False, loudly, where something is missing.
    pub fn is_possible(&self) -> bool {
        let program = match self {
            System::Fuse2fs => "fuse2fs",
            System::Kernel(..) => "losetup",
            _ => return true,
        };
        let is_there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
        if !is_there.status.success() {
            println!("SKIPPED: {}: no {program}", self.name());
        }
        is_there.status.success()
    }

    /// Mounts a new file system; `None`, loudly, if that does not work.
    pub fn mount(&self) -> Option<Mounted> {
        let scratch = std::env::temp_dir().join(format!("onewrite-bench-{}", std::process::id()));
        std::fs::create_dir_all(scratch.join("mnt")).unwrap();
        let mut mounted = Mounted { scratch, null: None };
        let (image, mnt) = (mounted.scratch.join("image"), mounted.path());
        let (image, mnt_text) = (image.to_str().unwrap(), mnt.to_str().unwrap());
        let log = mounted.scratch.join("log");
        let done = match self {
            System::Ours(mode) => {
                let program = env!("CARGO_BIN_EXE_onewrite");
                let options = format!("data={mode}");
                run(program, &["mkfs", image, "--size", IMAGE_BYTES])
                    && run(program, &["mount", image, mnt_text, "--log", log.to_str().unwrap(), "-o", &options])
            }
            System::Fuse2fs => made(image) && run("fuse2fs", &[image, mnt_text]),
            System::Kernel(_, options) => {
                made(image) && run("mount", &["-o", &format!("loop,{options}"), image, mnt_text])
            }
            System::Null => mounted.stand(Behind::Nowhere),
            System::Relay => {
                let behind = mounted.behind();
                mounted.stand(Behind::Files(behind))
            }
            System::Passthrough => {
                let behind = mounted.behind();
                mounted.stand(Behind::Kernel(behind))
            }
            System::Host => true,
        };
        assert!(done || !matches!(self, System::Ours(_)), "our own file system cannot be mounted");
        if !done {
            println!("SKIPPED: {} could not be mounted", self.name());
        }
        done.then_some(mounted)
    }
}

fn made(image: &str) -> bool {
    run("truncate", &["-s", IMAGE_BYTES, image]) && run("mkfs.ext4", &["-q", "-F", image])
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output().unwrap();
    if !output.status.success() {
        eprintln!("{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// A mounted file system; it goes when this goes.
pub struct Mounted {
    scratch: PathBuf,
    null: Option<BackgroundSession>,
}

impl Mounted {
    pub fn path(&self) -> PathBuf {
        self.scratch.join("mnt")
    }

    /// A new directory for the files behind a mount.
    fn behind(&self) -> PathBuf {
        let directory = self.scratch.join("behind");
        std::fs::create_dir(&directory).unwrap();
        directory
    }

    fn stand(&mut self, behind: Behind) -> bool {
        self.null = null::mount(&self.path(), behind);
        self.null.is_some()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.null.take() {
            let _ = session.umount_and_join();
        }
        let mnt = self.path();
        if is_mounted(&mnt) {
            let _ = Command::new("umount").arg(&mnt).status();
        }
        // The process behind a FUSE mount writes its last after the unmount.
        #[expect(clippy::disallowed_methods, reason = "waits for another process")]
        std::thread::sleep(Duration::from_millis(500));
        assert!(!is_mounted(&mnt), "{} stays mounted", mnt.display());
        std::fs::remove_dir_all(&self.scratch).unwrap();
    }
}

fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    table.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}
