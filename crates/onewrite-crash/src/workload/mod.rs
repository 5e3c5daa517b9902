//! Workloads that the command line can name.
//!
//! `ace:1`, `ace:2` and `ace:3` are short sequences, all of them or a sample. `random:N` is an endless series of
//! workloads with N operations of several tasks each. `random-all:N` is the same with every kind of operation,
//! `atomic:N` with drafts of atomic files, `shares:N` with shares of pages; `swarm:N` draws its kinds of operation anew
//! for each workload; `lives:N` begins with what a power cut left of an earlier life. `scarce:N` is a series with N
//! rounds of writes on an image with few free segments, for F2FS; `full-log:N` one with N small syncs where the log has
//! a few blocks left. `script:…` is one workload in text form. [`Guided`] is `guided:N`: it needs to know how workloads
//! run.

mod ace;
mod beside;
mod drafts;
mod full_log;
mod guided;
mod lives;
mod magic;
mod random;
mod scarce;
mod shares;
mod swarm;
mod warm_up;

use std::fmt;
use std::str::FromStr;

pub use guided::Guided;
pub use random::Operations;
use random::RandomShape;
pub use swarm::SwarmMachine;

use crate::action::{Action, Workload};
use crate::error::CrashError;
use crate::subject::Subject;

/// Most operations of a workload.
const OPERATIONS_MAX: usize = 100_000;

/// What to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadSpec {
    /// Sequences of one, two or three operations with persistence points.
    Ace(usize),
    /// Random operations, and their number in each workload.
    Random(Operations, usize),
    /// Rounds of writes where few segments are free.
    Scarce(u64),
    /// Small syncs beside a long one where the log is nearly full.
    FullLog(u64),
    /// This workload.
    Script(Workload),
}

impl WorkloadSpec {
    /// Whether `name` begins as those of this kind do; it may still be refused.
    pub fn is_named(name: &str) -> bool {
        let kind = name.split_once(':').map(|(kind, _)| kind);
        kind.is_some_and(|kind| {
            matches!(kind, "ace" | "scarce" | "full-log" | "script") || Operations::from_name(kind).is_some()
        })
    }

    /// The forms of all names, for messages.
    pub fn forms() -> String {
        let random = Operations::ALL.map(|operations| format!("{}:OPERATIONS, ", operations.name())).concat();
        format!("ace:1, ace:2, ace:3, {random}guided:OPERATIONS, scarce:ROUNDS, full-log:SYNCS, script:ACTIONS")
    }

    /// The number of workloads; `None` if the series is endless.
    pub fn count(&self) -> Option<usize> {
        match self {
            WorkloadSpec::Ace(length) => Some(ace::count(*length)),
            WorkloadSpec::Random(..) | WorkloadSpec::Scarce(_) | WorkloadSpec::FullLog(_) => None,
            WorkloadSpec::Script(_) => Some(1),
        }
    }

    /// Whether it is one workload with drafts of atomic files.
    pub fn has_drafts(&self) -> bool {
        let is_of_drafts = |action: &Action| {
            matches!(action, Action::Draft(..) | Action::Commit(_) | Action::Abort(_) | Action::EndDraft(_))
        };
        self.has(is_of_drafts)
    }

    /// Whether it is one workload with shared pages.
    pub fn has_shares(&self) -> bool {
        self.has(|action| matches!(action, Action::Share { .. }))
    }

    fn has(&self, is_wanted: impl Fn(&Action) -> bool) -> bool {
        let WorkloadSpec::Script(Workload { setup, warm_up, tasks }) = self else { return false };
        setup.iter().chain(warm_up).chain(tasks.iter().flatten()).any(is_wanted)
    }

    /// The workloads in order. The seed determines the random ones; some of these fill the log.
    pub fn workloads<S: Subject>(&self, subject: &S, seed: u64) -> Box<dyn Iterator<Item = Workload>> {
        match self {
            WorkloadSpec::Ace(length) => ace::workloads(*length, seed),
            WorkloadSpec::Random(operations, actions) => {
                let (actions, syncs_of_a_log) = ((*operations, *actions), subject.syncs_of_a_log());
                let shape = move |round| RandomShape::of(actions, syncs_of_a_log, round);
                Box::new((0..).map(move |round| random::workload(shape(round), seed, round)))
            }
            WorkloadSpec::Scarce(rounds) => {
                let rounds = *rounds;
                Box::new((0..).map(move |number| scarce::workload(rounds, seed, number)))
            }
            WorkloadSpec::FullLog(syncs) => {
                let (log, syncs) = (full_log::Log::of(subject), *syncs);
                Box::new((0..).map(move |number| full_log::workload(log, syncs, (seed, number))))
            }
            WorkloadSpec::Script(workload) => Box::new(std::iter::once(workload.clone())),
        }
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadSpec::Ace(length) => write!(f, "ace:{length}"),
            WorkloadSpec::Random(operations, actions) => write!(f, "{}:{actions}", operations.name()),
            WorkloadSpec::Scarce(rounds) => write!(f, "scarce:{rounds}"),
            WorkloadSpec::FullLog(syncs) => write!(f, "full-log:{syncs}"),
            WorkloadSpec::Script(workload) => write!(f, "script:{workload}"),
        }
    }
}

impl FromStr for WorkloadSpec {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<WorkloadSpec, CrashError> {
        let refuse = |reason: &str| CrashError::Workload { text: text.into(), reason: reason.into() };
        let unknown = || refuse(&format!("no such workload; there are {}", WorkloadSpec::forms()));
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        if let Some(operations) = Operations::from_name(kind) {
            return match rest.parse() {
                Ok(actions @ 1..=OPERATIONS_MAX) => Ok(WorkloadSpec::Random(operations, actions)),
                _ => Err(refuse("1 to 100000 operations are needed")),
            };
        }
        match kind {
            "ace" => match rest.parse() {
                Ok(length @ 1..=3) => Ok(WorkloadSpec::Ace(length)),
                _ => Err(refuse("a length of 1, 2 or 3 is needed")),
            },
            "scarce" => match rest.parse() {
                Ok(rounds @ 1..=1000) => Ok(WorkloadSpec::Scarce(rounds)),
                _ => Err(refuse("1 to 1000 rounds are needed")),
            },
            "full-log" => match rest.parse() {
                Ok(syncs @ 1..=1000) => Ok(WorkloadSpec::FullLog(syncs)),
                _ => Err(refuse("1 to 1000 syncs are needed")),
            },
            "script" => {
                let workload: Workload = rest.parse()?;
                // A minimised script may leave a setup alone: its mount and unmount are cut, too.
                let is_empty = workload.setup.is_empty() && workload.warm_up.is_empty();
                match is_empty && workload.tasks.iter().all(Vec::is_empty) {
                    true => Err(refuse("actions are needed, such as `script:create /a; sync`")),
                    false => Ok(WorkloadSpec::Script(workload)),
                }
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Ext4Subject;

    #[test]
    fn names_come_back() {
        for name in [
            "ace:1",
            "ace:3",
            "random:200",
            "random-all:80",
            "atomic:80",
            "shares:80",
            "swarm:80",
            "lives:80",
            "scarce:5",
            "full-log:9",
            "script:create /a; sync",
            "script:create /a >> sync",
        ] {
            assert_eq!(name.parse::<WorkloadSpec>().unwrap().to_string(), name);
        }
        for name in [
            "ace:4",
            "random:0",
            "random:100001",
            "random-all:x",
            "atomic:0",
            "scarce:0",
            "full-log:x",
            "tree",
            "script:frob",
            "script:",
            "script: ;",
            "script: >>",
        ] {
            assert!(name.parse::<WorkloadSpec>().is_err(), "{name}");
        }
    }

    #[test]
    fn workloads_are_the_same_for_a_seed() {
        for name in [
            "ace:1",
            "ace:3",
            "random:50",
            "random-all:50",
            "atomic:50",
            "shares:50",
            "swarm:50",
            "lives:50",
            "scarce:3",
            "full-log:4",
        ] {
            let spec: WorkloadSpec = name.parse().unwrap();
            let subject = Ext4Subject::new("data".parse().unwrap());
            let take = |seed| spec.workloads(&subject, seed).take(20).collect::<Vec<_>>();
            assert_eq!(take(3), take(3));
        }
    }
}
