//! Evictions of the page cache: which pages go to the device, in which order, and which stay in memory.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{TraceEvent, Traced};
use onewrite_block::{Cause, Device, PAGE_SIZE};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, PolicyKind};
use onewrite_fs::{Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position};

use crate::support::volume::{new_disk, with_mount};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;
/// Pages to make dirty, in this order. They are few, so neither throttling nor the flusher writes them.
const DIRTY: [u64; 12] = [70, 12, 13, 71, 5, 40, 90, 72, 14, 41, 3, 55];
/// Number of pages to read, to push out the dirty ones.
const READ: u64 = 1024;

async fn file(fs: &Ext4, name: &[u8], pages: u64) -> FsResult<Ino> {
    let file = fs.create(fs.root(), name, NewNode::FILE).await?;
    let content = Content::Pattern { seed: 1, compressible_percent: 0, length: pages * PAGE };
    fs.write(file, Position::At(0), content, Manner::default()).await?;
    fs.fsync(file).await?;
    Ok(file)
}

/// Data pages of one file that reached the device during reads of another file, as page numbers in the file.
fn evicted(cache_policy: PolicyKind) -> Vec<u64> {
    let events: Rc<RefCell<Vec<TraceEvent>>> = Rc::default();
    let sink = Rc::clone(&events);
    let disk: Box<dyn Device> =
        Box::new(Traced::new(Box::new(new_disk(64 * MIB, 1024)), move |event| sink.borrow_mut().push(event)));
    let options = MountOptions {
        cache_pages: MountOptions::CACHE_PAGES_MIN,
        cache_policy,
        delayed_allocation: false,
        ..MountOptions::new(Mode::Ordered)
    };
    let noted = Rc::clone(&events);
    let (outcome, _) = with_mount(disk, options, move |fs, _| async move {
        let target = file(&fs, b"target", 128).await?;
        let first = noted.borrow().iter().filter(|event| is_data(event)).map(|event| event.start.0).min();
        let other = file(&fs, b"other", READ).await?;
        noted.borrow_mut().clear();
        for page in DIRTY {
            fs.write(target, Position::At(page * PAGE), Content::Bytes(b"new"), Manner::default()).await?;
        }
        for page in 0..READ {
            fs.read(other, page * PAGE, PAGE, Manner::default()).await?;
        }
        let pages = |event: &TraceEvent| (event.start.0..).take(event.count as usize).collect::<Vec<u64>>();
        let written: Vec<u64> = noted.borrow().iter().filter(|event| is_data(event)).flat_map(pages).collect();
        Ok(written.into_iter().map(|block| block - first.expect("it was written")).collect())
    });
    outcome.unwrap_or_else(|error| panic!("{cache_policy}: {error}"))
}

fn is_data(event: &TraceEvent) -> bool {
    event.operation == "write" && event.cause == Cause::Data
}

#[test]
fn victims_reach_the_device_in_the_order_of_the_policy() {
    let mut ascending = DIRTY;
    ascending.sort_unstable();
    for policy in [PolicyKind::Lru, PolicyKind::Clock, PolicyKind::Sieve, PolicyKind::LruWsr] {
        assert_eq!(evicted(policy), DIRTY, "{policy}: as they were used");
    }
    for policy in [PolicyKind::TsClock, PolicyKind::SpClock, PolicyKind::LbClock, PolicyKind::Bplru] {
        assert_eq!(evicted(policy), ascending, "{policy}: by place");
    }
    assert_eq!(evicted(PolicyKind::Cflru), Vec::<u64>::new(), "clean pages leave first");
}

#[test]
fn a_policy_that_knows_the_future_is_refused_by_name() {
    let options = MountOptions { cache_policy: PolicyKind::Belady, ..MountOptions::new(Mode::Ordered) };
    let (outcome, _) = with_mount(Box::new(new_disk(64 * MIB, 1024)), options, |_, _| async { Ok(()) });
    assert!(matches!(&outcome, Err(FsError::Invalid(text)) if text.contains("`belady`")), "{outcome:?}");
}

#[test]
fn delayed_victims_get_blocks_and_leave() {
    for cache_policy in PolicyKind::ALL.into_iter().filter(|policy| !policy.needs_future()) {
        let cache_pages = MountOptions::CACHE_PAGES_MIN;
        let options = MountOptions { cache_pages, cache_policy, ..MountOptions::new(Mode::Ordered) };
        let (outcome, _) = with_mount(Box::new(new_disk(64 * MIB, 1024)), options, move |fs, port| async move {
            let other = file(&fs, b"other", READ).await?;
            port.device_mut().reset_counters();
            let target = fs.create(fs.root(), b"target", NewNode::FILE).await?;
            for page in DIRTY {
                fs.write(target, Position::At(page * PAGE), Content::Bytes(b"new"), Manner::default()).await?;
            }
            for round in 0..3 * READ {
                fs.read(other, round % READ * PAGE, PAGE, Manner::default()).await?;
            }
            let written = port.device().counters().host_write_bytes_of(Cause::Data);
            // CFLRU spares dirty pages, FAB spares small groups.
            if !matches!(cache_policy, PolicyKind::Cflru | PolicyKind::Fab) {
                assert_eq!(written, DIRTY.len() as u64 * PAGE, "{cache_policy}");
            }
            for page in DIRTY {
                let found = fs.read(target, page * PAGE, 3, Manner::default()).await?.to_vec();
                assert_eq!(found, b"new", "{cache_policy}: page {page}");
            }
            fs.check().unwrap_or_else(|problem| panic!("{cache_policy}: {problem}"));
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{cache_policy}: {error}"));
    }
}
