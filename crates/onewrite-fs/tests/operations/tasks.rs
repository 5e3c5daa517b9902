//! Parallel tasks on a file system of ours against a model.
//!
//! Each task has a directory of its own, in which no other task works. All tasks share one more directory, in which
//! they take turns. So the model knows the result of every operation, although operations of several tasks run at the
//! same time. Names move from a task's directory into the shared one, never back.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::sync::RwLock;
use onewrite_block::{Choices, Nanos, Runtime};
use onewrite_fs::{FsResult, RenameManner};

use super::entry::{Entry, assert_same, assert_same_entry};
use super::model::{Model, Slots};
use super::operation::{Answer, NOT_ASKED, Operation, Outcome, SLOTS, Stream, Target};
use super::ours::{Checked, Ours};

/// The directories of the tasks.
const OWN: [&str; 6] = ["t0/", "t1/", "t2/", "t3/", "t4/", "t5/"];
const SHARED: &str = "s/";
pub const MOUNTS: u64 = 4;
/// Operations of each task in one mount.
const OPERATIONS: u64 = 120;
/// Operations of the first task between two comparisons of the whole tree.
const INTERVAL: u64 = 40;

/// What all tasks of a run share.
pub struct Run {
    name: String,
    pub model: RefCell<Model>,
    /// An operation in the shared directory takes this lock for writing, any other operation for reading.
    turn: RwLock,
}

struct Task<F> {
    run: Rc<Run>,
    index: usize,
    ours: Ours<F>,
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

impl<F: Checked> Task<F> {
    fn new(run: &Rc<Run>, fs: &Rc<F>, index: usize, choices: &Choices) -> Task<F> {
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
fn plain(mut entry: Entry) -> Entry {
    if entry.kind == onewrite_fs::FileKind::Directory {
        entry.size = 0;
    }
    entry
}

async fn compare_trees<F: Checked>(run: &Run, ours: &Ours<F>, what: &str) -> FsResult<()> {
    let found = ours.tree().await?.into_iter().map(|(path, entry)| (path, plain(entry))).collect();
    assert_same(&run.model.borrow().tree(), &found, &format!("{}, {what}: model, then ours", run.name));
    ours.fs.check_state().unwrap_or_else(|problem| panic!("{}, {what}: {problem}", run.name));
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
async fn prepare<F: Checked>(run: &Run, ours: &mut Ours<F>) {
    for directory in OWN.iter().chain([&SHARED]) {
        let path = directory.trim_end_matches('/').to_owned();
        let operation = Operation::Make(path, onewrite_fs::FileKind::Directory, 0o755);
        let model = run.model.borrow_mut().apply(&mut [None; SLOTS], &operation);
        assert_eq!(model, ours.apply(&operation).await);
    }
}

/// The work of one mount; returns the number of failed operations.
pub async fn mounted<F: Checked>(
    run: Rc<Run>,
    fs: Rc<F>,
    runtime: Runtime,
    choices: Choices,
    mount: u64,
) -> FsResult<u64> {
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

impl Run {
    pub fn new(name: String, model: Model, runtime: &Runtime) -> Rc<Run> {
        Rc::new(Run { name, model: RefCell::new(model), turn: RwLock::new(runtime) })
    }
}

/// Fails unless a fair part of all operations of a run failed, and a fair part did not.
pub fn assert_mixed(failures: u64, name: &str) {
    let operations = MOUNTS * OPERATIONS * OWN.len() as u64;
    assert!(
        failures > operations / 10 && failures < operations * 9 / 10,
        "{name}: {failures} of {operations} operations failed"
    );
}
