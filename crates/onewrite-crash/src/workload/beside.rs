//! Beside: the operations that `random-all` adds after those of `random`.
//!
//! Tasks collapse and insert ranges, write far behind the end, and change attributes and extended attributes. All
//! tasks share some files: one task appends there, or writes and reads past the page cache, while others write through
//! the page cache.

use onewrite_block::Choices;

use crate::action::{Action, AttributeChange, Blocks};

/// Files that all tasks change.
pub(super) const COMMON: [&str; 2] = ["/shared/all-0", "/shared/all-1"];
const PAGE: u64 = 4096;
/// Places behind the addresses that an inode of F2FS holds: in its first, its second and a later node of addresses.
const FAR: [u64; 3] = [4_500_000, 9_000_000, 14_000_000];
/// Names of extended attributes.
const NAMES: u64 = 4;

/// Sometimes an action that follows `action`.
pub(super) fn more(action: &Action, seed: u64, chance: &mut Choices) -> Option<Action> {
    if !chance.chance(1, 3) {
        return None;
    }
    match chance.below(3) {
        0 => Some(on_common(COMMON[chance.index(COMMON.len())], seed, chance)),
        _ => file_of(action).map(|file| on_own(file, seed, chance)),
    }
}

/// The file that an action is about.
pub(super) fn file_of(action: &Action) -> Option<&str> {
    match action {
        Action::Create(file) | Action::Read(file) | Action::Fsync(file) | Action::Fdatasync(file) => Some(file),
        Action::Write { file, .. } | Action::Append { file, .. } | Action::Truncate { file, .. } => Some(file),
        Action::Rename(_, file) | Action::Link(_, file) => Some(file),
        _ => None,
    }
}

fn on_own(file: &str, seed: u64, chance: &mut Choices) -> Action {
    let file = file.to_owned();
    match chance.below(13) {
        0 | 1 => shift(file, Blocks::Collapse, chance),
        2 | 3 => shift(file, Blocks::Insert, chance),
        4..7 => Action::SetAttributes { file, change: attributes(chance) },
        7..10 => {
            // Some fit the inode, some need a block of their own.
            let length = if chance.chance(1, 3) { 200 + chance.below(2_500) } else { chance.below(60) };
            Action::SetExtended { file, name: name(chance), length, seed }
        }
        10 => Action::RemoveExtended { file, name: name(chance) },
        11 => Action::ReadDirect(file),
        _ => {
            let offset = FAR[chance.index(FAR.len())] + chance.below(9_000);
            Action::Write { file, offset, length: 1 + chance.below(6_000), seed, direct: false }
        }
    }
}

pub(super) fn on_common(file: &str, seed: u64, chance: &mut Choices) -> Action {
    let file = file.to_owned();
    let (page, pages) = (chance.below(8), 1 + chance.below(3));
    match chance.below(10) {
        0..4 => Action::Append { file, length: 1 + chance.below(9_000), seed },
        4 | 5 => Action::Write { file, offset: page * PAGE, length: pages * PAGE, seed, direct: true },
        6 => Action::Write { file, offset: chance.below(30_000), length: 1 + chance.below(9_000), seed, direct: false },
        7 => Action::ReadDirect(file),
        8 => Action::Truncate { file, size: chance.below(40_000) },
        _ => Action::Fsync(file),
    }
}

fn shift(file: String, how: Blocks, chance: &mut Choices) -> Action {
    // Few pages, because the judge sees each page that a collapse or a punch frees as a step.
    let (offset, length) = (chance.below(4) * PAGE, (1 + chance.below(2)) * PAGE);
    Action::Allocate { file, offset, length, how }
}

pub(super) fn attributes(chance: &mut Choices) -> AttributeChange {
    match chance.below(3) {
        0 => AttributeChange::Permissions(chance.below(0o1000) as u16),
        // Some need the upper halves of the fields.
        1 => AttributeChange::Owner { uid: chance.below(200_000) as u32, gid: chance.below(10) as u32 },
        _ => AttributeChange::Accessed(chance.below(1_000_000) as u32),
    }
}

fn name(chance: &mut Choices) -> String {
    format!("user.{}", chance.below(NAMES))
}
