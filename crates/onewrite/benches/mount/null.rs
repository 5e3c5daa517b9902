//! Null: a FUSE file system that takes everything and keeps only names and sizes. What it reaches, none can pass.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);

#[derive(Default)]
struct Tree {
    names: BTreeMap<(u64, OsString), u64>,
    /// Kind and size of number `index + 2`.
    nodes: Vec<(FileType, u64)>,
}

struct Null(Mutex<Tree>);

impl Tree {
    fn attributes(&self, ino: u64) -> FileAttr {
        let (kind, size) = if ino == 1 { (FileType::Directory, 0) } else { self.nodes[ino as usize - 2] };
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }

    fn make(&mut self, parent: u64, name: &OsStr, kind: FileType) -> FileAttr {
        self.nodes.push((kind, 0));
        let ino = self.nodes.len() as u64 + 1;
        self.names.insert((parent, name.to_owned()), ino);
        self.attributes(ino)
    }
}

impl Null {
    fn tree(&self) -> std::sync::MutexGuard<'_, Tree> {
        self.0.lock().expect("no panic while it was held")
    }
}

impl Filesystem for Null {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.tree();
        match tree.names.get(&(parent.0, name.to_owned())) {
            Some(ino) => reply.entry(&TIME_TO_LIVE, &tree.attributes(*ino), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TIME_TO_LIVE, &self.tree().attributes(ino.0));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.tree();
        if let (Some(size), true) = (size, ino.0 > 1) {
            tree.nodes[ino.0 as usize - 2].1 = size;
        }
        reply.attr(&TIME_TO_LIVE, &tree.attributes(ino.0));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.entry(&TIME_TO_LIVE, &self.tree().make(parent.0, name, FileType::Directory), Generation(0));
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = self.tree().make(parent.0, name, FileType::RegularFile);
        reply.created(&TIME_TO_LIVE, &made, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.tree().names.remove(&(parent.0, name.to_owned()));
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        reply.data(&ZEROS[..size as usize]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = &mut self.tree().nodes[ino.0 as usize - 2].1;
        *size = (*size).max(offset + data.len() as u64);
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

pub fn mount(directory: &Path) -> Option<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("null".into())];
    fuser::spawn_mount(Null(Mutex::default()), directory, &config).ok()
}
