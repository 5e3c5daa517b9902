//! A recorder of the kernel's writes to a disk: a FUSE file system with one file, under a loop device.
//!
//! It keeps writes, zeroed ranges and flushes in order of arrival. One thread serves them, and the loop device bypasses
//! the page cache. So a flush must make durable exactly the writes that arrived before it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};

use crate::support::{output, run, text};

/// A request that reached the disk.
#[derive(Clone, Debug)]
pub enum Event {
    Write { offset: u64, bytes: Vec<u8> },
    Flush,
}

#[derive(Default)]
struct Disk {
    bytes: Vec<u8>,
    events: Vec<Event>,
}

impl Disk {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.events.push(Event::Write { offset, bytes: bytes.to_vec() });
    }
}

struct OneFile(Arc<Mutex<Disk>>);

const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";
const TIME_TO_LIVE: Duration = Duration::from_secs(3_600);

impl OneFile {
    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.0.lock().expect("no panic while it was held")
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        FileAttr {
            ino,
            size: if is_file { self.disk().bytes.len() as u64 } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
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

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&TIME_TO_LIVE, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TIME_TO_LIVE, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // An allocation by this thread must not wait for writes that the thread itself must serve.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
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
        let disk = self.disk();
        let end = disk.bytes.len().min(offset as usize + size as usize);
        reply.data(&disk.bytes[end.min(offset as usize)..end]);
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
        self.disk().write(offset, data);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.disk().events.push(Event::Flush);
        reply.ok();
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, length: u64, _: i32, reply: ReplyEmpty) {
        // Both a hole and a zeroed range read as zeros.
        self.disk().write(offset, &vec![0; length as usize]);
        reply.ok();
    }
}

/// A recording disk, mounted as ext4 by the kernel.
pub struct Recorder {
    disk: Arc<Mutex<Disk>>,
    directory: PathBuf,
    session: Option<BackgroundSession>,
    device: Option<String>,
    root: PathBuf,
}

impl Recorder {
    /// Mounts a disk that holds `image`; `None`, with a message, if that is impossible here.
    pub fn new(directory: &Path, image: Vec<u8>, options: &str) -> Option<Recorder> {
        let disk = Arc::new(Mutex::new(Disk { bytes: image, events: Vec::new() }));
        let (served, root) = (directory.join("served"), directory.join("root"));
        std::fs::create_dir_all(&served).expect("directory");
        std::fs::create_dir_all(&root).expect("directory");
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("onewrite-recorder".into())];
        let session = match fuser::spawn_mount(OneFile(Arc::clone(&disk)), &served, &config) {
            Ok(session) => session,
            Err(error) => {
                eprintln!("SKIPPED: no FUSE (not root?): {error}");
                return None;
            }
        };
        let (device, directory) = (None, directory.to_owned());
        let mut recorder = Recorder { disk, directory, session: Some(session), device, root };
        recorder.attach(&served.join(NAME), options).then_some(recorder)
    }

    fn attach(&mut self, file: &Path, options: &str) -> bool {
        let attached = output("losetup", &["--direct-io=on", "-f", "--show", text(file)]);
        if !attached.status.success() {
            eprintln!("SKIPPED: no loop device (not root?): {}", String::from_utf8_lossy(&attached.stderr));
            return false;
        }
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        self.device = Some(device.clone());
        let name = device.trim_start_matches("/dev/").to_owned();
        let direct = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).expect("an attached loop device");
        assert_eq!(direct.trim(), "1", "the loop device writes through the page cache: it keeps no order");
        run("mount", &["-t", "ext4", "-o", options, &device, text(&self.root)]);
        true
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Number of requests so far.
    pub fn event_count(&self) -> usize {
        self.disk.lock().expect("no panic while it was held").events.len()
    }

    /// Unmounts; returns all requests.
    pub fn finish(mut self) -> Vec<Event> {
        self.detach();
        std::mem::take(&mut self.disk.lock().expect("no panic while it was held").events)
    }

    fn detach(&mut self) {
        if let Some(device) = self.device.take() {
            let unmounted = (0..50).any(|_| output("umount", &[text(&self.root)]).status.success());
            output("losetup", &["-d", &device]);
            if !unmounted {
                eprintln!("{} stays mounted", self.root.display());
            }
        }
        if let Some(session) = self.session.take() {
            drop(session.umount_and_join());
        }
        let _ = std::fs::remove_dir_all(self.directory.join("served"));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.detach();
    }
}
