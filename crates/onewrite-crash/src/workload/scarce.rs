//! Scarce: workloads on an image of 64 MiB with few free segments, so that their writes start F2FS's cleaning.
//!
//! A file over most of the image is overwritten in places, until few segments are free and none is empty. Then come
//! rounds of as much again, with syncs of this file and of new ones. The first workload of a series is always the same;
//! in the others chance decides where the holes are, how many tasks write at once, what they write past the cache, cut
//! off and sync, and whether one of them removes and makes anew a file that takes the most of what is left.

use onewrite_block::Choices;

use crate::action::{Action, Workload};

const PAGE: u64 = 4096;
/// Pages of the file that fills most of the image.
const PAGES: u64 = 2800;
/// Pages between two overwrites of a round.
const STRIDE: u64 = 256;

fn write(page: u64, count: u64, seed: u64) -> Action {
    let count = count.min(PAGES - page);
    Action::Write { file: "/a".into(), offset: page * PAGE, length: count * PAGE, seed, direct: false }
}

/// The first workload of a series.
pub(super) fn plain(rounds: u64) -> Workload {
    let fsync = |file: &str| Action::Fsync(file.into());
    let mut task = vec![Action::Create("/n".into())];
    for round in 0..rounds {
        task.extend((0..PAGES).step_by(STRIDE as usize).map(|page| write(page + 16 * (round % 16), 16, 10 + round)));
        task.push(Action::Append { file: "/n".into(), length: 6000, seed: round });
        task.extend([fsync("/n"), write(round % PAGES, 1, 77 + round), fsync("/a")]);
    }
    Workload { setup: filled(), warm_up: with_holes(64, 0), tasks: vec![task] }
}

/// Workload `number` of the series of `seed`.
pub(super) fn workload(rounds: u64, seed: u64, number: u64) -> Workload {
    if number == 0 {
        return plain(rounds);
    }
    let mut choices = Choices::new(seed).stream("scarce", number);
    let mut warm_up = with_holes([48, 64, 80][choices.below(3) as usize], choices.below(16));
    let tasks = 1 + choices.below(3);
    let rest = choices.chance(1, 3).then(|| 500 + choices.below(400));
    warm_up.extend(rest.map(|pages| made(pages, 4)).into_iter().flatten());
    let rounds = rounds.div_ceil(tasks);
    let of_task = |task| rounds_of(task, rounds, rest.filter(|_| task == 0), &mut choices);
    let tasks = (0..tasks).map(of_task).collect();
    Workload { setup: filled(), warm_up, tasks }
}

/// A new file of so many pages.
fn made(pages: u64, seed: u64) -> [Action; 2] {
    let file = String::from("/v");
    [Action::Create(file.clone()), Action::Append { file, length: pages * PAGE, seed }]
}

fn filled() -> Vec<Action> {
    vec![Action::Create("/a".into()), write(0, PAGES, 1)]
}

/// Overwrites of half the pages, and of some of the rest: segments with blocks in use and blocks that are not.
fn with_holes(stride: u64, shift: u64) -> Vec<Action> {
    let every = |from: u64, stride: u64| (from..PAGES).step_by(stride as usize);
    let mut actions: Vec<Action> = every(shift, stride).map(|page| write(page, stride / 2, 2)).collect();
    actions.extend(every(shift + stride / 2, 2 * stride).map(|page| write(page, stride / 2, 3)));
    actions.push(Action::Sync);
    actions
}

/// What one task does: overwrites beside each other task's, and a file of its own; and in some rounds `/v` anew, of
/// `rest` pages.
fn rounds_of(task: u64, rounds: u64, rest: Option<u64>, choices: &mut Choices) -> Vec<Action> {
    let own = format!("/n{task}");
    let mut actions = vec![Action::Create(own.clone())];
    for round in 0..rounds {
        let (shift, count) = (choices.below(STRIDE - 32), 1 + choices.below(24));
        let is_direct = choices.chance(1, 4);
        for page in (0..PAGES - STRIDE).step_by(STRIDE as usize) {
            let offset = (page + shift) * PAGE;
            let seed = 10 + 100 * task + round;
            actions.push(Action::Write { file: "/a".into(), offset, length: count * PAGE, seed, direct: is_direct });
        }
        actions.push(Action::Append { file: own.clone(), length: 1 + choices.below(9000), seed: round });
        if choices.chance(1, 3) {
            actions.push(Action::Fsync(own.clone()));
        }
        if let Some(pages) = rest.filter(|_| choices.chance(1, 2)) {
            actions.push(Action::Unlink("/v".into()));
            actions.extend(made(pages, round));
            actions.push(Action::Fsync("/v".into()));
        }
        actions.push(match choices.below(4) {
            0 => Action::Fdatasync("/a".into()),
            1 => Action::Sync,
            _ => Action::Fsync("/a".into()),
        });
    }
    actions
}
