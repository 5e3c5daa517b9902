//! Slow disk: a loop device whose FLUSH takes a chosen time and whose writes are quick.
//!
//! A FUSE file system shows one file, which lives in memory. Its fsync answers after the chosen time; other requests
//! are answered meanwhile. A loop device over the file makes a disk of it. All goes when the disk is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};

pub const DISK_BYTES: usize = 1 << 30;

const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);
const ROOT: INodeNo = INodeNo(1);
const DISK: INodeNo = INodeNo(2);
const NAME: &str = "disk";

/// A loop device with a slow FLUSH.
pub struct SlowDisk {
    device: String,
    session: Option<BackgroundSession>,
    scratch: PathBuf,
}

impl SlowDisk {
    /// A disk of zeros.
    pub fn new(flush: Duration) -> SlowDisk {
        let scratch = std::env::temp_dir().join(format!("onewrite-group-commit-{}", std::process::id()));
        std::fs::create_dir_all(scratch.join("fuse")).expect("scratch directory");
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("onewrite-slow-disk".into())];
        let session = fuser::spawn_mount(Memory::new(flush), scratch.join("fuse"), &config).expect("FUSE mount");
        let mut disk = SlowDisk { device: String::new(), session: Some(session), scratch };
        let file = disk.scratch.join("fuse").join(NAME);
        disk.device = output("losetup", &["--direct-io=on", "-f", "--show", path_text(&file)]);
        disk
    }

    /// Path of the loop device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// A directory of this disk's own on the host.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Bytes written and FLUSHes sent since the device was attached.
    pub fn usage(&self) -> Usage {
        let name = self.device.trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("stat");
        let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        Usage { bytes: fields[6] * 512, flushes: fields[15] }
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if !self.device.is_empty() {
            let _ = Command::new("losetup").args(["-d", &self.device]).output();
        }
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Work of the device.
#[derive(Clone, Copy)]
pub struct Usage {
    pub bytes: u64,
    pub flushes: u64,
}

pub fn path_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What a program prints.
///
/// # Panics
/// If it fails.
pub fn output(program: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A file system of one file, in memory.
struct Memory {
    bytes: RwLock<Vec<u8>>,
    /// Takes the replies of fsync; a thread answers them one after another.
    flushes: Sender<ReplyEmpty>,
}

impl Memory {
    #[expect(clippy::disallowed_methods, reason = "the kernel waits in its own time")]
    fn new(flush: Duration) -> Memory {
        let (flushes, asked) = channel::<ReplyEmpty>();
        std::thread::spawn(move || {
            for reply in asked {
                std::thread::sleep(flush);
                reply.ok();
            }
        });
        Memory { bytes: RwLock::new(vec![0; DISK_BYTES]), flushes }
    }

    fn attributes(ino: INodeNo) -> FileAttr {
        let (kind, size) = if ino == ROOT { (FileType::Directory, 0) } else { (FileType::RegularFile, DISK_BYTES) };
        FileAttr {
            ino,
            size: size as u64,
            blocks: size as u64 / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

impl Filesystem for Memory {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &std::ffi::OsStr, reply: ReplyEntry) {
        match parent == ROOT && name == NAME {
            true => reply.entry(&TIME_TO_LIVE, &Memory::attributes(DISK), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TIME_TO_LIVE, &Memory::attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let begin = (offset as usize).min(bytes.len());
        reply.data(&bytes[begin..bytes.len().min(begin + size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        match bytes.get_mut(offset as usize..offset as usize + data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                reply.written(data.len() as u32);
            }
            None => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.flushes.send(reply).expect("the thread that answers lives as long as the mount");
    }
}
