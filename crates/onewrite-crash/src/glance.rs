//! Glance: judges a workload at a few places, so that the same number of states belongs to many more workloads.
//!
//! Its one idea: a long workload has some thousand states, and most of them show the same few operations. What a rare
//! sequence of operations breaks is broken at many places of a workload that has it, and nowhere else. So every n-th
//! workload is judged at every place, and those between at some.

use std::collections::BTreeSet;

use onewrite_block::Choices;
use onewrite_block::layer::RecordedEvent;

use crate::run::Run;

/// Places at which states are judged, beside the end of the run.
const PLACES: usize = 10;
/// Most states at each of them: everything survives, nothing, and random subsets.
pub(crate) const STATES: usize = 4;

/// The events of a run behind which states are judged.
pub(crate) struct Glance(BTreeSet<usize>);

impl Glance {
    /// Random events behind the warm-up, and the last one.
    pub(crate) fn at(run: &Run, chance: &mut Choices) -> Glance {
        let is_warm = |event: &RecordedEvent| match event {
            RecordedEvent::Mark(mark) => *mark as usize + 1 >= run.history.warm_up,
            _ => run.history.warm_up == 0,
        };
        let events = run.events.len();
        let first = run.events.iter().position(is_warm).unwrap_or(events);
        let random = (0..PLACES).map(|_| first + chance.index((events - first).max(1)));
        Glance(random.chain(events.checked_sub(1)).collect())
    }

    /// Whether states are judged behind event number `event`.
    pub(crate) fn has(&self, event: usize) -> bool {
        self.0.contains(&event)
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::Image;

    use super::*;
    use crate::history::History;
    use crate::model::Tree;
    use crate::verdict::Verdict;

    fn run(events: u64, warm_up: usize) -> Run {
        let history = History { warm_up, ..History::new(Tree::of_directories(&[])) };
        let events = (0..events).map(RecordedEvent::Mark).collect();
        Run { base: Image::new(1), events, marks: Vec::new(), history, mounted: Verdict::Unknown }
    }

    #[test]
    fn a_glance_has_places_behind_the_warm_up_and_the_end() {
        let glance = Glance::at(&run(1_000, 700), &mut Choices::new(1));
        assert!(glance.has(999) && glance.0.len() > PLACES / 2 && glance.0.iter().all(|event| *event >= 699));
        assert_eq!(Glance::at(&run(1, 0), &mut Choices::new(1)).0, BTreeSet::from([0]));
        assert!(Glance::at(&run(0, 0), &mut Choices::new(1)).0.len() <= 1);
    }
}
