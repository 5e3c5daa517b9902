//! Server: the core's side of a mount. It takes letters, answers each in a task, and ends the mount.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use onewrite_block::{Counters, Executor, Halt, Inbox, Nanos, Runtime};
use onewrite_fs::{AtomicFiles, Attributes, FsResult, Ino, SharePages};

use super::acl::Acl;
use super::convert::{Numbers, time_to_live};
use super::handles::Handles;
use super::known::Known;
use super::pattern::NamePattern;
use super::stats::{Latencies, Stats};
use crate::letters::{Letter, UnderWay, block_on};

/// A file system with all that a mount offers.
pub trait Mountable: AtomicFiles + SharePages + 'static {}

impl<F: AtomicFiles + SharePages + 'static> Mountable for F {}

/// A mounted file system, and the kernel's knowledge of it.
pub struct Server<F> {
    pub(super) fs: F,
    pub(super) numbers: Numbers,
    pub(super) known: Known,
    pub(super) handles: Handles,
    /// User id that may read the statistics, besides root.
    pub(super) owner: u32,
    runtime: Runtime,
    source: String,
    mode: String,
    device: Box<dyn Fn() -> Counters>,
    begin: Nanos,
    latencies: Latencies,
    under_way: Rc<UnderWay>,
    /// The bytes of the last reply to a read.
    pub(super) reply_bytes: RefCell<Vec<u8>>,
    marker: Box<dyn Fn(u64)>,
    /// Names of files that are atomic for every program.
    pub(super) atomic_names: Vec<NamePattern>,
    /// Whether each write is durable when it returns (`-o sync`).
    pub(super) is_synchronous: bool,
}

impl<F: Mountable> Letter<Server<F>> {
    /// Calls the server's marker with `number`, after all work that reached the core before.
    pub fn mark(number: u64) -> Letter<Server<F>> {
        Letter::work("mark", async move |server: Rc<Server<F>>| (server.marker)(number))
    }
}

/// What the statistics call a mount.
pub struct Names {
    /// The image, disk or profile.
    pub source: String,
    /// The journal mode.
    pub mode: String,
}

impl<F: Mountable> Server<F> {
    /// A server of `fs`. The statistics contain `names` and the counters of `device`.
    pub fn new(fs: F, runtime: &Runtime, names: Names, device: impl Fn() -> Counters + 'static) -> Server<F> {
        Server {
            numbers: Numbers { root: fs.root() },
            fs,
            known: Known::default(),
            handles: Handles::default(),
            owner: rustix::process::geteuid().as_raw(),
            runtime: runtime.clone(),
            source: names.source,
            mode: names.mode,
            device: Box::new(device),
            begin: runtime.now(),
            latencies: Latencies::default(),
            under_way: UnderWay::new(runtime),
            reply_bytes: RefCell::default(),
            marker: Box::new(|_| ()),
            atomic_names: Vec::new(),
            is_synchronous: false,
        }
    }

    /// The same server, for which files are atomic if a name of theirs fits one of `names`: any change through an open
    /// file is private until `fsync` commits it.
    pub fn with_atomic_names(self, names: Vec<NamePattern>) -> Server<F> {
        Server { atomic_names: names, ..self }
    }

    /// The same server, for which each write to an atomic file commits: the mount has `-o sync`.
    pub fn with_synchronous_writes(self, is_synchronous: bool) -> Server<F> {
        Server { is_synchronous, ..self }
    }

    /// The same server, which calls `marker` for each [`Letter::mark`].
    pub fn with_marker(self, marker: impl Fn(u64) + 'static) -> Server<F> {
        Server { marker: Box::new(marker), ..self }
    }

    /// The statistics of the mount so far.
    pub fn stats(&self) -> Stats {
        Stats {
            source: self.source.clone(),
            mode: self.mode.clone(),
            pid: std::process::id(),
            seconds: (self.runtime.now() - self.begin).0 as f64 / 1e9,
            requests: self.latencies.by_kind(),
            in_flight: self.under_way.count().saturating_sub(1),
            fs: self.fs.counters(),
            device: (self.device)(),
        }
    }

    /// Civil time since 1970.
    pub(super) fn civil_nanos(&self) -> Nanos {
        self.runtime.civil_now()
    }

    /// Opens the inode of `name` if the kernel knows it, because `name` may be its last name.
    pub(super) async fn keep_victim(&self, directory: Ino, name: &[u8]) -> FsResult<Option<Ino>> {
        let victim = self.fs.lookup(directory, name).await?;
        if !self.known.knows(victim) {
            return Ok(None);
        }
        self.fs.open(victim).await?;
        Ok(Some(victim))
    }

    /// Ends what [`Server::keep_victim`] began; an inode without names is held until the kernel forgets it.
    pub(super) async fn judge_victim(&self, victim: Option<Ino>) -> FsResult<()> {
        let Some(ino) = victim else { return Ok(()) };
        let is_nameless = self.fs.attributes(ino).await.is_ok_and(|attributes| attributes.links == 0);
        match is_nameless && self.known.hold(ino) {
            true => Ok(()),
            false => self.fs.release(ino).await,
        }
    }

    /// The access control list in attribute `name`; `None` if it is missing or invalid.
    pub(super) async fn acl(&self, ino: Ino, name: &[u8]) -> Option<Acl> {
        Acl::parse(&self.fs.extended_attribute(ino, name).await.ok()?)
    }

    /// Attributes as programs see them, and how long the kernel may cache them. A file shows the size that its draft
    /// gives it: the kernel has one size for all who have the file open, and the owner relies on it.
    pub(super) fn shown(&self, attributes: &Attributes) -> (Duration, Attributes) {
        let size =
            self.handles.drafted(attributes.ino).and_then(|draft| self.fs.draft_size(draft, attributes.ino).ok());
        match size {
            Some(size) => (Duration::ZERO, Attributes { size, ..*attributes }),
            None => (time_to_live(attributes), *attributes),
        }
    }

    /// Notes that a reply is going to name this inode.
    pub(super) fn tell(&self, attributes: Attributes) -> Attributes {
        self.known.looked_up(attributes.ino);
        attributes
    }

    async fn let_all_go(&self) -> FsResult<()> {
        for (ino, opens) in self.known.take_all() {
            for _ in 0..opens {
                self.fs.release(ino).await?;
            }
        }
        Ok(())
    }
}

/// Serves until the kernel ends the mount or somebody stops it; then unmounts the file system.
///
/// # Errors
/// Outside, [`Halt`] of the run; inside, the first error of unmounting.
pub fn serve<F: Mountable>(
    executor: &Executor,
    server: Rc<Server<F>>,
    inbox: Inbox<Letter<Server<F>>>,
) -> Result<FsResult<()>, Halt> {
    block_on(executor, async move {
        server.under_way.serve(&server, inbox, |server, kind, span| server.latencies.note(kind, span)).await;
        let released = server.let_all_go().await;
        server.fs.unmount().await.and(released)
    })
}
