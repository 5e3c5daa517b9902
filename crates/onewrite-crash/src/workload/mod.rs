//! Workloads that an exploration can be asked for by name.
//!
//! `ace:1`, `ace:2` and `ace:3` are short sequences, all of them or a sample; `random:N` is N operations of several
//! tasks, again and again with further seeds; `script:…` is one workload written out.

mod ace;
mod random;

use std::fmt;
use std::str::FromStr;

use random::RandomShape;

use crate::action::Workload;
use crate::error::CrashError;
use crate::options::ExploreOptions;

/// What to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadSpec {
    /// Sequences of one, two or three operations with persistence points.
    Ace(usize),
    /// Random operations, so many in each workload.
    Random(usize),
    /// This one.
    Script(Workload),
}

impl WorkloadSpec {
    /// How many workloads there are; `None` without an end.
    pub fn count(&self) -> Option<usize> {
        match self {
            WorkloadSpec::Ace(length) => Some(ace::count(*length)),
            WorkloadSpec::Random(_) => None,
            WorkloadSpec::Script(_) => Some(1),
        }
    }

    /// The workloads, one after another: the seed draws them, and some fill the log.
    pub fn workloads(&self, options: &ExploreOptions) -> Box<dyn Iterator<Item = Workload>> {
        match self {
            WorkloadSpec::Ace(length) => ace::workloads(*length, options.seed),
            WorkloadSpec::Random(actions) => {
                let actions = *actions;
                let (seed, log) = (options.seed, (options.journal_blocks, options.mode.scope()));
                let shape = move |round| RandomShape::of(actions, log, round);
                Box::new((0..).map(move |round| random::workload(shape(round), seed, round)))
            }
            WorkloadSpec::Script(workload) => Box::new(std::iter::once(workload.clone())),
        }
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadSpec::Ace(length) => write!(f, "ace:{length}"),
            WorkloadSpec::Random(actions) => write!(f, "random:{actions}"),
            WorkloadSpec::Script(workload) => write!(f, "script:{workload}"),
        }
    }
}

impl FromStr for WorkloadSpec {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<WorkloadSpec, CrashError> {
        let refuse = |reason: &str| CrashError::Workload { text: text.into(), reason: reason.into() };
        let (kind, rest) = text.split_once(':').ok_or_else(|| refuse("no such workload"))?;
        match kind {
            "ace" => match rest.parse() {
                Ok(length @ 1..=3) => Ok(WorkloadSpec::Ace(length)),
                _ => Err(refuse("a length of 1, 2 or 3 is needed")),
            },
            "random" => match rest.parse() {
                Ok(actions) if actions > 0 => Ok(WorkloadSpec::Random(actions)),
                _ => Err(refuse("a number of operations is needed")),
            },
            "script" => Ok(WorkloadSpec::Script(rest.parse()?)),
            _ => Err(refuse("no such workload")),
        }
    }
}

#[cfg(test)]
mod tests {
    use onewrite_fs::ext4::Mode;

    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["ace:1", "ace:3", "random:200", "script:create /a; sync"] {
            assert_eq!(name.parse::<WorkloadSpec>().unwrap().to_string(), name);
        }
        for name in ["ace:4", "random:0", "tree", "script:frob"] {
            assert!(name.parse::<WorkloadSpec>().is_err(), "{name}");
        }
    }

    #[test]
    fn workloads_are_the_same_for_a_seed() {
        for name in ["ace:1", "ace:3", "random:50"] {
            let spec: WorkloadSpec = name.parse().unwrap();
            let options = |seed| ExploreOptions { seed, ..ExploreOptions::new(Mode::Data) };
            let take = |seed| spec.workloads(&options(seed)).take(20).collect::<Vec<_>>();
            assert_eq!(take(3), take(3));
        }
    }
}
