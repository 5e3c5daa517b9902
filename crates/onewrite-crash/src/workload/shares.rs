//! Shares: what `shares` adds to the operations of `random`.
//!
//! Each task has files of its own, in its own directory and in the shared one. It writes, truncates, punches and syncs
//! them, and shares their pages: within a file and between files, over pages, into holes and behind the end. What it
//! knows of their pages keeps most calls valid. Some calls name the file of the last ordinary operation, about which
//! it knows nothing; they may be refused, as they should be.

use std::collections::BTreeSet;
use std::ops::Range;

use onewrite_block::Choices;

use super::beside::file_of;
use crate::action::{Action, Blocks, SharePart};

const PAGE: u64 = 4096;
/// Files of a task.
const FILES: u64 = 4;
/// Most pages of a file, about.
const PAGES: u64 = 24;

/// What exists before the tasks begin: the files of each task, with content.
pub(super) fn setup(tasks: usize) -> Vec<Action> {
    let of_task = |task: usize| (0..FILES).map(move |number| (task, number));
    let filled = |(task, number): (usize, u64)| {
        let (file, seed) = (path(task, number), 1 << 61 | (task as u64) << 8 | number);
        [Action::Create(file.clone()), Action::Append { file, length: length_at_first(number), seed }]
    };
    (0..tasks).flat_map(of_task).flat_map(filled).collect()
}

const fn length_at_first(number: u64) -> u64 {
    [40_000, 9_000, 6 * PAGE, 12 * PAGE][number as usize]
}

/// A file of a task: the first two in its own directory, the others in the shared one.
fn path(task: usize, number: u64) -> String {
    if number < 2 { format!("/t{task}/s{number}") } else { format!("/shared/{task}-s{number}") }
}

/// The actions of a task, with shares and changes of shared files among them. No content has the seed of another.
pub(super) fn with_shares(
    actions: impl Iterator<Item = Action>,
    (task, seed): (usize, u64),
    chance: Choices,
) -> Vec<Action> {
    let files = (0..FILES).map(|number| Known::filled(path(task, number), length_at_first(number))).collect();
    // Differs from the seeds of the actions themselves.
    let mut weaver = Weaver { chance, seed: seed | 1 << 23, files };
    let mut all = Vec::new();
    for action in actions {
        let file = file_of(&action).map(str::to_owned);
        all.push(action);
        while weaver.chance.chance(1, 2) {
            all.push(weaver.next(file.as_deref()));
        }
    }
    all
}

/// A file as its task knows it.
struct Known {
    path: String,
    size: u64,
    /// Pages with content.
    written: BTreeSet<u64>,
}

impl Known {
    fn filled(path: String, size: u64) -> Known {
        Known { path, size, written: (0..size.div_ceil(PAGE)).collect() }
    }

    /// Pages up to the last one.
    const fn end(&self) -> u64 {
        self.size.div_ceil(PAGE)
    }

    fn write(&mut self, offset: u64, length: u64) {
        self.size = self.size.max(offset + length);
        self.written.extend(offset / PAGE..(offset + length).div_ceil(PAGE));
    }

    fn truncate(&mut self, size: u64) {
        self.size = size;
        self.written.split_off(&self.end());
    }

    fn punch(&mut self, offset: u64, length: u64) {
        let end = if offset + length < self.size { (offset + length) / PAGE } else { self.end() };
        self.written.retain(|page| !(offset.div_ceil(PAGE)..end).contains(page));
    }

    /// Whether all of these pages can be a source.
    fn is_source(&self, first: u64, pages: u64) -> bool {
        (first + pages) * PAGE <= self.size && (first..first + pages).all(|page| self.written.contains(&page))
    }
}

/// How a call changes its targets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Pages with content are replaced, and holes before the end are filled.
    Within,
    /// Files grow.
    Appending,
}

/// Pages of a file that a call shares already.
struct Taken {
    file: usize,
    pages: Range<u64>,
    is_target: bool,
}

impl Taken {
    /// Whether one of two ranges of a call is a target that meets the other.
    fn meets(&self, other: &Taken) -> bool {
        let overlaps = self.pages.start < other.pages.end && other.pages.start < self.pages.end;
        (self.is_target || other.is_target) && self.file == other.file && overlaps
    }
}

struct Weaver {
    chance: Choices,
    seed: u64,
    files: Vec<Known>,
}

impl Weaver {
    /// The next action. `file` is the one that the last ordinary action was about.
    fn next(&mut self, file: Option<&str>) -> Action {
        match self.chance.below(20) {
            0..10 => self.share(),
            10 => match file {
                Some(file) => self.share_with(file),
                None => self.share(),
            },
            11..17 => self.change(),
            17 => Action::Fdatasync(self.any()),
            18 => Action::Fsync(self.any()),
            _ => Action::Read(self.any()),
        }
    }

    fn index(&mut self) -> usize {
        self.chance.index(self.files.len())
    }

    fn any(&mut self) -> String {
        let index = self.index();
        self.files[index].path.clone()
    }

    /// A call of up to three ranges.
    fn share(&mut self) -> Action {
        let kind = if self.chance.chance(2, 3) { Kind::Within } else { Kind::Appending };
        let wanted = 1 + self.chance.below(3);
        let (mut parts, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..4 * wanted {
            if parts.len() as u64 == wanted {
                break;
            }
            parts.extend(self.part(kind, &mut taken));
        }
        if parts.is_empty() {
            return self.change();
        }
        for SharePart { target, target_offset, length, .. } in &parts {
            let known = self.files.iter_mut().find(|known| known.path == *target).expect("one of the task's");
            known.write(*target_offset, *length);
        }
        Action::Share { parts, lazily: self.chance.chance(1, 4) }
    }

    /// A range beside those `taken` by the call.
    fn part(&mut self, kind: Kind, taken: &mut Vec<Taken>) -> Option<SharePart> {
        let (source, target, pages) = (self.index(), self.index(), 1 + self.chance.below(3));
        let source_first = self.chance.below(PAGES);
        if !self.files[source].is_source(source_first, pages) {
            return None;
        }
        let target_first = self.target_first(target, pages, kind)?;
        let ranges = [
            Taken { file: source, pages: source_first..source_first + pages, is_target: false },
            Taken { file: target, pages: target_first..target_first + pages, is_target: true },
        ];
        let is_taken = ranges.iter().any(|range| taken.iter().any(|other| range.meets(other)));
        if is_taken || ranges[0].meets(&ranges[1]) {
            return None;
        }
        taken.extend(ranges);
        Some(SharePart {
            source: self.files[source].path.clone(),
            source_offset: source_first * PAGE,
            target: self.files[target].path.clone(),
            target_offset: target_first * PAGE,
            length: pages * PAGE,
        })
    }

    fn target_first(&mut self, target: usize, pages: u64, kind: Kind) -> Option<u64> {
        let (end, whole) = (self.files[target].end(), self.files[target].size / PAGE);
        match kind {
            Kind::Within => (whole >= pages).then(|| self.chance.below(whole - pages + 1)),
            // Sometimes behind a hole.
            Kind::Appending => (end < PAGES).then(|| end + self.chance.below(6).saturating_sub(3)),
        }
    }

    /// A call with a file that may not be there, or not have these pages.
    fn share_with(&mut self, file: &str) -> Action {
        let (own, page, other) = (self.index(), self.chance.below(6), self.chance.below(6));
        let own = self.files[own].path.clone();
        // Pages of the task's own file change only as it knows.
        let part = SharePart {
            source: own,
            source_offset: page * PAGE,
            target: file.to_owned(),
            target_offset: other * PAGE,
            length: PAGE,
        };
        Action::Share { parts: vec![part], lazily: false }
    }

    /// An ordinary change of a file of the task.
    fn change(&mut self) -> Action {
        self.seed += 1;
        let index = self.index();
        let (seed, chance, known) = (self.seed, &mut self.chance, &mut self.files[index]);
        let file = known.path.clone();
        let offset = if chance.chance(1, 2) { PAGE * chance.below(12) } else { chance.below(40_000) };
        let length = if chance.chance(1, 2) { PAGE * (1 + chance.below(4)) } else { 1 + chance.below(9_000) };
        match chance.below(10) {
            0..4 => {
                let direct = offset.is_multiple_of(PAGE) && length.is_multiple_of(PAGE) && chance.chance(1, 3);
                known.write(offset, length);
                Action::Write { file, offset, length, seed, direct }
            }
            4..7 if known.size < PAGES * PAGE => {
                known.write(known.size, length);
                Action::Append { file, length, seed }
            }
            4..9 if chance.chance(1, 2) => {
                known.punch(offset, length);
                Action::Allocate { file, offset, length, how: Blocks::Punch }
            }
            _ => {
                known.truncate(offset);
                Action::Truncate { file, size: offset }
            }
        }
    }
}
