//! Shared: state that the jobs of a run share: which job ended which others, and the accesses of each flow.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::job::{ExitScope, Flow, Options};

/// The groups of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Group in reports.
    pub group: usize,
    /// Group between two stonewalls.
    pub stonewall: usize,
}

/// State of a run; all its tasks share it.
#[derive(Default)]
pub(super) struct Shared {
    ended: RefCell<Vec<(ExitScope, Membership)>>,
    flows: RefCell<BTreeMap<u64, Stream>>,
}

/// The accesses and weights of all jobs of one flow.
#[derive(Clone, Copy, Default)]
struct Stream {
    accesses: u64,
    weight: u64,
}

impl Shared {
    /// Notes that a task has ended; with `exitall` others end too.
    pub(super) fn end(&self, options: &Options, member: Membership) {
        if options.ends_others {
            self.ended.borrow_mut().push((options.exit_scope, member));
        }
    }

    /// Whether another task has ended this one.
    pub(super) fn is_ended(&self, member: Membership) -> bool {
        self.ended.borrow().iter().any(|(scope, by)| match scope {
            ExitScope::All => true,
            ExitScope::Stonewall => by.stonewall == member.stonewall,
            ExitScope::Group => by.group == member.group,
        })
    }
}

/// Part of one task in a flow; dropping it leaves the flow.
pub(crate) struct FlowShare {
    shared: Rc<Shared>,
    flow: Flow,
    accesses: Cell<u64>,
}

impl FlowShare {
    /// Joins `flow`.
    pub(super) fn join(shared: &Rc<Shared>, flow: Flow) -> FlowShare {
        shared.flows.borrow_mut().entry(flow.id).or_default().weight += flow.weight;
        FlowShare { shared: Rc::clone(shared), flow, accesses: Cell::new(0) }
    }

    /// Whether the task may go on, because it has at most its share of the accesses. If so, counts an access.
    pub(super) fn passes(&self) -> bool {
        let mut flows = self.shared.flows.borrow_mut();
        let all = flows.entry(self.flow.id).or_default();
        let (own, total) = (u128::from(self.accesses.get()), u128::from(all.accesses));
        if own * u128::from(all.weight) > total * u128::from(self.flow.weight) {
            return false;
        }
        all.accesses += 1;
        self.accesses.set(self.accesses.get() + 1);
        true
    }
}

impl Drop for FlowShare {
    fn drop(&mut self) {
        if let Some(all) = self.shared.flows.borrow_mut().get_mut(&self.flow.id) {
            all.weight -= self.flow.weight;
            all.accesses -= self.accesses.get();
        }
    }
}
