//! Null: a FUSE file system that keeps only names and sizes. What it reaches, none can pass.
//!
//! With files of the host behind it, it is two rivals more, which keep content: one that does each request on such a
//! file itself, and one that lets the kernel read and write them past it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BackingId, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);

/// Where the content of files is.
#[derive(Clone, Debug)]
pub enum Behind {
    Nowhere,
    /// In files of this directory, read and written here.
    Files(PathBuf),
    /// In files of this directory, read and written by the kernel.
    Kernel(PathBuf),
}

#[derive(Default)]
struct Tree {
    names: BTreeMap<(u64, OsString), u64>,
    /// The node of number `index + 2`.
    nodes: Vec<Node>,
}

struct Node {
    kind: FileType,
    size: u64,
    modified: SystemTime,
    behind: Option<File>,
    passed: Option<BackingId>,
}

struct Null {
    tree: Mutex<Tree>,
    behind: Behind,
}

impl Tree {
    fn attributes(&self, ino: u64) -> FileAttr {
        let root = (FileType::Directory, 0, UNIX_EPOCH);
        let (kind, size, modified) = if ino == 1 { root } else { self.nodes[ino as usize - 2].shape() };
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: modified,
            ctime: modified,
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
        self.nodes.push(Node { kind, size: 0, modified: now(), behind: None, passed: None });
        let ino = self.nodes.len() as u64 + 1;
        self.names.insert((parent, name.to_owned()), ino);
        self.attributes(ino)
    }
}

impl Tree {
    fn node(&mut self, ino: INodeNo) -> &mut Node {
        &mut self.nodes[ino.0 as usize - 2]
    }
}

impl Node {
    fn shape(&self) -> (FileType, u64, SystemTime) {
        // Past this process the kernel writes, and only the file itself knows its size.
        let passed = self.behind.as_ref().filter(|_| self.passed.is_some());
        let size = passed.map_or(self.size, |file| file.metadata().unwrap().len());
        (self.kind, size, self.modified)
    }

    /// A handle of the file behind, to be used while the tree is not held.
    fn file(&self) -> Option<File> {
        self.behind.as_ref().map(|file| file.try_clone().unwrap())
    }
}

#[expect(clippy::disallowed_methods, reason = "a time of the wall clock for files")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Null {
    fn tree(&self) -> std::sync::MutexGuard<'_, Tree> {
        self.tree.lock().expect("no panic while it was held")
    }

    /// A file behind a new node.
    fn file_behind(&self, ino: INodeNo) -> Option<File> {
        let (Behind::Files(directory) | Behind::Kernel(directory)) = &self.behind else { return None };
        let mut options = File::options();
        Some(options.read(true).write(true).create_new(true).open(directory.join(ino.0.to_string())).unwrap())
    }
}

impl Filesystem for Null {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        let _ = config.set_max_write(1 << 20);
        if matches!(self.behind, Behind::Kernel(_)) {
            let missing = |_| std::io::Error::from(std::io::ErrorKind::Unsupported);
            config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).map_err(missing)?;
            let _ = config.set_max_stack_depth(1);
        }
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
            let node = tree.node(ino);
            (node.size, node.modified) = (size, now());
            node.behind.iter().for_each(|file| file.set_len(size).unwrap());
        }
        reply.attr(&TIME_TO_LIVE, &tree.attributes(ino.0));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.entry(&TIME_TO_LIVE, &self.tree().make(parent.0, name, FileType::Directory), Generation(0));
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let (mut tree, zero) = (self.tree(), Generation(0));
        let made = tree.make(parent.0, name, FileType::RegularFile);
        let node = tree.node(made.ino);
        node.behind = self.file_behind(made.ino);
        match (&self.behind, &node.behind) {
            (Behind::Kernel(_), Some(file)) => {
                let passed = node.passed.insert(reply.open_backing(file).unwrap());
                reply.created_passthrough(&TIME_TO_LIVE, &made, zero, FileHandle(0), FopenFlags::empty(), passed);
            }
            _ => reply.created(&TIME_TO_LIVE, &made, zero, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, _: u64) {
        if ino.0 > 1 {
            let mut tree = self.tree();
            if tree.names.values().all(|named| *named != ino.0) {
                let node = tree.node(ino);
                (node.behind, node.passed) = (None, None);
            }
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let ino = self.tree().names.remove(&(parent.0, name.to_owned()));
        if let (Some(ino), Behind::Files(directory) | Behind::Kernel(directory)) = (ino, &self.behind) {
            std::fs::remove_file(directory.join(ino.to_string())).unwrap();
        }
        reply.ok();
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.tree().names.remove(&(parent.0, name.to_owned()));
        reply.ok();
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        parent_after: INodeNo,
        name_after: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut tree = self.tree();
        match tree.names.remove(&(parent.0, name.to_owned())) {
            Some(ino) => {
                tree.names.insert((parent_after.0, name_after.to_owned()), ino);
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let tree = self.tree();
        let named = tree.names.range((ino.0, OsString::new())..(ino.0 + 1, OsString::new()));
        for (at, ((_, name), number)) in named.enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*number), at as u64 + 1, tree.attributes(*number).kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match &self.tree().node(ino).passed {
            Some(passed) => reply.opened_passthrough(FileHandle(0), FopenFlags::FOPEN_NOFLUSH, passed),
            None => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        let Some(file) = self.tree().node(ino).file() else { return reply.data(&ZEROS[..size as usize]) };
        let mut buffer = vec![0; size as usize];
        let length = file.read_at(&mut buffer, offset).unwrap();
        reply.data(&buffer[..length]);
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
        let file = {
            let mut tree = self.tree();
            let node = tree.node(ino);
            (node.size, node.modified) = (node.size.max(offset + data.len() as u64), now());
            node.file()
        };
        if let Some(file) = file {
            file.write_all_at(data, offset).unwrap();
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let file = self.tree().node(ino).file();
        file.iter().for_each(|file| file.sync_all().unwrap());
        reply.ok();
    }
}

pub fn mount(directory: &Path, behind: Behind) -> Option<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("null".into())];
    fuser::spawn_mount(Null { tree: Mutex::default(), behind }, directory, &config).ok()
}
