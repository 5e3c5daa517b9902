//! Applies one seeded stream of operations to the kernel's ext4 on a loop device and to ours. Every operation gives the
//! same answer or error number. The trees have the same contents, permissions, owners, sizes, links, targets, devices
//! and attributes. Each operation changes the times of the same inodes, among those that it names and their
//! directories.
//!
//! Not compared: times, unless an operation set them (two clocks); inode numbers; `st_blocks`, because it counts blocks
//! of extent trees, which depend on fragmentation; the size of a directory with several blocks, because it depends on
//! the times of leaf splits; the holes of a file. The kernel fills short holes and unwritten ends of a file with zeros
//! if that saves extents (`extent_max_zeroout_kb`), and shows pages read from a hole as data.
//!
//! A program of its own: it takes the umask from its process.

#[path = "operations/mod.rs"]
mod operations;
mod support;

use onewrite_block::{Choices, Geometry, Nanos, RamDisk};
use onewrite_fs::FileKind;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use operations::entry::{Tree, assert_same};
use operations::kernel::Kernel;
use operations::operation::{Operation, Outcome, Stream};
use operations::ours::Ours;
use support::volume::{load, with_mount};
use support::{LoopMount, Scratch, make_image, seeds};

const OPERATIONS: u64 = 2_500;
/// Number of operations between two comparisons of the trees.
const INTERVAL: u64 = 250;
const PAGES: u64 = 128 * 1024 * 1024 / 4096;
/// Time between two operations, so that each falls into its own tick of the clock for timestamps.
const PAUSE: Nanos = Nanos::from_millis(5);

/// For each path that names something before and after an operation: whether its modification and change times moved.
type Stamped = Vec<(String, bool, bool)>;

/// The paths whose times an operation may change: those that it names, and their directories.
fn watched(operation: &Operation) -> Vec<String> {
    let parent = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    let mut paths: Vec<String> =
        operation.paths().into_iter().flat_map(|path| [path.to_owned(), parent(path)]).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn moved<T: PartialEq>(
    path: &str,
    before: Option<(u64, T, T)>,
    after: Option<(u64, T, T)>,
) -> Option<(String, bool, bool)> {
    let ((old, modified, changed), (new, modified_after, changed_after)) = (before?, after?);
    (old == new).then(|| (path.to_owned(), modified != modified_after, changed != changed_after))
}

fn on_kernel(kernel: &mut Kernel, operation: &Operation) -> (Outcome, Stamped) {
    let paths = watched(operation);
    let before: Vec<_> = paths.iter().map(|path| kernel.stamps(path)).collect();
    let outcome = kernel.apply(operation);
    let stamped = paths.iter().zip(before).filter_map(|(path, before)| moved(path, before, kernel.stamps(path)));
    (outcome, stamped.collect())
}

async fn on_ours(ours: &mut Ours<Ext4>, operation: &Operation) -> (Outcome, Stamped) {
    let (paths, mut before, mut stamped) = (watched(operation), Vec::new(), Vec::new());
    for path in &paths {
        before.push(ours.stamps(path).await);
    }
    let outcome = ours.apply(operation).await;
    for (path, before) in paths.iter().zip(before) {
        stamped.extend(moved(path, before, ours.stamps(path).await));
    }
    (outcome, stamped)
}

/// The compared part of an operation's answer: everything but the places of holes.
fn plain(operation: &Operation, outcome: Outcome) -> Outcome {
    match operation {
        Operation::Seek(..) => Ok(operations::operation::Answer::Done),
        _ => outcome,
    }
}

/// The compared part of a tree.
fn plain_tree(mut tree: Tree) -> Tree {
    for (_, entry) in &mut tree {
        if entry.kind == FileKind::Directory && entry.size > 4096 {
            entry.size = 8192;
        }
    }
    tree
}

fn compare(seed: u64, mode: Mode) {
    let scratch = Scratch::new(&format!("like-kernel-{mode}-{seed}"));
    let path = scratch.path("image");
    make_image(&path, None, "128M", &[]);
    let disk = RamDisk::with_image(load(&path), Geometry::plain("ram", PAGES));
    let Some(mount) = LoopMount::new(&path) else { return };
    rustix::process::umask(rustix::fs::Mode::empty());
    let mut kernel = Kernel::new(mount.path());
    let (outcome, _) = with_mount(Box::new(disk), MountOptions::new(mode), move |fs, port| async move {
        let (mut stream, mut ours, mut failures) = (Stream::new(Choices::new(seed), &[""]), Ours::new(&fs), 0);
        for number in 0..OPERATIONS {
            let operation = stream.next();
            port.runtime().sleep(PAUSE).await;
            let ((theirs, their_stamps), (own, own_stamps)) =
                (on_kernel(&mut kernel, &operation), on_ours(&mut ours, &operation).await);
            let what = format!("seed {seed}, operation {number}, {operation:.200?}");
            failures += u64::from(own.is_err());
            if own.is_ok() {
                // The kernel stamps a file before it refuses a range.
                assert_eq!(their_stamps, own_stamps, "{what}: (path, modified, changed): kernel, then ours");
            }
            assert_eq!(plain(&operation, theirs), plain(&operation, own), "{what}: kernel, then ours");
            if number % INTERVAL == INTERVAL - 1 {
                assert_same(
                    &plain_tree(kernel.tree()),
                    &plain_tree(ours.tree().await?),
                    &format!("{what}: kernel, then ours"),
                );
            }
        }
        for slot in 0..operations::operation::SLOTS {
            ours.close(slot).await.expect("closes");
        }
        Ok(failures)
    });
    let failures = outcome.expect("no error of the mount");
    assert!(
        failures > OPERATIONS / 10 && failures < OPERATIONS * 9 / 10,
        "{failures} of {OPERATIONS} operations failed"
    );
}

/// Compares several seeds from `first` on, or those that the environment sets (see `support::seeds`).
fn compare_seeds(first: u64, mode: Mode) {
    seeds(first, 4).for_each(|seed| compare(seed, mode));
}

#[test]
fn a_stream_of_operations_has_the_same_results_as_on_the_kernel() {
    compare_seeds(1, Mode::Ordered);
}

#[test]
fn a_stream_of_operations_in_full_scope_has_the_same_results_as_on_the_kernel() {
    compare_seeds(5, Mode::Data);
}
