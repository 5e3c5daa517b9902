//! Cores: the modelled processors of the host.
//!
//! A task keeps its core from one piece of work to the next, as on a real host: entering a system call does not give
//! the processor to others. It gives the core up when it waits for something else, or when its slice has ended and
//! others wait for a core. They get one in order of arrival, except that a task may go first ([`Rank::First`]).
//!
//! ```text
//!   ask ──a core is free, or held by the task──► computing ──pause──► held ──ask──► computing
//!    └──► in line ──a core is given up─────────────▲                   └──the task waits──► given up
//! ```
//!
//! # Invariants
//! - No core is free while somebody is in line.
//! - A task that is not ready holds no core, except one on which it computes.

use std::collections::VecDeque;

use super::tasks::TaskId;
use crate::units::Nanos;

/// A place in the line for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

/// Where a task waits for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Before all who wait.
    First,
    /// Behind them.
    Last,
}

/// Answer to a task that asks for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has a core until this moment, when it must ask again.
    Until(Nanos),
    /// It is in line.
    Waits(Place),
}

struct Held {
    task: TaskId,
    slice_end: Nanos,
    is_computing: bool,
}

/// A core that was given to the first in line, who has not begun yet.
struct Given {
    place: Place,
    task: TaskId,
}

pub(super) struct Cores {
    count: usize,
    slice: Nanos,
    held: Vec<Held>,
    given: Vec<Given>,
    line: VecDeque<(Place, TaskId)>,
    places: u64,
}

impl Cores {
    pub(super) fn new(count: usize, slice: Nanos) -> Cores {
        let (held, given, line) = (Vec::new(), Vec::new(), VecDeque::new());
        Cores { count: count.max(1), slice: slice.max(Nanos(1)), held, given, line, places: 0 }
    }

    /// Whether `task` holds a core and does not compute on it.
    pub(super) fn holds(&self, task: TaskId) -> bool {
        self.held.iter().any(|held| held.task == task && !held.is_computing)
    }

    /// `task` wants to compute. Returns the task that gets its core if its slice has ended.
    pub(super) fn ask(&mut self, task: TaskId, rank: Rank, now: Nanos) -> (Turn, Option<TaskId>) {
        let slice_end = now + self.slice;
        let own = self.held.iter().position(|held| held.task == task && !held.is_computing);
        match own {
            Some(own) if now < self.held[own].slice_end || self.line.is_empty() => {
                let held = &mut self.held[own];
                if held.slice_end <= now {
                    held.slice_end = slice_end;
                }
                held.is_computing = true;
                (Turn::Until(held.slice_end), None)
            }
            Some(own) => {
                self.held.swap_remove(own);
                let next = self.give();
                (self.enlist(task, rank), next)
            }
            None if self.held.len() + self.given.len() < self.count => {
                self.held.push(Held { task, slice_end, is_computing: true });
                (Turn::Until(slice_end), None)
            }
            None => (self.enlist(task, rank), None),
        }
    }

    /// Begins to compute if the core of this place was given; until when.
    pub(super) fn begin(&mut self, place: Place, now: Nanos) -> Option<Nanos> {
        let index = self.given.iter().position(|given| given.place == place)?;
        let given = self.given.swap_remove(index);
        let slice_end = now + self.slice;
        self.held.push(Held { task: given.task, slice_end, is_computing: true });
        Some(slice_end)
    }

    /// `task` has computed; it holds its core until it waits.
    pub(super) fn pause(&mut self, task: TaskId) {
        let held = self.held.iter_mut().find(|held| held.task == task && held.is_computing);
        held.expect("a task that computes holds a core").is_computing = false;
    }

    /// `task` stops in the middle of its work and gives its core up. Returns the task that gets it.
    pub(super) fn stop(&mut self, task: TaskId) -> Option<TaskId> {
        self.pause(task);
        self.give_up(task)
    }

    /// `task` waits or has ended: it gives its core up. Returns the task that gets it.
    pub(super) fn give_up(&mut self, task: TaskId) -> Option<TaskId> {
        let own = self.held.iter().position(|held| held.task == task && !held.is_computing)?;
        self.held.swap_remove(own);
        self.give()
    }

    /// The owner of this place no longer wants a core. Returns the task that gets the core if it was given.
    pub(super) fn leave(&mut self, place: Place) -> Option<TaskId> {
        self.line.retain(|(other, _)| *other != place);
        let index = self.given.iter().position(|given| given.place == place)?;
        self.given.swap_remove(index);
        self.give()
    }

    fn enlist(&mut self, task: TaskId, rank: Rank) -> Turn {
        let place = Place(self.places);
        self.places += 1;
        match rank {
            Rank::First => self.line.push_front((place, task)),
            Rank::Last => self.line.push_back((place, task)),
        }
        Turn::Waits(place)
    }

    /// Gives a free core to the first in line.
    fn give(&mut self) -> Option<TaskId> {
        let (place, task) = self.line.pop_front()?;
        self.given.push(Given { place, task });
        Some(task)
    }
}
