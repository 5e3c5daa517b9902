//! Guided workloads: each takes a run to where no run before it was.
//!
//! Its one idea: a run costs a thousandth of what the exploration of its states costs. So candidates run without cuts,
//! and one is handed on if its run reached a mark that no earlier candidate had reached. What was handed on is changed
//! further. Candidates are random workloads and changed ones in turn; subject, options and seed determine all of them.

use std::rc::Rc;

use onewrite_block::Choices;
use onewrite_block::mark::{Listener, Marks};

use super::{Operations, WorkloadSpec};
use crate::action::{Action, Workload};
use crate::options::ExploreOptions;
use crate::run::run;
use crate::subject::{Keeps, Subject};

/// Most candidates without a new mark; then the last one is handed on.
const IN_VAIN_MAX: usize = 60;
/// Most changes that make one candidate of another.
const CHANGES_MAX: u64 = 6;

/// An endless series of workloads.
pub struct Guided<S: Subject> {
    subject: Rc<S>,
    options: ExploreOptions,
    /// Random workloads of each kind that suits the subject.
    random: Vec<Box<dyn Iterator<Item = Workload>>>,
    chance: Choices,
    /// Candidates so far.
    tried: usize,
    /// Workloads whose runs reached something new.
    kept: Vec<Workload>,
    /// The marks that runs have reached.
    reached: Marks,
    _listener: Listener,
}

impl<S: Subject> Guided<S> {
    /// Workloads of about `operations` operations for `subject`; they run as `options` say.
    pub fn new(subject: S, options: &ExploreOptions, operations: usize) -> Guided<S> {
        let kinds: &[Operations] = match subject.promises().keeps {
            Keeps::Checkpoint(_) => &[Operations::All],
            Keeps::Version => &[Operations::All, Operations::Atomic, Operations::Shares],
            Keeps::Metadata | Keeps::Data => &[Operations::All, Operations::Shares],
        };
        let random = |kind: &Operations| WorkloadSpec::Random(*kind, operations).workloads(&subject, options.seed);
        Guided {
            random: kinds.iter().map(random).collect(),
            subject: Rc::new(subject),
            options: options.clone(),
            chance: Choices::new(options.seed).stream("guided workloads", 0),
            tried: 0,
            kept: Vec::new(),
            reached: Marks::NONE,
            _listener: Listener::new(),
        }
    }

    fn candidate(&mut self) -> Workload {
        let number = self.tried;
        self.tried += 1;
        if number % 2 == 1 && !self.kept.is_empty() {
            return self.changed();
        }
        let kinds = self.random.len();
        self.random[number / 2 % kinds].next().expect("random workloads have no end")
    }

    /// One of the kept workloads, changed in some places.
    fn changed(&mut self) -> Workload {
        let mut workload = self.kept[self.chance.index(self.kept.len())].clone();
        let other = self.kept[self.chance.index(self.kept.len())].clone();
        for _ in 0..1 + self.chance.below(CHANGES_MAX) {
            let task = self.chance.index(workload.tasks.len());
            let actions = &mut workload.tasks[task];
            let at = self.chance.index(actions.len() + 1);
            match self.chance.below(4) {
                0 if at < actions.len() => drop(actions.remove(at)),
                1 => actions.insert(at, Action::Sync),
                2 if at < actions.len() && can_repeat(&actions[at]) => {
                    let again = actions[at].clone();
                    actions.insert(self.chance.index(actions.len() + 1), again);
                }
                // Tasks of one number have the same directory.
                _ if other.setup == workload.setup && task < other.tasks.len() => {
                    let from = self.chance.index(other.tasks[task].len() + 1);
                    actions.truncate(at);
                    actions.extend_from_slice(&other.tasks[task][from..]);
                }
                _ => (),
            }
        }
        workload
    }

    /// Whether a run of `workload` reaches a mark that no run before it reached.
    fn is_new(&mut self, workload: &Workload) -> bool {
        let Ok(run) = run(&self.subject, workload, &self.options) else { return false };
        let reached = self.reached.and(run.marks.into_iter().collect());
        let is_new = reached != self.reached;
        self.reached = reached;
        is_new
    }
}

/// Whether an action makes sense at another place of its task, too.
fn can_repeat(action: &Action) -> bool {
    !matches!(
        action,
        Action::Open(..)
            | Action::Close(_)
            | Action::Draft(..)
            | Action::Commit(_)
            | Action::Abort(_)
            | Action::EndDraft(_)
    )
}

impl<S: Subject> Iterator for Guided<S> {
    type Item = Workload;

    fn next(&mut self) -> Option<Workload> {
        for _ in 0..IN_VAIN_MAX {
            let candidate = self.candidate();
            if self.is_new(&candidate) {
                self.kept.push(candidate.clone());
                return Some(candidate);
            }
        }
        Some(self.candidate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Ext4Subject;

    fn guided(seed: u64) -> Guided<Ext4Subject> {
        let options = ExploreOptions { seed, cache_pages: 256, ..ExploreOptions::default() };
        Guided::new(Ext4Subject::new("data".parse().expect("a mode")), &options, 30)
    }

    #[test]
    fn guided_workloads_are_the_same_for_a_seed() {
        let first = |seed| guided(seed).take(6).collect::<Vec<_>>();
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }

    #[test]
    fn each_kept_workload_reached_something_new() {
        let mut guided = guided(1);
        let mut before = 0;
        for _ in 0..6 {
            guided.next().expect("no end");
            let now = guided.reached.numbers().count();
            assert!(now > before, "{now} marks");
            before = now;
        }
        assert_eq!(guided.kept.len(), 6);
    }
}
