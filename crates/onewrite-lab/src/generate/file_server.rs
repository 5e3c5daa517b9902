//! File server: several clients play dbench's load file on our own ext4; the trace is the accesses to the page cache.
//!
//! Forty-eight clients (fewer at a small scale) take turns, call by call. Each has its own directory, on a volume in
//! memory, in virtual time. The dissertation does not give the number of clients. But each client has some 23 MiB of
//! files, and the policies differ at every cache size up to 512 MB (figure 2-7). So all files together must be larger
//! than 512 MB: 48 clients have twice as much. The trace is what the clients read and write of file contents; [`Pages`]
//! chooses the pages. The clients' parts of the volume lie apart, evenly over the range, as the kernel's allocator
//! spreads directories.
//!
//! The load file reads 1.52 pages for each page written. The trace of the dissertation, made with a load file of about
//! 2012, reads 1.23. So a client leaves out a reading call while reads are ahead of writes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use onewrite_block::{Choices, Executor, GIB, PAGE_SIZE, RamDisk};
use onewrite_cache::{Access, PageRequest};
use onewrite_fs::api::split_path;
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    AttributeChanges, Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner,
};

use super::load_file::{Call, LOAD_FILE, Transfer, load};
use super::tally::{Tally, Targets};
use crate::error::LabError;
use crate::trace::Pages;

/// Clients at full scale.
const CLIENTS: f64 = 48.0;
/// Pages written at full scale; the number of clients is in proportion.
const FULL_WRITES: f64 = 5880.1 * 256.0;
/// Most clients.
const CLIENTS_MAX: u32 = 256;
/// Size of the volume: the clients' files and everything else that they leave there.
const VOLUME_BYTES: u64 = 16 * GIB;

/// A request: which client, and the page in its part of the volume.
type ClientRequest = (usize, PageRequest);

pub(super) fn generate(
    targets: Targets,
    load_file: Option<&Path>,
    clients: Option<u32>,
) -> Result<Vec<PageRequest>, LabError> {
    let calls = Rc::new(load(load_file.unwrap_or(Path::new(LOAD_FILE)))?);
    if clients.is_some_and(|clients| !(1..=CLIENTS_MAX).contains(&clients)) {
        return Err(LabError::Option(format!("a file server with no clients or more than {CLIENTS_MAX}")));
    }
    let usual = (targets.writes as f64 / FULL_WRITES * CLIENTS).ceil().clamp(1.0, CLIENTS) as u32;
    let clients = clients.unwrap_or(usual) as usize;
    let accesses = play(calls, clients, targets)?;
    let end = accesses.iter().map(|(_, request)| request.page()).max().unwrap_or(0) + 1;
    let apart = (targets.range.saturating_sub(end) / (clients as u64 - 1).max(1)).max(1);
    let mut tally = Tally::new(targets);
    for (client, request) in accesses {
        let page = (client as u64 * apart + request.page()) % targets.range;
        if request.is_write() { tally.write(page) } else { tally.read(page) }
    }
    Ok(tally.requests)
}

/// Whether a call of this kind moves bytes.
fn moves(calls: &[Call], transfer: impl Fn(&Call) -> Option<Transfer>) -> bool {
    calls.iter().filter_map(transfer).any(|transfer| transfer.length > 0)
}

/// Plays until the read and the written volume are reached.
fn play(calls: Rc<Vec<Call>>, clients: usize, targets: Targets) -> Result<Vec<ClientRequest>, LabError> {
    let reads = moves(&calls, |call| if let Call::Read(transfer) = call { Some(*transfer) } else { None });
    let writes = moves(&calls, |call| if let Call::Write(transfer) = call { Some(*transfer) } else { None });
    if !reads || !writes {
        return Err(LabError::Option("the load file reads or writes nothing, so it is no file server's".into()));
    }
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk()?));
    let stage = Rc::new(Stage { targets, ..Stage::default() });
    let shared = Rc::clone(&stage);
    let played = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(port, MountOptions::new(Mode::Ordered)).await?);
        let watching = Rc::clone(&shared);
        fs.watch(move |file, pages, access| watching.note(file, pages, access));
        let mut players = Vec::new();
        for client in 0..clients {
            let directory = fs.create(fs.root(), format!("client{client}").as_bytes(), NewNode::DIRECTORY).await?;
            players.push(Player { fs: Rc::clone(&fs), directory, open: BTreeMap::new(), stage: Rc::clone(&shared) });
        }
        while !shared.is_over() {
            for call in calls.iter() {
                for (client, player) in players.iter_mut().enumerate() {
                    shared.client.set(client);
                    player.play(call).await?;
                }
                if shared.is_over() {
                    break;
                }
            }
        }
        FsResult::Ok(())
    });
    played??;
    Ok(stage.accesses.take())
}

fn disk() -> Result<RamDisk, LabError> {
    let mut options = MkfsOptions::new(VOLUME_BYTES, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let mut disk = RamDisk::new(VOLUME_BYTES / PAGE_SIZE as u64);
    plan(&options)?.into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    Ok(disk)
}

/// The accesses of the clients so far.
#[derive(Default)]
struct Stage {
    targets: Targets,
    client: Cell<usize>,
    pages: RefCell<BTreeMap<usize, Pages>>,
    accesses: RefCell<Vec<ClientRequest>>,
    reads: Cell<u64>,
    writes: Cell<u64>,
}

impl Stage {
    fn note(&self, file: Ino, pages: std::ops::Range<u64>, access: Access) {
        let mut places = self.pages.borrow_mut();
        let places = places.entry(self.client.get()).or_default();
        let count = match access {
            Access::Write => &self.writes,
            Access::Read => &self.reads,
        };
        count.set(count.get() + pages.end - pages.start);
        let mut accesses = self.accesses.borrow_mut();
        accesses.extend(pages.map(|page| (self.client.get(), PageRequest::new(places.page(file, page), access))));
    }

    fn is_ahead_with_reads(&self) -> bool {
        let Targets { reads, writes, .. } = self.targets;
        u128::from(self.reads.get()) * u128::from(writes) > u128::from(self.writes.get()) * u128::from(reads)
    }

    fn is_over(&self) -> bool {
        self.reads.get() >= self.targets.reads && self.writes.get() >= self.targets.writes
    }
}

/// One client.
struct Player {
    fs: Rc<Ext4>,
    directory: Ino,
    open: BTreeMap<u64, Ino>,
    stage: Rc<Stage>,
}

impl Player {
    /// Makes a call. Ignores a name that is missing or already there, because the load file starts again when it ends.
    async fn play(&mut self, call: &Call) -> FsResult<()> {
        match self.make(call).await {
            Err(FsError::NotFound(_) | FsError::Exists(_)) => Ok(()),
            other => other,
        }
    }

    async fn make(&mut self, call: &Call) -> FsResult<()> {
        match call {
            Call::Directory(path) => self.node(path, NewNode::DIRECTORY).await.map(drop),
            Call::Open { path, handle, empties } => {
                let file = self.node(path, NewNode::FILE).await?;
                if *empties {
                    let changes = AttributeChanges { size: Some(0), ..Default::default() };
                    self.fs.set_attributes(file, changes).await?;
                }
                self.open.insert(*handle, file);
                Ok(())
            }
            Call::Close(handle) => {
                self.open.remove(handle);
                Ok(())
            }
            Call::Read(transfer) => self.read(*transfer).await,
            Call::Write(Transfer { handle, offset, length }) => {
                let Some(file) = self.open.get(handle) else { return Ok(()) };
                let content = Content::Pattern { seed: *offset, compressible_percent: 0, length: *length };
                self.fs.write(*file, Position::At(*offset), content, Manner::default()).await.map(drop)
            }
            Call::Flush(handle) => match self.open.get(handle) {
                Some(file) => self.fs.fsync(*file).await,
                None => Ok(()),
            },
            Call::Unlink(path) => {
                let (parent, name) = self.place(path).await?;
                self.fs.unlink(parent, &name).await
            }
            Call::Rename(from, to) => {
                let (from, to) = (self.place(from).await?, self.place(to).await?);
                self.fs.rename((from.0, &from.1), (to.0, &to.1), RenameManner::Replace).await
            }
        }
    }

    async fn read(&self, Transfer { handle, offset, length }: Transfer) -> FsResult<()> {
        if self.stage.is_ahead_with_reads() {
            return Ok(());
        }
        let Some(file) = self.open.get(&handle) else { return Ok(()) };
        self.fs.read(*file, offset, length, Manner::default()).await.map(drop)
    }

    /// The directory and the last name of a path.
    async fn place(&self, path: &str) -> FsResult<(Ino, Vec<u8>)> {
        let whole = format!("/{path}");
        let (parent, name) = split_path(whole.as_bytes())?;
        let mut directory = self.directory;
        for part in parent.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            directory = self.fs.lookup(directory, part).await?;
        }
        Ok((directory, name.to_vec()))
    }

    /// The inode at a path; makes the node if there is none.
    async fn node(&self, path: &str, node: NewNode) -> FsResult<Ino> {
        if path.is_empty() {
            return Ok(self.directory);
        }
        let (parent, name) = self.place(path).await?;
        match self.fs.lookup(parent, &name).await {
            Err(FsError::NotFound(_)) => self.fs.create(parent, &name, node).await,
            found => found,
        }
    }
}
