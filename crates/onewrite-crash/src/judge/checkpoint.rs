//! Checkpoint: judges a file system that recovers a checkpoint and rolls single files forward over it, as F2FS does.
//!
//! # What must hold
//! There is a checkpoint that explains the recovered tree: a candidate with everything that completed syncs of all, and
//! of directories, cover, such that
//! 1. *names*, kinds, links and link targets are the candidate's, but for files that are new since then and synced:
//!    these have the one name that they had at their sync;
//! 2. a *rolled* file is as a sync behind the checkpoint had it, as a whole: size, content, attributes. It is never
//!    older than its last completed sync, and a file that is new since the checkpoint is there if it was synced. A sync
//!    beside operations that the checkpoint has may lie before it or behind it;
//! 3. any *other* file has the candidate's size and attributes. Each of its pages holds what it held at the file's last
//!    sync, or was given since then and before the checkpoint. A page that got or lost its block before the
//!    checkpoint and after that sync holds zeros, or what it was given then or later.
//!
//! Where syncs overwrite (`overwritten`), pages may be newer in 2 and 3.
//!
//! Where names are synced with the tree (a staging area), such a page may end in zeros from a byte on that is zero in
//! the candidate, too: truncations go with the inode.
//!
//! A commit of drafts that the checkpoint has is a sync of its files for 3, whether it has returned or not; of one that
//! the checkpoint lacks no page may be seen but by 2.
//!
//! Which syncs the file system turns into checkpoints is not known here. Such a sync is explained by a later candidate.

use std::collections::BTreeSet;
use std::rc::Rc;

use onewrite_block::{PAGE_SIZE, Page};
use rustc_hash::{FxHashMap, FxHashSet};

use super::overwritten::in_place;
use super::pages::{is_mixed, is_seen};
use super::rolling::{BlockChange, Moment, NodeSync, REMEMBERED_MAX, Rolled, State};
use super::{Breach, Candidate, Judge, Promise, Version, changes};
use crate::hash::ZEROS;
use crate::model::{Entry, FileContent, ItemKind, Listing, NodeId, Tree};
use crate::recovery::Found;
use crate::subject::{Keeps, SyncedNames};

/// Where a tree differs from what a candidate allows.
#[derive(Default)]
struct Misses {
    names: Vec<String>,
    /// Files that lack what a sync made durable.
    synced: Vec<String>,
    content: Vec<String>,
}

impl Misses {
    fn count(&self) -> usize {
        self.names.len() + self.synced.len() + self.content.len()
    }

    fn breach(self) -> Breach {
        let (promise, what) = match (self.names.is_empty(), self.synced.is_empty()) {
            (false, _) => (Promise::Steps, "the tree is that of no checkpoint with the files synced behind it"),
            (true, false) => (Promise::Durability, "a synced file is not as its sync had it"),
            (true, true) => (Promise::Content, "content that a file cannot have here"),
        };
        let difference = [self.names, self.synced, self.content].concat();
        Breach { promise, what: what.into(), difference }
    }
}

impl Judge<'_> {
    /// Whether recovery rolls a sync of this node forward, so that no other change has to be there.
    pub(super) fn rolls_forward(&self, node: NodeId) -> bool {
        let is_file = || self.trees.last().is_some_and(|tree| tree.content(node).is_some());
        let is_rolled = !matches!(self.promises.keeps, Keeps::Checkpoint(SyncedNames::Tree));
        matches!(self.promises.keeps, Keeps::Checkpoint(_)) && is_rolled && is_file()
    }

    /// How many of the first `known` operations a sync of a file must have in a checkpoint for its names' sake.
    pub(super) fn renames_before(&self, node: NodeId, known: usize) -> usize {
        if self.promises.keeps != Keeps::Checkpoint(SyncedNames::All) {
            return 0;
        }
        let has_changed = |place: &usize| {
            let before = &self.trees[place - 1];
            before.contains(node) && before.names_of(node) != self.trees[*place].names_of(node)
        };
        (1..=known).rev().find(has_changed).unwrap_or(0)
    }

    /// Judges a tree; `None` if a checkpoint explains it.
    pub(super) fn judge_checkpoint(&self, found: &Found, happened: usize) -> Option<Breach> {
        let key = (found.full, happened);
        if self.checkpoints.explained.borrow().contains(&key) {
            return None;
        }
        let needed = self.obligations[happened].prefix;
        let last = self.checkpoints.last.get();
        let first = self.candidates.partition_point(|candidate| candidate.prefix < needed);
        let begun = |index: &usize| self.is_begun(&self.candidates[*index], happened);
        let known = Some(last).filter(|last| (first..self.candidates.len()).contains(last));
        // The names of most trees are those of their checkpoint; others have files that syncs brought back, too.
        let is_alike = |index: &usize| self.candidates[*index].skeleton == found.skeleton;
        let (alike, others) = (first..self.candidates.len()).filter(begun).partition::<Vec<usize>, _>(is_alike);
        let all: Vec<usize> = known.filter(begun).into_iter().chain(alike).chain(others).collect();
        let misses = |index: usize| self.misses(index, found, happened);
        let explains = |index: &&usize| self.may_explain(**index, found, happened) && misses(**index).count() == 0;
        if let Some(index) = all.iter().find(explains) {
            self.checkpoints.last.set(*index);
            remember(&mut self.checkpoints.explained.borrow_mut(), key);
            return None;
        }
        let nearest = all.into_iter().map(misses).min_by_key(|misses| (misses.names.len(), misses.count()));
        let nearest = nearest.unwrap_or_default();
        let short = (0..first).filter(begun).find(|index| misses(*index).names.is_empty());
        match short.filter(|_| !nearest.names.is_empty()) {
            Some(index) => {
                let prefix = self.candidates[index].prefix;
                let what = format!("the checkpoint has {prefix} operations, but {needed} were synced");
                let difference = [nearest.names, nearest.synced, nearest.content].concat();
                Some(Breach { promise: Promise::Durability, what, difference })
            }
            None => Some(nearest.breach()),
        }
    }

    /// Whether nothing speaks against a candidate before pages are looked at: of thousands only few are left.
    fn may_explain(&self, index: usize, found: &Found, happened: usize) -> bool {
        let rolled = self.rolled(self.candidates[index].prefix, happened);
        if rolled.is_empty() {
            return self.candidates[index].shape == found.shape;
        }
        let base = self.listing(index);
        found.listing.items().all(|(path, item)| {
            let ItemKind::File(content) = &item.kind else { return true };
            let Some(Entry { owner, item }) = base.entry(path) else { return true };
            let ItemKind::File(expected) = &item.kind else { return false };
            let is_brought_back = |file: &Rolled| self.is_in_any(file, content, happened);
            (content.size, &content.attributes) == (expected.size, &expected.attributes)
                || rolled.iter().find(|file| u64::from(file.node.0) == *owner).is_some_and(is_brought_back)
        })
    }

    /// Where the tree differs from what this candidate allows.
    fn misses(&self, index: usize, found: &Found, happened: usize) -> Misses {
        let candidate = &self.candidates[index];
        let (base, rolled) = (self.listing(index), self.rolled(candidate.prefix, happened));
        let mut misses = Misses::default();
        let new = self.new_files(&base, (candidate, &rolled), (found, happened), &mut misses);
        self.compare_names(&base, &found.listing, &new, &mut misses);
        if !misses.names.is_empty() {
            return misses;
        }
        for (path, item) in found.listing.items().filter(|(path, _)| !new.contains(*path)) {
            let ItemKind::File(content) = &item.kind else { continue };
            let before = base.entry(path).expect("the names are equal");
            let ItemKind::File(expected) = &before.item.kind else { continue };
            let node = NodeId(before.owner as u32);
            let file = rolled.iter().find(|rolled| rolled.node == node);
            if file.is_some_and(|file| self.is_in_any(file, content, happened)) {
                continue;
            }
            let is_size = |file: &Rolled| file.states.iter().any(|state| state.size == content.size);
            if file.is_some_and(|file| file.is_synced && (file.is_exact || !is_size(file))) {
                misses.synced.push(format!("! {path}: synced behind the checkpoint, and not as it was then"));
                continue;
            }
            if let Some(wrong) = self.unlike(candidate, (node, expected), content, happened) {
                let line = format!("! {path}: {wrong}");
                let was = |tree: &Tree| tree.content(node).is_some_and(|was| was.full_hash() == content.full_hash());
                if self.trees.iter().any(was) { misses.synced.push(line) } else { misses.content.push(line) }
            }
        }
        misses
    }

    /// The paths of files that the checkpoint does not know and a sync brought back.
    fn new_files(
        &self,
        base: &Listing,
        (candidate, rolled): (&Candidate, &[Rolled]),
        (found, happened): (&Found, usize),
        misses: &mut Misses,
    ) -> BTreeSet<String> {
        let directory = |node: NodeId| match node {
            Tree::ROOT => Some(String::new()),
            _ => base.entries().find(|(_, entry)| entry.owner == node.0.into()).map(|(path, _)| path.to_owned()),
        };
        let in_base: FxHashSet<u64> = base.entries().map(|(_, entry)| entry.owner).collect();
        let mut new = BTreeSet::new();
        for file in rolled.iter().filter(|file| !in_base.contains(&file.node.0.into())) {
            let path = |state: &State| {
                let (parent, name) = state.name.as_ref()?;
                let path = format!("{}/{name}", directory(*parent)?);
                let ItemKind::File(content) = &found.listing.item(&path)?.kind else { return None };
                (base.item(&path).is_none() && self.is_in(state, file.node, content, happened)).then_some(path)
            };
            match file.states.iter().find_map(path) {
                Some(path) => drop(new.insert(path)),
                None if file.is_synced && !self.is_known(candidate, file.node) => {
                    let name = file.states.iter().find_map(|state| state.name.clone());
                    let told = name.map_or_else(|| "a file".to_owned(), |(_, name)| format!("`{name}`"));
                    misses.synced.push(format!("- {told}: new and synced, and not there as it was then"));
                }
                None => (),
            }
        }
        new
    }

    /// Whether a candidate has a node, with a name or without.
    fn is_known(&self, candidate: &Candidate, node: NodeId) -> bool {
        let is_made = |(operation, count): &(usize, usize)| {
            self.operation(*operation).steps[..*count].iter().any(|step| changes(step, node))
        };
        self.trees[candidate.prefix].contains(node) || candidate.partial.iter().any(is_made)
    }

    /// Compares names, kinds, links and link targets, but for the paths in `new`.
    fn compare_names(&self, base: &Listing, found: &Listing, new: &BTreeSet<String>, misses: &mut Misses) {
        let (mut nodes, mut inodes) = (FxHashMap::default(), FxHashMap::default());
        for (path, Entry { owner: inode, item }) in found.entries() {
            let Some(Entry { owner: node, item: expected }) = base.entry(path) else {
                match new.contains(path) && inodes.insert(*inode, u64::MAX).is_none() {
                    true => (),
                    false => misses.names.push(format!("+ {path}")),
                }
                continue;
            };
            let is_one =
                *nodes.entry(*node).or_insert(*inode) == *inode && *inodes.entry(*inode).or_insert(*node) == *node;
            let is_alike = match (&item.kind, &expected.kind) {
                (ItemKind::File(_), ItemKind::File(_)) => true,
                (one, other) => one == other,
            };
            if !is_one || !is_alike {
                misses.names.push(format!("! {path}: names something else than expected"));
            }
        }
        let missing = base.items().filter(|(path, _)| found.item(path).is_none());
        misses.names.extend(missing.map(|(path, _)| format!("- {path}")));
    }

    /// What is wrong with a file that no sync behind the checkpoint brought back; `None` if nothing is.
    fn unlike(
        &self,
        candidate: &Candidate,
        (node, expected): (NodeId, &FileContent),
        found: &FileContent,
        happened: usize,
    ) -> Option<String> {
        if found.attributes != expected.attributes {
            return Some(format!("expected {:?}, found {:?}", expected.attributes, found.attributes));
        }
        if found.size != expected.size {
            return Some(format!("expected {} bytes, found {}", expected.size, found.size));
        }
        let pages = self.pages_to_judge(node, found).into_iter();
        let is_possible = |index: u64| {
            let allowed = self.possible_pages(candidate, (node, index), happened);
            self.is_seen_in(found, index, &allowed) || self.is_cut(expected, index, found, &allowed)
        };
        let wrong = pages.filter(|index| !is_possible(*index));
        let wrong: Vec<String> = wrong.map(|index| index.to_string()).collect();
        (!wrong.is_empty()).then(|| format!("page {} holds what it cannot hold here", wrong.join(", ")))
    }

    /// Whether a page is one of `allowed` up to a byte that is zero in the candidate, and zeros from there on. For a
    /// truncation goes with the inode, and content that was written before it does not.
    fn is_cut(&self, expected: &FileContent, index: u64, found: &FileContent, allowed: &[(Page, u64)]) -> bool {
        let (newest, bytes) = (expected.pages.shown(index).0.bytes(), found.pages.shown(index).0.bytes());
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let is_truncated = newest.get(end).is_some_and(|byte| *byte == 0);
        let is_tree = self.promises.keeps == Keeps::Checkpoint(SyncedNames::Tree);
        is_tree && is_truncated && allowed.iter().any(|(page, _)| page.bytes()[..end] == bytes[..end])
    }

    /// Whether a page of a file is one of `allowed`, as far as the file reaches.
    pub(super) fn is_seen_in(&self, found: &FileContent, index: u64, allowed: &[(Page, u64)]) -> bool {
        let (page, hash) = found.pages.shown(index);
        let visible = (found.size - index * PAGE_SIZE as u64).min(PAGE_SIZE as u64) as usize;
        let pages = || allowed.iter().map(|(page, _)| page.clone()).collect::<Vec<_>>();
        allowed.iter().any(|version| is_seen(version.clone(), hash, visible))
            || self.tears && is_mixed(page, &pages(), visible)
    }

    /// What a page may hold that only the checkpoint has, each with its hash.
    fn possible_pages(&self, candidate: &Candidate, (node, index): (NodeId, u64), happened: usize) -> Vec<(Page, u64)> {
        let versions = self.versions.get(&(node, index)).map_or(&[][..], Vec::as_slice);
        let (prefix, stop) = (candidate.prefix, self.end_of(candidate.prefix).min(happened));
        let synced = self.obligations[happened].of(node).max(self.committed_in(node, prefix));
        if let Some(content) = self.committed_beside(candidate, (node, index)) {
            return vec![content];
        }
        let is_moved = |version: &&Version| version.block != BlockChange::Kept && version.order < prefix;
        let moved = versions.iter().rfind(is_moved).filter(|version| version.order >= synced);
        let (in_force, from) = match moved {
            Some(moved) => ((Page::ZEROS, ZEROS), moved.order),
            None => {
                let before = versions.iter().rfind(|version| version.order < synced);
                let initial = || self.history.initial.page(node, index).unwrap_or((Page::ZEROS, ZEROS));
                (before.map_or_else(initial, Version::content), synced)
            }
        };
        let is_later = |version: &&Version| {
            let is_possible = !version.is_committed && version.begin < stop;
            version.order >= from && (version.order < prefix || is_possible)
        };
        // An operation of which the candidate has a part may have given the block that it overwrites.
        let beside = versions.iter().filter(|version| version.order >= prefix && self.is_beside(candidate, version));
        let places = std::iter::once(prefix.max(from)).chain(beside.map(|version| version.order.saturating_add(1)));
        let overwritten = places.filter(|_| self.promises.overwrites).flat_map(|at| in_place(versions, at, happened));
        let later = versions.iter().filter(is_later).map(Version::content);
        std::iter::once(in_force).chain(later).chain(overwritten).collect()
    }

    /// How many operations there are up to the last commit of drafts among the first `prefix` that changed a file.
    fn committed_in(&self, node: NodeId, prefix: usize) -> usize {
        let commits = self.commits.get(&node).map_or(&[][..], Vec::as_slice);
        commits.iter().rfind(|order| **order < prefix).map_or(0, |order| order + 1)
    }

    /// What a commit of drafts gave to a page, if it was under way and the candidate has it.
    fn committed_beside(&self, candidate: &Candidate, (node, index): (NodeId, u64)) -> Option<(Page, u64)> {
        let is_beside = |version: &&Version| version.is_committed && self.is_beside(candidate, version);
        self.versions.get(&(node, index))?.iter().rfind(is_beside).map(Version::content)
    }

    /// Whether the operation that gave a version has not ended in the candidate, which has a part of it.
    fn is_beside(&self, candidate: &Candidate, version: &Version) -> bool {
        candidate.partial.iter().any(|(operation, _)| self.operation(*operation).begin == version.begin)
    }

    /// The happening at which a tree of `prefix` ended operations becomes another.
    fn end_of(&self, prefix: usize) -> usize {
        self.ended_count.iter().rposition(|ended| *ended == prefix).expect("each number is reached")
    }

    /// The files that recovery may roll forward over a checkpoint with `prefix` ended operations.
    fn rolled(&self, prefix: usize, happened: usize) -> Rc<Vec<Rolled>> {
        let mut remembered = self.checkpoints.rolled.borrow_mut();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        let compute = || {
            let all = self.checkpoints.syncs.iter();
            let rolled = all.filter_map(|(node, syncs)| self.rolled_file(*node, syncs, (prefix, happened)));
            Rc::new(rolled.collect())
        };
        Rc::clone(remembered.entry((prefix, happened)).or_insert_with(compute))
    }

    fn rolled_file(&self, node: NodeId, syncs: &[NodeSync], (prefix, happened): Moment) -> Option<Rolled> {
        let is_done = |sync: &&NodeSync| sync.end.is_some_and(|end| end < happened);
        let last = syncs.iter().filter(is_done).map(|sync| sync.position).max();
        let is_possible = |sync: &&NodeSync| {
            let is_there = sync.begin < happened && sync.needs <= prefix;
            is_there && sync.position >= prefix && last.is_none_or(|last| sync.position >= last)
        };
        let (mut states, mut shown) = (Vec::new(), FxHashSet::default());
        for sync in syncs.iter().filter(is_possible) {
            let last = sync.reached.min(self.ended_count[happened].max(sync.known));
            let places = sync.known.max(prefix)..=last;
            let all = places.flat_map(|place| self.states_of(node, place, happened));
            states.extend(all.filter(|state| shown.insert(state.shown())));
        }
        // One that began before the checkpoint's last operations may lie before them: 3 holds then.
        let is_synced = syncs.iter().filter(is_done).any(|sync| sync.known >= prefix);
        let is_exact = is_synced && syncs.iter().filter(is_possible).all(|sync| sync.is_whole);
        let hashes = states.iter().map(|state| state.hash).collect();
        (!states.is_empty()).then_some(Rolled { node, states, hashes, is_synced, is_exact })
    }

    /// The states of a file after `place` ended operations; several if operations failed halfway.
    fn states_of(&self, node: NodeId, place: usize, happened: usize) -> Vec<State> {
        let of = |tree: &Tree| {
            let names = tree.names_of(node);
            let name = if let [name] = &names[..] { Some(name.clone()) } else { None };
            let content = tree.content(node)?;
            let (hash, size, attributes) = (content.full_hash(), content.size, content.attributes);
            Some(State { place, hash, size, attributes, name })
        };
        let mut states: Vec<State> = of(&self.trees[place]).into_iter().collect();
        let failed = self.failed.iter().map(|index| self.operation(*index));
        for operation in failed.filter(|operation| operation.begin < happened) {
            let mut tree = self.trees[place].clone();
            for step in operation.steps.iter().take_while(|step| changes(step, node)) {
                tree.apply(step);
                states.extend(of(&tree));
            }
        }
        states
    }
}

fn remember(explained: &mut FxHashSet<(u64, usize)>, key: (u64, usize)) {
    if explained.len() >= REMEMBERED_MAX {
        explained.clear();
    }
    explained.insert(key);
}
