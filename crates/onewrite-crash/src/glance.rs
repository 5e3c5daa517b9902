//! Glance: judges a workload at a few places, so that the same number of states belongs to many more workloads.
//!
//! Its one idea: a long workload has some thousand states, and most of them show the same few operations. What a rare
//! sequence of operations breaks is broken at many places of a workload that has it, and nowhere else. So one of n
//! workloads is judged at every place, and the others at some.

use std::collections::BTreeSet;

use onewrite_block::Choices;
use onewrite_block::layer::RecordedEvent;

use crate::options::ExploreOptions;
use crate::run::Run;

/// Places at which states are judged, beside the end of the run.
const PLACES: usize = 10;
/// Most states at each of them: everything survives, nothing, and random subsets.
pub(crate) const STATES: usize = 4;

/// Whether workload `number` is judged at every place: the first one, and one of each further
/// [`ExploreOptions::thorough_every`], drawn, since workloads take turns in their shape.
pub(crate) fn is_thorough(number: u64, options: &ExploreOptions) -> bool {
    let (block, place) = (number / options.thorough_every, number % options.thorough_every);
    let drawn = || Choices::new(options.seed).stream("thorough", block).below(options.thorough_every);
    place == if block == 0 { 0 } else { drawn() }
}

/// The events of a run behind which states are judged.
pub(crate) struct Glance(BTreeSet<usize>);

impl Glance {
    /// Random events behind the warm-up, and the last one, of workload `number`.
    pub(crate) fn at(run: &Run, seed: u64, number: u64) -> Glance {
        let mut chance = Choices::new(seed).stream("glance", number);
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
        let glances: Vec<Glance> = (0..50).map(|number| Glance::at(&run(1_000, 700), 1, number)).collect();
        for Glance(places) in &glances {
            assert!(places.contains(&999) && places.len() > PLACES / 2 && places.iter().all(|event| *event >= 699));
        }
        assert!(glances.iter().any(|Glance(places)| places.iter().any(|event| *event < 720)));
        assert_ne!(glances[1].0, glances[2].0);
        assert_eq!(Glance::at(&run(1, 0), 1, 0).0, BTreeSet::from([0]));
        assert!(Glance::at(&run(0, 0), 1, 0).0.len() <= 1);
    }

    /// Random workloads take turns between four shapes.
    #[test]
    fn one_of_each_so_many_workloads_is_thorough_whatever_its_shape() {
        for every in [1, 2, 4, 15] {
            let options = ExploreOptions { thorough_every: every, ..ExploreOptions::default() };
            let thorough: Vec<u64> = (0..100 * every).filter(|number| is_thorough(*number, &options)).collect();
            let blocks: Vec<u64> = thorough.iter().map(|number| number / every).collect();
            assert_eq!((thorough[0], blocks), (0, (0..100).collect()));
            let shapes: BTreeSet<u64> = thorough.iter().map(|number| number % 4).collect();
            assert_eq!(shapes.len(), 4, "one of {every}");
        }
        let huge = ExploreOptions { thorough_every: u64::MAX, ..ExploreOptions::default() };
        assert!(is_thorough(0, &huge) && !is_thorough(1, &huge));
    }
}
