//! Storage: the files of a session's file system for SQLite's VFS. Each call is a letter to the core, which pays for it
//! what the host profile says.

use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onewrite_block::{Choices, Nanos};
use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::{
    AnyFs, AtomicFiles, AttributeChanges, Content, DraftId, FileKind, FileSystem, FileView, FsError, FsResult, Ino,
    Manner, NewNode, Position,
};
use onewrite_sqlite::storage::{
    Failure, Identity, Machine, Opening, Promise, Removal, Result, Storage, StoredDraft, StoredFile, Synced, normal,
};

use super::beside::{Caller, Core};
use super::job::SyncCall;

/// The run is over, with whatever ended it.
const OVER: i32 = 5;

/// When each fsync, and each commit of drafts in its place, began and ended.
#[derive(Clone, Default)]
pub(super) struct Syncs(Arc<Mutex<Vec<(Nanos, Nanos)>>>);

impl Syncs {
    /// All of them, in order.
    pub(super) fn all(&self) -> Vec<(Nanos, Nanos)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does and notes one.
    fn timed<T>(&self, caller: &Caller, sync: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = caller.now();
        let done = sync()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((begin, caller.now()));
        Ok(done)
    }
}

/// The files of a mounted file system.
pub(super) struct FsStorage {
    caller: Caller,
    syncs: Syncs,
    sync_call: SyncCall,
    chance: Mutex<Choices>,
    promise: Promise,
}

/// An open file.
pub(super) struct FsFile {
    caller: Caller,
    syncs: Syncs,
    sync_call: SyncCall,
    ino: Ino,
    promise: Promise,
}

/// A draft that claimed one file.
pub(super) struct FsDraft {
    caller: Caller,
    draft: DraftId,
    ino: Ino,
}

impl FsStorage {
    /// All files that `caller` reaches; `chance` is the machine's.
    pub(super) fn new(caller: &Caller, chance: Choices, promise: Promise) -> FsStorage {
        let sync_call = SyncCall::Fdatasync;
        FsStorage { caller: caller.clone(), syncs: Syncs::default(), sync_call, chance: Mutex::new(chance), promise }
    }

    /// The same, whose files are synced by `sync_call`.
    pub(super) fn synced_by(self, sync_call: SyncCall) -> FsStorage {
        FsStorage { sync_call, ..self }
    }

    /// Fsyncs from now on, for whoever measures.
    pub(super) fn syncs(&self) -> Syncs {
        self.syncs.clone()
    }
}

/// Does `work` on the file system.
fn asked<T, Fut>(caller: &Caller, work: impl FnOnce(Rc<AnyFs>) -> Fut + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    Fut: Future<Output = FsResult<T>> + 'static,
{
    let over = || Err(Failure::new(OVER, "the run has ended"));
    let answer = caller.call(|core| work(Rc::clone(&core.fs)));
    answer.map_or_else(over, |done| done.map_err(|error| Failure::new(error.errno(), error.to_string())))
}

impl Machine for FsStorage {
    fn draw(&self, bytes: &mut [u8]) {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.fill_with(|| chance.bits() as u8);
    }

    fn civil_now(&self) -> Duration {
        Duration::from_nanos(self.caller.civil_now().0)
    }

    fn sleep(&self, span: Duration) {
        let span = Nanos(span.as_nanos() as u64);
        let _ = self.caller.call(async move |core: Rc<Core>| core.runtime.sleep(span).await);
    }
}

impl Storage for FsStorage {
    type File = FsFile;
    type Draft = FsDraft;

    fn machine(&self) -> Option<&dyn Machine> {
        Some(self)
    }

    fn full_path(&self, name: &[u8]) -> Result<Vec<u8>> {
        Ok(normal(name))
    }

    fn open(&self, path: &[u8], opening: Opening, _: &dyn Fn(&str) -> Option<String>) -> Result<FsFile> {
        let path = path.to_vec();
        let ino = asked(&self.caller, async move |fs| opened(&fs, &path, opening).await)?;
        let (caller, syncs) = (self.caller.clone(), self.syncs.clone());
        Ok(FsFile { caller, syncs, sync_call: self.sync_call, ino, promise: self.promise })
    }

    fn remove(&self, path: &[u8], removal: Removal) -> Result<()> {
        let path = path.to_vec();
        let remove = async move |fs: Rc<AnyFs>| {
            let (directory, name) = split_path(&path)?;
            fs.unlink(resolve(&*fs, directory).await?, name).await?;
            match removal {
                Removal::Durable => fs.sync().await,
                Removal::Volatile => Ok(()),
            }
        };
        let asked = || asked(&self.caller, remove);
        match removal {
            Removal::Durable => self.syncs.timed(&self.caller, asked),
            Removal::Volatile => asked(),
        }
    }

    fn size_at(&self, path: &[u8]) -> Result<Option<u64>> {
        let path = path.to_vec();
        asked(&self.caller, async move |fs| match resolve(&*fs, &path).await {
            Ok(ino) => Ok(Some(fs.attributes(ino).await?.size)),
            Err(FsError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn commit(&self, drafts: &[&FsDraft]) -> Result<()> {
        let drafts: Vec<DraftId> = drafts.iter().map(|draft| draft.draft).collect();
        let commit = || asked(&self.caller, async move |fs| fs.commit_drafts(&drafts).await);
        self.syncs.timed(&self.caller, commit)
    }
}

async fn opened(fs: &AnyFs, path: &[u8], opening: Opening) -> FsResult<Ino> {
    let ino = match (resolve(fs, path).await, opening) {
        (Ok(_), Opening::New) => return Err(FsError::Exists(String::from_utf8_lossy(path).into_owned())),
        (Err(FsError::NotFound(_)), Opening::OrNew | Opening::New) => {
            let (directory, name) = split_path(path)?;
            fs.create(resolve(fs, directory).await?, name, NewNode::FILE).await?
        }
        (found, _) => found?,
    };
    if fs.attributes(ino).await?.kind != FileKind::Regular {
        return Err(FsError::Invalid(format!("{} is no file", String::from_utf8_lossy(path))));
    }
    fs.open(ino).await.map(|()| ino)
}

impl StoredFile for FsFile {
    type Draft = FsDraft;

    fn identity(&self) -> Identity {
        Identity { volume: 0, file: self.ino.0 }
    }

    fn promise(&self) -> Promise {
        self.promise
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let ino = self.ino;
        asked(&self.caller, async move |fs| Ok(fs.read(ino, offset, length, Manner::default()).await?.to_vec()))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (ino, bytes) = (self.ino, bytes.to_vec());
        asked(&self.caller, async move |fs| {
            fs.write(ino, Position::At(offset), Content::Bytes(&bytes), Manner::default()).await.map(drop)
        })
    }

    fn set_size(&self, size: u64) -> Result<()> {
        let ino = self.ino;
        let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
        asked(&self.caller, async move |fs| fs.set_attributes(ino, changes).await)
    }

    fn size(&self) -> Result<u64> {
        let ino = self.ino;
        asked(&self.caller, async move |fs| Ok(fs.attributes(ino).await?.size))
    }

    /// By the job's call, whatever SQLite asks for, as its own VFS on Linux does.
    fn sync(&self, _: Synced) -> Result<()> {
        let (ino, call) = (self.ino, self.sync_call);
        let sync = async move |fs: Rc<AnyFs>| match call {
            SyncCall::Fdatasync => fs.fdatasync(ino).await,
            SyncCall::Fsync => fs.fsync(ino).await,
        };
        self.syncs.timed(&self.caller, || asked(&self.caller, sync))
    }

    fn draft(&self) -> Result<FsDraft> {
        let ino = self.ino;
        let draft = asked(&self.caller, async move |fs| fs.begin_draft())?;
        let draft = FsDraft { caller: self.caller.clone(), draft, ino };
        let id = draft.draft;
        asked(&self.caller, async move |fs| fs.claim(id, ino).await)?;
        Ok(draft)
    }
}

impl Drop for FsFile {
    /// An error has nobody to go to; the next call meets it again.
    fn drop(&mut self) {
        let ino = self.ino;
        let _ = asked(&self.caller, async move |fs| fs.release(ino).await);
    }
}

impl StoredDraft for FsDraft {
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let (draft, ino) = (self.draft, self.ino);
        asked(&self.caller, async move |fs| Ok(fs.draft_read(draft, ino, offset, length).await?.to_vec()))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (draft, ino, bytes) = (self.draft, self.ino, bytes.to_vec());
        asked(&self.caller, async move |fs| {
            fs.draft_write(draft, ino, Position::At(offset), Content::Bytes(&bytes)).await.map(drop)
        })
    }

    fn set_size(&self, size: u64) -> Result<()> {
        let (draft, ino) = (self.draft, self.ino);
        asked(&self.caller, async move |fs| fs.draft_set_size(draft, ino, size).await)
    }

    fn size(&self) -> Result<u64> {
        let (draft, ino) = (self.draft, self.ino);
        asked(&self.caller, async move |fs| fs.draft_size(draft, ino))
    }

    fn abort(&self) -> Result<()> {
        let draft = self.draft;
        asked(&self.caller, async move |fs| fs.abort_drafts(&[draft]).await)
    }
}

impl Drop for FsDraft {
    /// As for files.
    fn drop(&mut self) {
        let draft = self.draft;
        let _ = asked(&self.caller, async move |fs| fs.end_draft(draft).await);
    }
}
