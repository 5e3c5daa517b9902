//! Timers: which task wakes when. Timers of equal moments fire in the order in which they were set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::tasks::TaskId;
use crate::units::Nanos;

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u64, TaskId)>>,
    set: u64,
}

impl Timers {
    pub(super) fn set(&mut self, moment: Nanos, task: TaskId) {
        self.heap.push(Reverse((moment, self.set, task)));
        self.set += 1;
    }

    pub(super) fn next(&mut self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((moment, ..))| *moment)
    }

    pub(super) fn take_due(&mut self, now: Nanos) -> Option<TaskId> {
        self.next().filter(|&moment| moment <= now)?;
        self.heap.pop().map(|Reverse((.., task))| task)
    }
}
