//! Seeded mutations of images: what a mutation changes, and a reader of whatever is left.

use std::cell::RefCell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::{Choices, DevicePort, Executor, Geometry, Image, PAGE_SIZE, RamDisk};
use onewrite_fs::{FileKind, FileView, FsResult, Ino, Manner, SeekTarget};

/// Requests until the device fails: a reader that needs more of a small image has no end.
const REQUESTS_MAX: u64 = 60_000;
/// Names that a walk follows.
const NAMES_MAX: usize = 500;

/// Changes a number among the bytes.
pub fn change(bytes: &mut [u8; PAGE_SIZE], choices: &mut Choices) {
    let size = [1, 2, 4, 8][choices.index(4)];
    let used: Vec<usize> = (0..PAGE_SIZE / size).filter(|at| bytes[at * size] != 0).collect();
    let at = if used.is_empty() { choices.index(PAGE_SIZE / size) } else { used[choices.index(used.len())] };
    let value = match choices.index(6) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << choices.below(64),
        3 => choices.below(9000),
        4 => u64::from(bytes[at * size]) + 1,
        _ => choices.bits(),
    };
    bytes[at * size..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
}

async fn look_at(view: &impl FileView, ino: Ino) -> FsResult<FileKind> {
    let attributes = view.attributes(ino).await?;
    for name in view.extended_attributes(ino).await? {
        let _ = view.extended_attribute(ino, &name).await;
    }
    match attributes.kind {
        FileKind::Regular => {
            view.read(ino, 0, 64 * 1024, Manner::default()).await?;
            view.read(ino, attributes.size.saturating_sub(5000), 9000, Manner::default()).await?;
            let mut at = 0;
            for _ in 0..6 {
                let Ok(data) = view.seek(ino, at, SeekTarget::Data).await else { break };
                let Ok(hole) = view.seek(ino, data, SeekTarget::Hole).await else { break };
                assert!(at <= data && data <= hole, "seeking goes back from {at} to {data} to {hole}");
                at = hole;
            }
        }
        FileKind::Symlink => drop(view.read_link(ino).await?),
        FileKind::Directory => {
            let _ = view.lookup(ino, b"000000000012").await;
        }
        _ => (),
    }
    Ok(attributes.kind)
}

/// Reads everything that has a name; returns the number of failed reads.
pub async fn walk(view: &impl FileView) -> u64 {
    let (mut pending, mut seen, mut failures) = (vec![view.root()], 0, 0);
    let _ = view.space().await;
    while let Some(ino) = pending.pop() {
        if look_at(view, ino).await.map_err(|_| failures += 1) != Ok(FileKind::Directory) {
            continue;
        }
        let mut cursor = 0;
        while seen < NAMES_MAX {
            let entries = match view.read_directory(ino, cursor).await {
                Ok(entries) if !entries.is_empty() => entries,
                Ok(_) => break,
                Err(_) => {
                    failures += 1;
                    break;
                }
            };
            let next = entries.last().expect("not empty").next;
            assert!(next > cursor, "listing {ino} stays at {cursor}");
            (cursor, seen) = (next, seen + entries.len());
            pending.extend(entries.into_iter().filter(|entry| !entry.name.starts_with(b".")).map(|entry| entry.ino));
        }
    }
    failures
}

/// What `look` of an image ends with: 0 refused, 1 something failed, 2 all went well. The disk fails after
/// [`REQUESTS_MAX`] requests. Error: a panic or an endless wait.
pub fn end_of(image: Image, look: impl AsyncFnOnce(&DevicePort) -> usize + 'static) -> Result<usize, String> {
    let geometry = Geometry::plain("ram", image.pages());
    let disk = Faulty::new(Box::new(RamDisk::with_image(image, geometry)), FaultPlan::of(Fault::From(REQUESTS_MAX)));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let end = Rc::new(RefCell::new(0));
    let slot = Rc::clone(&end);
    let work = async move { *slot.borrow_mut() = look(&port).await };
    match catch_unwind(AssertUnwindSafe(|| executor.block_on(work))) {
        Ok(outcome) => outcome.map(|()| *end.borrow()).map_err(|halt| halt.to_string()),
        Err(_) => {
            std::mem::forget(executor);
            Err("panic".into())
        }
    }
}

/// A number from the environment.
pub fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The most memory that this process has had.
pub fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
