//! Drafting: carries out the actions of drafts, of atomic files.
//!
//! A change in a draft is no step of the history. It waits here, and the commit makes one step of all that waits. So a
//! tree that shows a change before its commit, or a part of a commit, is that of no prefix.
//!
//! A commit returns long after its transaction got the changes, and other operations end meanwhile. It is therefore two
//! operations: the first has the step and ends when the drafts turn empty, the second is a sync of the first.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::Poll;

use onewrite_fs::{DraftId, FsError, FsResult, Ino, Position};

use crate::action::{Action, Blocks, content};
use crate::history::Syncs;
use crate::model::{Met, NewKind, NodeId, Step, Tree, steps_of_allocation};
use crate::opened::{Draft, DraftTable, Drafts, Opened};
use crate::player::{Plan, Player};
use crate::subject::{DraftChange, DraftChanged, Keeps, Subject};

/// Paths of a rename.
#[derive(Clone, Copy, Debug)]
struct Renaming<'a> {
    from: &'a str,
    to: &'a str,
}

/// The draft that an action changes.
struct Drafting<'a> {
    slot: u32,
    id: DraftId,
    open: &'a Opened,
}

impl<S: Subject> Player<S> {
    /// Makes a change in a draft; begins the draft if it is new.
    pub(crate) async fn draft(&self, slot: u32, change: &Action, open: &mut Opened, plan: &mut Plan) -> FsResult<()> {
        let id = match open.drafts.id(slot) {
            Some(id) => id,
            None => {
                let id = self.subject.begin_draft(&self.fs)?;
                open.drafts.insert(slot, id);
                id
            }
        };
        let drafting = Drafting { slot, id, open };
        match change {
            Action::Create(path) => self.draft_create(path, &drafting, plan).await,
            Action::Unlink(path) => {
                let (at, directory, name) = self.place(path).await?;
                self.change(id, DraftChange::Unlink((at, name.as_bytes()))).await?;
                drafting.note(|draft| {
                    draft.paths.remove(path);
                    draft.steps.push(Step::Remove { directory, name: name.into() });
                });
                Ok(())
            }
            Action::Rename(from, to) => self.draft_rename(Renaming { from, to }, &drafting).await,
            _ => self.draft_content(change, &drafting).await,
        }
    }

    async fn change(&self, draft: DraftId, change: DraftChange<'_>) -> FsResult<DraftChanged> {
        self.subject.change_draft(&self.fs, draft, change).await
    }

    async fn draft_create(&self, path: &str, drafting: &Drafting<'_>, plan: &mut Plan) -> FsResult<()> {
        let (at, directory, name) = self.place(path).await?;
        let DraftChanged::Created(ino) = self.change(drafting.id, DraftChange::Create((at, name.as_bytes()))).await?
        else {
            panic!("`create {path}` in a draft made no file");
        };
        let node = self.new_node();
        drafting.note(|draft| {
            draft.paths.insert(path.into(), (ino, node));
            draft.claimed.insert(node);
            draft.steps.push(Step::Create { directory, name: name.into(), node, kind: NewKind::File });
        });
        plan.made = Some((ino, node));
        Ok(())
    }

    async fn draft_rename(&self, Renaming { from, to }: Renaming<'_>, drafting: &Drafting<'_>) -> FsResult<()> {
        let (source, target) = (self.place(from).await?, self.place(to).await?);
        let names = ((source.0, source.2.as_bytes()), (target.0, target.2.as_bytes()));
        let moved = self.target_in(from, drafting).await;
        self.change(drafting.id, DraftChange::Rename(names.0, names.1)).await?;
        let step_from = (source.1, source.2.into());
        let manner = onewrite_fs::RenameManner::Replace;
        drafting.note(|draft| {
            draft.paths.remove(from);
            draft.paths.extend(moved.ok().map(|moved| (to.to_owned(), moved)));
            draft.steps.push(Step::Rename { from: step_from, to: (target.1, target.2.into()), manner });
        });
        Ok(())
    }

    /// The file of a path, as the draft names it.
    async fn target_in(&self, path: &str, drafting: &Drafting<'_>) -> FsResult<(Ino, NodeId)> {
        let known = drafting.open.drafts.with(drafting.slot, |draft| draft.paths.get(path).copied());
        match known.flatten() {
            Some(target) => Ok(target),
            None => self.target(path, drafting.open).await,
        }
    }

    async fn draft_content(&self, change: &Action, drafting: &Drafting<'_>) -> FsResult<()> {
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
        let (ino, node) = self.target_in(file, drafting).await?;
        drafting.note(|draft| draft.claimed.extend([node]));
        let changed = self.change(drafting.id, wanted(ino)).await?;
        drafting.note(|draft| draft.steps.extend(steps(change, node, changed)));
        Ok(())
    }

    /// Carries out a commit, whose operation has begun; returns whether there was space for it.
    ///
    /// What it commits is known when the drafts turn empty: until then another task may change a draft of all tasks.
    pub(crate) async fn commit(&self, first: usize, slots: &[u32], open: &mut Opened) -> bool {
        let ids = match self.ids_to_commit(first, slots, &open.drafts) {
            Ok(ids) => ids,
            Err(error) => return self.end(first, Err(error), Plan::default()),
        };
        let mut second = None;
        let mut commit = pin!(self.subject.commit_drafts(&self.fs, &ids));
        let outcome = std::future::poll_fn(|context| {
            let had_changes = self.is_any_changed(&ids);
            let outcome = commit.as_mut().poll(context);
            let is_refused = matches!(outcome, Poll::Ready(Err(_)));
            if had_changes && second.is_none() && !is_refused && !self.is_any_changed(&ids) {
                let synced = self.synced_alone(first, slots, &open.drafts).unwrap_or(Syncs::Operation(first));
                self.end(first, Ok(()), self.take(slots, &open.drafts));
                second = Some((self.begin(&Action::Commit(slots.to_vec())), synced));
            }
            outcome
        })
        .await;
        let Some((second, synced)) = second else {
            let plan = if outcome.is_ok() { Plan::default() } else { self.to_take(slots, &open.drafts) };
            // A device that fails after the transaction took the changes leaves drafts without them.
            let has_failed = matches!(outcome, Err(FsError::Device(_) | FsError::ReadOnly(_)));
            if outcome.is_ok() || has_failed && !self.is_any_changed(&ids) {
                forget(slots, &open.drafts);
            }
            return self.end(first, outcome, plan);
        };
        self.end(second, outcome, Plan { syncs: Some(synced), ..Plan::default() })
    }

    /// The drafts of these numbers. Notes the files that a commit without changes may make durable.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if there is none of a number.
    fn ids_to_commit(&self, first: usize, slots: &[u32], drafts: &Drafts) -> FsResult<Vec<DraftId>> {
        let ids = drafts.ids(slots)?;
        if !self.is_any_changed(&ids) {
            let (mut after, before) = (self.tree(), self.tree());
            let is_possible = after.apply(&Step::Atomic(self.waiting(slots, drafts))).is_some();
            let is_same = after.listing().full_hash() == before.listing().full_hash();
            assert!(is_possible && is_same, "drafts {slots:?} have lost changes");
            let claimed = slots.iter().filter_map(|slot| drafts.with(*slot, |draft| draft.claimed.clone()));
            self.note_touched(first, claimed.flatten().collect());
        }
        Ok(ids)
    }

    fn is_any_changed(&self, ids: &[DraftId]) -> bool {
        ids.iter().any(|id| self.subject.is_draft_changed(&self.fs, *id).unwrap_or(false))
    }

    /// The steps that wait in these drafts.
    fn steps_in(&self, slots: &[u32], drafts: &Drafts) -> Vec<Step> {
        slots.iter().filter_map(|slot| drafts.with(*slot, |draft| draft.steps.clone())).flatten().collect()
    }

    /// What a commit of these drafts changes now.
    fn waiting(&self, slots: &[u32], drafts: &Drafts) -> Vec<Step> {
        self.tree().effective(&self.steps_in(slots, drafts))
    }

    /// What waits in these drafts, as one step.
    fn to_take(&self, slots: &[u32], drafts: &Drafts) -> Plan {
        let waiting = self.waiting(slots, drafts);
        let steps = if waiting.is_empty() { Vec::new() } else { vec![Step::Atomic(waiting)] };
        Plan { steps, ..Plan::default() }
    }

    /// The same; it waits no longer.
    fn take(&self, slots: &[u32], drafts: &Drafts) -> Plan {
        let plan = self.to_take(slots, drafts);
        forget(slots, drafts);
        plan
    }

    /// What a commit of these drafts makes durable, if that is the content of one file alone: where files are rolled
    /// forward over checkpoints, no other change has to be there.
    fn synced_alone(&self, commit: usize, slots: &[u32], drafts: &Drafts) -> Option<Syncs> {
        let waiting = self.steps_in(slots, drafts);
        let nodes: Option<BTreeSet<NodeId>> = waiting.iter().map(Step::content_of).collect();
        let (before, mut after) = (self.tree(), self.tree());
        waiting.iter().for_each(|step| drop(after.apply(step)));
        let hash = |tree: &Tree, node| tree.content(node).map(|content| content.full_hash());
        let mut changed = nodes?.into_iter().filter(|node| hash(&before, *node) != hash(&after, *node));
        let (first, second) = (changed.next(), changed.next());
        let is_rolled = matches!(self.subject.promises().keeps, Keeps::Checkpoint(_));
        (is_rolled && second.is_none()).then(|| first.map_or(Syncs::Nothing, |node| Syncs::Commit(commit, node)))
    }

    /// Drops the changes of drafts.
    pub(crate) async fn abort(&self, slots: &[u32], drafts: &Drafts) -> FsResult<()> {
        self.subject.abort_drafts(&self.fs, &drafts.ids(slots)?).await?;
        forget(slots, drafts);
        Ok(())
    }

    /// Ends a draft.
    pub(crate) async fn end_draft(&self, slot: u32, drafts: &Drafts) -> FsResult<()> {
        let id = drafts.remove(slot)?;
        self.subject.end_draft(&self.fs, id).await
    }

    /// Ends all drafts of a task, or of all.
    pub(crate) async fn end_drafts(&self, drafts: &DraftTable) {
        let drafts = std::mem::take(&mut *drafts.borrow_mut());
        for draft in drafts.into_values() {
            // The unmount ends what cannot be ended here; the history does not depend on it.
            let _ = self.subject.end_draft(&self.fs, draft.id).await;
        }
    }
}

impl Drafting<'_> {
    /// Notes a change that was made.
    fn note(&self, of: impl FnOnce(&mut Draft)) {
        // If another task ended the draft meanwhile, nothing waits in it.
        let _ = self.open.drafts.with(self.slot, of);
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

fn forget(slots: &[u32], drafts: &Drafts) {
    for slot in slots {
        // A draft that another task has ended has nothing to forget.
        let _ = drafts.with(*slot, Draft::forget);
    }
}
