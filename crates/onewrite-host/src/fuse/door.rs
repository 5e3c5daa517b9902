//! Door: FUSE's side of a mount. It decodes requests and sends them to the core; it does not know files.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use onewrite_block::{InboxSender, PAGE_SIZE};
use onewrite_fs::{Attributes, DeviceNumber, FileKind, Ino};

use super::atomic::{AtomicRequest, Outcome};
use super::convert::{Answer, Caller, Numbers, Refusal, TIME_TO_LIVE, generation, kind_of_mode, unpack_device};
use super::files::Synced;
use super::handles::{Caching, Opened};
use super::inodes::{Change, Writer};
use super::names::Wish;
use super::server::{Mountable, Server};
use super::share::{self, Wanted};
use crate::letters::Letter;

/// Most bytes of one write request. The kernel's own bound is 1 MiB unless the administrator raised it.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Most requests that the kernel sends without waiting for replies: read-ahead, writeback of mappings, direct I/O.
const BACKGROUND_MAX: u16 = 64;

/// The kernel features that the mount requests, if the kernel has them.
const CAPABILITIES: [InitFlags; 10] = [
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // `lookup` takes `.` of any inode, so that file handles (open_by_handle_at, NFS) outlive the kernel's caches.
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// Sends the kernel's requests to the core.
pub(super) struct Door<F> {
    pub(super) core: InboxSender<Letter<Server<F>>>,
    /// The way to the kernel's caches; there before the first request.
    pub(super) notifier: Arc<OnceLock<Notifier>>,
}

impl<F: Mountable> Door<F> {
    /// Sends a request to the core, and carries the core on here if it waits. If the core is gone, the letter is
    /// dropped with its reply, and the kernel gets EIO.
    fn ask<Fut>(&self, kind: &'static str, answer: impl FnOnce(Rc<Server<F>>) -> Fut + Send + 'static)
    where
        Fut: Future<Output = ()> + 'static,
    {
        let _ = self.core.send_and_run(Letter::work(kind, answer));
    }

    /// Makes an inode and replies with its attributes.
    fn make(&self, parent: INodeNo, name: &OsStr, wish: Wish, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask("create", async move |server| {
            let made = server.make(server.numbers.inside(parent), &name, wish).await;
            named(reply, &server, made);
        });
    }

    /// A function that takes the pages of inodes out of the kernel's cache and then calls another. That waits for reads
    /// that are under way, so it has a thread of its own: the core must answer them.
    fn forgetter(&self) -> impl FnOnce(Vec<INodeNo>, Box<dyn FnOnce() + Send>) + Send + 'static {
        let notifier = Arc::clone(&self.notifier);
        #[expect(clippy::disallowed_methods, reason = "waits for the kernel, which waits for the core")]
        move |inodes, then| {
            std::thread::spawn(move || {
                for ino in inodes {
                    if let Some(Err(error)) = notifier.get().map(|notifier| notifier.inval_inode(ino, 0, 0)) {
                        tracing::error!("{ino}: the kernel keeps pages of an aborted draft: {error}");
                    }
                }
                then();
            });
        }
    }
}

/// What an ioctl asks for.
enum Asked {
    Atomic(AtomicRequest),
    Share(Vec<Wanted>),
}

fn named<F: Mountable>(reply: ReplyEntry, server: &Server<F>, answer: Answer<Attributes>) {
    match answer {
        Ok(found) => {
            let (lives, found) = server.shown(&found);
            reply.entry(&lives, &server.numbers.attributes(&found), generation(&found));
        }
        Err(Refusal(error)) => reply.error(error),
    }
}

fn told<F: Mountable>(reply: ReplyAttr, server: &Server<F>, answer: Answer<Attributes>) {
    match answer {
        Ok(found) => {
            let (lives, found) = server.shown(&found);
            reply.attr(&lives, &server.numbers.attributes(&found));
        }
        Err(Refusal(error)) => reply.error(error),
    }
}

fn flags(opened: Opened) -> FopenFlags {
    match opened.caching {
        Caching::Cached => FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH,
        Caching::Direct => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH,
    }
}

fn done(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(Refusal(error)) => reply.error(error),
    }
}

fn written(reply: ReplyWrite, answer: Answer<u32>) {
    match answer {
        Ok(bytes) => reply.written(bytes),
        Err(Refusal(error)) => reply.error(error),
    }
}

/// Replies with a value, or with its size if the program asked for the size.
fn valued(reply: ReplyXattr, size: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Err(Refusal(error)) => reply.error(error),
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

/// The reply that lets the kernel remember that a name does not exist.
fn absent(numbers: Numbers) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    let number = numbers.outside(onewrite_fs::Ino(0));
    FileAttr {
        ino: number,
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: PAGE_SIZE as u32,
        flags: 0,
    }
}

fn wish(request: &Request, kind: FileKind, mode: u32, umask: u32, device: DeviceNumber) -> Wish {
    let (permissions, umask) = ((mode & 0o7777) as u16, (umask & 0o777) as u16);
    Wish { kind, permissions, umask, uid: request.uid(), gid: request.gid(), device }
}

impl<F: Mountable> Filesystem for Door<F> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            if config.add_capabilities(capability).is_err() {
                tracing::warn!("this kernel's FUSE lacks {capability:?}");
            }
        }
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    /// Tells the core that the mount has ended.
    fn destroy(&mut self) {
        let _ = self.core.send(Letter::stop());
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask("lookup", async move |server| match server.lookup(server.numbers.inside(parent), &name).await {
            Ok(Some(found)) => named(reply, &server, Ok(found)),
            Ok(None) => reply.entry(&TIME_TO_LIVE, &absent(server.numbers), Generation(0)),
            Err(Refusal(error)) => reply.error(error),
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.ask("forget", async move |server| server.forget(server.numbers.inside(ino), lookups).await);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.ask("getattr", async move |server| {
            let found = server.fs.attributes(server.numbers.inside(ino)).await;
            told(reply, &server, found.map_err(Refusal::from));
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let handle = handle.map_or(0, |handle| handle.0);
        let change = Change { mode, uid, gid, size, accessed, modified, handle, caller: request.uid() };
        self.ask("setattr", async move |server| {
            let changed = server.set_attributes(server.numbers.inside(ino), change).await;
            told(reply, &server, changed);
        });
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.ask("readlink", async move |server| match server.fs.read_link(server.numbers.inside(ino)).await {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(Refusal::from(error).0),
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        match kind_of_mode(mode) {
            Some(kind) => self.make(parent, name, wish(request, kind, mode, umask, unpack_device(device)), reply),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.make(parent, name, wish(request, FileKind::Directory, mode, umask, DeviceNumber::NONE), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask("unlink", async move |server| {
            done(reply, server.unlink(server.numbers.inside(parent), &name).await);
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask("rmdir", async move |server| {
            done(reply, server.remove_directory(server.numbers.inside(parent), &name).await);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (name, target) = (name.as_bytes().to_vec(), target.as_os_str().as_bytes().to_vec());
        let owner = Caller::of(request);
        self.ask("symlink", async move |server| {
            let made = server.symlink(server.numbers.inside(parent), &name, &target, owner).await;
            named(reply, &server, made);
        });
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        self.ask("rename", async move |server| {
            let (from, to) = (server.numbers.inside(parent), server.numbers.inside(new_parent));
            done(reply, server.rename((from, &name), (to, &new_name), flags).await);
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.ask("link", async move |server| {
            let numbers = server.numbers;
            let linked = server.link(numbers.inside(ino), numbers.inside(parent), &name).await;
            named(reply, &server, linked);
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        open_flags: i32,
        reply: ReplyCreate,
    ) {
        let name = name.as_bytes().to_vec();
        let wish = wish(request, FileKind::Regular, mode, umask, DeviceNumber::NONE);
        self.ask("create", async move |server| match server.make_open(parent, &name, (wish, open_flags)).await {
            Ok((made, opened)) => {
                let (lives, made) = server.shown(&made);
                let attr = server.numbers.attributes(&made);
                reply.created(&lives, &attr, generation(&made), FileHandle(opened.handle), flags(opened));
            }
            Err(Refusal(error)) => reply.error(error),
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, open_flags: OpenFlags, reply: ReplyOpen) {
        let uid = request.uid();
        self.ask("open", async move |server| match server.open(server.numbers.inside(ino), open_flags.0, uid).await {
            Ok(opened) => reply.opened(FileHandle(opened.handle), flags(opened)),
            Err(Refusal(error)) => reply.error(error),
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.ask("read", async move |server| {
            match server.read(server.numbers.open(ino, handle), offset, size, flags.0).await {
                Ok(data) => server.in_one_piece(&data, |bytes| reply.data(bytes)),
                Err(Refusal(error)) => reply.error(error),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (bytes, forget) = (data.to_vec(), self.forgetter());
        let writer = match write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            true => Writer::DropsSetId,
            false => Writer::KeepsSetId,
        };
        self.ask("write", async move |server| {
            let wrote = server.write(server.numbers.open(ino, handle), offset, &bytes, (flags.0, writer)).await;
            let is_elsewhere = wrote.as_ref().is_ok_and(|written| written.place != offset);
            let is_stale = wrote.as_ref().is_ok_and(|written| written.is_stale);
            let length = wrote.map(|written| written.length as u32);
            if is_stale {
                return forget(vec![ino], Box::new(move || written(reply, length)));
            }
            written(reply, length);
            if is_elsewhere {
                forget(vec![ino], Box::new(|| ()));
            }
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file does no work. After this error the kernel sends no further `flush`.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let forget = self.forgetter();
        self.ask("release", async move |server| match server.release(server.numbers.open(ino, handle)).await {
            Ok(true) => forget(vec![ino], Box::new(move || reply.ok())),
            closed => done(reply, closed.map(drop)),
        });
    }

    fn fsync(&self, _: &Request, ino: INodeNo, handle: FileHandle, is_data_only: bool, reply: ReplyEmpty) {
        let (kind, what) = match is_data_only {
            true => ("fdatasync", Synced::Data),
            false => ("fsync", Synced::Everything),
        };
        let forget = self.forgetter();
        self.ask(kind, async move |server| match server.sync(server.numbers.open(ino, handle), what).await {
            Ok(stale) if !stale.is_empty() => forget(vec![ino], Box::new(move || reply.ok())),
            synced => done(reply, synced.map(drop)),
        });
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.ask("readdir", async move |server| {
            match server.list(server.numbers.inside(ino), offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(Refusal(error)) => reply.error(error),
            }
        });
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        self.ask("readdirplus", async move |server| {
            match server.list_attributes(server.numbers.inside(ino), offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(Refusal(error)) => reply.error(error),
            }
        });
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, handle: FileHandle, is_data_only: bool, reply: ReplyEmpty) {
        self.fsync(request, ino, handle, is_data_only, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.ask("statfs", async move |server| match server.space().await {
            Ok(space) => {
                let (free, page) = (space.blocks_free, PAGE_SIZE as u32);
                reply.statfs(space.blocks, free, free, space.inodes, space.inodes_free, page, 255, page);
            }
            Err(Refusal(error)) => reply.error(error),
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value, caller) = (name.as_bytes().to_vec(), value.to_vec(), Caller::of(request));
        self.ask("setxattr", async move |server| {
            let ino = server.numbers.inside(ino);
            done(reply, server.set_extended_attribute(ino, &name, &value, flags, caller).await);
        });
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (name, caller) = (name.as_bytes().to_vec(), request.uid());
        self.ask("getxattr", async move |server| {
            let value = server.extended_attribute(server.numbers.inside(ino), &name, caller).await;
            valued(reply, size, value);
        });
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask("listxattr", async move |server| {
            valued(reply, size, server.extended_attributes(server.numbers.inside(ino)).await);
        });
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.ask("removexattr", async move |server| {
            done(reply, server.remove_extended_attribute(server.numbers.inside(ino), &name).await);
        });
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        number: u32,
        argument: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let asked = match share::parse(number, argument) {
            Some(ranges) => ranges.map(Asked::Share),
            None => AtomicRequest::parse(number, argument).map(Asked::Atomic),
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(Refusal(error)) => return reply.error(error),
        };
        let (uid, forget) = (request.uid(), self.forgetter());
        let writer = if uid == 0 { Writer::KeepsSetId } else { Writer::DropsSetId };
        self.ask("ioctl", async move |server| {
            let open = server.numbers.open(ino, handle);
            let outcome = match asked {
                Asked::Atomic(request) => server.atomic(request, open, uid).await,
                Asked::Share(ranges) => server.share(&ranges, open, (uid, writer)).await,
            };
            match outcome {
                Ok(Outcome { value, stale }) if stale.is_empty() => reply.ioctl(0, &value),
                Ok(Outcome { value, stale }) => {
                    let stale = stale.into_iter().map(|ino: Ino| server.numbers.outside(ino)).collect();
                    forget(stale, Box::new(move || reply.ioctl(0, &value)));
                }
                Err(Refusal(error)) => reply.error(error),
            }
        });
    }

    /// The kernel does not say here whether the caller may keep set-ID bits; of root it says so in `write`.
    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let writer = if request.uid() == 0 { Writer::KeepsSetId } else { Writer::DropsSetId };
        self.ask("fallocate", async move |server| {
            let bytes = offset..offset.saturating_add(length);
            done(reply, server.allocate(server.numbers.open(ino, handle), bytes, mode, writer).await);
        });
    }

    fn lseek(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.ask("lseek", async move |server| {
            match server.seek(server.numbers.open(ino, handle), offset, whence).await {
                Ok(found) => reply.offset(found),
                Err(Refusal(error)) => reply.error(error),
            }
        });
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.ask("copy", async move |server| {
            let (from, to) = (server.numbers.open(from, from_handle), server.numbers.open(to, to_handle));
            written(reply, server.copy_range((from, from_offset), (to, to_offset), length).await);
        });
    }
}
