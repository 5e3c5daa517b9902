//! A tiny log-structured file system over the page layer: every write of a page gives it a new address. Its map lies in
//! memory, because the tests do not concern the map.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Device, DevicePort, Executor, Nanos, Page, Runtime};
use onewrite_cache::{CacheShape, PageCache, PolicyKind};
use onewrite_fs::BlockNo;
use onewrite_fs::pages::{
    Backing, DirtyBytes, FilePages, Lookup, Outcome, PAGE_BYTES, PagedFile, Pages, PagesOptions, Run, Target,
};
use onewrite_fs::{Content, FsError, FsResult, Manner};

/// Most pages of one contiguous piece of the log.
const SEGMENT_PAGES: u64 = 16;

pub struct TinyFile {
    number: u64,
    size: Cell<u64>,
    pages: FilePages,
}

impl TinyFile {
    /// Sets the size, and nothing else.
    pub fn set_size(&self, size: u64) {
        self.size.set(size);
    }
}

impl PagedFile for TinyFile {
    fn number(&self) -> u64 {
        self.number
    }

    fn size(&self) -> u64 {
        self.size.get()
    }

    fn pages(&self) -> &FilePages {
        &self.pages
    }
}

/// A write to the log: file, first page, block of that page, and the dirty bytes of each page if they are tracked.
pub type Sent = (u64, u64, BlockNo, Vec<DirtyBytes>);

pub struct TinyLog {
    pub pages: Pages,
    port: DevicePort,
    files: RefCell<BTreeMap<u64, Rc<TinyFile>>>,
    map: RefCell<BTreeMap<(u64, u64), BlockNo>>,
    head: Cell<u64>,
    pub sent: RefCell<Vec<Sent>>,
    /// Whether the next writeback fails before it has sent anything.
    pub refuses_to_prepare: Cell<bool>,
    /// Targets to name until one is refused; `None` if none is to be.
    pub targets_left: Cell<Option<u32>>,
    /// Targets to name until a checkpoint begins; `None` if none is to. It ends when somebody waits for that.
    pub targets_to_checkpoint: Cell<Option<u32>>,
    /// Runs that have a block and have not ended.
    under_way: Cell<u32>,
    /// Whether pages have a place on the device.
    pub has_places: Cell<bool>,
}

impl Backing for TinyLog {
    type File = TinyFile;
    type Found = ();

    fn file(&self, number: u64) -> Option<Rc<TinyFile>> {
        self.files.borrow().get(&number).cloned()
    }

    fn allows_direct(&self) -> bool {
        true
    }

    async fn lookup(&self, file: &TinyFile, index: u64) -> FsResult<Lookup> {
        let map = self.map.borrow();
        let Some(&block) = map.get(&(file.number, index)) else { return Ok(Lookup::Nothing { count: 1 }) };
        let follows = |count: &u64| map.get(&(file.number, index + count)) == Some(&(block + *count));
        Ok(Lookup::At { block, count: 1 + (1..).take_while(follows).count() as u64 })
    }

    async fn prepare(&self, _file: &TinyFile, _pages: Range<u64>) -> FsResult<()> {
        if self.refuses_to_prepare.take() {
            self.runtime().sleep(Nanos(1)).await;
            return Err(FsError::Invalid("a writeback that is to fail".into()));
        }
        Ok(())
    }

    async fn target(&self, _file: &TinyFile, _pages: Range<u64>) -> FsResult<Target<()>> {
        let left = self.targets_left.take();
        if left == Some(0) {
            return Err(FsError::Invalid("a target that is to fail".into()));
        }
        self.targets_left.set(left.map(|left| left - 1));
        let to_checkpoint = self.targets_to_checkpoint.get();
        if to_checkpoint == Some(0) {
            return Ok(Target::Later);
        }
        self.targets_to_checkpoint.set(to_checkpoint.map(|left| left - 1));
        if !self.has_places.get() {
            return Ok(Target::Nowhere);
        }
        let count = SEGMENT_PAGES - self.head.get() % SEGMENT_PAGES;
        Ok(Target::Room { count, found: () })
    }

    async fn until_open(&self) {
        assert_eq!(self.under_way.get(), 0, "the checkpoint waits for what is under way");
        self.targets_to_checkpoint.set(None);
    }

    fn assign(&self, _file: &TinyFile, run: Range<u64>, _found: &()) -> BlockNo {
        self.under_way.set(self.under_way.get() + 1);
        BlockNo(self.head.replace(self.head.get() + run.end - run.start))
    }

    fn finished(&self, file: &TinyFile, run: &Run<()>, outcome: Outcome) {
        self.under_way.set(self.under_way.get() - 1);
        if outcome == Outcome::Failed {
            return;
        }
        self.sent.borrow_mut().push((file.number, run.pages.start, run.block, run.dirty.clone()));
        let mut map = self.map.borrow_mut();
        for (index, block) in run.pages.clone().zip(run.block.run(run.pages.end - run.pages.start).blocks()) {
            map.insert((file.number, index), block);
        }
    }
}

impl TinyLog {
    pub fn new(executor: &Executor, device: Box<dyn Device>, cache_pages: u64, options: PagesOptions) -> Rc<TinyLog> {
        let port = executor.runtime().attach(device);
        let shape = CacheShape::new(cache_pages, 64).expect("a possible shape");
        let policy = PolicyKind::Lru.policy(shape).expect("an online policy");
        let tiny = Rc::new(TinyLog {
            pages: Pages::new(port.clone(), PageCache::new(cache_pages as usize, policy), options),
            port,
            files: RefCell::default(),
            map: RefCell::default(),
            head: Cell::new(0),
            sent: RefCell::default(),
            refuses_to_prepare: Cell::default(),
            targets_left: Cell::default(),
            targets_to_checkpoint: Cell::default(),
            under_way: Cell::default(),
            has_places: Cell::new(true),
        });
        let evictor = Rc::clone(&tiny);
        executor.runtime().spawn(async move { evictor.pages.eviction_task(&*evictor).await });
        tiny
    }

    /// Makes a file.
    pub fn make(&self, number: u64) -> Rc<TinyFile> {
        let file = Rc::new(TinyFile { number, size: Cell::new(0), pages: FilePages::default() });
        self.files.borrow_mut().insert(number, Rc::clone(&file));
        file
    }

    /// Writes bytes through the cache.
    pub async fn write(&self, file: &Rc<TinyFile>, offset: u64, bytes: &[u8]) -> FsResult<()> {
        let end = offset + bytes.len() as u64;
        let pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        self.pages.dirty_files().throttle(self).await?;
        let whole = (offset, Content::Bytes(bytes));
        let mut step = self.pages.begin_step(self, file, pages.clone(), whole).await?;
        self.pages.put_dirty(self, file, pages, &mut step).await?;
        file.size.set(file.size.get().max(end));
        Ok(())
    }

    /// Writes whole pages past the cache.
    pub async fn write_direct(&self, file: &Rc<TinyFile>, first: u64, pages: Vec<Page>) -> FsResult<()> {
        let range = first..first + pages.len() as u64;
        self.pages.write_pages(self, file, range.clone()).await?;
        self.pages.wait_for_writes(&**file).await;
        self.pages.discard(file.number, range.clone());
        self.pages.write_past_cache(self, file, (first..).zip(pages).collect()).await?;
        file.size.set(file.size.get().max(range.end * PAGE_BYTES));
        Ok(())
    }

    pub async fn read(&self, file: &Rc<TinyFile>, offset: u64, length: u64, manner: Manner) -> FsResult<Vec<u8>> {
        Ok(self.pages.read(self, file, offset..offset + length, manner).await?.to_vec())
    }

    /// The run's tasks and its clock.
    pub fn runtime(&self) -> &Runtime {
        self.port.runtime()
    }

    /// Number of log blocks assigned so far.
    pub fn head(&self) -> u64 {
        self.head.get()
    }

    /// Bytes written to the device.
    pub fn device_bytes(&self) -> u64 {
        self.port.device().counters().host_write_bytes()
    }
}
