//! Full log: workloads whose log has a few blocks left when their tasks begin, and who then ask for more.
//!
//! The warm-up fills the log, but for a rest that chance draws. One task writes and syncs as much as the log hardly
//! has room for, others sync small writes, and remove what is in the log. So commits wait for checkpoints, records
//! wrap, and the tail moves while transactions are open.

use onewrite_block::{Choices, PAGE_SIZE};

use super::warm_up::fill_log;
use crate::action::{Action, Workload};
use crate::subject::{Keeps, Subject};

const PAGE: u64 = PAGE_SIZE as u64;
/// Log blocks that a sync of content takes beside the content.
const BESIDE: u64 = 6;
/// Most pages of one write: fewer than the smallest page cache has.
const PAGES_MAX: u64 = 230;

/// What a workload of this kind needs to know of a file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    /// Small syncs that fill it.
    syncs: u64,
    /// Blocks of it, if content goes to it.
    blocks: Option<u64>,
}

impl Log {
    /// The log of `subject`.
    pub(super) fn of<S: Subject>(subject: &S) -> Log {
        let syncs = subject.syncs_of_a_log();
        // A sync of an append takes eight blocks where content is logged.
        Log { syncs, blocks: (subject.promises().keeps == Keeps::Version).then_some(8 * syncs) }
    }
}

/// Workload `number` of the series of `seed`, with about `syncs` small syncs.
pub(super) fn workload(log: Log, syncs: u64, (seed, number): (u64, u64)) -> Workload {
    let mut choices = Choices::new(seed).stream("full log", number);
    let rest = 20 + choices.below(120);
    let names = ["/f", "/x", "/y", "/0", "/1", "/2"].map(str::to_owned);
    let mut setup: Vec<Action> = names.into_iter().map(Action::Create).collect();
    setup.push(Action::MakeDirectory("/shared".into()));
    let warm_up = match log.blocks {
        Some(blocks) => filled(blocks.saturating_sub(rest), &mut choices),
        None => fill_log(log.syncs.saturating_sub(rest / 5)),
    };
    let small = 1 + choices.below(3);
    let mut tasks = vec![long("/x", 60, &mut choices)];
    tasks.extend((0..small).map(|task| small_syncs(task, syncs.div_ceil(small), &mut choices)));
    if choices.chance(1, 2) {
        tasks.push(long("/y", 20, &mut choices));
    }
    Workload { setup, warm_up, tasks }
}

/// Writes of content until `blocks` blocks of the log are taken.
fn filled(blocks: u64, choices: &mut Choices) -> Vec<Action> {
    let (mut left, mut actions) = (blocks, Vec::new());
    while left > 2 * BESIDE {
        let pages = (100 + choices.below(PAGES_MAX - 100)).min(left - BESIDE);
        actions.extend(synced("/f", 0, pages * PAGE, choices));
        left -= (pages + BESIDE).min(left);
    }
    actions
}

/// One write of `least` to [`PAGES_MAX`] pages, and its sync.
fn long(file: &str, least: u64, choices: &mut Choices) -> Vec<Action> {
    let pages = least + choices.below(PAGES_MAX - least);
    synced(file, 0, pages * PAGE, choices).into()
}

fn small_syncs(task: u64, count: u64, choices: &mut Choices) -> Vec<Action> {
    let file = format!("/{task}");
    let mut actions = Vec::new();
    for round in 0..count {
        match choices.below(8) {
            0 => actions.extend([Action::Create(format!("/n{task}-{round}")), Action::Sync]),
            1 => actions.push(Action::Truncate { file: "/f".into(), size: choices.below(100) * PAGE }),
            2 if task == 0 => actions.extend([Action::Unlink("/f".into()), Action::Create("/f".into())]),
            _ => {
                let (offset, length) = (choices.below(4) * PAGE, PAGE * (1 + choices.below(2)));
                actions.extend(synced(&file, offset, length, choices));
            }
        }
    }
    actions
}

/// A write and its sync.
fn synced(file: &str, offset: u64, length: u64, choices: &mut Choices) -> [Action; 2] {
    let seed = choices.bits() >> 20;
    [Action::Write { file: file.into(), offset, length, seed, direct: false }, Action::Fsync(file.into())]
}
