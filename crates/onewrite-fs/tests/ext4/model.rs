//! Many parallel tasks on ext4 against a model. After every operation, the answer or error number and the state of the
//! touched files are the same. The test compares the whole tree now and then and after each of several remounts. At the
//! end e2fsck and our checker run. A failure names its seed; this replays it:
//!
//! ```text
//! ONEWRITE_SEED=… ONEWRITE_SEEDS=1 cargo test -p onewrite-fs --test ext4 model::tasks
//! ```

use std::rc::Rc;

use onewrite_block::{Choices, Device};
use onewrite_fs::ext4::{Mode, MountOptions, PolicyKind};

use crate::operations::model::Model;
use crate::operations::tasks::{MOUNTS, Run, assert_mixed, mounted};
use crate::support::patient::{Memory, check_memory};
use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, seeds};

const MIB: u64 = 1024 * 1024;

/// Runs one seed on a disk of 64 MiB with a log of 4 MiB.
fn run(seed: u64, options: MountOptions) {
    let MountOptions { mode, cache_pages, cache_policy, .. } = options;
    let name = format!("ONEWRITE_SEED={seed}, {mode}, cache of {cache_pages} pages, {cache_policy}");
    let choices = Choices::new(seed);
    let (mut model, mut failures) = (Model::default(), 0);
    let mut device: Box<dyn Device> = Box::new(new_disk(64 * MIB, 1024));
    for mount in 0..MOUNTS {
        let choices = choices.stream("mount", mount);
        let (run_name, before) = (name.clone(), model);
        let (outcome, left) = with_mount(device, options, move |fs, port| async move {
            let runtime = port.runtime().clone();
            let run = Run::new(run_name, before, &runtime);
            let failures = mounted(Rc::clone(&run), fs, runtime, choices, mount).await?;
            Ok((failures, run.model.take()))
        });
        let (failed, after) = outcome.unwrap_or_else(|error| panic!("{name}, mount {mount}: {error}"));
        (model, device) = (after, left);
        failures += failed;
    }
    judge(device, &name);
    assert_mixed(failures, &name);
}

/// Fails unless e2fsck and our checker find no fault on the device.
fn judge(device: Box<dyn Device>, name: &str) {
    let scratch = Scratch::new(&format!("model-{}", name.replace([' ', ',', '='], "-")));
    let path = scratch.path("image");
    save(&image(device), &path);
    assert_clean(&path);
    let report = check_memory(&Memory::new(&std::fs::read(&path).expect("image")));
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{name}: {}", findings.join("\n"));
}

/// Runs several seeds from `first` on, or those that the environment sets.
fn runs(first: u64, options: MountOptions) {
    seeds(first, 3).for_each(|seed| run(seed, options));
}

#[test]
fn tasks_in_writeback_mode_agree_with_the_model() {
    runs(100, MountOptions::new(Mode::Writeback));
}

#[test]
fn tasks_in_ordered_mode_agree_with_the_model() {
    runs(200, MountOptions::new(Mode::Ordered));
}

#[test]
fn tasks_in_data_mode_agree_with_the_model() {
    runs(300, MountOptions::new(Mode::Data));
}

#[test]
fn tasks_with_async_commits_agree_with_the_model() {
    runs(400, MountOptions::new(Mode::DataAsync));
}

#[test]
fn tasks_short_of_memory_agree_with_the_model() {
    runs(500, MountOptions { cache_pages: 512, ..MountOptions::new(Mode::Ordered) });
    runs(600, MountOptions { cache_pages: 512, ..MountOptions::new(Mode::Data) });
}

#[test]
fn tasks_without_delayed_allocation_agree_with_the_model() {
    runs(700, MountOptions { delayed_allocation: false, ..MountOptions::new(Mode::Ordered) });
}

#[test]
fn tasks_agree_with_the_model_under_every_cache_policy() {
    let usable = PolicyKind::ALL.into_iter().filter(|policy| !policy.needs_future());
    let (later, first): (Vec<_>, Vec<_>) = usable.partition(|policy| *policy == PolicyKind::TsClockScan);
    for (number, cache_policy) in first.into_iter().chain(later).enumerate() {
        let mode = [Mode::Ordered, Mode::Data, Mode::Ordered][number % 3];
        let delayed_allocation = number % 3 == 0;
        let options = MountOptions { cache_pages: 288, cache_policy, delayed_allocation, ..MountOptions::new(mode) };
        seeds(800 + number as u64, 1).for_each(|seed| run(seed, options));
    }
}

/// A regression: a page was written in part, read as a hole, and evicted before its block was allocated. It then came
/// back with the old content of that block, and the old bytes behind the end of the file stayed.
#[test]
fn a_page_that_leaves_the_cache_while_its_block_is_allocated_keeps_its_content() {
    let options = MountOptions { cache_pages: 288, cache_policy: PolicyKind::Sieve, ..MountOptions::new(Mode::Data) };
    let options = MountOptions { delayed_allocation: false, ..options };
    seeds(813, 1).for_each(|seed| run(seed, options));
}

#[test]
fn tasks_at_once_agree_with_the_model_while_blocks_come_back_from_a_compressed_log() {
    runs(900, MountOptions { cache_pages: 256, ..MountOptions::new(Mode::Ldj) });
}
