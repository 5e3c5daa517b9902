//! Lives: random workloads that begin with what a power cut left of an earlier life, or of two.
//!
//! Each task's first actions become the earlier life; one task plays them, task by task. So the second life goes on
//! with the files, orphans and log blocks of the first.

use std::collections::BTreeSet;

use onewrite_block::Choices;

use crate::action::{Action, Workload};

/// `workload` with its first actions moved into lives that cuts end.
pub(super) fn with_earlier_life(workload: Workload, chance: &mut Choices) -> Workload {
    let Workload { mut setup, warm_up, tasks } = workload;
    // What an earlier life left in a log that is nearly full is what the next one writes over first.
    let is_filled_before = chance.chance(1, 2);
    let (mut life, warm_up) = if is_filled_before { (warm_up, Vec::new()) } else { (Vec::new(), warm_up) };
    let later = |mut task: Vec<Action>| {
        let rest = task.split_off(task.len() * (20 + chance.index(50)) / 100);
        life.extend(task);
        without_lost_descriptors(rest)
    };
    let tasks = tasks.into_iter().map(later).collect();
    if chance.chance(1, 3) {
        let second = life.split_off(chance.index(life.len() + 1));
        setup.extend(ended_by_cut(life, chance));
        life = without_lost_descriptors(second);
    }
    setup.extend(ended_by_cut(life, chance));
    Workload { setup, warm_up, tasks }
}

/// The life with a sync in its second half, and a cut at its end. Behind the sync each change of a file is synced, so
/// that most cuts leave the tree behind one of the actions.
fn ended_by_cut(mut life: Vec<Action>, chance: &mut Choices) -> Vec<Action> {
    let half = life.len() / 2;
    let behind = life.split_off(half + chance.index(life.len() - half + 1));
    life.push(Action::Sync);
    for action in behind {
        let synced = changed(&action).cloned().map(Action::Fsync);
        life.extend([Some(action), synced].into_iter().flatten());
    }
    life.push(Action::Cut(chance.below(1000)));
    life
}

/// The file whose content or attributes an action changes, or that it makes.
fn changed(action: &Action) -> Option<&String> {
    match action {
        Action::Create(file)
        | Action::Write { file, .. }
        | Action::Append { file, .. }
        | Action::Truncate { file, .. }
        | Action::Allocate { file, .. }
        | Action::SetAttributes { file, .. }
        | Action::SetExtended { file, .. }
        | Action::RemoveExtended { file, .. }
        | Action::Link(_, file)
        | Action::Rename(_, file) => Some(file),
        _ => None,
    }
}

/// The actions but for those on descriptors that nobody opens among them.
fn without_lost_descriptors(actions: Vec<Action>) -> Vec<Action> {
    let mut open = BTreeSet::new();
    let has_its_descriptors = |action: &Action| match action {
        Action::Open(_, slot) => {
            open.insert(*slot);
            true
        }
        Action::Close(slot) => open.remove(slot),
        other => {
            let text = other.to_string();
            let mut slots = text.split_whitespace().filter_map(|word| word.strip_prefix('#'));
            slots.all(|slot| slot.parse().is_ok_and(|slot| open.contains(&slot)))
        }
    };
    actions.into_iter().filter(has_its_descriptors).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(workload: &Workload) -> usize {
        workload.setup.iter().filter(|action| matches!(action, Action::Cut(_))).count()
    }

    #[test]
    fn actions_move_into_lives_that_have_a_sync_and_a_cut() {
        let text = "mkdir /d >> create /w >> create /a; write /a 0 1 1; open /a 0; unlink /a; read #0; close 0 | \
                    create /b; append /b 1 2; fsync /b; open /b 1; append #1 1 3; close 1";
        let whole: Workload = text.parse().unwrap();
        let mut lives = Vec::new();
        for seed in 0..200 {
            let workload = with_earlier_life(whole.clone(), &mut Choices::new(seed));
            assert_eq!(workload.to_string().parse::<Workload>().as_ref(), Ok(&workload));
            let syncs = workload.setup.iter().filter(|action| **action == Action::Sync).count();
            assert_eq!(syncs, parts(&workload), "{workload}");
            assert!(matches!(workload.setup.last(), Some(Action::Cut(_))), "{workload}");
            let all: Vec<&Action> = workload.setup.iter().chain(workload.tasks.iter().flatten()).collect();
            let fsyncs = all.iter().filter(|action| matches!(action, Action::Fsync(_))).count();
            let others = all.len() + workload.warm_up.len() - fsyncs;
            assert!(others <= whole.action_count() + 2 + 2 * syncs, "{workload}");
            lives.push(parts(&workload));
        }
        assert!(lives.contains(&1) && lives.contains(&2) && lives.iter().max() == Some(&2));
    }

    #[test]
    fn what_is_done_to_a_descriptor_of_an_older_life_is_left_out() {
        let rest: Workload =
            "read #0; close 0; open /a 0; append #0 1 2; close 0; append #0 3 4; sync".parse().unwrap();
        let kept = Workload::of(without_lost_descriptors(rest.tasks[0].clone()));
        assert_eq!(kept.to_string(), "open /a 0; append #0 1 2; close 0; sync");
    }
}
