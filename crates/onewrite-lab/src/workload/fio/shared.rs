//! Shared: what the jobs of a run know of each other: who ended whom, and how far each is in its flow.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::job::{ExitScope, Flow, Options};

/// Which group a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Of reports.
    pub group: usize,
    /// Between two stonewalls.
    pub stonewall: usize,
}

/// One for all tasks of a run.
#[derive(Default)]
pub struct Shared {
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
    /// A task ended; others do too if it has `exitall`.
    pub fn end(&self, options: &Options, member: Membership) {
        if options.ends_others {
            self.ended.borrow_mut().push((options.exit_scope, member));
        }
    }

    /// Whether another task has ended this one.
    pub fn is_ended(&self, member: Membership) -> bool {
        self.ended.borrow().iter().any(|(scope, by)| match scope {
            ExitScope::All => true,
            ExitScope::Stonewall => by.stonewall == member.stonewall,
            ExitScope::Group => by.group == member.group,
        })
    }
}

/// The part of one task in a flow; leaves it when dropped.
pub struct FlowShare {
    shared: Rc<Shared>,
    flow: Flow,
    accesses: Cell<u64>,
}

impl FlowShare {
    /// Joins the flow of `flow`.
    pub fn join(shared: &Rc<Shared>, flow: Flow) -> FlowShare {
        shared.flows.borrow_mut().entry(flow.id).or_default().weight += flow.weight;
        FlowShare { shared: Rc::clone(shared), flow, accesses: Cell::new(0) }
    }

    /// Whether the task may go on: it has no more than its share of the accesses. If so, the access is counted.
    pub fn passes(&self) -> bool {
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
