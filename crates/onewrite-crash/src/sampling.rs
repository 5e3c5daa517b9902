//! Sampling: chooses which unflushed units survive: every subset while they are few, random subsets beyond.

use onewrite_block::Choices;

use crate::states::Choice;

fn kept(units: Vec<usize>) -> Choice {
    Choice { kept: units, torn: None }
}

/// Whether one of the last `joined` of `count` units survives; always true if `joined` is 0.
fn holds_new(units: &[usize], count: usize, joined: usize) -> bool {
    joined == 0 || units.last().is_some_and(|last| *last >= count - joined)
}

/// Every subset of `count` units that holds one of the last `joined`.
pub(crate) fn subsets(count: usize, joined: usize) -> Vec<Choice> {
    let all = (0..1_u64 << count).map(|mask| (0..count).filter(|unit| mask >> unit & 1 == 1).collect::<Vec<_>>());
    all.filter(|units| holds_new(units, count, joined)).map(kept).collect()
}

/// At most `samples` subsets: all units, only the new ones, none, one missing, and random ones of three densities.
pub(crate) fn samples(count: usize, joined: usize, samples: usize, chance: &mut Choices) -> Vec<Choice> {
    let mut all = vec![(0..count).collect::<Vec<_>>()];
    all.push((count - joined..count).collect());
    while all.len() < samples {
        let units = match all.len() % 4 {
            0 => {
                let missing = chance.index(count);
                (0..count).filter(|unit| *unit != missing).collect()
            }
            density => {
                let eighths = [1, 4, 7][density - 1];
                (0..count).filter(|_| chance.chance(eighths, 8)).collect()
            }
        };
        all.push(units);
    }
    all.retain(|units: &Vec<usize>| holds_new(units, count, joined));
    all.into_iter().map(kept).collect()
}

/// Copies of some of `choices`, each with one surviving unit torn that `may_tear`.
pub(crate) fn torn(choices: &[Choice], may_tear: impl Fn(usize) -> bool, chance: &mut Choices) -> Vec<Choice> {
    let mut all = Vec::new();
    for choice in choices.iter().filter(|choice| !choice.kept.is_empty()) {
        if chance.chance(1, 2) {
            let unit = choice.kept[chance.index(choice.kept.len())];
            let sectors = 1 + chance.below(254) as u8;
            if may_tear(unit) {
                all.push(Choice { torn: Some((unit, sectors)), ..choice.clone() });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_with_something_new_are_half_of_all() {
        assert_eq!(subsets(5, 1).len(), 16);
        assert_eq!(subsets(5, 5).len(), 31);
        assert_eq!(subsets(3, 0).len(), 8);
    }

    #[test]
    fn samples_hold_everything_and_only_what_is_new() {
        let drawn = samples(40, 3, 24, &mut Choices::new(1));
        assert_eq!(drawn[0].kept.len(), 40);
        assert_eq!(drawn[1].kept, [37, 38, 39]);
        assert!(drawn.len() > 10 && drawn.iter().all(|choice| choice.kept.last().is_some_and(|last| *last >= 37)));
    }
}
