//! Power cuts while the kernel's ext4 works. The test records the kernel's writes and cuts the recording at many
//! points. We, e2fsck and the kernel replay each resulting disk: trees, contents, attributes and free counts are equal.
//!
//! A state holds all writes before the last flush, and all or a seeded subset of the writes after it. Mode and cut
//! identify a state; `ONEWRITE_CUTS` sets the number of cuts in each round.

mod log;
mod recorder;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use log::{Traps, set_start, traps};
use onewrite_block::{Choices, Geometry, Image, Operation, RamDisk};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{FileView, Space};
use recorder::Recorder;

use crate::support::tree::{Entry, tree};
use crate::support::volume::{image, load, save, with_mount};
use crate::support::{LoopMount, Scratch, assert_clean, make_image, output, run, text};

/// Default number of cuts in a round.
const CUTS: usize = 14;
/// Rounds of cuts in a recording, at most.
const ROUNDS_MAX: usize = 20;
/// The kernel also replays one state in this many.
const KERNEL_EVERY: usize = 4;

fn magic(round: u8) -> Vec<u8> {
    [&[0xc0, 0x3b, 0x39, 0x98][..], &vec![round; 9_000]].concat()
}

/// Makes changes of all kinds with many syncs, in an order that leaves revokes, escaped blocks and repeatedly logged
/// blocks.
fn change(root: &Path, seed: u64) {
    let mut choices = Choices::new(seed);
    let sync = |path: &Path| fs::File::open(path).and_then(|file| file.sync_all()).expect("fsync");
    for round in 0..20_u8 {
        for number in 0..25 {
            let path = root.join(format!("file-{number}"));
            let mut file = fs::File::options().create(true).write(true).truncate(false).open(&path).expect("file");
            file.seek(SeekFrom::Start(choices.below(60_000))).expect("seek");
            file.write_all(&vec![round + 1; 1 + choices.index(20_000)]).expect("write");
            if number % 6 == 0 {
                file.sync_all().expect("fsync");
            }
        }
        fs::write(root.join("looks-like-a-log"), magic(round)).expect("write");
        sync(&root.join("looks-like-a-log"));
        let directory = root.join(format!("directory-{round}"));
        fs::create_dir(&directory).expect("mkdir");
        for number in 0..60 {
            fs::write(directory.join(format!("a-name-of-some-length-{number}")), b"x").expect("write");
        }
        sync(&directory);
        links(root, &directory, round);
        if round % 3 == 2 {
            fs::remove_dir_all(root.join(format!("directory-{}", round - 1))).expect("rm -r");
            fs::remove_file(root.join("file-3")).expect("rm");
            sync(root);
        }
        let file = fs::File::options().write(true).open(root.join("file-4")).expect("file");
        file.set_len(choices.below(50_000)).expect("truncate");
        unlinked_while_open(root, round);
    }
    run("sync", &["-f", text(root)]);
}

fn links(root: &Path, directory: &Path, round: u8) {
    fs::rename(root.join("file-7"), root.join(format!("renamed-{}", round % 4))).expect("rename");
    std::os::unix::fs::symlink("x".repeat(20 * usize::from(round) + 1), directory.join("link")).expect("link");
    fs::hard_link(root.join("file-8"), directory.join("again")).expect("link");
    let large = root.join("file-9");
    let value = "v".repeat(1_000 + usize::from(round));
    rustix::fs::setxattr(&large, "user.large", value.as_bytes(), rustix::fs::XattrFlags::empty()).expect("xattr");
}

/// Makes an orphan: an open file without a name, synced and then written.
fn unlinked_while_open(root: &Path, round: u8) {
    let path = root.join("orphan");
    let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path).expect("file");
    file.write_all(&vec![round + 1; 70_000]).expect("write");
    file.sync_all().expect("fsync");
    fs::remove_file(&path).expect("rm");
    fs::File::open(root).and_then(|root| root.sync_all()).expect("fsync");
    let mut first = [0];
    file.read_at(&mut first, 0).expect("read");
    file.write_all(b"more").expect("write");
}

/// What a reader sees after replay.
#[derive(Debug, PartialEq)]
struct Seen {
    tree: Vec<Entry>,
    space: Space,
}

/// Mounts an image, with replay if needed. Returns what we see, the number of replayed transactions, and the image
/// afterwards.
fn seen(content: Image, what: &str) -> (Seen, u64, Image) {
    let geometry = Geometry::plain("ram", content.pages());
    let disk = RamDisk::with_image(content, geometry);
    let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), |fs, _| async move {
        let transactions = fs.recovered().map_or(0, |recovered| recovered.transactions);
        Ok((Seen { tree: tree(&fs).await?, space: fs.space().await? }, transactions))
    });
    let (seen, transactions) = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
    (seen, transactions, image(device))
}

fn assert_same(one: &Seen, other: &Seen, what: &str) {
    for (a, b) in one.tree.iter().zip(&other.tree) {
        assert_eq!(a, b, "{what}");
    }
    assert_eq!((one.tree.len(), one.space), (other.tree.len(), other.space), "{what}");
}

/// Clears modification and change times, because the kernel stamps the files that it truncates in its orphan cleanup.
fn without_stamps(mut seen: Seen) -> Seen {
    for entry in &mut seen.tree {
        entry.attributes.modified = Default::default();
        entry.attributes.changed = Default::default();
    }
    seen
}

/// Replays one state with each program and compares the results; returns the traps in its log.
fn judge(scratch: &Scratch, state: &Image, asks_kernel: bool, what: &str) -> Traps {
    let held = traps(state);
    let (ours, transactions, left) = seen(state.clone(), what);
    assert_eq!(transactions, held.transactions, "{what}: transactions that were replayed, and that are there");
    let path = scratch.path("ours");
    save(&left, &path);
    assert_clean(&path);
    let features = run("dumpe2fs", &["-h", text(&path)]);
    assert!(!features.contains("needs_recovery"), "{what}: still to be replayed after an unmount");
    let theirs = scratch.path("e2fsck");
    save(state, &theirs);
    let said = output("e2fsck", &["-fy", "-E", "no_optimize_extents", text(&theirs)]);
    let said = (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned());
    assert!(matches!(said.0, Some(0 | 1)), "{what}: {}", said.1);
    assert_same(&ours, &seen(load(&theirs), what).0, &format!("{what}: we, then e2fsck ({})", said.1));
    if asks_kernel {
        let kernel = scratch.path("kernel");
        save(state, &kernel);
        if LoopMount::new(&kernel).is_some() {
            let (ours, kernel) = (without_stamps(ours), without_stamps(seen(load(&kernel), what).0));
            assert_same(&ours, &kernel, &format!("{what}: we, then the kernel"));
        }
    }
    held
}

/// A subset of the writes since the last flush; each is in it with probability 1/2.
fn some_of<'a>(requests: &'a [Operation], choices: &mut Choices) -> Vec<&'a Operation> {
    requests.iter().filter(|_| choices.chance(1, 2)).collect()
}

/// The kernel's recorded work, and the image before it.
struct Recording {
    options: String,
    scratch: Scratch,
    base: Image,
    events: Vec<Operation>,
}

impl Recording {
    /// `None` without root or loop devices.
    fn new(options: &str) -> Option<Recording> {
        let scratch = Scratch::new(&format!("cut-{}", options.replace(['=', ','], "-")));
        let path = scratch.path("base");
        make_image(&path, None, "32M", &["-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
        let mut base = load(&path);
        let recorder = Recorder::new(&scratch.path(""), base.clone(), options)?;
        recorder.mark();
        change(recorder.path(), 7);
        let (before, events) = recorder.finish();
        before.iter().for_each(|request| base.apply(request));
        Some(Recording { options: options.to_owned(), scratch, base, events })
    }

    /// Cuts the recording at `points`, which ascend, and checks every state; `states` counts them.
    fn cut(&self, points: &[usize], choices: &mut Choices, states: &mut usize) -> Traps {
        let (mut image, mut applied, mut all) = (self.base.clone(), 0, Traps::default());
        for &point in points {
            let flush = self.events[..point].iter().rposition(|event| matches!(event, Operation::Flush));
            let flushed = flush.map_or(0, |at| at + 1).max(applied);
            self.events[applied..flushed].iter().for_each(|event| image.apply(event));
            applied = flushed;
            let unflushed = &self.events[applied..point.max(applied)];
            for kept in [unflushed.iter().collect(), some_of(unflushed, choices)] {
                let mut state = image.clone();
                kept.iter().for_each(|event| state.apply(event));
                let what = format!(
                    "{}, cut at {point} of {}, {} of {} since the flush",
                    self.options,
                    self.events.len(),
                    kept.len(),
                    unflushed.len()
                );
                all.add(judge(&self.scratch, &state, states.is_multiple_of(KERNEL_EVERY), &what));
                *states += 1;
            }
        }
        all
    }
}

/// Records the kernel's work, and cuts it in rounds until all traps were met or the rounds end. The kernel's timing
/// differs from run to run, so one round may miss the part of the recording in which the log wraps.
fn assert_replayed_alike(options: &str, met: impl Fn(&Traps) -> bool) {
    let Some(recording) = Recording::new(options) else { return };
    let count = std::env::var("ONEWRITE_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CUTS);
    let (mut choices, mut all, mut states) = (Choices::new(11), Traps::default(), 0);
    for _ in 0..ROUNDS_MAX {
        let mut points: Vec<usize> = (0..count).map(|_| choices.index(recording.events.len())).collect();
        points.sort_unstable();
        all.add(recording.cut(&points, &mut choices, &mut states));
        if met(&all) {
            break;
        }
    }
    eprintln!("{options}: {} requests recorded, {states} states: {all:?}", recording.events.len());
    assert!(met(&all), "{options}: traps that were not met: {all:?}");
}

/// A clean log contains old transactions, and its start points at one of them.
#[test]
fn a_clean_log_with_a_nonzero_start_brings_nothing_back() {
    let scratch = Scratch::new("cut-clean");
    let path = scratch.path("base");
    make_image(&path, None, "32M", &["-J", "size=4"]);
    let Some(mount) = LoopMount::with_options(&path, "data=journal") else { return };
    change(mount.path(), 3);
    drop(mount);
    let clean = load(&path);
    let (expected, transactions, _) = seen(clean.clone(), "clean");
    assert_eq!(transactions, 0);
    for start in [1, 2, 100, 500, 1023] {
        let mut image = clean.clone();
        set_start(&mut image, start);
        let held = judge(&scratch, &image, true, &format!("start {start}"));
        assert_eq!((held.transactions, held.empty_with_start), (0, 1), "start {start}");
        assert_same(&expected, &seen(image, "again").0, &format!("start {start}"));
    }
}

fn meets_traps(all: &Traps) -> bool {
    all.transactions > 20
        && all.version_three > 5
        && all.uncommitted_tails > 0
        && all.blocks_again > 0
        && all.wrapped > 0
}

#[test]
fn recorded_writes_in_ordered_mode_cut_anywhere_are_replayed_alike() {
    assert_replayed_alike("data=ordered", |all| meets_traps(all) && all.revoke_blocks > 0);
}

/// The log holds content, too, so a reused block is in the log with its new content, and there is no revoke.
#[test]
fn recorded_writes_in_journal_mode_cut_anywhere_are_replayed_alike() {
    assert_replayed_alike("data=journal", |all| meets_traps(all) && all.escaped_blocks > 0);
}
