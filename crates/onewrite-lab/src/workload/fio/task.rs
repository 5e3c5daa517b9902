//! Task: what the stream of one clone needs besides its options.

use std::rc::Rc;

use super::goals::Goals;
use super::shared::{Membership, Shared};
use crate::job::{Engine, Options};

/// Everything about a task besides its options.
pub(super) struct Task {
    /// State that all tasks share.
    pub(super) shared: Rc<Shared>,
    /// Its groups.
    pub(super) member: Membership,
    /// Its goals.
    pub(super) goals: Goals,
}

impl Task {
    /// Whether another task has ended this one.
    pub(super) fn is_ended(&self) -> bool {
        self.shared.is_ended(self.member)
    }

    /// Tells the other tasks that this one has ended.
    pub(super) fn end(&self, options: &Options) {
        self.shared.end(options, self.member);
    }
}

/// `done` of `all`, at most 1.
pub(super) fn part(done: u64, all: u64) -> f64 {
    if done >= all { 1.0 } else { done as f64 / all as f64 }
}

/// Whether nothing may begin before an fsync ends.
pub(super) const fn sync_blocks(engine: Engine) -> bool {
    !matches!(engine, Engine::IoUring)
}
