//! Crash: jobs and personalities as workloads of the crash explorer.
//!
//! The explorer needs a list of plain actions for each task, so that it can make a failure smaller and pass it on as
//! text. So this file asks the streams in turn for one operation each, with no file system below, and writes the
//! operations down. When the list is played, tasks may overtake each other, and an operation may find another task's
//! file missing or already there. Any file system refuses it then, and the explorer goes by what happened.
//!
//! Only what changes nothing on a disk is left out: reads of attributes, read ranges, how well content compresses.
//! Groups follow each other task by task. Operations of one task that may overlap are divided among up to four tasks.
//! follow each other task by task; operations of one task that may overlap are dealt to up to four tasks.

use std::collections::BTreeMap;

use onewrite_block::{Choices, KIB, Nanos};
use onewrite_crash::{Action, Blocks, Workload as CrashWorkload};
use onewrite_fs::Position;

use super::JobSpec;
use crate::error::LabError;
use crate::job::{Fallocate, SyncMode};
use crate::workload::filebench::{Length, Parameters};
use crate::workload::{
    Ended, FileId, FilePlan, Layout, Operation, Order, Reservation, Task, TaskDescriptor, Workload, fio, postmark,
};

/// Most operations of one workload that change something.
const CHANGES: u64 = 120;
/// Most operations of one workload.
const OPERATIONS: u64 = 2000;
/// Limits of a personality, so that the judge needs a millisecond for a state: files, threads, mean size, directories.
const FILES: u32 = 50;
const THREADS: u32 = 6;
const FILE_SIZE: u64 = 16 * KIB;
const DIRECTORIES: u32 = 4;
/// Files of PostMark's set. The set is synced, so most changes are transactions after it.
const POSTMARK_FILES: u32 = 15;
/// Most tasks among which the overlapping operations of one task are divided.
const LANES_MAX: u32 = 4;
/// Longest write of the setup.
const CHUNK: u64 = 64 * KIB;
/// Time that passes for each operation, for streams that look at the clock.
const TURN: Nanos = Nanos::from_millis(1);

/// The workloads of `job` with this seed and the seeds after it, without an end.
///
/// # Errors
/// If the job cannot be planned on files.
pub fn crash_workloads(job: &JobSpec, seed: u64) -> Result<impl Iterator<Item = CrashWorkload> + use<>, LabError> {
    let job = small(job);
    let first = crash_workload(&job, seed)?;
    let others = (1..).map_while(move |round| crash_workload(&job, seed.wrapping_add(round)).ok());
    Ok(std::iter::once(first).chain(others))
}

/// A personality with few files and threads, PostMark with few files; a fio job keeps its own size.
fn small(job: &JobSpec) -> JobSpec {
    match job {
        JobSpec::Fio(_) | JobSpec::Sqlite(_) | JobSpec::Innodb(_) => job.clone(),
        JobSpec::Personality(personality, parameters) => {
            let parameters = Parameters {
                files: parameters.files.min(FILES),
                threads: parameters.threads.min(THREADS),
                file_size: parameters.file_size.min(FILE_SIZE),
                length: Length::Operations(OPERATIONS),
                ..*parameters
            };
            JobSpec::Personality(*personality, parameters)
        }
        JobSpec::PostMark(parameters) => {
            let files = parameters.files.min(POSTMARK_FILES);
            let size = (parameters.size.0.min(FILE_SIZE), parameters.size.1.min(2 * FILE_SIZE));
            let subdirectories = parameters.subdirectories.min(DIRECTORIES);
            let chunk = parameters.chunk.max(FILE_SIZE);
            let synced_set = true;
            let one_text = false;
            JobSpec::PostMark(postmark::Parameters {
                files,
                size,
                subdirectories,
                chunk,
                synced_set,
                one_text,
                ..*parameters
            })
        }
    }
}

fn crash_workload(job: &JobSpec, seed: u64) -> Result<CrashWorkload, LabError> {
    let plan = job.plan(fio::Target::Files, &Choices::new(seed))?;
    let paths = plan.files.iter().map(|file| format!("/{}", file.path)).collect();
    let mut writer = Writer { paths, tasks: Vec::new(), operations: 0, changes: 0, now: Nanos::ZERO };
    let setup = setup(&plan);
    for group in plan.groups {
        writer.group(group)?;
    }
    writer.tasks.retain(|actions| !actions.is_empty());
    Ok(CrashWorkload { setup, warm_up: Vec::new(), tasks: writer.tasks })
}

fn setup(plan: &Workload) -> Vec<Action> {
    let directories = plan.directories.iter().map(|path| Action::MakeDirectory(format!("/{path}")));
    directories.chain(plan.files.iter().flat_map(laid_out)).collect()
}

fn laid_out(file: &FilePlan) -> Vec<Action> {
    let path = format!("/{}", file.path);
    let mut actions = vec![Action::Create(path.clone())];
    match file.layout {
        Layout::None => return Vec::new(),
        Layout::Reserved { size, fallocate: Fallocate::Extend | Fallocate::Truncate } => {
            actions.push(Action::Truncate { file: path, size });
        }
        Layout::Reserved { .. } => (),
        Layout::Filled { size, seed, .. } => {
            for offset in (0..size).step_by(CHUNK as usize) {
                let (file, length) = (path.clone(), CHUNK.min(size - offset));
                actions.push(Action::Write { file, offset, length, seed, direct: false });
            }
        }
    }
    actions
}

/// A time span in the explorer's unit of pauses, rounded up.
const fn milliseconds(span: Nanos) -> u64 {
    span.0.div_ceil(1_000_000)
}

/// Whether an action changes something or makes it durable.
fn changes(action: &Action) -> bool {
    !matches!(action, Action::Open(..) | Action::Close(_) | Action::Read(_) | Action::Pause(_))
}

/// Asks the streams for operations and writes them down.
struct Writer {
    paths: Vec<String>,
    tasks: Vec<Vec<Action>>,
    operations: u64,
    changes: u64,
    now: Nanos,
}

/// One task of the job, and the explorer's tasks among which its operations are divided.
struct Post {
    task: Task,
    lanes: Vec<usize>,
    turn: usize,
    opened: BTreeMap<TaskDescriptor, FileId>,
    is_over: bool,
}

impl Writer {
    fn group(&mut self, group: Vec<Task>) -> Result<(), LabError> {
        let mut next = 0;
        let mut posts: Vec<Post> = Vec::new();
        for task in group {
            let lanes: Vec<usize> = (next..).take(task.concurrency.clamp(1, LANES_MAX) as usize).collect();
            next += lanes.len();
            posts.push(Post { task, lanes, turn: 0, opened: BTreeMap::new(), is_over: false });
        }
        self.tasks.resize(self.tasks.len().max(next), Vec::new());
        for post in posts.iter().filter(|post| post.task.start_delay > Nanos::ZERO) {
            post.lanes
                .iter()
                .for_each(|&lane| self.tasks[lane].push(Action::Pause(milliseconds(post.task.start_delay))));
        }
        while self.changes < CHANGES && self.operations < OPERATIONS && posts.iter().any(|post| !post.is_over) {
            for post in posts.iter_mut().filter(|post| !post.is_over) {
                self.ask(post)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, post: &mut Post) -> Result<(), LabError> {
        let step = match post.task.stream.next(self.now) {
            // With so few files, all are sometimes in use.
            Ok(None) | Err(LabError::NoFile { .. }) => {
                post.is_over = true;
                return Ok(());
            }
            Ok(Some(step)) => step,
            Err(error) => return Err(error),
        };
        self.now += TURN;
        self.operations += 1;
        let lane = match step.order {
            Order::Overlapping => post.turn % post.lanes.len(),
            Order::Blocking | Order::Alone => 0,
        };
        post.turn += 1;
        let actions = self.actions(post, &step.operation);
        self.changes += actions.iter().filter(|action| changes(action)).count() as u64;
        self.tasks[post.lanes[lane]].extend(actions);
        post.task.stream.completed(&step.operation, Ended { now: self.now, ..Ended::default() });
        Ok(())
    }

    fn actions(&self, post: &mut Post, operation: &Operation) -> Vec<Action> {
        let path = |file: FileId| self.paths[file.0 as usize].clone();
        match *operation {
            Operation::Create { file, slot } | Operation::Open { file, slot, create: true } => {
                [vec![Action::Create(path(file))], self.open(post, file, slot)].concat()
            }
            Operation::Open { file, slot, create: false } => self.open(post, file, slot),
            Operation::Close { slot } => {
                post.opened.remove(&slot);
                if post.lanes.len() == 1 { vec![Action::Close(slot.0)] } else { Vec::new() }
            }
            Operation::Unlink { file } => vec![Action::Unlink(path(file))],
            Operation::ReadWhole { slot, .. } => self.named(post, slot).map(Action::Read).into_iter().collect(),
            Operation::Write { slot, position, length, seed, manner, .. } => {
                let Some(file) = self.named(post, slot) else { return Vec::new() };
                let sync = match manner.sync {
                    SyncMode::None => None,
                    SyncMode::Dsync => Some(Action::Fdatasync(file.clone())),
                    _ => Some(Action::Fsync(file.clone())),
                };
                let write = match position {
                    Position::At(offset) => Action::Write { file, offset, length, seed, direct: manner.direct },
                    Position::End => Action::Append { file, length, seed },
                };
                std::iter::once(write).chain(sync).collect()
            }
            Operation::Fsync { slot } => self.named(post, slot).map(Action::Fsync).into_iter().collect(),
            Operation::Fdatasync { slot } => self.named(post, slot).map(Action::Fdatasync).into_iter().collect(),
            Operation::Think(span) => vec![Action::Pause(milliseconds(span))],
            Operation::Allocate { slot, offset, length, reservation, .. } => {
                let how = match reservation {
                    Reservation::Extend => Blocks::Extend,
                    Reservation::KeepSize => return Vec::new(),
                    Reservation::PunchHole => Blocks::Punch,
                };
                self.named(post, slot).map(|file| Action::Allocate { file, offset, length, how }).into_iter().collect()
            }
            Operation::SetSize { slot, size, .. } => {
                self.named(post, slot).map(|file| Action::Truncate { file, size }).into_iter().collect()
            }
            Operation::Stat { .. } | Operation::Invalidate { .. } | Operation::Read { .. } | Operation::Trim { .. } => {
                Vec::new()
            }
        }
    }

    fn open(&self, post: &mut Post, file: FileId, slot: TaskDescriptor) -> Vec<Action> {
        post.opened.insert(slot, file);
        match post.lanes.len() {
            1 => vec![Action::Open(self.paths[file.0 as usize].clone(), slot.0)],
            _ => Vec::new(),
        }
    }

    /// The descriptor if one task does everything, else the path, because tasks do not share descriptors.
    fn named(&self, post: &Post, slot: TaskDescriptor) -> Option<String> {
        let file = post.opened.get(&slot)?;
        Some(if post.lanes.len() == 1 { format!("#{}", slot.0) } else { self.paths[file.0 as usize].clone() })
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::Nanos;

    use super::*;
    use crate::job::JobFile;
    use crate::workload::filebench::Personality;

    fn fio(text: &str) -> CrashWorkload {
        let job = JobSpec::Fio(JobFile::parse("test.fio", text).unwrap());
        crash_workloads(&job, 1).unwrap().next().unwrap()
    }

    #[test]
    fn a_fio_job_becomes_writes_and_syncs_of_its_file() {
        let workload = fio("[w]\nrw=randwrite\nsize=64k\nfsync=4\n");
        let actions = &workload.tasks[0];
        assert_eq!(workload.tasks.len(), 1);
        assert_eq!(actions.iter().filter(|action| matches!(action, Action::Write { .. })).count(), 16);
        assert_eq!(actions.iter().filter(|action| matches!(action, Action::Fsync(_))).count(), 3);
        assert_eq!(workload.to_string().parse(), Ok(workload));
    }

    #[test]
    fn overlapping_operations_are_dealt_to_several_tasks() {
        let workload = fio("[w]\nrw=randwrite\nsize=64k\niodepth=16\ndirect=1\nioengine=io_uring\n");
        assert_eq!(workload.tasks.len(), 4);
        let is_direct = |action: &Action| matches!(action, Action::Write { direct: true, .. });
        assert!(workload.tasks.iter().all(|task| task.iter().filter(|action| is_direct(action)).count() == 4));
    }

    #[test]
    fn every_personality_becomes_a_workload_that_changes_files() {
        for personality in Personality::ALL {
            let parameters = Parameters { length: Length::Time(Nanos::from_secs(60)), ..personality.parameters() };
            let job = JobSpec::Personality(personality, parameters);
            let workloads: Vec<_> = crash_workloads(&job, 1).unwrap().take(2).collect();
            let writes = |action: &&Action| matches!(action, Action::Append { .. } | Action::Write { .. });
            let count = workloads[0].tasks.iter().flatten().filter(writes).count();
            assert!(workloads[0].tasks.len() == 6 && count >= 10, "{}: {count}", personality.name());
            assert_ne!(workloads[0], workloads[1], "{}", personality.name());
        }
    }

    #[test]
    fn postmark_becomes_a_workload_that_changes_files() {
        let job = JobSpec::PostMark(postmark::Parameters::default());
        let workload = crash_workloads(&job, 1).unwrap().next().unwrap();
        let is_append = |action: &&Action| matches!(action, Action::Append { .. } | Action::Write { .. });
        assert!(workload.tasks.len() == 1 && workload.tasks[0].iter().filter(is_append).count() >= 30);
    }
}
