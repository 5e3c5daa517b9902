//! Many parallel tasks on F2FS against a model. After every operation, the answer or error number and the state of the
//! touched files are the same. The test compares the whole tree now and then and after each of several remounts. At the
//! end fsck.f2fs and our checker run. A failure names its seed; this replays it:
//!
//! ```text
//! ONEWRITE_SEED=… ONEWRITE_SEEDS=1 cargo test -p onewrite-fs --test f2fs model::tasks
//! ```

use std::rc::Rc;

use onewrite_block::{Choices, Device};
use onewrite_fs::f2fs::{Clean, F2fsOptions, FsyncMode, LogMode};

use crate::operations::model::Model;
use crate::operations::tasks::{MOUNTS, Run, assert_mixed, mounted};
use crate::support::f2fs_volume::{Left, assert_clean, new_staged_disk, new_zoned_disk, with_mount};
use crate::support::seeds;
use crate::support::volume::image;

const MIB: u64 = 1024 * 1024;

/// Runs one seed on a disk of 128 MiB, beside a staging area of `stage_bytes`.
fn run(seed: u64, options: F2fsOptions, stage_bytes: u64) {
    run_on(seed, options, Box::new(new_staged_disk(128 * MIB + stage_bytes, stage_bytes)));
}

fn run_on(seed: u64, options: F2fsOptions, mut device: Box<dyn Device>) {
    let F2fsOptions { cache_pages, fsync_mode, .. } = options;
    let name = format!("ONEWRITE_SEED={seed}, {fsync_mode:?}, cache of {cache_pages} pages");
    let choices = Choices::new(seed);
    let (mut model, mut failures) = (Model::default(), 0);
    for mount in 0..MOUNTS {
        let choices = choices.stream("mount", mount);
        let (run_name, before) = (name.clone(), model);
        let ((failed, after), left) = with_mount(device, options, Left::Unmounted, move |fs, port| async move {
            let runtime = port.runtime().clone();
            let run = Run::new(run_name, before, &runtime);
            let failures = mounted(Rc::clone(&run), fs, runtime, choices, mount).await?;
            Ok((failures, run.model.take()))
        });
        (model, device) = (after, left);
        failures += failed;
    }
    assert_clean(&image(device));
    assert_mixed(failures, &name);
}

/// Runs several seeds from `first` on, or those that the environment sets.
fn runs(first: u64, options: F2fsOptions) {
    seeds(first, 3).for_each(|seed| run(seed, options, 0));
}

#[test]
fn tasks_agree_with_the_model() {
    runs(100, F2fsOptions::default());
}

#[test]
fn tasks_short_of_memory_agree_with_the_model() {
    runs(200, F2fsOptions { cache_pages: 512, ..F2fsOptions::default() });
}

#[test]
fn tasks_over_segments_cleaned_by_share_agree_with_the_model() {
    runs(400, F2fsOptions { clean: Clean::Share, ..F2fsOptions::default() });
}

#[test]
fn tasks_in_whole_segments_agree_with_the_model() {
    runs(1000, F2fsOptions { log_mode: LogMode::Lfs, cache_pages: 512, ..F2fsOptions::default() });
}

#[test]
fn tasks_whose_fsyncs_overwrite_agree_with_the_model() {
    for clean in Clean::ALL {
        let in_place_below = F2fsOptions::IN_PLACE_BELOW;
        runs(1100, F2fsOptions { in_place_below, clean, cache_pages: 1024, ..F2fsOptions::default() });
    }
}

#[test]
fn tasks_over_a_staging_area_agree_with_the_model() {
    for (first, cache_pages, stage_bytes) in [(500, 512, MIB / 4), (600, 16_384, MIB)] {
        seeds(first, 3).for_each(|seed| run(seed, F2fsOptions { cache_pages, ..F2fsOptions::default() }, stage_bytes));
    }
}

#[test]
fn tasks_over_zones_agree_with_the_model() {
    for (first, cache_pages, stage_bytes) in [(700, 16_384, 0), (800, 512, 0), (900, 1024, MIB)] {
        let options = F2fsOptions { cache_pages, ..F2fsOptions::default() };
        seeds(first, 2).for_each(|seed| run_on(seed, options, new_zoned_disk(192 * MIB, stage_bytes)));
    }
}

#[test]
fn tasks_whose_names_survive_with_their_files_agree_with_the_model() {
    runs(300, F2fsOptions { fsync_mode: FsyncMode::Strict, ..F2fsOptions::default() });
}
