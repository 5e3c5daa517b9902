//! Look: recovers and judges one state. This needs only the state, so an explorer does it at any time.

use crate::ahead::Looked;
use crate::explorer::Explorer;
use crate::states::{Choice, Walker};
use crate::subject::Subject;
use crate::walk::{Walk, WalkPosition};

/// Most verdicts kept in memory; then all are dropped.
const VERDICTS_MAX: usize = 200_000;

impl<S: Subject> Explorer<'_, S> {
    /// Recovers a state and judges it.
    pub(crate) fn look(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: WalkPosition,
        (choice, is_small): (Choice, bool),
    ) -> Looked {
        let sum = walker.sum_of(&choice);
        let key = sum.all;
        let remembered = self.verdicts.get(&key).filter(|_| self.only.is_none()).cloned();
        let (found, replayed, recovered) = remembered.unwrap_or_else(|| {
            let outcome = self.recoverer.recover(walker.image_of(&choice), sum, walk.log);
            if self.verdicts.len() >= VERDICTS_MAX {
                self.verdicts.clear();
            }
            let verdict = (outcome.found, outcome.replayed, outcome.reached);
            self.verdicts.insert(key, verdict.clone());
            verdict
        });
        Looked {
            place,
            key,
            replayed,
            recovered,
            is_small,
            tears_share: walker.tears_share(&choice),
            tears_commit: walker.tears_commit(&choice),
            has_wrapped: walker.has_wrapped,
            breach: walk.judge.judge(&found, place.happened),
            choice,
        }
    }
}
