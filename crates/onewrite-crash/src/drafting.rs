//! Drafting: carries out the actions of drafts, of atomic files.
//!
//! A change in a draft is no step of the history. It waits here, and the commit makes one step of all that waits. So a
//! tree that shows a change before its commit, or a part of a commit, is that of no prefix.
//!
//! A commit returns long after its transaction got the changes, and other operations end meanwhile. It is therefore two
//! operations: the first has the step and ends when the drafts turn empty, the second is a sync of the first.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::task::Poll;

use onewrite_fs::{DraftId, FsError, FsResult, Ino, Position};

use crate::action::{Action, Blocks, content};
use crate::history::Syncs;
use crate::model::{Met, NewKind, NodeId, Step, Tree, steps_of_allocation};
use crate::opened::{Draft, Drafts, Opened};
use crate::player::{Plan, Player};
use crate::subject::{DraftChange, DraftChanged, Keeps, Subject};

/// Paths of a rename.
#[derive(Clone, Copy, Debug)]
struct Renaming<'a> {
    from: &'a str,
    to: &'a str,
}

impl<S: Subject> Player<S> {
    /// Makes a change in a draft; begins the draft if it is new.
    pub(crate) async fn draft(&self, slot: u32, change: &Action, open: &mut Opened, plan: &mut Plan) -> FsResult<()> {
        if let Entry::Vacant(vacant) = open.drafts.entry(slot) {
            let id = self.subject.begin_draft(&self.fs)?;
            vacant.insert(Draft::new(id));
        }
        match change {
            Action::Create(path) => self.draft_create(path, open.draft(slot), plan).await,
            Action::Unlink(path) => {
                let (at, directory, name) = self.place(path).await?;
                self.change(open.draft(slot), DraftChange::Unlink((at, name.as_bytes()))).await?;
                let draft = open.draft(slot);
                draft.paths.remove(path);
                draft.steps.push(Step::Remove { directory, name: name.into() });
                Ok(())
            }
            Action::Rename(from, to) => self.draft_rename(slot, Renaming { from, to }, open).await,
            _ => self.draft_content(slot, change, open).await,
        }
    }

    async fn change(&self, draft: &Draft, change: DraftChange<'_>) -> FsResult<DraftChanged> {
        self.subject.change_draft(&self.fs, draft.id, change).await
    }

    async fn draft_create(&self, path: &str, draft: &mut Draft, plan: &mut Plan) -> FsResult<()> {
        let (at, directory, name) = self.place(path).await?;
        let DraftChanged::Created(ino) = self.change(draft, DraftChange::Create((at, name.as_bytes()))).await? else {
            panic!("`create {path}` in a draft made no file");
        };
        let node = self.new_node();
        draft.paths.insert(path.into(), (ino, node));
        draft.claimed.insert(node);
        draft.steps.push(Step::Create { directory, name: name.into(), node, kind: NewKind::File });
        plan.made = Some((ino, node));
        Ok(())
    }

    async fn draft_rename(&self, slot: u32, Renaming { from, to }: Renaming<'_>, open: &mut Opened) -> FsResult<()> {
        let (source, target) = (self.place(from).await?, self.place(to).await?);
        let names = ((source.0, source.2.as_bytes()), (target.0, target.2.as_bytes()));
        let moved = self.target_in(slot, from, open).await;
        let draft = open.draft(slot);
        self.change(draft, DraftChange::Rename(names.0, names.1)).await?;
        draft.paths.remove(from);
        draft.paths.extend(moved.ok().map(|moved| (to.to_owned(), moved)));
        let (from, to) = ((source.1, source.2.into()), (target.1, target.2.into()));
        draft.steps.push(Step::Rename { from, to, manner: onewrite_fs::RenameManner::Replace });
        Ok(())
    }

    /// The file of a path, as the draft names it.
    async fn target_in(&self, slot: u32, path: &str, open: &Opened) -> FsResult<(Ino, NodeId)> {
        match open.drafts.get(&slot).and_then(|draft| draft.paths.get(path)) {
            Some(target) => Ok(*target),
            None => self.target(path, open).await,
        }
    }

    async fn draft_content(&self, slot: u32, change: &Action, open: &mut Opened) -> FsResult<()> {
        let (file, wanted): (_, &dyn Fn(Ino) -> DraftChange<'static>) = match change {
            Action::Write { file, offset, length, seed, .. } => (file, &|ino| {
                let (position, content) = (Position::At(*offset), content(*seed, *length));
                DraftChange::Write { ino, position, content }
            }),
            Action::Append { file, length, seed } => (file, &|ino| {
                let content = content(*seed, *length);
                DraftChange::Write { ino, position: Position::End, content }
            }),
            Action::Truncate { file, size } => (file, &|ino| DraftChange::SetSize { ino, size: *size }),
            Action::Allocate { file, offset, length, how: Blocks::Punch } => {
                (file, &|ino| DraftChange::Punch { ino, offset: *offset, length: *length })
            }
            _ => return Err(FsError::Unsupported(format!("`{change}` in a draft"))),
        };
        let (ino, node) = self.target_in(slot, file, open).await?;
        let draft = open.draft(slot);
        draft.claimed.insert(node);
        let changed = self.change(draft, wanted(ino)).await?;
        draft.steps.extend(steps(change, node, changed));
        Ok(())
    }

    /// Carries out a commit, whose operation has begun; returns whether there was space for it.
    pub(crate) async fn commit(&self, first: usize, slots: &[u32], open: &mut Opened) -> bool {
        let (ids, is_changed) = match self.changed(slots, &open.drafts) {
            Ok(found) => found,
            Err(error) => return self.end(first, Err(error), Plan::default()),
        };
        let steps = if is_changed { vec![Step::Atomic(self.waiting(slots, &open.drafts))] } else { Vec::new() };
        let synced = self.synced_alone(first, slots, &open.drafts);
        if !is_changed {
            let claimed = slots.iter().flat_map(|slot| open.drafts[slot].claimed.iter().copied());
            self.note_touched(first, claimed.collect());
        }
        let plan = || Plan { steps: steps.clone(), ..Plan::default() };
        let mut second = None;
        let mut commit = pin!(self.subject.commit_drafts(&self.fs, &ids));
        let outcome = std::future::poll_fn(|context| {
            let outcome = commit.as_mut().poll(context);
            let is_refused = matches!(outcome, Poll::Ready(Err(_)));
            if is_changed && second.is_none() && !is_refused && !self.is_any_changed(&ids) {
                self.end(first, Ok(()), plan());
                second = Some(self.begin(&Action::Commit(slots.to_vec())));
            }
            outcome
        })
        .await;
        // A device that fails after the transaction took the changes leaves drafts without them.
        let has_failed = matches!(outcome, Err(FsError::Device(_) | FsError::ReadOnly(_)));
        if outcome.is_ok() || has_failed && !self.is_any_changed(&ids) {
            slots.iter().filter_map(|slot| open.drafts.get_mut(slot).map(Draft::forget)).for_each(drop);
        }
        match second {
            Some(second) => {
                let plan = Plan { syncs: Some(synced.unwrap_or(Syncs::Operation(first))), ..Plan::default() };
                self.end(second, outcome, plan)
            }
            None => self.end(first, outcome, plan()),
        }
    }

    /// The drafts of these numbers, and whether one of them has changes.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is none of a number.
    fn changed(&self, slots: &[u32], drafts: &Drafts) -> FsResult<(Vec<DraftId>, bool)> {
        let ids = ids(slots, drafts)?;
        let is_changed = self.is_any_changed(&ids);
        if !is_changed {
            let (mut after, before) = (self.tree(), self.tree());
            let is_possible = after.apply(&Step::Atomic(self.waiting(slots, drafts))).is_some();
            let is_same = after.listing().full_hash() == before.listing().full_hash();
            assert!(is_possible && is_same, "drafts {slots:?} have lost changes");
        }
        Ok((ids, is_changed))
    }

    fn is_any_changed(&self, ids: &[DraftId]) -> bool {
        ids.iter().any(|id| self.subject.is_draft_changed(&self.fs, *id).unwrap_or(false))
    }

    /// What a commit of these drafts changes now.
    fn waiting(&self, slots: &[u32], drafts: &Drafts) -> Vec<Step> {
        let steps: Vec<Step> = slots.iter().flat_map(|slot| drafts[slot].steps.iter().cloned()).collect();
        self.tree().effective(&steps)
    }

    /// What a commit of these drafts makes durable, if that is the content of one file alone: where files are rolled
    /// forward over checkpoints, no other change has to be there.
    fn synced_alone(&self, commit: usize, slots: &[u32], drafts: &Drafts) -> Option<Syncs> {
        let waiting: Vec<&Step> = slots.iter().flat_map(|slot| drafts[slot].steps.iter()).collect();
        let nodes: Option<BTreeSet<NodeId>> = waiting.iter().map(|step| step.content_of()).collect();
        let (before, mut after) = (self.tree(), self.tree());
        waiting.iter().for_each(|step| drop(after.apply(step)));
        let hash = |tree: &Tree, node| tree.content(node).map(|content| content.full_hash());
        let mut changed = nodes?.into_iter().filter(|node| hash(&before, *node) != hash(&after, *node));
        let (first, second) = (changed.next(), changed.next());
        let is_rolled = matches!(self.subject.promises().keeps, Keeps::Checkpoint(_));
        (is_rolled && second.is_none()).then(|| first.map_or(Syncs::Nothing, |node| Syncs::Commit(commit, node)))
    }

    /// Drops the changes of drafts.
    pub(crate) async fn abort(&self, slots: &[u32], drafts: &mut Drafts) -> FsResult<()> {
        self.subject.abort_drafts(&self.fs, &ids(slots, drafts)?).await?;
        slots.iter().filter_map(|slot| drafts.get_mut(slot).map(Draft::forget)).for_each(drop);
        Ok(())
    }

    /// Ends a draft.
    pub(crate) async fn end_draft(&self, slot: u32, drafts: &mut Drafts) -> FsResult<()> {
        let draft = drafts.remove(&slot).ok_or_else(|| no_draft(slot))?;
        self.subject.end_draft(&self.fs, draft.id).await
    }

    /// Ends all drafts of a task.
    pub(crate) async fn end_drafts(&self, drafts: Drafts) {
        for draft in drafts.into_values() {
            // The unmount ends what cannot be ended here; the history does not depend on it.
            let _ = self.subject.end_draft(&self.fs, draft.id).await;
        }
    }
}

/// The steps of a change of content in a draft.
fn steps(change: &Action, node: NodeId, changed: DraftChanged) -> Vec<Step> {
    match (change, changed) {
        (Action::Write { length, seed, .. } | Action::Append { length, seed, .. }, DraftChanged::Written(offset)) => {
            vec![Step::Write { node, offset, length: *length, seed: *seed }]
        }
        (Action::Truncate { size, .. }, _) => vec![Step::Truncate { node, size: *size }],
        (Action::Allocate { offset, length, how, .. }, DraftChanged::Resized(size)) => {
            // A commit is one step: pages with blocks need not go one by one.
            let met = Met { node, size, tree: &Tree::of_directories(&[]) };
            steps_of_allocation(&met, *offset..*offset + *length, *how)
        }
        _ => unreachable!("`{change}` came to {changed:?}"),
    }
}

fn ids(slots: &[u32], drafts: &Drafts) -> FsResult<Vec<DraftId>> {
    slots.iter().map(|slot| drafts.get(slot).map(|draft| draft.id).ok_or_else(|| no_draft(*slot))).collect()
}

fn no_draft(slot: u32) -> FsError {
    FsError::NotFound(format!("draft {slot} of this task"))
}
