//! Many parallel tasks against a model. After every operation, the answer or error number and the state of the touched
//! files are the same. The test compares the whole tree now and then and after each of several remounts. At the end
//! e2fsck and our checker run.
//!
//! Each task has a directory of its own, in which no other task works. All tasks share one more directory, in which
//! they take turns. So the model knows the result of every operation, although operations of several tasks run at the
//! same time. Names move from a task's directory into the shared one, never back. A failure names its seed; this
//! replays it:
//!
//! ```text
//! ONEWRITE_SEED=… ONEWRITE_SEEDS=1 cargo test -p onewrite-fs --test ext4_model
//! ```

#[path = "operations/mod.rs"]
mod operations;
mod support;

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::sync::RwLock;
use onewrite_block::{Choices, Device, Nanos, Runtime};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, PolicyKind};
use onewrite_fs::{FsResult, RenameManner};
use operations::entry::{assert_same, assert_same_entry};
use operations::model::{Model, Slots};
use operations::operation::{Answer, NOT_ASKED, Operation, Outcome, SLOTS, Stream, Target};
use operations::ours::Ours;
use support::patient::{Memory, check_memory};
use support::volume::{image, new_disk, save, with_mount};
use support::{Scratch, assert_clean, seeds};

const MIB: u64 = 1024 * 1024;
/// The directories of the tasks.
const OWN: [&str; 6] = ["t0/", "t1/", "t2/", "t3/", "t4/", "t5/"];
const SHARED: &str = "s/";
const MOUNTS: u64 = 4;
/// Operations of each task in one mount.
const OPERATIONS: u64 = 120;
/// Operations of the first task between two comparisons of the whole tree.
const INTERVAL: u64 = 40;

/// What all tasks of a run share.
struct Run {
    name: String,
    model: RefCell<Model>,
    /// An operation in the shared directory takes this lock for writing, any other operation for reading.
    turn: RwLock,
}

struct Task {
    run: Rc<Run>,
    index: usize,
    ours: Ours,
    slots: Slots,
    /// Handles that were opened in the shared directory.
    is_shared: [bool; SLOTS],
    stream: Stream,
}

/// Whether an operation follows the rules for directories in the head of this file.
fn is_allowed(operation: &Operation) -> bool {
    let is_shared = |path: &str| path.starts_with(SHARED);
    match operation {
        Operation::Rename(from, to, RenameManner::Exchange) => is_shared(from) == is_shared(to),
        Operation::Rename(from, to, _) | Operation::Link(from, to) => is_shared(to) || !is_shared(from),
        _ => true,
    }
}

impl Task {
    fn new(run: &Rc<Run>, fs: &Rc<Ext4>, index: usize, choices: &Choices) -> Task {
        let stream = Stream::new(choices.stream("task", index as u64), &[OWN[index], OWN[index], SHARED]);
        Task {
            run: Rc::clone(run),
            index,
            ours: Ours::new(fs),
            slots: [None; SLOTS],
            is_shared: [false; SLOTS],
            stream,
        }
    }

    async fn work(mut self, runtime: Runtime, mut choices: Choices) -> FsResult<u64> {
        let mut failures = 0;
        for number in 0..OPERATIONS {
            let operation = loop {
                let operation = self.stream.next();
                if is_allowed(&operation) {
                    break operation;
                }
            };
            failures += u64::from(self.take(&operation, number).await);
            let long = choices.chance(1, 40);
            runtime.sleep(Nanos::from_millis(if long { 6_000 } else { choices.below(20) })).await;
            if self.index == 0 && number % INTERVAL == INTERVAL - 1 {
                self.compare_all(&format!("operation {number}")).await?;
            }
        }
        for slot in 0..SLOTS {
            self.take(&Operation::Close(slot), OPERATIONS).await;
        }
        Ok(failures)
    }

    /// Runs an operation on both sides and compares; returns whether the operation failed.
    async fn take(&mut self, operation: &Operation, number: u64) -> bool {
        let needs_turn =
            operation.paths().iter().any(|path| path.starts_with(SHARED)) || self.uses_shared_slot(operation);
        let run = Rc::clone(&self.run);
        let _held = if needs_turn { run.turn.write().await } else { run.turn.read().await };
        let what = format!("{}, task {}, operation {number}, {operation:.150?}", run.name, self.index);
        let ours = self.ours.apply(operation).await;
        let model = run.model.borrow_mut().apply(&mut self.slots, operation);
        if let (Operation::Open(path, slot, _), Ok(_)) = (operation, &model) {
            self.is_shared[*slot] = path.starts_with(SHARED);
        }
        assert!(model == ours, "{what}: model {}, ours {}", short(&model), short(&ours));
        self.compare_touched(operation, &what).await;
        model.is_err()
    }

    fn uses_shared_slot(&self, operation: &Operation) -> bool {
        match (operation, operation.target()) {
            (Operation::Close(slot) | Operation::Open(_, slot, _), _) | (_, Some(Target::Slot(slot))) => {
                self.is_shared[*slot]
            }
            _ => false,
        }
    }

    async fn compare_touched(&self, operation: &Operation, what: &str) {
        let parents = operation.paths().into_iter().filter_map(|path| path.rsplit_once('/')).map(|(parent, _)| parent);
        let paths: Vec<&str> = operation.paths().into_iter().chain(parents).collect();
        for path in paths {
            let expected = {
                let model = self.run.model.borrow();
                model.find(path).map(|id| model.entry(id))
            };
            match (expected, self.ours.entry_at(path).await) {
                (Ok(expected), Ok(found)) => assert_same_entry(&expected, &plain(found), &format!("{what}: {path}")),
                (expected, found) => {
                    let (expected, found) = (expected.map(drop), found.map(drop));
                    assert_eq!(expected, found, "{what}: {path}: model, then ours");
                }
            }
        }
        if let Some(Target::Slot(slot)) = operation.target()
            && let Some(id) = self.slots[*slot]
        {
            let expected = self.run.model.borrow().entry(id);
            let found = self.ours.entry_of_slot(*slot).await.expect(what);
            assert_same_entry(&expected, &plain(found), what);
        }
    }

    async fn compare_all(&self, what: &str) -> FsResult<()> {
        let _held = self.run.turn.write().await;
        compare_trees(&self.run, &self.ours, what).await
    }
}

/// Removes the size of a directory, which the model does not know.
fn plain(mut entry: operations::entry::Entry) -> operations::entry::Entry {
    if entry.kind == onewrite_fs::FileKind::Directory {
        entry.size = 0;
    }
    entry
}

async fn compare_trees(run: &Run, ours: &Ours, what: &str) -> FsResult<()> {
    let found = ours.tree().await?.into_iter().map(|(path, entry)| (path, plain(entry))).collect();
    assert_same(&run.model.borrow().tree(), &found, &format!("{}, {what}: model, then ours", run.name));
    ours.fs.check().unwrap_or_else(|problem| panic!("{}, {what}: {problem}", run.name));
    Ok(())
}

/// An outcome in words, with long content left out.
fn short(outcome: &Outcome) -> String {
    match outcome {
        Ok(Answer::Bytes(bytes)) => format!("{} bytes, sum {:x}", bytes.len(), onewrite_block::crc32c(!0, bytes)),
        Err(NOT_ASKED) => "not asked".into(),
        other => format!("{other:.300?}"),
    }
}

/// Makes the directories for the tasks.
async fn prepare(run: &Run, ours: &mut Ours) {
    for directory in OWN.iter().chain([&SHARED]) {
        let path = directory.trim_end_matches('/').to_owned();
        let operation = Operation::Make(path, onewrite_fs::FileKind::Directory, 0o755);
        let model = run.model.borrow_mut().apply(&mut [None; SLOTS], &operation);
        assert_eq!(model, ours.apply(&operation).await);
    }
}

/// The work of one mount; returns the number of failed operations.
async fn mounted(run: Rc<Run>, fs: Rc<Ext4>, runtime: Runtime, choices: Choices, mount: u64) -> FsResult<u64> {
    let mut ours = Ours::new(&fs);
    match mount {
        0 => prepare(&run, &mut ours).await,
        _ => compare_trees(&run, &ours, "mounted again").await?,
    }
    let start = |index| {
        let task = Task::new(&run, &fs, index, &choices);
        runtime.start(task.work(runtime.clone(), choices.stream("pauses", index as u64)))
    };
    let tasks: Vec<_> = (0..OWN.len()).map(start).collect();
    let mut failures = 0;
    for task in tasks {
        failures += task.await?;
    }
    Ok(failures)
}

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
            let run = Rc::new(Run { name: run_name, model: RefCell::new(before), turn: RwLock::new(&runtime) });
            let failures = mounted(Rc::clone(&run), fs, runtime, choices, mount).await?;
            Ok((failures, run.model.take()))
        });
        let (failed, after) = outcome.unwrap_or_else(|error| panic!("{name}, mount {mount}: {error}"));
        (model, device) = (after, left);
        failures += failed;
    }
    judge(device, &name);
    let operations = MOUNTS * OPERATIONS * OWN.len() as u64;
    assert!(
        failures > operations / 10 && failures < operations * 9 / 10,
        "{name}: {failures} of {operations} operations failed"
    );
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
