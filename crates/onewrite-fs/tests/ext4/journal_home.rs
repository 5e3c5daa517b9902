//! What a checkpoint must know to be durable before it moves the tail of the log.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{TraceEvent, Traced};
use onewrite_block::{Cause, Device, DevicePort, Executor, Geometry, Nanos, Page, RamDisk};
use onewrite_fs::journal::format::{JournalSuperblock, MAGIC};
use onewrite_fs::journal::{
    Barrier, CheckpointBy, CheckpointPace, Journal, JournalOptions, LogMap, Owner, ReclaimedSpace, Urgency,
};
use onewrite_fs::{BlockNo, FsResult};

const PAGES: u64 = 4096;
const LOG: BlockNo = BlockNo(1024);
const LOG_BLOCKS: u64 = 256;

/// A journal that brings blocks home by SHARE.
async fn sharing_journal(port: DevicePort) -> FsResult<Rc<Journal>> {
    let options = JournalOptions {
        commit: Box::new(Barrier),
        checkpoint: CheckpointBy::Share,
        retained_pages_max: 100,
        checkpoint_pace: CheckpointPace::Eager,
        reclaimed_space: ReclaimedSpace::Kept,
        transaction_blocks_max: 32,
        checkpoint_age: Nanos::from_secs(30),
        commit_interval: Nanos::from_secs(5),
        max_batch_time: Nanos::ZERO,
        eviction_spot: None,
    };
    let superblock = JournalSuperblock::empty(LOG_BLOCKS as u32, [3; 16]);
    let map = LogMap::new(vec![LOG.run(LOG_BLOCKS)]);
    Journal::open(port, map, superblock, Page::ZEROS, options).await
}

/// Commits a block that the log holds as it is, and one that it holds escaped, which SHARE cannot bring home.
async fn commit_exact_and_escaped(journal: &Rc<Journal>) -> FsResult<()> {
    let mut handle = journal.start(4).await?;
    for block in [5, 7] {
        handle.join(BlockNo(block), Owner { file: 0, index: block });
    }
    drop(handle);
    let content = |owner: Owner| match owner.index {
        5 => Page::from_slice(&MAGIC.to_be_bytes()),
        _ => Page::from_slice(b"content"),
    };
    let sealed = journal.seal(|owner| Some(content(owner))).await.expect("two blocks");
    journal.commit(sealed).await.map(drop)
}

/// Requests of a forced checkpoint that shares one block and copies another, in the order in which they ended.
fn requests_of_a_checkpoint() -> Vec<TraceEvent> {
    let executor = Executor::ideal();
    let trace = Rc::new(RefCell::new(Vec::new()));
    let (sink, seen) = (Rc::clone(&trace), Rc::clone(&trace));
    let geometry = Geometry { share_pairs_max: 100, share_atomic: true, ..Geometry::plain("ram", PAGES) };
    let disk = RamDisk::with_image(RamDisk::new(PAGES).image().clone(), geometry);
    let traced: Box<dyn Device> = Box::new(Traced::new(Box::new(disk), move |event| sink.borrow_mut().push(event)));
    let port = executor.runtime().attach(traced);
    let work = async move {
        let journal = sharing_journal(port).await?;
        commit_exact_and_escaped(&journal).await?;
        seen.borrow_mut().clear();
        journal.checkpoint(usize::MAX, Urgency::Forced).await
    };
    assert_eq!(executor.block_on(work).expect("nothing halts").expect("no error"), 2, "blocks brought home");
    trace.take()
}

#[test]
fn a_tail_waits_for_blocks_copied_beside_shared_ones() {
    let requests = requests_of_a_checkpoint();
    let place = |operation: &str, cause: Cause| {
        let is_it = |event: &TraceEvent| event.operation == operation && event.cause == cause;
        requests.iter().position(is_it).unwrap_or_else(|| panic!("no {operation} for {cause:?} in {requests:?}"))
    };
    let (copied, tail) = (place("write", Cause::Checkpoint), place("write", Cause::LogTail));
    place("share", Cause::Checkpoint);
    let is_flushed = requests[copied..tail].iter().any(|event| event.operation == "flush");
    assert!(is_flushed, "the tail moves past a copy that a power cut may take back: {requests:?}");
}
