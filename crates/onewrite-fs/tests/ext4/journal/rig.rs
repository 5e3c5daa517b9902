//! A journal alone on a disk: a test commits blocks, and looks at what a power cut then leaves and recovery brings
//! home.

use std::collections::BTreeMap;
use std::rc::Rc;

use onewrite_block::{
    Cause, DevicePort, Executor, Geometry, Image, Lpn, Nanos, Page, PowerLoss, RamDisk, Request, Runtime, TrimRead,
};
use onewrite_fs::BlockNo;
use onewrite_fs::journal::format::JournalSuperblock;
use onewrite_fs::journal::{
    Barrier, CheckpointBy, CheckpointPace, Commit, Handle, Journal, JournalOptions, LogMap, Owner, ReclaimedSpace,
    RecoveryOptions, Sealed, Urgency, recover,
};

use super::late::{Late, Platter, Span};

const PAGES: u64 = 8192;
/// First block of the log.
pub const LOG: BlockNo = BlockNo(4096);

/// What the journal is like.
#[derive(Clone, Copy)]
pub struct Shape {
    /// How commits become durable.
    pub commit: fn() -> Box<dyn Commit>,
    /// How checkpoints bring blocks home.
    pub checkpoint: CheckpointBy,
    /// Blocks of the log, its superblock included.
    pub log_blocks: u64,
    /// Committed pages that stay in memory.
    pub retained_pages_max: usize,
    /// How long each command of the disk takes.
    pub span: Span,
}

impl Shape {
    /// A plain one on a disk whose commands take no time.
    pub const PLAIN: Shape = Shape {
        commit: || Box::new(Barrier),
        checkpoint: CheckpointBy::Copy,
        log_blocks: 256,
        retained_pages_max: 10_000,
        span: |_| Nanos::ZERO,
    };

    fn options(&self) -> JournalOptions {
        JournalOptions {
            commit: (self.commit)(),
            checkpoint: self.checkpoint,
            retained_pages_max: self.retained_pages_max,
            checkpoint_pace: CheckpointPace::Eager,
            reclaimed_space: ReclaimedSpace::Kept,
            transaction_blocks_max: 1024,
            checkpoint_age: Nanos::from_secs(30),
            commit_interval: Nanos::from_secs(5),
            max_batch_time: Nanos::ZERO,
            eviction_spot: None,
        }
    }
}

/// What a transaction does with a block.
pub enum Change {
    /// Logs it with this content.
    Logs(u64, Page),
    /// Frees it.
    Frees(u64),
}

/// A disk that loses nothing that completed; it shares and trims.
pub fn geometry() -> Geometry {
    Geometry {
        transfer_pages_max: 8,
        fua: true,
        trim_read: TrimRead::Zeros,
        share_pairs_max: 256,
        share_atomic: true,
        on_power_loss: PowerLoss::KeepsCompleted,
        ..Geometry::plain("ram", PAGES)
    }
}

/// A page that begins with these bytes.
pub fn page(bytes: &[u8]) -> Page {
    Page::from_slice(bytes)
}

/// See the module's head.
pub struct Rig {
    pub journal: Rc<Journal>,
    port: DevicePort,
    platter: Platter,
}

impl Rig {
    /// Runs `work` on a new journal; gives what it gives.
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(
        shape: Shape,
        work: impl FnOnce(Rc<Rig>) -> F + 'static,
    ) -> T {
        let executor = Executor::ideal();
        let (late, platter) = Late::new(&geometry(), shape.span);
        let port = executor.runtime().attach(Box::new(late));
        let whole = async move {
            let map = LogMap::new(vec![LOG.run(shape.log_blocks)]);
            let superblock = JournalSuperblock::empty(shape.log_blocks as u32, [3; 16]);
            let opened = Journal::open(port.clone(), map, superblock, Page::ZEROS, shape.options()).await;
            work(Rc::new(Rig { journal: opened.expect("it opens"), port, platter })).await
        };
        executor.block_on(whole).expect("nothing halts")
    }

    pub fn runtime(&self) -> Runtime {
        self.port.runtime().clone()
    }

    /// What a power cut leaves now.
    pub fn left(&self) -> Image {
        self.platter.borrow().image().clone()
    }

    /// Seals a transaction of `changes`.
    pub async fn seal(&self, changes: &[Change]) -> Sealed {
        let credits = changes.iter().filter(|change| matches!(change, Change::Logs(..))).count();
        let mut handle: Handle = self.journal.start(credits).await.expect("it starts");
        let mut contents = BTreeMap::new();
        for change in changes {
            match change {
                Change::Logs(block, page) => {
                    handle.join(BlockNo(*block), Owner { file: 0, index: *block });
                    contents.insert(*block, page.clone());
                }
                Change::Frees(block) => handle.free(BlockNo(*block).run(1)),
            }
        }
        drop(handle);
        let sealed = self.journal.seal(|owner| contents.get(&owner.index).cloned()).await;
        sealed.expect("it changes something")
    }

    /// Commits a transaction of `changes`.
    pub async fn commit(&self, changes: &[Change]) {
        let sealed = self.seal(changes).await;
        self.journal.commit(sealed).await.expect("it commits");
    }

    /// Brings all blocks home and frees the log.
    pub async fn checkpoint(&self) {
        self.journal.checkpoint(usize::MAX, Urgency::Forced).await.expect("it goes home");
    }

    /// Writes to blocks past the journal, as a file system writes content in place.
    pub async fn write(&self, block: u64, page: &Page) {
        let request = Request::write(Lpn(block), vec![page.clone()], Cause::Data);
        self.port.request(request).await.expect("no error");
    }

    /// The newest committed content of a block, from memory, the log or its home.
    pub async fn newest(&self, block: u64) -> Page {
        match self.journal.copies().newest(BlockNo(block)).await.expect("no error") {
            Some(page) => page,
            None => self.left().page(Lpn(block)).clone(),
        }
    }
}

/// What recovery makes of an image, and whether it keeps copies in memory makes no difference.
pub fn recovered(image: &Image, by: CheckpointBy) -> Image {
    let kept = recovered_with(image, RecoveryOptions { by, kept_bytes_max: usize::MAX, unpacked: None });
    let read_again = recovered_with(image, RecoveryOptions { by, kept_bytes_max: 0, unpacked: None });
    for block in 0..LOG.0 {
        assert_eq!(kept.page(Lpn(block)), read_again.page(Lpn(block)), "block {block}, read once and read again");
    }
    kept
}

fn recovered_with(image: &Image, options: RecoveryOptions) -> Image {
    let executor = Executor::ideal();
    let (late, platter) = Late::on(RamDisk::with_image(image.clone(), geometry()), Shape::PLAIN.span);
    let port = executor.runtime().attach(Box::new(late));
    let mut superblock_page = image.page(LOG.page()).clone();
    let whole = async move {
        let mut superblock = superblock_of(&superblock_page);
        let map = LogMap::new(vec![LOG.run(u64::from(superblock.length))]);
        let both = (&mut superblock, &mut superblock_page);
        recover(&port, &map, both, options, async |_| Ok(())).await.expect("it recovers");
    };
    executor.block_on(whole).expect("nothing halts");
    platter.borrow().image().clone()
}

/// The log's superblock in its page.
pub fn superblock_of(page: &Page) -> JournalSuperblock {
    JournalSuperblock::decode(&page.bytes()).expect("a superblock")
}
