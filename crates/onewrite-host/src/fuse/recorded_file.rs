//! Recorded file: one file in a FUSE mount that records what is written to it, for a loop device of the kernel.
//!
//! Its one idea: a file system of the kernel runs on a loop device over this file. So its requests are seen as they
//! reach a disk: writes, FLUSH (which arrives as `fsync`) and TRIM (which arrives as `fallocate` of a hole). A loop
//! device has no FUA; the kernel sends a write and a FLUSH instead. One thread serves the file, and no page cache
//! stands before it, so that a FLUSH covers exactly the writes that arrived before it: the loop device must use direct
//! I/O.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};
use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Cause, Durable, Image, Lpn, Operation, PAGE_SIZE, Page, Request as DiskRequest, Token};

const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);
const ROOT: u64 = 1;
const FILE: u64 = 2;
const NAME: &str = "disk";
/// Linux's FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE.
const PUNCH_HOLE: i32 = 3;

/// The mount with the file. Drop unmounts it; the loop device must be gone by then.
pub struct RecordedFile {
    session: Option<BackgroundSession>,
    shared: Arc<Mutex<Recording>>,
    path: PathBuf,
}

struct Recording {
    image: Image,
    events: Vec<RecordedEvent>,
    requests: u32,
}

impl RecordedFile {
    /// Mounts a file with the content of `image` on `directory`.
    ///
    /// # Errors
    /// If FUSE refuses the mount.
    pub fn new(directory: &Path, image: Image) -> io::Result<RecordedFile> {
        let shared = Arc::new(Mutex::new(Recording { image, events: Vec::new(), requests: 0 }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("onewrite-recorded".into())];
        let session = fuser::spawn_mount(Disk(Arc::clone(&shared)), directory, &config)?;
        Ok(RecordedFile { session: Some(session), shared, path: directory.join(NAME) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a function for any thread, which notes that token `n` was acknowledged.
    pub fn marker(&self) -> impl Fn(u64) + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move |number| lock(&shared).events.push(RecordedEvent::Mark(number))
    }

    /// Unmounts; returns what was recorded.
    ///
    /// # Errors
    /// If the mount is in use.
    pub fn finish(mut self) -> io::Result<Vec<RecordedEvent>> {
        if let Some(session) = self.session.take() {
            session.umount_and_join()?;
        }
        Ok(std::mem::take(&mut lock(&self.shared).events))
    }
}

fn lock(shared: &Mutex<Recording>) -> MutexGuard<'_, Recording> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    fn bytes(&self) -> u64 {
        self.image.pages() * PAGE_SIZE as u64
    }

    /// Notes a request that is done when it arrives.
    fn note(&mut self, operation: Operation) {
        let token = Token(self.requests);
        self.requests = self.requests.wrapping_add(1);
        let request = DiskRequest::new(operation, Cause::Data);
        self.events.extend([RecordedEvent::Submitted(token, request), RecordedEvent::Completed(token)]);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let start = Lpn(offset / PAGE_SIZE as u64);
        let (mut pages, mut done) = (Vec::new(), 0);
        while done < data.len() {
            let at = offset + done as u64;
            let (lpn, within) = (Lpn(at / PAGE_SIZE as u64), (at % PAGE_SIZE as u64) as usize);
            let part = &data[done..data.len().min(done + PAGE_SIZE - within)];
            let mut page = self.image.page(lpn).clone();
            page.write(within, part);
            self.image.set(lpn, page.clone());
            pages.push(page);
            done += part.len();
        }
        self.note(Operation::Write { start, pages, durable: Durable::AfterFlush });
    }

    /// Trims the whole pages of a range.
    fn trim(&mut self, offset: u64, length: u64) {
        let (first, end) = (offset.div_ceil(PAGE_SIZE as u64), (offset + length) / PAGE_SIZE as u64);
        if first < end {
            (first..end).for_each(|lpn| self.image.set(Lpn(lpn), Page::ZEROS));
            self.note(Operation::Trim { start: Lpn(first), count: end - first });
        }
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = (offset + length as u64).min(self.bytes());
        let mut bytes = Vec::with_capacity(length);
        let mut at = offset;
        while at < end {
            let within = (at % PAGE_SIZE as u64) as usize;
            let part = (PAGE_SIZE - within).min((end - at) as usize);
            bytes.extend_from_slice(&self.image.page(Lpn(at / PAGE_SIZE as u64)).bytes()[within..within + part]);
            at += part as u64;
        }
        bytes
    }
}

struct Disk(Arc<Mutex<Recording>>);

impl Disk {
    fn attributes(&self, ino: u64) -> FileAttr {
        let (kind, size) = match ino {
            ROOT => (FileType::Directory, 0),
            _ => (FileType::RegularFile, lock(&self.0).bytes()),
        };
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: if ino == ROOT { 0o700 } else { 0o600 },
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            flags: 0,
            blksize: PAGE_SIZE as u32,
        }
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&TIME_TO_LIVE, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TIME_TO_LIVE, &self.attributes(ino.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // An allocation by this thread must not wait for writes that it must serve itself. Only root may set this.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
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
        reply.data(&lock(&self.0).read(offset, size as usize));
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
        let mut recording = lock(&self.0);
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > recording.bytes()) {
            return reply.error(Errno::EFBIG);
        }
        recording.write(offset, data);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        lock(&self.0).note(Operation::Flush);
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mut recording = lock(&self.0);
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= recording.bytes());
        if mode != PUNCH_HOLE || !is_inside {
            return reply.error(Errno::EOPNOTSUPP);
        }
        recording.trim(offset, length);
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pages_are_merged_and_read_back() {
        let mut recording = Recording { image: Image::new(4), events: Vec::new(), requests: 0 };
        recording.write(4094, b"abcd");
        assert_eq!(recording.read(4092, 8), b"\0\0abcd\0\0");
        recording.trim(100, 8192);
        assert_eq!(recording.read(4094, 4), b"ab\0\0");
        assert_eq!(recording.read(4 * 4096 - 2, 10).len(), 2);
        let written: Vec<_> = recording.events.iter().step_by(2).collect();
        let [RecordedEvent::Submitted(_, write), RecordedEvent::Submitted(_, trim)] = written[..] else {
            panic!("{written:?}")
        };
        assert!(matches!(&write.operation, Operation::Write { start: Lpn(0), pages, .. } if pages.len() == 2));
        assert_eq!(trim.operation, Operation::Trim { start: Lpn(1), count: 1 });
    }
}
