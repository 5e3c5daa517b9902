//! Stretch: divides a workload, so that the time of its fault runs grows with its length, not with its square.
//!
//! A run with a fault plays its workload to the end. Live tasks cannot be copied at the request that fails, so each run
//! also begins at the beginning. A long workload is therefore divided into stretches: the tasks of a stretch run side
//! by side on the image that the earlier stretches left, mounted anew. What only a longer mount has in memory is not
//! seen.
//!
//! # Invariants
//! - A stretch is a workload: its text and the number of a request replay a run.
//! - Each action of a task is in the tasks of one stretch, and in the setup of those behind it.

use crate::action::{Action, Workload};

/// Most actions of all tasks in one stretch.
pub(super) const ACTIONS_MAX: usize = 40;

/// The stretches of a workload in order; a short workload is one.
pub(super) fn stretches(workload: &Workload) -> Vec<Workload> {
    let count = workload.action_count().div_ceil(ACTIONS_MAX).max(1);
    let mut setup = workload.setup.clone();
    let mut stretches = Vec::new();
    for number in 0..count {
        let part = |task: &Vec<Action>| task[task.len() * number / count..task.len() * (number + 1) / count].to_vec();
        let tasks: Vec<Vec<Action>> = workload.tasks.iter().map(part).collect();
        stretches.push(Workload { setup: setup.clone(), warm_up: workload.warm_up.clone(), tasks: tasks.clone() });
        setup.extend(tasks.into_iter().flatten());
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(actions: usize, tasks: usize) -> Workload {
        let action = |task, number| Action::Create(format!("/t{task}-{number}"));
        let task = |task| (0..actions).map(|number| action(task, number)).collect();
        Workload { setup: vec![Action::Sync], warm_up: vec![], tasks: (0..tasks).map(task).collect() }
    }

    #[test]
    fn a_short_workload_is_one_stretch() {
        let short = workload(ACTIONS_MAX / 2, 2);
        assert_eq!(stretches(&short), [short]);
        assert_eq!(stretches(&Workload::default()), [Workload::default()]);
    }

    #[test]
    fn each_action_is_in_one_stretch_and_in_the_setup_of_the_next() {
        let long = workload(77, 3);
        let stretches = stretches(&long);
        assert_eq!(stretches.len(), 6);
        assert!(stretches.iter().all(|stretch| stretch.action_count() <= ACTIONS_MAX));
        let of_task = |task: usize| stretches.iter().flat_map(|stretch| stretch.tasks[task].clone()).collect();
        let tasks: Vec<Vec<Action>> = (0..3).map(of_task).collect();
        assert_eq!(tasks, long.tasks);
        let before: usize = stretches[..5].iter().map(Workload::action_count).sum();
        assert_eq!(stretches[5].setup.len(), 1 + before);
    }
}
