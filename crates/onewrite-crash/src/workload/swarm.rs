//! Swarm workloads: each draws what it is made of.
//!
//! Its one idea (Groce et al., "Swarm Testing", ISSTA 2012): where every workload has every kind of operation, the
//! kinds hinder each other, and none goes far. So each workload leaves about half of the kinds out, and draws sizes,
//! numbers of files and tasks, how often it syncs, and how full its log is. Some kinds need a long preparation, which
//! is in the setup.
//!
//! Tasks work in directories of their own, but for two common files; see `beside`.

use onewrite_block::Choices;

use super::beside::{self, COMMON};
use super::magic::magic_seed;
use super::warm_up::fill_log;
use crate::action::{Action, Blocks, Workload, sparse_seed};

const PAGE: u64 = 4096;
/// Bytes of the longest names; six to fifteen of them fill a block of a directory.
const NAME_BYTES: usize = 250;
/// Bytes by which a name is shorter than the one before, and the number of lengths: so some blocks of a directory are
/// full to their last byte.
const SHORTER_BYTES: u64 = 11;
const LENGTHS: u64 = 8;
/// Pages of a file that compresses well: up to more than the smallest log has blocks, and than two of its blocks name.
const BULKY_PAGES: [u64; 4] = [60, 300, 1_100, 1_700];
/// Extents of a deep tree before the tasks begin: a root holds four, one leaf 340, a tree of depth one 1,360.
const EXTENTS: [u64; 4] = [3, 338, 679, 1358];

/// The image and the log that a seed gives to its swarm workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwarmMachine {
    /// The image is so many times as large as the smallest; five times is more than one block group.
    pub size_factor: u64,
    /// Blocks of the log, the smallest or more.
    pub journal_blocks: u32,
}

impl SwarmMachine {
    /// That of `seed`.
    pub fn of(seed: u64) -> SwarmMachine {
        let mut chance = Choices::new(seed).stream("swarm machine", 0);
        let (size_factor, logs) = ([1, 1, 2, 5][chance.index(4)], [1, 1, 2, 3][chance.index(4)]);
        SwarmMachine { size_factor, journal_blocks: 1_024 * logs }
    }
}

/// Kinds of operations, each a short group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Append,
    Write,
    /// Past the page cache and through it, on the same pages.
    Direct,
    Truncate,
    /// Punch, zero, extend.
    Blocks,
    /// Collapse and insert.
    Shift,
    Extended,
    Attributes,
    /// Create, unlink, rename, exchange, link.
    Names,
    Directories,
    /// Files without a name, several at once, which change further.
    Orphans,
    /// Pages of a file with very many extents.
    Deep,
    /// Many names in one directory, most of them long.
    LongNames,
    /// Content that a log has to escape.
    Magic,
    /// Blocks that are freed and used again at once.
    Reuse,
    /// Files of all tasks.
    Common,
    /// Large files that compress well: many blocks of few bytes in a compressed log.
    Bulky,
}

const KINDS: [Kind; 17] = [
    Kind::Append,
    Kind::Write,
    Kind::Direct,
    Kind::Truncate,
    Kind::Blocks,
    Kind::Shift,
    Kind::Extended,
    Kind::Attributes,
    Kind::Names,
    Kind::Directories,
    Kind::Orphans,
    Kind::Deep,
    Kind::LongNames,
    Kind::Magic,
    Kind::Reuse,
    Kind::Common,
    Kind::Bulky,
];

impl Kind {
    /// One of so many workloads has it.
    const fn rarity(self) -> u64 {
        if matches!(self, Kind::Bulky) { 4 } else { 2 }
    }
}

/// Where and how much the operations of a workload write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// A few bytes.
    Tiny,
    /// Whole pages.
    Pages,
    /// Any bytes of the first pages.
    Any,
    /// Up to 150,000 bytes.
    Large,
    /// Far behind the beginning of a file.
    Sparse,
}

/// What a workload is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    kinds: Vec<Kind>,
    sizes: Sizes,
    files: u64,
    tasks: usize,
    /// Syncs behind a hundred groups.
    sync_percent: u64,
    extents: u64,
}

impl Shape {
    fn draw(operations: usize, chance: &mut Choices) -> Shape {
        let sizes = [Sizes::Tiny, Sizes::Pages, Sizes::Any, Sizes::Any, Sizes::Large, Sizes::Sparse][chance.index(6)];
        let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|kind| chance.chance(1, kind.rarity())).collect();
        if kinds.is_empty() {
            kinds.push(Kind::Write);
        }
        // The judge sees each 128 KiB of a write as a step. Beside other tasks these would be too many combinations.
        let tasks_max = if kinds.contains(&Kind::Bulky) { 1 } else { (operations / 6).clamp(1, 6) };
        Shape {
            kinds,
            sizes,
            files: [1, 2, 4, 12][chance.index(4)],
            tasks: 1 + chance.index(tasks_max),
            sync_percent: [0, 10, 30, 80][chance.index(4)],
            extents: EXTENTS[chance.index(EXTENTS.len())],
        }
    }

    fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}

/// The workload number `round` of `seed`, of about `operations` operations.
pub(super) fn workload(operations: usize, syncs_of_a_log: u64, seed: u64, round: u64) -> Workload {
    let choices = Choices::new(seed).stream("swarm workload", round);
    let mut chance = choices.stream("shape", 0);
    let shape = Shape::draw(operations, &mut chance);
    let log_percent = [0, 0, 40, 90, 120][chance.index(5)];
    let task = |task: usize| {
        let chance = choices.stream("task", task as u64);
        let seed = round << 32 | (task as u64) << 24;
        Writer { shape: &shape, task, seed, chance, is_open: false }.actions(operations / shape.tasks)
    };
    let tasks = (0..shape.tasks).map(task).collect();
    Workload { setup: setup(&shape), warm_up: fill_log(syncs_of_a_log * log_percent / 100), tasks }
}

/// Directories and files of the tasks; the files that some kinds need.
fn setup(shape: &Shape) -> Vec<Action> {
    let mut actions = vec![Action::MakeDirectory("/shared".into())];
    actions.extend(COMMON.map(|file| Action::Create(file.into())));
    for task in 0..shape.tasks {
        actions.push(Action::MakeDirectory(format!("/t{task}")));
        actions.extend((0..shape.files).map(|number| Action::Create(file_of(task, number))));
    }
    if shape.has(Kind::Deep) {
        actions.push(Action::Create(deep_of(0)));
        actions.extend((0..shape.extents).map(|extent| page_of_deep(extent, 1 << 60 | extent)));
    }
    if shape.has(Kind::LongNames) {
        let names = (0..40).map(|number| Action::Create(long_name(0, number)));
        actions.extend([Action::MakeDirectory("/t0/long".into())].into_iter().chain(names));
    }
    actions
}

fn file_of(task: usize, number: u64) -> String {
    format!("/t{task}/f{number}")
}

fn deep_of(task: usize) -> String {
    format!("/t{task}/deep")
}

/// One page of the deep file, with a hole behind it.
fn page_of_deep(extent: u64, seed: u64) -> Action {
    Action::Write { file: deep_of(0), offset: 2 * extent * PAGE, length: PAGE, seed, direct: false }
}

fn long_name(task: usize, number: u64) -> String {
    let end = format!("-{number}");
    let shorter = (number % LENGTHS * SHORTER_BYTES) as usize;
    format!("/t{task}/long/{}{end}", "n".repeat(NAME_BYTES - shorter - end.len()))
}

/// One task as it is written.
struct Writer<'s> {
    shape: &'s Shape,
    task: usize,
    seed: u64,
    chance: Choices,
    /// Whether descriptors of files without a name are open.
    is_open: bool,
}

impl Writer<'_> {
    fn actions(mut self, count: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        while actions.len() < count.max(1) {
            let kind = self.shape.kinds[self.chance.index(self.shape.kinds.len())];
            actions.extend(self.group(kind));
            if self.chance.below(100) < self.shape.sync_percent {
                let sync = self.sync();
                actions.push(sync);
            }
        }
        actions
    }

    fn group(&mut self, kind: Kind) -> Vec<Action> {
        match kind {
            Kind::Append => vec![self.append()],
            Kind::Write => vec![self.write()],
            Kind::Direct => self.direct(),
            Kind::Truncate => vec![Action::Truncate { size: self.offset(), file: self.file() }],
            Kind::Blocks => vec![self.blocks()],
            Kind::Shift => vec![self.shift()],
            Kind::Extended => vec![self.extended()],
            Kind::Attributes => {
                vec![Action::SetAttributes { file: self.file(), change: beside::attributes(&mut self.chance) }]
            }
            Kind::Names => vec![self.names()],
            Kind::Directories => vec![self.directories()],
            Kind::Orphans => self.orphans(),
            Kind::Deep => vec![self.deep()],
            Kind::LongNames => self.long_names(),
            Kind::Magic => vec![self.magic()],
            Kind::Reuse => self.reuse(),
            Kind::Common => {
                let file = COMMON[self.chance.index(COMMON.len())];
                vec![beside::on_common(file, self.next_seed(), &mut self.chance)]
            }
            Kind::Bulky => self.bulky(),
        }
    }

    fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    fn file(&mut self) -> String {
        file_of(self.task, self.chance.below(self.shape.files))
    }

    fn offset(&mut self) -> u64 {
        match self.shape.sizes {
            Sizes::Tiny => self.chance.below(100),
            Sizes::Pages => PAGE * self.chance.below(8),
            Sizes::Any | Sizes::Large => self.chance.below(30_000),
            Sizes::Sparse => (1 << (20 + self.chance.below(22))) + self.chance.below(9_000),
        }
    }

    fn length(&mut self) -> u64 {
        match self.shape.sizes {
            Sizes::Tiny => 1 + self.chance.below(100),
            Sizes::Pages => PAGE * (1 + self.chance.below(4)),
            Sizes::Any | Sizes::Sparse => 1 + self.chance.below(9_000),
            Sizes::Large => 1 + self.chance.below(150_000),
        }
    }

    fn append(&mut self) -> Action {
        Action::Append { length: self.length(), seed: self.next_seed(), file: self.file() }
    }

    fn write(&mut self) -> Action {
        let (offset, length, seed) = (self.offset(), self.length(), self.next_seed());
        Action::Write { file: self.file(), offset, length, seed, direct: false }
    }

    /// A write past the page cache, and a write or a read of the same pages through it, in either order.
    fn direct(&mut self) -> Vec<Action> {
        let (file, page, pages) = (self.file(), self.offset() / PAGE, 1 + self.chance.below(3));
        let (offset, seed) = (page * PAGE, self.next_seed());
        let past = Action::Write { file: file.clone(), offset, length: pages * PAGE, seed, direct: true };
        let through = match self.chance.below(3) {
            0 => Action::Read(file),
            1 => Action::ReadDirect(file),
            _ => Action::Write { file, offset: offset + 100, length: PAGE, seed: self.next_seed(), direct: false },
        };
        if self.chance.chance(1, 2) { vec![past, through] } else { vec![through, past] }
    }

    /// Few pages, because the judge sees each page that is freed as a step.
    fn blocks(&mut self) -> Action {
        let how = [Blocks::Punch, Blocks::Punch, Blocks::Zero, Blocks::Extend][self.chance.index(4)];
        let (offset, length) = (self.offset(), 1 + self.chance.below(12_000));
        Action::Allocate { file: self.file(), offset, length, how }
    }

    fn shift(&mut self) -> Action {
        let how = [Blocks::Collapse, Blocks::Insert][self.chance.index(2)];
        let (offset, length) = (self.chance.below(4) * PAGE, (1 + self.chance.below(2)) * PAGE);
        Action::Allocate { file: self.file(), offset, length, how }
    }

    /// Sets an attribute that fits the inode, or one that needs a block; some files get the same, and share it.
    fn extended(&mut self) -> Action {
        let (file, name) = (self.file(), format!("user.{}", self.chance.below(3)));
        match self.chance.below(5) {
            0 => Action::RemoveExtended { file, name },
            1 | 2 => Action::SetExtended { file, name, length: 1 + self.chance.below(60), seed: self.next_seed() },
            3 => Action::SetExtended { file, name, length: 200 + self.chance.below(2_500), seed: self.next_seed() },
            _ => Action::SetExtended { file, name: "user.0".into(), length: 1_000, seed: 7 },
        }
    }

    fn names(&mut self) -> Action {
        let (one, other) = (self.file(), self.file());
        match self.chance.below(8) {
            0..3 => Action::Create(one),
            3 => Action::Unlink(one),
            4 | 5 => Action::Rename(one, other),
            6 => Action::Exchange(one, other),
            _ => Action::Link(one, other),
        }
    }

    fn directories(&mut self) -> Action {
        let path = |number: u64| format!("/t{}/d{}", self.task, number);
        let (one, other) = (path(self.chance.below(3)), format!("{}/inner", path(self.chance.below(3))));
        match self.chance.below(6) {
            0 | 1 => Action::MakeDirectory(one),
            2 => Action::MakeDirectory(other),
            3 => Action::RemoveDirectory(one),
            4 => Action::RemoveDirectory(other),
            _ => Action::Rename(other, format!("/t{}/d{}", self.task, self.chance.below(3))),
        }
    }

    /// Several files lose their names while they are open, and change; later they are closed, in order.
    fn orphans(&mut self) -> Vec<Action> {
        let slots = 0..2 + self.chance.below(5) as u32;
        self.is_open = !self.is_open;
        if !self.is_open {
            return slots.map(Action::Close).collect();
        }
        let mut actions = Vec::new();
        for slot in slots {
            let file = format!("/t{}/o{slot}", self.task);
            let (length, seed) = (self.length(), self.next_seed());
            actions.extend([
                Action::Create(file.clone()),
                Action::Append { file: file.clone(), length, seed },
                Action::Open(file.clone(), slot),
                Action::Unlink(file),
            ]);
            if self.chance.chance(1, 2) {
                actions.push(Action::Truncate { file: format!("#{slot}"), size: self.chance.below(9_000) });
            }
        }
        actions
    }

    /// A page behind the last extent, between two, or of one of them; other tasks have deep files of their own.
    fn deep(&mut self) -> Action {
        let extent = self.chance.below(self.shape.extents + 8);
        let behind = self.shape.extents + self.chance.below(12);
        let seed = self.next_seed();
        if self.task > 0 {
            let (file, offset) = (self.file(), 2 * self.chance.below(12) * PAGE);
            return Action::Write { file, offset, length: PAGE, seed, direct: false };
        }
        let range = |how, length| Action::Allocate { file: deep_of(0), offset: 2 * extent * PAGE, length, how };
        match self.chance.below(8) {
            0..4 => page_of_deep(behind, seed),
            4 => Action::Write { file: deep_of(0), offset: (2 * extent + 1) * PAGE, length: PAGE, seed, direct: false },
            5 => range(Blocks::Punch, PAGE),
            6 => range(Blocks::Extend, 3 * PAGE),
            _ => Action::Truncate { file: deep_of(0), size: 2 * self.chance.below(self.shape.extents) * PAGE },
        }
    }

    fn long_names(&mut self) -> Vec<Action> {
        let (one, other) = (self.chance.below(80), self.chance.below(80));
        match self.chance.below(4) {
            0 | 1 => (0..4).map(|more| Action::Create(long_name(0, 100 * self.task as u64 + one + more))).collect(),
            2 => vec![Action::Unlink(long_name(0, one))],
            _ => vec![Action::Rename(long_name(0, one), long_name(0, 100 * (1 + self.task as u64) + other))],
        }
    }

    fn magic(&mut self) -> Action {
        let (page, rest) = (self.offset() / PAGE, self.next_seed() as u32);
        let (file, seed) = (self.file(), magic_seed(page, rest));
        Action::Write { file, offset: page * PAGE, length: PAGE, seed, direct: self.chance.chance(1, 8) }
    }

    /// A file gives its blocks up, and another takes as many at once.
    fn reuse(&mut self) -> Vec<Action> {
        let (file, other, length) = (format!("/t{}/r0", self.task), format!("/t{}/r1", self.task), self.length());
        let free = match self.chance.below(3) {
            0 => Action::Unlink(file.clone()),
            1 => Action::Truncate { file: file.clone(), size: 0 },
            _ => Action::Rename(other.clone(), file.clone()),
        };
        let seeds = [self.next_seed(), self.next_seed()];
        let fill = |file: &String, seed| Action::Append { file: file.clone(), length, seed };
        let mut actions = vec![Action::Create(file.clone()), fill(&file, seeds[0]), Action::Fsync(file)];
        actions.extend([free, Action::Create(other.clone()), fill(&other, seeds[1])]);
        if self.chance.chance(1, 2) {
            actions.push(Action::Fsync(other));
        }
        actions
    }

    /// A large file is written, synced, and then freed or written over, at once or after a while.
    fn bulky(&mut self) -> Vec<Action> {
        let (file, pages) = (format!("/t{}/b", self.task), BULKY_PAGES[self.chance.index(BULKY_PAGES.len())]);
        let write = |seed| Action::Write {
            file: file.clone(),
            offset: 0,
            length: pages * PAGE,
            seed: sparse_seed(seed),
            direct: false,
        };
        let mut actions = vec![Action::Create(file.clone()), write(self.next_seed()), Action::Fsync(file.clone())];
        match self.chance.below(4) {
            0 => actions.push(Action::Unlink(file)),
            1 => actions.push(Action::Truncate { file, size: self.chance.below(pages) * PAGE }),
            2 => actions.push(write(self.next_seed())),
            _ => (),
        }
        actions
    }

    fn sync(&mut self) -> Action {
        match self.chance.below(8) {
            0..4 => Action::Fsync(self.file()),
            4 => Action::Fdatasync(self.file()),
            5 => Action::Fsync(format!("/t{}", self.task)),
            6 => Action::Sync,
            _ => Action::Pause(1 + self.chance.below(60)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_differ_in_what_they_are_made_of() {
        let shapes: Vec<Shape> = (0..60)
            .map(|round| Shape::draw(60, &mut Choices::new(1).stream("swarm workload", round).stream("shape", 0)))
            .collect();
        for kind in KINDS {
            let count = shapes.iter().filter(|shape| shape.has(kind)).count();
            assert!((5..50).contains(&count), "{kind:?}: {count} of 60");
        }
        assert!(shapes.iter().any(|shape| shape.sizes == Sizes::Sparse && shape.has(Kind::Shift)));
    }

    #[test]
    fn a_seed_gives_an_image_and_a_log() {
        let machines: Vec<SwarmMachine> = (0..40).map(SwarmMachine::of).collect();
        assert_eq!(machines, (0..40).map(SwarmMachine::of).collect::<Vec<_>>());
        let has = |size_factor, journal_blocks| machines.contains(&SwarmMachine { size_factor, journal_blocks });
        assert!(has(1, 1_024) && has(5, 1_024) && has(1, 3_072), "{machines:?}");
    }

    #[test]
    fn a_workload_comes_back_from_its_text() {
        for round in 0..40 {
            let workload = workload(60, 200, 3, round);
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
    }
}
