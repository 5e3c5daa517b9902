//! Ways: the trees behind combinations of the steps of operations under way.
//!
//! Where blocks run out each page of a write is a step, so an operation may have thousands of them. From one
//! combination to the next only those steps are taken that are new.

use crate::model::{Step, Tree};

/// How far an operation has come: its number of steps, and the tree behind them; `None` if they are impossible.
type Come = (usize, Option<Tree>);

/// See the module's head.
pub(super) struct Ways {
    base: Tree,
    /// The last combination: each operation behind those before it.
    taken: Vec<Come>,
}

impl Ways {
    /// Those behind the tree `base`.
    pub(super) fn new(base: &Tree) -> Ways {
        Ways { base: base.clone(), taken: Vec::new() }
    }

    /// The tree behind the first steps of each operation, as many as `way` says; `None` if they are impossible. `steps`
    /// are those of the operations, always the same.
    pub(super) fn tree(&mut self, steps: &[&[Step]], way: &[usize]) -> Option<Tree> {
        let same = self.taken.iter().zip(way).take_while(|((count, _), wanted)| count == *wanted).count();
        let mut further = self.taken.drain(same..).next().filter(|(count, _)| *count < way[same]);
        for (steps, count) in steps.iter().zip(way).skip(same) {
            let (done, tree) = further.take().unwrap_or_else(|| (0, last(&self.taken, &self.base)));
            let tree = tree.and_then(|tree| behind(tree, &steps[done..*count]));
            self.taken.push((*count, tree));
        }
        last(&self.taken, &self.base)
    }
}

/// The ways behind a number of ended operations, of operations with these numbers.
pub(super) struct LastWays {
    pub(super) prefix: usize,
    pub(super) operations: Vec<usize>,
    pub(super) ways: Ways,
}

/// The tree behind all operations taken.
fn last(taken: &[Come], base: &Tree) -> Option<Tree> {
    taken.last().map_or_else(|| Some(base.clone()), |(_, tree)| tree.clone())
}

/// The tree behind some steps; `None` if one of them is impossible.
fn behind(mut tree: Tree, steps: &[Step]) -> Option<Tree> {
    steps.iter().all(|step| tree.apply(step).is_some()).then_some(tree)
}

#[cfg(test)]
mod tests {
    use super::super::combinations::combinations;
    use super::*;
    use crate::model::{NewKind, NodeId};

    /// Writes of one page each, one behind the other; then a step that is impossible, and one more.
    fn steps(node: NodeId, seed: u64) -> Vec<Step> {
        let write = |page: u64| Step::Write { node, offset: page * 4096, length: 4096, seed };
        let missing = Step::Remove { directory: Tree::ROOT, name: "none".into() };
        (0..3).map(write).chain([missing, write(3)]).collect()
    }

    fn made(name: &str, node: NodeId) -> Step {
        Step::Create { directory: Tree::ROOT, name: name.into(), node, kind: NewKind::File }
    }

    #[test]
    fn each_combination_gives_the_tree_of_its_steps() {
        let base = Tree::of_directories(&[]);
        let behind_make = |name: &str, node, seed| [vec![made(name, node)], steps(node, seed)].concat();
        // The third writes to the file that the first makes.
        let all = [behind_make("a", NodeId(3), 1), behind_make("b", NodeId(4), 2), steps(NodeId(3), 5)];
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        let hash = |tree: Option<Tree>| tree.map(|tree| tree.listing().full_hash());
        for most in [9, 1_000] {
            let (mut ways, steps) = (Ways::new(&base), all.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut possible = 0;
            for way in combinations(&counts, most) {
                let taken = all.iter().zip(&way).flat_map(|(steps, count)| &steps[..*count]).cloned();
                let expected = hash(behind(base.clone(), &taken.collect::<Vec<_>>()));
                possible += usize::from(expected.is_some());
                assert_eq!(hash(ways.tree(&steps, &way)), expected, "{way:?}");
                assert_eq!(hash(ways.tree(&steps, &way)), expected, "{way:?} again");
            }
            assert_eq!(possible, if most == 9 { 1 + 4 + 4 } else { 5 + 4 * 5 * 4 });
        }
    }
}
