//! Random workloads: long and seeded, with several tasks.
//!
//! Each task works in its own directory and puts some of its files into a shared one. So names, inodes, bitmaps and
//! transactions of all tasks meet in the same blocks, but no task's path depends on another task.
//!
//! The workloads of a seed alternate between four shapes: plain; a log that is nearly full when the tasks begin, so
//! that it wraps and commits wait for checkpoints; many tasks; more content than the smallest page cache holds,
//! sometimes read back, with a nearly full log too.

use onewrite_block::Choices;

use super::warm_up::fill_log;
use super::{beside, drafts, lives, shares, swarm};
use crate::action::{Action, Blocks, Workload};

/// The kinds of operation in a random workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// The basic operations: `random`.
    Plain,
    /// All operations: `random-all`.
    All,
    /// The basic operations, and drafts of atomic files: `atomic`.
    Atomic,
    /// The basic operations, and shares of pages: `shares`.
    Shares,
    /// Some kinds of operations, drawn anew for each workload: `swarm`.
    Swarm,
    /// All operations, behind a life that a power cut ended: `lives`.
    Lives,
}

impl Operations {
    /// All kinds.
    pub(super) const ALL: [Operations; 6] = [
        Operations::Plain,
        Operations::All,
        Operations::Atomic,
        Operations::Shares,
        Operations::Swarm,
        Operations::Lives,
    ];

    /// The name before the colon.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Operations::Plain => "random",
            Operations::All => "random-all",
            Operations::Atomic => "atomic",
            Operations::Shares => "shares",
            Operations::Swarm => "swarm",
            Operations::Lives => "lives",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Operations> {
        Operations::ALL.into_iter().find(|operations| operations.name() == name)
    }
}

/// The shape of a random workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RandomShape {
    /// The kinds of operation.
    operations: Operations,
    /// Number of operations of all tasks.
    actions: usize,
    /// Number of tasks that run side by side.
    tasks: usize,
    /// Number of files of each task.
    files: u64,
    /// Number of appends, each followed by an fsync, that fill the log before the tasks begin; 0 for none.
    syncs_of_a_log: u64,
    /// Whether files are large.
    is_large: bool,
}

impl RandomShape {
    /// The shape of workload number `round`. By default four tasks with six files each; two tasks if there are few
    /// actions.
    pub(crate) fn of((operations, actions): (Operations, usize), syncs_of_a_log: u64, round: u64) -> RandomShape {
        let tasks = if actions < 40 { 2 } else { 4 };
        // The judge tries all combinations of so many calls that share, and only some of more.
        let tasks_max = if operations == Operations::Shares { 6 } else { 16 };
        let plain = RandomShape { operations, actions, tasks, files: 6, syncs_of_a_log: 0, is_large: false };
        match round % 4 {
            0 => plain,
            1 => RandomShape { syncs_of_a_log, ..plain },
            2 => RandomShape { tasks: (actions / 5).clamp(2, tasks_max), files: 3, ..plain },
            _ => RandomShape { syncs_of_a_log, is_large: true, ..plain },
        }
    }
}

struct Writer {
    task: usize,
    files: u64,
    chance: Choices,
    /// Existing files.
    present: Vec<String>,
    directories: Vec<String>,
    seed: u64,
    is_open: bool,
    is_large: bool,
}

/// The workload number `round` of `seed`.
pub(crate) fn workload(shape: RandomShape, seed: u64, round: u64) -> Workload {
    if shape.operations == Operations::Swarm {
        return swarm::workload(shape.actions, shape.syncs_of_a_log, seed, round);
    }
    let choices = Choices::new(seed).stream("random workload", round);
    let mut setup = vec![Action::MakeDirectory("/shared".into())];
    setup.extend((0..shape.tasks).map(|task| Action::MakeDirectory(format!("/t{task}"))));
    match shape.operations {
        Operations::Plain | Operations::Swarm => (),
        Operations::All | Operations::Lives => setup.extend(beside::COMMON.map(|file| Action::Create(file.into()))),
        Operations::Atomic => setup.extend(drafts::setup(shape.tasks)),
        Operations::Shares => setup.extend(shares::setup(shape.tasks)),
    }
    let tasks = (0..shape.tasks).map(|task| {
        let chance = choices.stream("task", task as u64);
        let (present, directories) = (Vec::new(), vec![format!("/t{task}"), "/shared".into()]);
        let (files, seed) = (shape.files, round << 32 | (task as u64) << 24);
        let (is_open, is_large) = (false, shape.is_large);
        let mut writer = Writer { task, files, chance, present, directories, seed, is_open, is_large };
        let actions = (0..shape.actions / shape.tasks).map(|_| writer.next());
        let mut chance = choices.stream("blocks", task as u64);
        let actions = actions
            .flat_map(|action| [change_of_blocks(&action, &mut chance), Some(action)].into_iter().rev().flatten());
        match shape.operations {
            Operations::Plain | Operations::Swarm => actions.collect(),
            Operations::All | Operations::Lives => with_more(actions, seed, &mut choices.stream("more", task as u64)),
            Operations::Atomic => drafts::with_drafts(actions, (task, seed), choices.stream("drafts", task as u64)),
            Operations::Shares => shares::with_shares(actions, (task, seed), choices.stream("shares", task as u64)),
        }
    });
    let warm_up = warm_up(shape, &mut choices.stream("warm-up", 0));
    let workload = Workload { setup, warm_up, tasks: tasks.collect() };
    match shape.operations {
        Operations::Lives => lives::with_earlier_life(workload, &mut choices.stream("lives", 0)),
        _ => workload,
    }
}

/// The actions, with further actions of [`beside`] among them.
fn with_more(actions: impl Iterator<Item = Action>, seed: u64, chance: &mut Choices) -> Vec<Action> {
    let mut all = Vec::new();
    for action in actions {
        // Differs from the seeds of the actions themselves.
        let more = beside::more(&action, seed | 1 << 23 | all.len() as u64, chance);
        all.push(action);
        all.extend(more);
    }
    all
}

/// Sometimes an action that changes the blocks of a file whose content or size just changed.
fn change_of_blocks(action: &Action, chance: &mut Choices) -> Option<Action> {
    let (Action::Write { file, .. } | Action::Append { file, .. } | Action::Truncate { file, .. }) = action else {
        return None;
    };
    if !chance.chance(1, 5) {
        return None;
    }
    let how = [Blocks::Punch, Blocks::Punch, Blocks::Zero, Blocks::Extend][chance.index(4)];
    // The judge sees each freed page as a step. More pages would give too many combinations with other tasks.
    let offset = if chance.chance(1, 2) { 4096 * chance.below(6) } else { chance.below(20_000) };
    let length = if chance.chance(1, 2) { 4096 * (1 + chance.below(3)) } else { 1 + chance.below(12_000) };
    Some(Action::Allocate { file: file.clone(), offset, length, how })
}

/// Fills a random share of the log, so that some of the workloads wrap it, early or late.
fn warm_up(shape: RandomShape, chance: &mut Choices) -> Vec<Action> {
    fill_log(shape.syncs_of_a_log * (30 + chance.below(75)) / 100)
}

impl Writer {
    fn next(&mut self) -> Action {
        if self.present.is_empty() {
            return self.create();
        }
        match self.chance.below(100) {
            0..10 => self.create(),
            10..26 => self.write(),
            26..38 => self.append(),
            38..46 => self.truncate(),
            46..54 => self.unlink(),
            54..60 => self.make_directory(),
            60..65 => self.remove_directory(),
            65..74 => self.rename(),
            74..78 => self.link(),
            78..80 => Action::Symlink("somewhere".into(), self.new_path()),
            80..90 => Action::Fsync(self.file()),
            90..94 => Action::Fdatasync(self.file()),
            94..95 => Action::Sync,
            95..97 => self.open_or_close(),
            97 => Action::Read(self.file()),
            _ => Action::Pause(1 + self.chance.below(60)),
        }
    }

    fn file(&mut self) -> String {
        let index = self.chance.index(self.present.len());
        self.present[index].clone()
    }

    /// A path of this task; the file may exist already.
    fn new_path(&mut self) -> String {
        let (directory, number) = (self.chance.index(self.directories.len()), self.chance.below(self.files));
        format!("{}/{}-{number}", self.directories[directory], self.task)
    }

    fn keep(&mut self, path: &str) {
        if !self.present.iter().any(|other| other == path) {
            self.present.push(path.into());
        }
    }

    fn create(&mut self) -> Action {
        let path = self.new_path();
        self.keep(&path);
        Action::Create(path)
    }

    fn length(&mut self) -> u64 {
        match self.chance.below(12) {
            0 => 65_536,
            1 => 1 + self.chance.below(30_000),
            2..6 => 4096 * (1 + self.chance.below(4)),
            _ => 1 + self.chance.below(6_000),
        }
    }

    fn write(&mut self) -> Action {
        self.seed += 1;
        let offset = match self.chance.below(3) {
            0 => 0,
            1 => 4096 * self.chance.below(8),
            _ => self.chance.below(30_000),
        };
        let direct = self.chance.chance(1, 6);
        let (offset, length) = match direct {
            true => (offset - offset % 4096, 4096 * (1 + self.chance.below(4))),
            false => (offset, self.length()),
        };
        Action::Write { file: self.file(), offset, length, seed: self.seed, direct }
    }

    fn append(&mut self) -> Action {
        self.seed += 1;
        // One task sometimes appends more than one step.
        let is_long =
            if self.is_large { self.chance.chance(1, 3) } else { self.task == 0 && self.chance.chance(1, 10) };
        let length = if is_long { 150_000 } else { self.length() };
        Action::Append { file: self.file(), length, seed: self.seed }
    }

    fn truncate(&mut self) -> Action {
        let size = match self.chance.below(3) {
            0 => 0,
            1 => 4096 * self.chance.below(6),
            _ => self.chance.below(40_000),
        };
        Action::Truncate { file: self.file(), size }
    }

    fn unlink(&mut self) -> Action {
        let index = self.chance.index(self.present.len());
        Action::Unlink(self.present.swap_remove(index))
    }

    /// A directory that stays empty: it can be removed, and the log then revokes its block.
    fn empty_directory(&mut self) -> String {
        format!("/t{}/e{}", self.task, self.chance.below(2))
    }

    fn make_directory(&mut self) -> Action {
        if self.chance.chance(1, 2) {
            return Action::MakeDirectory(self.empty_directory());
        }
        let path = format!("/t{}/d{}", self.task, self.chance.below(3));
        if !self.directories.contains(&path) {
            self.directories.push(path.clone());
        }
        Action::MakeDirectory(path)
    }

    /// Removes a directory. The operation fails, as it should, if the directory is not empty.
    fn remove_directory(&mut self) -> Action {
        if self.chance.chance(1, 2) {
            return Action::RemoveDirectory(self.empty_directory());
        }
        let path = format!("/t{}/d{}", self.task, self.chance.below(3));
        let is_used = self.present.iter().any(|file| file.starts_with(&path));
        if !is_used {
            self.directories.retain(|directory| *directory != path);
        }
        Action::RemoveDirectory(path)
    }

    fn rename(&mut self) -> Action {
        let (from, to) = (self.file(), self.new_path());
        let is_exchange = self.chance.chance(1, 4) && self.present.contains(&to);
        if !is_exchange {
            self.present.retain(|path| *path != from);
        }
        self.keep(&to);
        if is_exchange { Action::Exchange(from, to) } else { Action::Rename(from, to) }
    }

    fn link(&mut self) -> Action {
        let (from, to) = (self.file(), self.new_path());
        self.keep(&to);
        Action::Link(from, to)
    }

    fn open_or_close(&mut self) -> Action {
        self.is_open = !self.is_open;
        if self.is_open { Action::Open(self.file(), 0) } else { Action::Close(0) }
    }
}
