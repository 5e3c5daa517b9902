//! Ours is stopped while it works, and Linux recovers: everything that was synced is there.
//!
//! A mount of ours works on a recorded disk, and is killed. The recording is cut at many places; one machine mounts all
//! the images that come of it, judges them inside, and unmounts them; then the checkers must find nothing.

use std::path::PathBuf;

use onewrite_block::Choices;

use crate::disk::{Disk, Recording, save};
use crate::machine::Kernel;
use crate::place::Place;
use crate::work::{Plan, Reach, play, steps};

/// Disks of a machine.
const DISKS: usize = 20;

fn plan(seed: u64) -> Plan {
    Plan { seed, count: 220, reach: Reach::Deep, has_sync: false }
}

/// Records what a mount of ours does on the image `new`, until it is killed.
fn recorded(place: &Place, options: &str, plan: Plan) -> Option<Recording> {
    let disk = Disk::new(&place.path("new"), &place.path(""))?;
    let mount = place.mount(&disk.path(), options);
    let mark = disk.marker();
    play(&mount.root(), &steps(plan), |done| mark(done as u64));
    mount.kill();
    Some(disk.finish())
}

/// Cuts the recording, lets Linux recover the images as `kind`, and judges them there. Returns their names.
fn linux_recovers(kernel: &Kernel, place: &Place, recording: &Recording, kind: &str, plan: Plan) -> Vec<String> {
    let (mut chance, mut script) = (Choices::new(plan.seed), String::new());
    let (mut images, mut cuts): (Vec<String>, Vec<String>) = Default::default();
    for (index, letter) in ('a'..).take(DISKS).enumerate() {
        let end = recording.first_mark() + chance.index(recording.events.len() - recording.first_mark());
        let (image, done) = recording.cut(end);
        let name = format!("cut-{index}");
        save(&image, &place.path(&name));
        script += &format!(
            "mount -t {kind} /dev/vd{letter} /m; guest judge /m {} {done}; umount /m || tell busy\n",
            plan.words()
        );
        cuts.push(format!("cut at {end} of {}, {done} steps done", recording.events.len()));
        images.push(name);
    }
    let disks: Vec<PathBuf> = images.iter().map(|name| place.path(name)).collect();
    let told = kernel.run(&place.path(""), &disks, &script);
    assert_eq!(told.len(), DISKS, "{told:?}");
    let unsound: Vec<_> = cuts.iter().zip(&told).filter(|(_, verdict)| *verdict != "sound").collect();
    assert!(unsound.is_empty(), "{unsound:#?}");
    images
}

fn f2fs(seed: u64, options: &str, mkfs: impl FnOnce(&Place)) {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    mkfs(&place);
    let Some(recording) = recorded(&place, options, plan(seed)) else { return };
    for image in linux_recovers(kernel, &place, &recording, "f2fs", plan(seed)) {
        place.assert_clean_f2fs(&image);
    }
}

fn ours(place: &Place) {
    place.onewrite("mkfs new --fs f2fs --size 64MiB");
}

fn of_mkfs(place: &Place) {
    place.other("truncate", "-s 64M new");
    place.other("mkfs.f2fs", "-q -f new");
}

#[test]
fn linux_recovers_what_our_fsyncs_left_first_seed() {
    f2fs(11, "", ours);
}

#[test]
fn linux_recovers_what_our_fsyncs_left_with_little_memory() {
    f2fs(12, "cache=2M", ours);
}

#[test]
fn linux_recovers_what_our_fsyncs_left_on_an_image_of_mkfs_f2fs() {
    f2fs(13, "", of_mkfs);
}

fn ext4(mode: &str, seed: u64) {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    place.onewrite("mkfs new --size 64MiB");
    let Some(recording) = recorded(&place, &format!("data={mode}"), plan(seed)) else { return };
    for image in linux_recovers(kernel, &place, &recording, "ext4", plan(seed)) {
        place.other("e2fsck", &format!("-fn {image}"));
    }
}

#[test]
fn linux_replays_our_log_of_ordered() {
    ext4("ordered", 21);
}

#[test]
fn linux_replays_our_log_of_data() {
    ext4("data", 22);
}

#[test]
fn linux_replays_our_log_of_data_async() {
    ext4("data+async", 23);
}
