//! Line file: a file in a FUSE mount of its own that hands each line written to it to a function.
//!
//! Its one idea: a write returns to the program only after the function has returned. So what the function notes lies
//! exactly between what the program did before the line and what it does after it, which a pipe cannot promise.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);
const ROOT: u64 = 1;
const FILE: u64 = 2;
const NAME: &str = "lines";

/// The mount with the file. Drop unmounts it.
pub struct LineFile {
    session: Option<BackgroundSession>,
    shared: Arc<Shared>,
    path: PathBuf,
}

struct Shared {
    state: Mutex<State>,
    closed: Condvar,
}

type Hear = Box<dyn FnMut(&[u8]) + Send>;

struct State {
    /// For each open file of a program, what came after its last newline: lines of two never mix.
    begun: BTreeMap<u64, Vec<u8>>,
    /// Number of the next open file.
    next: u64,
    hear: Hear,
}

impl LineFile {
    /// Mounts the file on `directory`; `hear` gets each line, without its newline, on a thread of the mount.
    ///
    /// # Errors
    /// If FUSE refuses the mount.
    pub fn new(directory: &Path, hear: impl FnMut(&[u8]) + Send + 'static) -> io::Result<LineFile> {
        let state = State { begun: BTreeMap::new(), next: 0, hear: Box::new(hear) };
        let shared = Arc::new(Shared { state: Mutex::new(state), closed: Condvar::new() });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("onewrite-lines".into())];
        let session = fuser::spawn_mount(Lines(Arc::clone(&shared)), directory, &config)?;
        Ok(LineFile { session: Some(session), shared, path: directory.join(NAME) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file, as the standard output of a program.
    ///
    /// # Errors
    /// The host's error.
    pub fn open(&self) -> io::Result<File> {
        OpenOptions::new().append(true).open(&self.path)
    }

    /// Waits until every program has closed the file.
    pub fn wait_until_closed(&self) {
        let mut state = self.shared.lock();
        while !state.begun.is_empty() {
            state = self.shared.closed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for LineFile {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // A program that opens the file again at this moment keeps the mount; nobody needs it any more.
            let _ = session.umount_and_join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open(&mut self) -> u64 {
        self.next += 1;
        self.begun.insert(self.next, Vec::new());
        self.next
    }

    fn take(&mut self, opened: u64, bytes: &[u8]) {
        let begun = self.begun.entry(opened).or_default();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let mut part = parts.next().unwrap_or_default();
        for next in parts {
            begun.extend_from_slice(part);
            let line = std::mem::take(begun);
            (self.hear)(&line);
            part = next;
        }
        begun.extend_from_slice(part);
    }

    /// Closes a file; hands over what follows its last newline.
    fn close(&mut self, opened: u64) {
        let line = self.begun.remove(&opened).unwrap_or_default();
        if !line.is_empty() {
            (self.hear)(&line);
        }
    }
}

struct Lines(Arc<Shared>);

fn attributes(ino: u64) -> FileAttr {
    let (kind, perm) = if ino == ROOT { (FileType::Directory, 0o700) } else { (FileType::RegularFile, 0o200) };
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}

impl Filesystem for Lines {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&TIME_TO_LIVE, &attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TIME_TO_LIVE, &attributes(ino.0));
    }

    /// Truncation, which `>` of a shell asks for, changes nothing.
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&TIME_TO_LIVE, &attributes(ino.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_STREAM | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(self.0.lock().open()), flags);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        opened: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.lock().take(opened.0, data);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        opened: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
        self.0.lock().close(opened.0);
        self.0.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_heard_whole_however_they_arrive() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heard);
        let hear = move |line: &[u8]| told.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap());
        let mut state = State { begun: BTreeMap::new(), next: 0, hear: Box::new(hear) };
        let (one, other) = (state.open(), state.open());
        for part in ["on", "e\ntw", "o\n\nthree\nfo", "ur"] {
            state.take(one, part.as_bytes());
        }
        assert_eq!(*heard.lock().unwrap(), ["one", "two", "", "three"]);
        state.take(other, b"of another\n");
        state.close(one);
        state.close(other);
        assert_eq!(heard.lock().unwrap()[4..], ["of another", "four"]);
        assert!(state.begun.is_empty());
    }
}
