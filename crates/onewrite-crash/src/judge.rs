//! Judge: checks a recovered tree against what the mode promises at a place of the run.
//!
//! # What must hold
//! 1. *Steps*: names, kinds, links and sizes equal those after a prefix of the steps, in order, in every mode. In full
//!    scope the contents do too. Any part of the steps of operations under way may be done.
//! 2. *Durability*: the prefix includes everything that the completed syncs cover. The last change of a synced file is
//!    there as a whole, in the prefix or beside it.
//! 3. *Content*, outside full scope: a page holds its content as of the last sync of its file, or any content written
//!    since. `ordered`: a page that got its block since then holds what was written with the block, or later content;
//!    never the block's old content; and what a truncation cut off a page is gone with it (`cuts`). `writeback`: such a
//!    page may hold anything.
//! 4. *Delayed allocation*, outside full scope: sizes follow the content (see `sizes`). A page that had no block at the
//!    last sync of its file holds zeros or content written since, in `writeback` too; the last page of a size that a
//!    write gave holds content.
//!
//! 5. *Shares*: once a share has returned, its pages have its content, in every mode. Of one under way, all pages have
//!    it or none (`shares`).
//!
//! A commit of drafts is one step, and its return a sync of it. What no commit took is no step: it must never be seen.
//! A file system that rolls files forward over checkpoints has a judge of its own (`checkpoint`).
//!
//! The order of steps is the order in which the operations ended; `history` says why.

mod candidates;
mod checkpoint;
mod combinations;
mod cuts;
mod nearest;
mod of_steps;
mod overwritten;
mod pages;
mod rolling;
mod shares;
mod ways;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onewrite_block::Page;
use rustc_hash::FxHashMap;
use serde::Serialize;

use combinations::{COMBINATIONS_MAX, FAILED_COMBINATIONS_MAX, are_more, combinations};
use cuts::Cuts;
pub(crate) use of_steps::changes;
use of_steps::{is_beside_content, lingers, sized};
pub(crate) use pages::is_seen;
use rolling::{BlockChange, Checkpoints, removals_before};
use ways::{LastWays, Ways};

use crate::history::{Happening, History, Operation, Syncs};
use crate::model::{ItemKind, Listing, NodeId, Step, Touched, Tree};
use crate::options::ExploreOptions;
use crate::recovery::{Found, Problem};
use crate::sizes::{Change, Sizes, Surviving};
use crate::subject::{Keeps, Promises};

/// Most listings of candidates kept in memory; then all are dropped.
const LISTINGS_MAX: usize = 2_048;

/// The promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Recovery succeeds.
    Recovery,
    /// The checkers find nothing.
    Structure,
    /// The tree is the one after a prefix of the steps.
    Steps,
    /// Synced changes are there.
    Durability,
    /// A page shows only content that was written to it.
    Content,
    /// The device keeps the content that it promised to keep.
    Device,
    /// An error reaches the caller and nothing acknowledged is lost.
    Faults,
    /// What was done is read: from the mounted file system, and from views of images that are not mounted.
    Reading,
    /// On a healthy disk operations succeed, and an unmount leaves nothing to do.
    Service,
}

/// An allowed tree: after `prefix` ended operations and, for each pair in `partial`, the first steps of an operation
/// under way (operation, number of steps).
struct Candidate {
    prefix: usize,
    partial: Vec<(usize, usize)>,
    full: u64,
    shape: u64,
    /// Of its names, without what files are like.
    skeleton: u64,
}

/// A content that was written to a page.
struct Version {
    /// Position of its operation among the ended ones.
    order: usize,
    begin: usize,
    page: Page,
    hash: u64,
    allocates: bool,
    block: BlockChange,
    /// Whether a commit of drafts wrote it.
    is_committed: bool,
}

impl Version {
    fn content(&self) -> (Page, u64) {
        (self.page.clone(), self.hash)
    }
}

/// An operation that has returned.
#[derive(Clone, Copy, Debug)]
struct Returned {
    /// Its place among the ended.
    place: usize,
    /// Its number in the history.
    index: usize,
    /// Whether it joined a transaction.
    has_joined: bool,
}

/// What a recovered tree must contain after a number of happenings.
#[derive(Clone, Debug, Default)]
struct Obligations {
    /// Number of ended operations that must be in the prefix.
    prefix: usize,
    /// Operations that must be there as a whole, by file or directory: position among the ended ones, and number.
    whole: BTreeMap<NodeId, (usize, usize)>,
    /// Number of ended operations whose content must be there: for all files here, for single files in `nodes`.
    all: usize,
    nodes: BTreeMap<NodeId, usize>,
    /// The same for pages that were shared, and for the sizes of their files.
    shared_pages: BTreeMap<(NodeId, u64), usize>,
    shared: BTreeMap<NodeId, usize>,
    /// The largest of these numbers.
    content: usize,
}

impl Obligations {
    fn of(&self, node: NodeId) -> usize {
        self.nodes.get(&node).copied().unwrap_or(0).max(self.all)
    }

    fn of_page(&self, node: NodeId, index: u64) -> usize {
        self.shared_pages.get(&(node, index)).copied().unwrap_or(0).max(self.of(node))
    }
}

/// See the module's head.
pub(crate) struct Judge<'a> {
    promises: Promises,
    tears: bool,
    history: &'a History,
    /// Operations that have no end.
    failed: Vec<usize>,
    /// Whether somewhere more operations are under way than all combinations of their steps are candidates.
    lacks_candidates: bool,
    /// The tree after each number of ended operations.
    trees: Vec<Tree>,
    candidates: Vec<Candidate>,
    listings: RefCell<FxHashMap<usize, Rc<Listing>>>,
    /// Those of the last candidate that was listed.
    ways: RefCell<Option<LastWays>>,
    by_full: FxHashMap<u64, Vec<usize>>,
    by_shape: FxHashMap<u64, Vec<usize>>,
    by_names: FxHashMap<u64, Vec<usize>>,
    sizes: Sizes,
    cuts: Cuts,
    /// Indexed by number of happenings.
    obligations: Vec<Rc<Obligations>>,
    /// Indexed by number of happenings.
    ended_count: Vec<usize>,
    versions: BTreeMap<(NodeId, u64), Vec<Version>>,
    /// Positions of the commits of drafts that changed a file's content, and of its shifts.
    commits: BTreeMap<NodeId, Vec<usize>>,
    checkpoints: Checkpoints,
}

/// What is wrong with the candidates that match a recovered tree.
enum Wrong {
    /// No candidate matches; `short` is one that would match but lacks synced changes.
    Steps { short: Option<usize> },
    /// The first candidate has the wrong content.
    Content(Breach),
}

/// A broken promise, with what was expected.
#[derive(Clone)]
pub(crate) struct Breach {
    pub(crate) promise: Promise,
    pub(crate) what: String,
    /// The difference between the nearest correct tree and the recovered one.
    pub(crate) difference: Vec<String>,
}

impl<'a> Judge<'a> {
    /// Computes every allowed tree at every place of the run.
    pub(crate) fn new(history: &'a History, promises: Promises, options: &ExploreOptions) -> Judge<'a> {
        let mut judge = Judge {
            promises,
            tears: options.tears(),
            history,
            failed: (0..).zip(&history.operations).filter(|(_, it)| it.end.is_none()).map(|(index, _)| index).collect(),
            lacks_candidates: false,
            trees: Vec::new(),
            candidates: Vec::new(),
            listings: RefCell::default(),
            ways: RefCell::default(),
            by_full: FxHashMap::default(),
            by_shape: FxHashMap::default(),
            by_names: FxHashMap::default(),
            sizes: Sizes::default(),
            cuts: Cuts::default(),
            obligations: Vec::new(),
            ended_count: Vec::new(),
            versions: BTreeMap::new(),
            commits: BTreeMap::new(),
            checkpoints: Checkpoints::default(),
        };
        let joins = judge.walk();
        judge.oblige(&joins);
        judge.checkpoints = Checkpoints::new(history, &judge.ended_count);
        judge
    }

    fn keeps_versions(&self) -> bool {
        self.promises.keeps == Keeps::Version
    }

    fn operation(&self, index: usize) -> &'a Operation {
        &self.history.operations[index]
    }

    /// Visits all prefixes; returns for each ended operation whether it joined a transaction.
    fn walk(&mut self) -> Vec<bool> {
        let ended = self.history.ended();
        let mut tree = self.history.initial.clone();
        let mut joins = Vec::new();
        for prefix in 0..=ended.len() {
            let next_end = ended.get(prefix).and_then(|operation| self.operation(*operation).end);
            let stop = next_end.unwrap_or(self.history.happenings.len());
            let under_way = self.under_way(stop, prefix, &ended);
            self.add_candidates(&tree, prefix, &under_way);
            self.trees.push(tree.clone());
            if let Some(operation) = ended.get(prefix) {
                joins.push(self.take_steps(&mut tree, *operation, prefix));
            }
        }
        for operation in self.failed.clone() {
            self.take_steps(&mut tree.clone(), operation, usize::MAX);
        }
        self.versions.values_mut().for_each(|versions| versions.sort_by_key(|version| version.order));
        self.sizes.sort();
        joins
    }

    /// Operations with steps that begin before happening `stop` and are not among the first `prefix` ended operations.
    fn under_way(&self, stop: usize, prefix: usize, ended: &[usize]) -> Vec<usize> {
        let begun = |index: &usize| self.operation(*index).begin < stop && !self.operation(*index).steps.is_empty();
        ended[prefix..].iter().chain(&self.failed).copied().filter(begun).collect()
    }

    fn add_candidates(&mut self, tree: &Tree, prefix: usize, under_way: &[usize]) {
        let has_failed = under_way.iter().any(|op| self.operation(*op).failed.is_some());
        let most = if has_failed { FAILED_COMBINATIONS_MAX } else { COMBINATIONS_MAX };
        let counts: Vec<usize> = under_way.iter().map(|op| self.operation(*op).steps.len()).collect();
        self.lacks_candidates |= are_more(&counts, most);
        let (mut ways, steps) = (Ways::new(tree), self.steps_of(under_way));
        for way in combinations(&counts, most) {
            let Some(tree) = ways.tree(&steps, &way) else { continue };
            let partial = under_way.iter().copied().zip(way).filter(|(_, count)| *count > 0).collect();
            let listing = tree.listing();
            let (full, shape, index) = (listing.full_hash(), listing.shape_hash(), self.candidates.len());
            self.by_full.entry(full).or_default().push(index);
            self.by_shape.entry(shape).or_default().push(index);
            if self.promises.delays {
                self.by_names.entry(listing.name_hash()).or_default().push(index);
            }
            self.candidates.push(Candidate { prefix, partial, full, shape, skeleton: listing.skeleton_hash() });
        }
    }

    fn listing(&self, index: usize) -> Rc<Listing> {
        let mut listings = self.listings.borrow_mut();
        if listings.len() >= LISTINGS_MAX {
            listings.clear();
        }
        let listed = || Rc::new(self.tree_of(&self.candidates[index]).listing());
        Rc::clone(listings.entry(index).or_insert_with(listed))
    }

    /// Applies the steps of an operation and records the versions of pages; returns whether it joined a transaction.
    fn take_steps(&mut self, tree: &mut Tree, operation: usize, order: usize) -> bool {
        let entry = self.operation(operation);
        let mut joins = false;
        for step in &entry.steps {
            let size = sized(tree, step);
            let change = Change { operation, order, begin: entry.begin, size, grows: false };
            let grown = tree.grown_by_share(step);
            let before = matches!(self.promises.keeps, Keeps::Checkpoint(_)).then(|| tree.clone());
            let touched = tree.apply(step).unwrap_or_default();
            self.note_size(tree, step, change);
            self.note_shared_sizes(tree, (step, &grown), change);
            joins |= self.joins(step, sized(tree, step) != size, &touched);
            let is_committed = matches!(step, Step::Atomic(_));
            let settled: BTreeSet<NodeId> = match step {
                Step::Atomic(steps) => steps.iter().filter_map(Step::content_of).collect(),
                // What was written before it is moved with the inode.
                Step::Shift { node, .. } => BTreeSet::from([*node]),
                _ => BTreeSet::new(),
            };
            settled.into_iter().for_each(|node| self.commits.entry(node).or_default().push(order));
            for Touched { node, index, page, hash, allocates } in touched {
                let block = BlockChange::between(before.as_ref(), tree, (node, index));
                let version = Version { order, begin: entry.begin, page, hash, allocates, block, is_committed };
                self.versions.entry((node, index)).or_default().push(version);
            }
        }
        joins
    }

    /// Whether a step is part of a transaction that an `fdatasync` has to wait for. Zeroing a page without a block
    /// changes only the time. With delayed allocation, nobody knows yet which pages have a block.
    fn joins(&self, step: &Step, changes_size: bool, touched: &[Touched]) -> bool {
        let is_full = self.keeps_versions();
        match step {
            Step::Write { .. } => is_full || changes_size || touched.iter().any(|page| page.allocates),
            Step::Share(_) => is_full || touched.iter().any(|page| page.allocates),
            Step::Zero { .. } => is_full && !touched.is_empty(),
            Step::Free { .. } => !self.promises.delays && !touched.is_empty(),
            _ => true,
        }
    }

    /// Notes the size that a step gave to its file, if it did. `before` is the change without it, with the old size.
    fn note_size(&mut self, tree: &Tree, step: &Step, before: Change) {
        match step {
            Step::Write { node, .. } if tree.size(*node) > before.size => {
                self.sizes.note(*node, Change { size: tree.size(*node), grows: true, ..before });
            }
            Step::Truncate { node, .. } | Step::Shift { node, .. } => {
                self.sizes.note(*node, Change { size: tree.size(*node), ..before });
                if matches!(step, Step::Truncate { .. }) {
                    self.cuts.note(*node, before.order, tree.size(*node));
                }
            }
            _ => (),
        }
    }

    fn oblige(&mut self, joins: &[bool]) {
        let mut current = Rc::new(Obligations::default());
        let (mut ended, mut ended_before) = (Vec::new(), vec![0]);
        self.obligations.push(Rc::clone(&current));
        for happening in &self.history.happenings {
            if let Happening::End(operation) = happening {
                let entry = self.operation(*operation);
                let known = ended_before[entry.begin];
                match entry.syncs {
                    Syncs::Nothing => (),
                    Syncs::Everything => {
                        let now = Rc::make_mut(&mut current);
                        (now.prefix, now.all) = (now.prefix.max(known), now.all.max(known));
                        now.content = now.content.max(known);
                    }
                    Syncs::Shares => {
                        let place = ended.len();
                        Rc::make_mut(&mut current)
                            .oblige_shares(Returned { place, index: *operation, has_joined: joins[place] }, entry);
                    }
                    Syncs::Operation(first) => {
                        let place = ended.iter().position(|other| *other == first).expect("it ended before");
                        let now = Rc::make_mut(&mut current);
                        now.prefix = now.prefix.max(place + 1);
                    }
                    Syncs::Node(node) | Syncs::Content(node) | Syncs::Commit(_, node) => {
                        let now = Rc::make_mut(&mut current);
                        now.prefix = now.prefix.max(removals_before(self.history, entry.syncs, &ended_before));
                        let is_asked = |step: &Step| entry.syncs != Syncs::Content(node) || !is_beside_content(step);
                        if self.rolls_forward(node) {
                            now.prefix = now.prefix.max(self.renames_before(node, known));
                        } else if let Some(place) = self.last_change(&ended[..known], joins, (node, &is_asked)) {
                            let change = self.operation(ended[place]);
                            let least =
                                if change.steps.iter().any(lingers) { ended_before[change.begin] } else { place + 1 };
                            now.prefix = now.prefix.max(least);
                            let whole = now.whole.entry(node).or_insert((place, ended[place]));
                            *whole = (*whole).max((place, ended[place]));
                        }
                        let synced = now.nodes.entry(node).or_default();
                        *synced = known.max(*synced);
                        now.content = now.content.max(known);
                    }
                }
                ended.push(*operation);
            }
            ended_before.push(ended.len());
            self.obligations.push(Rc::clone(&current));
        }
        self.ended_count = ended_before;
    }

    /// Position of the last operation that changed `node` in a transaction by a step that `is_asked` selects.
    fn last_change(
        &self,
        ended: &[usize],
        joins: &[bool],
        (node, is_asked): (NodeId, &dyn Fn(&Step) -> bool),
    ) -> Option<usize> {
        let changes = |(place, operation): &(usize, &usize)| {
            let mut steps = self.operation(**operation).steps.iter();
            joins[*place] && steps.any(|step| changes(step, node) && is_asked(step))
        };
        ended.iter().enumerate().rfind(changes).map(|(place, _)| place)
    }

    /// Judges the recovered content of a state whose cut came after `happened` happenings.
    pub(crate) fn judge(&self, found: &Found, happened: usize) -> Option<Breach> {
        match &found.problem {
            Some(Problem::Recovery(error)) => return Some(breach(Promise::Recovery, error.clone())),
            Some(Problem::Structure(finding)) => return Some(breach(Promise::Structure, finding.clone())),
            Some(Problem::View(wrong)) => return Some(breach(Promise::Reading, wrong.clone())),
            None => (),
        }
        if let Keeps::Checkpoint(_) = self.promises.keeps {
            return self.judge_checkpoint(found, happened);
        }
        let first = match self.keeps_versions() {
            true => like(&self.by_full, found.full),
            false => like(&self.by_shape, found.shape),
        };
        let mut wrong = self.choose(first, found, happened)?;
        if self.promises.delays {
            wrong = self.choose(like(&self.by_names, found.names), found, happened)?;
        }
        if self.is_explained(found, happened) {
            return None;
        }
        Some(match wrong {
            Wrong::Content(breach) => breach,
            Wrong::Steps { short } => self.unmatched(found, happened, short),
        })
    }

    /// What is wrong with all candidates that match the recovered tree; `None` if one of them is right.
    fn choose(&self, matching: &[usize], found: &Found, happened: usize) -> Option<Wrong> {
        let is_full = self.keeps_versions();
        let begun = |index: &&usize| self.is_begun(&self.candidates[**index], happened);
        let obligations = &self.obligations[happened];
        let (long, short): (Vec<&usize>, Vec<&usize>) =
            matching.iter().filter(begun).partition(|index| self.meets(&self.candidates[**index], obligations));
        let mut wrong = Wrong::Steps { short: short.first().map(|index| **index) };
        for index in &long {
            let candidate = &self.candidates[**index];
            let stale = match is_full || self.is_synced_prefix(candidate, found, happened) {
                true => None,
                false => self.stale((candidate, &self.listing(**index)), found, happened),
            };
            match (stale, &wrong) {
                (None, _) => return None,
                (Some(stale), Wrong::Steps { .. }) => wrong = Wrong::Content(stale),
                (Some(_), Wrong::Content(_)) => (),
            }
        }
        Some(wrong)
    }

    /// Whether the candidate contains everything that it must.
    fn meets(&self, candidate: &Candidate, obligations: &Obligations) -> bool {
        candidate.prefix >= obligations.prefix
            && obligations.whole.values().all(|(place, operation)| {
                candidate.prefix > *place
                    || candidate.partial.contains(&(*operation, self.operation(*operation).steps.len()))
            })
    }

    fn is_begun(&self, candidate: &Candidate, happened: usize) -> bool {
        candidate.prefix <= self.ended_count[happened]
            && candidate.partial.iter().all(|(operation, _)| self.operation(*operation).begin < happened)
    }

    fn unmatched(&self, found: &Found, happened: usize, short: Option<usize>) -> Breach {
        let obligations = &self.obligations[happened];
        let needed = obligations.whole.values().map(|(place, _)| place + 1).max().unwrap_or(0).max(obligations.prefix);
        let (promise, what) = match short {
            Some(index) => {
                let prefix = self.candidates[index].prefix;
                let last = self.history.ended()[needed - 1];
                let last = &self.operation(last).action;
                let what = format!("the tree after {prefix} operations, but {needed}, up to `{last}`, were synced");
                (Promise::Durability, what)
            }
            None => (Promise::Steps, format!("the tree is that of no prefix of at least {needed} operations")),
        };
        let allowed = self.candidates.iter().enumerate().filter(|(_, candidate)| self.meets(candidate, obligations));
        let allowed = allowed.filter(|(_, candidate)| self.is_begun(candidate, happened));
        let differences = allowed.map(|(index, _)| self.listing(index).difference(&found.listing));
        Breach { promise, what, difference: differences.min_by_key(Vec::len).unwrap_or_default() }
    }

    /// Whether the tree is that of a prefix with its content, which includes all that was synced.
    fn is_synced_prefix(&self, candidate: &Candidate, found: &Found, happened: usize) -> bool {
        let is_prefix = candidate.full == found.full && candidate.partial.is_empty();
        let is_synced = candidate.prefix >= self.obligations[happened].content;
        is_prefix && is_synced && self.promises.keeps == Keeps::Data
    }

    /// The first page with content that is not allowed.
    fn stale(&self, (candidate, listing): (&Candidate, &Listing), found: &Found, happened: usize) -> Option<Breach> {
        let mut wrong = Vec::new();
        for (path, item) in found.listing.items() {
            let ItemKind::File(content) = &item.kind else { continue };
            let node = NodeId(listing.owner(path).expect("shapes are equal") as u32);
            if self.promises.delays && !self.is_possible_size(candidate, node, content.size, happened) {
                wrong.push(format!("! {path}: a size of {} bytes, which it cannot have here", content.size));
            }
            let pages: Vec<String> = self
                .pages_to_judge(node, content)
                .into_iter()
                .filter(|index| !self.is_allowed(candidate, (node, *index), content, happened))
                .map(|index| index.to_string())
                .collect();
            if !pages.is_empty() {
                wrong.push(format!("! {path}: page {} holds what was never given to it, or what a sync replaced", {
                    pages.join(", ")
                }));
            }
        }
        wrong.extend(self.torn_shares(listing, found, happened));
        let what = "content that the mode does not allow".into();
        (!wrong.is_empty()).then_some(Breach { promise: Promise::Content, what, difference: wrong })
    }

    fn is_possible_size(&self, candidate: &Candidate, node: NodeId, size: u64, happened: usize) -> bool {
        self.sizes.allows(node, self.history.initial.size(node), size, &self.surviving(candidate, node, happened))
    }

    fn surviving<'c>(&self, candidate: &'c Candidate, node: NodeId, happened: usize) -> Surviving<'c> {
        let (obligations, prefix, partial) = (&self.obligations[happened], candidate.prefix, &candidate.partial[..]);
        let shared = obligations.shared.get(&node).copied().unwrap_or(0);
        Surviving { prefix, partial, synced: obligations.of(node), shared, happened }
    }
}

/// The candidates with this hash.
fn like(candidates: &FxHashMap<u64, Vec<usize>>, hash: u64) -> &[usize] {
    candidates.get(&hash).map_or(&[], Vec::as_slice)
}

fn breach(promise: Promise, what: String) -> Breach {
    Breach { promise, what, difference: Vec::new() }
}
