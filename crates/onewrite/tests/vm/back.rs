//! Linux is stopped while it works on F2FS, and we recover: everything that it had synced is there.
//!
//! A machine works on a recorded disk. The recording is cut at many places: what the disk had taken by then is what a
//! stop of the machine leaves. Content and nodes of an fsync have no order between them in Linux (decision 084), so of
//! a disk that may lose any of them, less is promised; those states are not taken.

use std::cell::Cell;
use std::path::Path;

use onewrite_block::{Choices, Geometry, PowerLoss};
use onewrite_crash::{ExploreOptions, F2fsSubject, RecoveredTree, explore_application};
use onewrite_fs::f2fs::FsyncMode;

use crate::disk::{Disk, Recording, save};
use crate::listing::listing;
use crate::machine::Kernel;
use crate::place::{Place, assert_same};
use crate::work::{Attributes, Plan, Reach, Step, judge, steps};

/// States that are recovered of each recording.
const STATES: u64 = 400;

/// Records what Linux does on a new F2FS of its own tools, until the machine is stopped. Returns what was told, too.
fn recorded(kernel: &Kernel, place: &Place, size: &str, mode: &str, script: &str) -> Option<(Recording, Vec<String>)> {
    place.other("truncate", &format!("-s {size} new"));
    place.other("mkfs.f2fs", "-q -f new");
    let disk = Disk::new(&place.path("new"), &place.path(""))?;
    let script = format!("mount -t f2fs -o fsync_mode={mode} /dev/vda /m\n{script}");
    let told = kernel.run(&place.path(""), &[disk.path()], &script);
    Some((disk.finish(), told))
}

/// A disk that keeps what it took: of the last write any part may be missing.
fn options(recording: &Recording) -> ExploreOptions {
    let pages = recording.base.pages();
    let geometry = Geometry { on_power_loss: PowerLoss::KeepsCompleted, ..Geometry::plain("machine", pages) };
    ExploreOptions { states_max: STATES, ..ExploreOptions::default() }.with_size(pages * 4096).on(&geometry)
}

/// Judges a recovered tree as it comes out of a state.
fn judged(tree: &RecoveredTree, tokens: &[String], steps: &[Step], room: &Path) -> Result<(), String> {
    thread_local!(static COUNT: Cell<u64> = const { Cell::new(0) });
    let room = room.join(format!("state-{}", COUNT.replace(COUNT.get() + 1)));
    std::fs::create_dir(&room).unwrap();
    tree.lay_out(&room, &["lost+found"]).unwrap();
    let done = tokens.last().map_or(0, |token| token.parse().unwrap());
    let verdict = judge(&room, steps, done, Attributes::LeftOut);
    std::fs::remove_dir_all(room).unwrap();
    verdict
}

/// Recovers states of a recording of the plan, and judges them; checks each before and behind the recovery.
fn explore(seed: u64) {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    let plan = Plan { seed, count: 220, reach: Reach::Near, has_sync: true };
    let script = format!("guest play /m {} /dev/vda", plan.words());
    let Some((recording, _)) = recorded(kernel, &place, "64M", "posix", &script) else { return };
    let (steps, room) = (steps(plan), place.path(""));
    let mut check = |tree: &RecoveredTree, tokens: &[String]| Ok(judged(tree, tokens, &steps, &room));
    let application = recording.application();
    assert_eq!(application.tokens().len(), steps.len(), "a mark for each step");
    let subject = F2fsSubject::new(FsyncMode::Posix);
    let report = explore_application(subject, &application, &options(&recording), &mut check, &|_, _| ()).unwrap();
    if let Some(failure) = &report.failure {
        let kept = std::env::temp_dir().join("onewrite-vm-failure.img");
        save(&failure.image, &kept);
        let done = failure.acknowledged.last().map_or(0, |token| token.parse::<usize>().unwrap());
        let about: Vec<_> = steps[done.saturating_sub(12)..(done + 1).min(steps.len())].iter().collect();
        panic!("seed {seed}: behind {done} steps: {}\n{about:?}\nits image: {}", failure.complaint, kept.display());
    }
    eprintln!("seed {seed}: {} states of {}, {} trees judged", report.states, report.possible, report.checks);
    assert!(report.states > STATES / 2 && report.checks > STATES / 8, "{report:?}");
}

#[test]
fn what_linux_synced_is_there_after_a_stop_first_seed() {
    explore(1);
}

#[test]
fn what_linux_synced_is_there_after_a_stop_second_seed() {
    explore(2);
}

#[test]
fn what_linux_synced_is_there_after_a_stop_third_seed() {
    explore(3);
}

/// Behind a tree of 5,000 names that a checkpoint has: attributes, and files of all map depths, through our mount.
///
/// In Linux's mode `posix` a new file, synced under a name that a rename left, pushes out the renamed one (decision
/// 084), and this seed meets it.
#[test]
fn what_linux_synced_behind_a_large_tree_is_there_on_our_mount() {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    let plan = Plan { seed: 4, count: 200, reach: Reach::Deep, has_sync: true };
    let script = format!(
        "guest populate /m; mkdir /m/work; sync; guest list /m/tree; guest play /m/work {} /dev/vda",
        plan.words()
    );
    let Some((recording, tree)) = recorded(kernel, &place, "128M", "strict", &script) else { return };
    let (steps, mut chance) = (steps(plan), Choices::new(5));
    let first = recording.first_mark();
    for round in 0..10 {
        // Three cuts while the tree grows, the others behind it.
        let end = if round < 3 { chance.index(first) } else { first + chance.index(recording.events.len() - first) };
        let (image, done) = recording.cut(end);
        save(&image, &place.path("image"));
        place.onewrite("fsck image");
        let mount = place.mount(&place.path("image"), "");
        let what = format!("cut at {end} of {}, {done} steps done", recording.events.len());
        if round >= 3 {
            assert_same(&tree, &listing(&mount.root().join("tree")), &what);
            judge(&mount.root().join("work"), &steps, done, Attributes::Shown)
                .unwrap_or_else(|problem| panic!("{what}: {problem}"));
        }
        mount.unmount();
        place.assert_clean_f2fs("image");
    }
}
