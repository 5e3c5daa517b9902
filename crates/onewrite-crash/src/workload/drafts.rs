//! Drafts: what `atomic` adds to the operations of `random`.
//!
//! Each task has up to two drafts of atomic files under way. They change files of the task, in its own directory and in
//! the shared one, files that its ordinary operations use, and a file that all tasks use. Ordinary operations on
//! claimed files are refused, as they should be. Only the task itself changes the names of its files, so a commit is
//! refused only for what the task did.

use std::ops::Range;

use onewrite_block::Choices;

use super::beside::file_of;
use crate::action::{Action, Blocks};

/// The file that drafts of all tasks claim.
const COMMON: &str = "/shared/all";
/// Drafts of a task.
const SLOTS: u32 = 2;
/// Names of atomic files of a task, in each of its directories.
const NAMES: u64 = 3;
const PAGE: u64 = 4096;

/// What exists before the tasks begin: the common file, and two files of each task.
pub(super) fn setup(tasks: usize) -> Vec<Action> {
    let filled = |file: String, length, seed| [Action::Create(file.clone()), Action::Append { file, length, seed }];
    let own = (0..tasks).flat_map(|task| {
        let seed = 1 << 61 | (task as u64) << 1;
        filled(path(task, 0), 9_000, seed).into_iter().chain(filled(path(task, NAMES), 40_000, seed | 1))
    });
    filled(COMMON.into(), 30_000, 1 << 62).into_iter().chain(own).collect()
}

/// A name of a task: the first [`NAMES`] are in its own directory, as many more in the shared one.
fn path(task: usize, number: u64) -> String {
    match number < NAMES {
        true => format!("/t{task}/a{number}"),
        false => format!("/shared/{task}-a{}", number - NAMES),
    }
}

/// The actions of a task, with further actions about drafts among them. No content has the seed of another.
pub(super) fn with_drafts(
    actions: impl Iterator<Item = Action>,
    (task, seed): (usize, u64),
    chance: Choices,
) -> Vec<Action> {
    // Differs from the seeds of the actions themselves.
    let mut weaver =
        Weaver { task, chance, seed: seed | 1 << 23, waiting: [0; SLOTS as usize], last: Default::default() };
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

struct Weaver {
    task: usize,
    chance: Choices,
    seed: u64,
    /// Changes of each draft since its last commit or abort.
    waiting: [usize; SLOTS as usize],
    /// For each draft, the file and range of the change of content that was drawn last: the next often fall there.
    last: [Option<(String, Range<u64>)>; SLOTS as usize],
}

impl Weaver {
    /// The next action about drafts. `file` is the one that the last ordinary action was about.
    fn next(&mut self, file: Option<&str>) -> Action {
        let slot = self.chance.below(u64::from(SLOTS)) as u32;
        match self.chance.below(20) {
            0..12 => {
                self.waiting[slot as usize] += 1;
                Action::Draft(slot, Box::new(self.change(slot, file)))
            }
            12..16 => Action::Commit(self.some(slot)),
            16 => Action::Abort(self.some(slot)),
            17 => {
                self.waiting[slot as usize] = 0;
                Action::EndDraft(slot)
            }
            18 => {
                let file = self.file(file);
                match self.chance.below(4) {
                    0 | 1 => self.content(slot, file),
                    2 => self.reserved(file),
                    _ => Action::Fsync(file),
                }
            }
            _ => self.names(file),
        }
    }

    /// The numbers of one draft or of both, now empty: those with changes, if there are any.
    fn some(&mut self, slot: u32) -> Vec<u32> {
        let changed: Vec<u32> = (0..SLOTS).filter(|slot| self.waiting[*slot as usize] > 0).collect();
        let chosen = match (changed.len(), self.chance.chance(2, 3)) {
            (0, _) => vec![slot],
            (_, true) => changed,
            (_, false) => vec![changed[self.chance.index(changed.len())]],
        };
        chosen.iter().for_each(|slot| self.waiting[*slot as usize] = 0);
        chosen
    }

    /// A change that a draft can make, and that can be made without one.
    fn change(&mut self, slot: u32, file: Option<&str>) -> Action {
        if self.chance.chance(1, 3) {
            return self.names(file);
        }
        let file = match &self.last[slot as usize] {
            Some((last, _)) if self.chance.chance(1, 2) => last.clone(),
            _ => self.file(file),
        };
        self.content(slot, file)
    }

    /// Blocks without content, which a later draft may fill; not a change of a draft.
    fn reserved(&mut self, file: String) -> Action {
        let (offset, length) = (PAGE * self.chance.below(10), PAGE * (1 + self.chance.below(8)));
        Action::Allocate { file, offset, length, how: Blocks::Extend }
    }

    fn own(&mut self) -> String {
        path(self.task, self.chance.below(2 * NAMES))
    }

    fn file(&mut self, file: Option<&str>) -> String {
        match (self.chance.below(8), file) {
            (0, _) => COMMON.into(),
            (1..3, Some(file)) => file.into(),
            _ => self.own(),
        }
    }

    fn names(&mut self, file: Option<&str>) -> Action {
        let path = self.own();
        match (self.chance.below(8), file) {
            (0..3, _) => Action::Create(path),
            (3..5, _) => Action::Unlink(path),
            (5, Some(file)) => Action::Rename(path, file.into()),
            _ => Action::Rename(path, self.own()),
        }
    }

    fn content(&mut self, slot: u32, file: String) -> Action {
        self.seed += 1;
        let (seed, chance) = (self.seed, &mut self.chance);
        let near = self.last[slot as usize].as_ref().filter(|(last, _)| *last == file && chance.chance(3, 4));
        let offset = match (near, chance.below(4)) {
            (Some((_, range)), 0) => range.end,
            (Some((_, range)), 1) => range.start,
            (Some((_, range)), _) => {
                range.start.saturating_sub(PAGE / 2) + chance.below(range.end - range.start + PAGE)
            }
            (None, 0 | 1) => PAGE * chance.below(10),
            (None, _) => chance.below(40_000),
        };
        let length = match chance.below(10) {
            0 => 65_536,
            1..5 => PAGE * (1 + chance.below(4)),
            _ => 1 + chance.below(6_000),
        };
        self.last[slot as usize] = Some((file.clone(), offset..offset + length));
        match chance.below(10) {
            0..5 => Action::Write { file, offset, length, seed, direct: false },
            5 | 6 => Action::Append { file, length, seed },
            7 | 8 => Action::Truncate { file, size: offset },
            _ => Action::Allocate { file, offset, length, how: Blocks::Punch },
        }
    }
}
