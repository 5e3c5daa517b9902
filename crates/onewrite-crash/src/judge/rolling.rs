//! Rolling: the syncs of a run that recovery may roll forward over a checkpoint, and the files that these bring back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::history::{History, Syncs};
use crate::model::{FileAttributes, NodeId, Step, Tree};

/// Most entries of each memory; then all are dropped.
pub(super) const REMEMBERED_MAX: usize = 4096;

/// What a step did to the block of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockChange {
    Kept,
    Gained,
    Lost,
}

impl BlockChange {
    /// The change of page `index` of `node` from one tree to the next.
    pub(super) fn between(before: Option<&Tree>, now: &Tree, (node, index): (NodeId, u64)) -> BlockChange {
        let has = |tree: &Tree| tree.page(node, index).is_some();
        match (before.is_some_and(has), has(now)) {
            (_, false) => BlockChange::Lost,
            (false, true) => BlockChange::Gained,
            (true, true) => BlockChange::Kept,
        }
    }
}

/// A sync of a file or directory by its descriptor.
#[derive(Clone, Copy)]
pub(super) struct NodeSync {
    /// Its position among the ended operations; the largest if it failed.
    pub(super) position: usize,
    pub(super) begin: usize,
    /// Whether attributes and times belong to it: an `fsync`, no `fdatasync`.
    pub(super) is_whole: bool,
    /// The happening at which it succeeded.
    pub(super) end: Option<usize>,
    /// How many operations a checkpoint must have that it is rolled forward over.
    pub(super) needs: usize,
    /// Number of operations that ended before it began, and before it ended.
    pub(super) known: usize,
    pub(super) reached: usize,
}

/// A state in which recovery may bring a file back: its hash, its size, and its name if it has exactly one.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Operations that had ended.
    pub(super) place: usize,
    pub(super) hash: u64,
    pub(super) size: u64,
    pub(super) attributes: FileAttributes,
    pub(super) name: Option<(NodeId, String)>,
}

impl State {
    /// All that a state shows; another with the same is no other state.
    pub(super) fn shown(&self) -> (u64, Option<(NodeId, String)>) {
        (self.hash, self.name.clone())
    }
}

/// A file that recovery may roll forward over a checkpoint.
pub(super) struct Rolled {
    pub(super) node: NodeId,
    pub(super) states: Vec<State>,
    /// Of all its states.
    pub(super) hashes: FxHashSet<u64>,
    /// Whether a completed sync must bring it back.
    pub(super) is_synced: bool,
    /// Whether it must be in one of the states to the last byte: no `fdatasync` may have left out attributes.
    pub(super) is_exact: bool,
}

/// The number of ended operations in a checkpoint, and the number of happenings before the cut.
pub(super) type Moment = (usize, usize);

/// The syncs of a run, and what was computed of them.
#[derive(Default)]
pub(super) struct Checkpoints {
    pub(super) syncs: BTreeMap<NodeId, Vec<NodeSync>>,
    pub(super) rolled: RefCell<FxHashMap<Moment, Rc<Vec<Rolled>>>>,
    /// Recovered trees that were explained, by hash and number of happenings.
    pub(super) explained: RefCell<FxHashSet<(u64, usize)>>,
    /// The candidate that explained the last tree.
    pub(super) last: Cell<usize>,
}

impl Checkpoints {
    pub(super) fn new(history: &History, ended_count: &[usize]) -> Checkpoints {
        let positions: BTreeMap<usize, usize> = history.ended().into_iter().zip(0..).collect();
        let mut syncs: BTreeMap<NodeId, Vec<NodeSync>> = BTreeMap::new();
        for (number, operation) in history.operations.iter().enumerate() {
            let end = operation.end.filter(|_| operation.syncs != Syncs::Nothing);
            let sync = NodeSync {
                position: positions.get(&number).copied().unwrap_or(usize::MAX),
                begin: operation.begin,
                is_whole: !matches!(operation.sought, Syncs::Content(_)),
                end,
                needs: removals_before(history, operation.sought, ended_count),
                known: ended_count[operation.begin],
                reached: ended_count[operation.end.unwrap_or(ended_count.len() - 1)],
            };
            for node in &operation.touched {
                syncs.entry(*node).or_default().push(NodeSync { end: None, ..sync });
            }
            let (node, sync) = match operation.sought {
                Syncs::Node(node) | Syncs::Content(node) => (node, sync),
                // Its writes may begin before it is known that its step was taken.
                Syncs::Commit(first, node) => (node, NodeSync { begin: history.operations[first].begin, ..sync }),
                _ => continue,
            };
            syncs.entry(node).or_default().push(sync);
        }
        Checkpoints { syncs, ..Checkpoints::default() }
    }
}

/// How many operations a checkpoint must have beside a commit of drafts that recovery rolls forward: no name that was
/// removed before the commit comes back. `ended_count` counts the operations that had ended at each happening.
pub(super) fn removals_before(history: &History, sync: Syncs, ended_count: &[usize]) -> usize {
    let Syncs::Commit(commit, _) = sync else { return 0 };
    let takes_name = |step: &Step| matches!(step, Step::Remove { .. } | Step::Rename { .. });
    let removes = |operation: &usize| history.operations[*operation].steps.iter().any(takes_name);
    let known = ended_count[history.operations[commit].begin];
    history.ended()[..known].iter().rposition(removes).map_or(0, |place| place + 1)
}
