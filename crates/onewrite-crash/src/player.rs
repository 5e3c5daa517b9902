//! Player: performs actions on a mounted file system and writes the history.
//!
//! An action resolves its paths to inodes when it begins. The history names nodes of the model; the player binds each
//! new inode to its node. So the model stays correct when two tasks move each other's files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use onewrite_block::layer::{RecordedEvent, Recording};
use onewrite_block::{PAGE_SIZE, Runtime};
use onewrite_fs::{
    AttributeChanges, AttributeManner, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position,
    RenameManner, Timestamp, api::split_path,
};

use crate::action::{Action, AttributeChange, Workload, content, extended_value};
use crate::hash::bytes_hash;
use crate::history::{History, Operation, Read, Syncs};
use crate::model::{Met, NewKind, NodeId, Step, Tree, by_pages, steps_of_allocation, steps_of_write};
use crate::opened::{DraftTable, Opened};
use crate::reading::pages_of;
use crate::subject::Subject;

struct State {
    history: History,
    /// The tree after the last operation that ended.
    tree: Tree,
    bound: BTreeMap<Ino, NodeId>,
    /// Whether a task has ended and left files open.
    keeps_open: bool,
    next_node: u32,
}

impl State {
    /// The operations that got an error and yet happened, because `steps` happened after them.
    fn proved_by(&self, steps: &[Step]) -> Vec<usize> {
        let is_doubted = |operation: &Operation| operation.failed.is_some() && operation.end.is_none();
        let all = (0..).zip(&self.history.operations);
        let doubted: Vec<usize> = all.filter(|(_, operation)| is_doubted(operation)).map(|(index, _)| index).collect();
        if doubted.is_empty() || self.can_follow(&[], steps) {
            return Vec::new();
        }
        let one = doubted.iter().rfind(|operation| self.can_follow(&[**operation], steps));
        one.map_or(doubted.clone(), |operation| vec![*operation])
    }

    /// Whether `steps` are possible behind those of the operations `first`.
    fn can_follow(&self, first: &[usize], steps: &[Step]) -> bool {
        let mut tree = self.tree.clone();
        let before = first.iter().flat_map(|operation| &self.history.operations[*operation].steps);
        before.chain(steps).all(|step| tree.apply(step).is_some())
    }
}

/// See the module's head.
pub(crate) struct Player<S: Subject> {
    pub(crate) subject: Rc<S>,
    pub(crate) fs: Rc<S::Fs>,
    runtime: Runtime,
    state: RefCell<State>,
    recording: Rc<RefCell<Recording>>,
    /// The drafts of all tasks.
    shared: DraftTable,
}

/// The steps and syncs of an action, and the inode that it makes.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) syncs: Option<Syncs>,
    pub(crate) made: Option<(Ino, NodeId)>,
    /// What the action read.
    pub(crate) read: Option<Read>,
}

impl<S: Subject> Player<S> {
    pub(crate) fn new(
        (subject, fs): (Rc<S>, Rc<S::Fs>),
        runtime: Runtime,
        history: History,
        recording: Rc<RefCell<Recording>>,
    ) -> Rc<Player<S>> {
        let tree = history.initial.clone();
        // Above every node that there is, with or without a name: pages of a removed file are not those of a new one.
        let next_node = tree.last_node().0.max(1 << 16);
        let state = State { history, tree, bound: BTreeMap::new(), keeps_open: false, next_node };
        let (state, shared) = (RefCell::new(state), Rc::default());
        Rc::new(Player { subject, fs, runtime, state, recording, shared })
    }

    pub(crate) fn history(&self) -> History {
        self.state.borrow().history.clone()
    }

    /// Binds the nodes of the initial tree to the inodes of the mounted file system.
    pub(crate) async fn bind_all(&self) -> FsResult<()> {
        let listing = self.state.borrow().tree.listing();
        let paths: Vec<String> = listing.items().map(|(path, _)| path.to_owned()).collect();
        self.bind(self.fs.root(), Tree::ROOT);
        for path in paths {
            let ino = onewrite_fs::api::resolve(&*self.fs, path.as_bytes()).await?;
            let node = NodeId(listing.owner(&path).expect("listed") as u32);
            self.bind(ino, node);
        }
        Ok(())
    }

    fn bind(&self, ino: Ino, node: NodeId) {
        self.state.borrow_mut().bound.insert(ino, node);
    }

    /// Performs the warm-up, then the tasks side by side.
    pub(crate) async fn play_all(self: &Rc<Self>, workload: Workload) {
        self.play_warm_up(workload.warm_up).await;
        self.play_tasks(workload.tasks).await;
    }

    /// Performs the warm-up.
    pub(crate) async fn play_warm_up(&self, actions: Vec<Action>) {
        self.play(actions).await;
        let happenings = self.state.borrow().history.happenings.len();
        self.state.borrow_mut().history.warm_up = happenings;
    }

    /// Performs the tasks side by side.
    pub(crate) async fn play_tasks(self: &Rc<Self>, tasks: Vec<Vec<Action>>) {
        let start = |actions| {
            let player = Rc::clone(self);
            self.runtime.start(async move { player.play(actions).await })
        };
        let started: Vec<_> = tasks.into_iter().map(start).collect();
        for task in started {
            task.await;
        }
        self.end_drafts(&self.shared).await;
    }

    /// Unmounts; the history records a `sync`: once it ends, all earlier changes are durable.
    pub(crate) async fn unmount(&self) -> FsResult<()> {
        let operation = self.state.borrow_mut().history.begin(Action::Sync);
        self.mark();
        let outcome = self.fs.unmount().await;
        let mut state = self.state.borrow_mut();
        state.history.operations[operation].error = outcome.as_ref().err().cloned();
        if outcome.is_err() {
            state.history.fail(operation);
            return outcome;
        }
        state.history.operations[operation].syncs = Syncs::Everything;
        state.history.end(operation);
        drop(state);
        self.mark();
        Ok(())
    }

    /// Performs the actions of one task in order. Stops when there is no space, so that a half-done action stays the
    /// last change of its files.
    async fn play(&self, actions: Vec<Action>) {
        let mut open = Opened::beside(&self.shared);
        for action in actions {
            if let Some(span) = action.pause() {
                self.runtime.sleep(span).await;
                continue;
            }
            if !self.perform(action, &mut open).await {
                break;
            }
        }
        // Files under odd numbers stay open until the unmount.
        self.state.borrow_mut().keeps_open |= open.files.keys().any(|slot| slot % 2 == 1);
        for (ino, _) in open.files.into_iter().filter(|(slot, _)| slot % 2 == 0).map(|(_, file)| file) {
            // Recovery frees a file that cannot be released; the history does not depend on it.
            let _ = self.fs.release(ino).await;
        }
        self.end_drafts(open.drafts.own()).await;
    }

    /// Performs one action; returns whether there was space for it.
    async fn perform(&self, action: Action, open: &mut Opened) -> bool {
        let operation = self.begin(&action);
        if let Action::Commit(slots) = &action {
            return self.commit(operation, slots, open).await;
        }
        let mut plan = Plan::default();
        let outcome = self.carry_out(&action, open, &mut plan).await;
        self.end(operation, outcome, plan)
    }

    /// Begins an operation.
    pub(crate) fn begin(&self, action: &Action) -> usize {
        let operation = self.state.borrow_mut().history.begin(action.clone());
        self.mark();
        operation
    }

    /// Ends an operation; returns whether there was space for it.
    pub(crate) fn end(&self, operation: usize, outcome: FsResult<()>, plan: Plan) -> bool {
        if outcome.is_ok() {
            let proved = self.state.borrow().proved_by(&plan.steps);
            proved.into_iter().for_each(|operation| self.end_doubt(operation));
        }
        let mut state = self.state.borrow_mut();
        let entry = &mut state.history.operations[operation];
        entry.sought = plan.syncs.unwrap_or(Syncs::Nothing);
        entry.syncs = if outcome.is_ok() { entry.sought } else { Syncs::Nothing };
        entry.error = outcome.as_ref().err().cloned();
        entry.read = plan.read.filter(|_| outcome.is_ok());
        let may_be_half = outcome.as_ref().is_err_and(may_be_half);
        if outcome.is_ok() || may_be_half {
            entry.steps = if may_be_half { by_pages(&plan.steps) } else { plan.steps.clone() };
        }
        if may_be_half {
            state.history.fail(operation);
            return !matches!(outcome, Err(FsError::NoSpace { .. }));
        }
        if outcome.is_ok() {
            let possible = plan.steps.iter().all(|step| state.tree.apply(step).is_some());
            let action = &state.history.operations[operation].action;
            assert!(possible, "`{action}` succeeded, but the model cannot follow: {:?}", plan.steps);
            if let Some((ino, node)) = plan.made {
                state.bound.insert(ino, node);
            }
        }
        state.history.end(operation);
        drop(state);
        self.mark();
        true
    }

    /// Notes files that an operation may make durable, beside what it is asked to.
    pub(crate) fn note_touched(&self, operation: usize, nodes: Vec<NodeId>) {
        self.state.borrow_mut().history.operations[operation].touched = nodes;
    }

    /// Ends an operation that happened in spite of its error.
    fn end_doubt(&self, operation: usize) {
        let mut state = self.state.borrow_mut();
        let steps = state.history.operations[operation].steps.clone();
        steps.iter().for_each(|step| drop(state.tree.apply(step)));
        state.history.end(operation);
        drop(state);
        self.mark();
    }

    /// The tree after the last operation that ended.
    pub(crate) fn tree(&self) -> Tree {
        self.state.borrow().tree.clone()
    }

    /// Whether files are open although all tasks have ended.
    pub(crate) fn keeps_files_open(&self) -> bool {
        self.state.borrow().keeps_open
    }

    fn mark(&self) {
        let mut state = self.state.borrow_mut();
        let mark = state.history.last_mark();
        state.history.forced_checkpoints.push(self.fs.counters().forced_checkpoints);
        self.recording.borrow_mut().push(RecordedEvent::Mark(mark));
    }

    /// The inode and node of a path or a descriptor (`#3`).
    pub(crate) async fn target(&self, text: &str, open: &Opened) -> FsResult<(Ino, NodeId)> {
        if let Some(slot) = text.strip_prefix('#') {
            let known = slot.parse().ok().and_then(|slot: u32| open.files.get(&slot));
            return known.copied().ok_or_else(|| FsError::NotFound(text.into()));
        }
        let ino = onewrite_fs::api::resolve(&*self.fs, text.as_bytes()).await?;
        let node = self.state.borrow().bound.get(&ino).copied();
        Ok((ino, node.ok_or_else(|| FsError::NotFound(text.into()))?))
    }

    /// The directory of a path, and the last name.
    pub(crate) async fn place<'a>(&self, path: &'a str) -> FsResult<(Ino, NodeId, &'a str)> {
        let (directory, name) = split_path(path.as_bytes())?;
        let name = std::str::from_utf8(name).map_err(|_| FsError::Invalid(path.into()))?;
        let directory = std::str::from_utf8(directory).map_err(|_| FsError::Invalid(path.into()))?;
        let (ino, node) = self.target(directory, &Opened::default()).await?;
        Ok((ino, node, name))
    }

    pub(crate) fn new_node(&self) -> NodeId {
        let mut state = self.state.borrow_mut();
        state.next_node += 1;
        NodeId(state.next_node)
    }

    async fn carry_out(&self, action: &Action, open: &mut Opened, plan: &mut Plan) -> FsResult<()> {
        let fs = &*self.fs;
        match action {
            Action::Create(path) => self.make(path, NewKind::File, plan).await,
            Action::MakeDirectory(path) => self.make(path, NewKind::Directory, plan).await,
            Action::Symlink(target, path) => self.make(path, NewKind::Symlink(target.clone()), plan).await,
            Action::Write { file, offset, length, seed, direct } => {
                let target = self.target(file, open).await?;
                self.write(
                    target,
                    Some(*offset),
                    Written { length: *length, seed: *seed, manner: Manner { direct: *direct, once: false } },
                    plan,
                )
                .await
            }
            Action::Read(file) => {
                let target = self.target(file, open).await?;
                self.read(target, Manner::default(), plan).await
            }
            Action::ReadDirect(file) => {
                let target = self.target(file, open).await?;
                self.read(target, Manner { direct: true, once: false }, plan).await
            }
            Action::Append { file, length, seed } => {
                let target = self.target(file, open).await?;
                self.write(target, None, Written { length: *length, seed: *seed, manner: Manner::default() }, plan)
                    .await
            }
            Action::Truncate { file, size } => {
                let (ino, node) = self.target(file, open).await?;
                plan.steps = vec![Step::Truncate { node, size: *size }];
                fs.set_attributes(ino, AttributeChanges { size: Some(*size), ..AttributeChanges::default() }).await
            }
            Action::Allocate { file, offset, length, how } => {
                let (ino, node) = self.target(file, open).await?;
                let outcome = fs.allocate(ino, *offset, *length, how.allocation()).await;
                // Every earlier operation on the file has ended, so these were its size and blocks at the change.
                let tree = &self.state.borrow().tree;
                let met = Met { node, size: tree.size(node), tree };
                plan.steps = steps_of_allocation(&met, *offset..offset.saturating_add(*length), *how);
                outcome
            }
            Action::SetAttributes { file, change } => {
                let (ino, node) = self.target(file, open).await?;
                plan.steps = vec![Step::SetAttributes { node, change: *change }];
                fs.set_attributes(ino, changes(*change)).await
            }
            Action::SetExtended { file, name, length, seed } => {
                let (ino, node) = self.target(file, open).await?;
                let value = extended_value(*seed, *length);
                plan.steps = vec![Step::SetExtended { node, name: name.clone(), value: Some(bytes_hash(&value)) }];
                fs.set_extended_attribute(ino, name.as_bytes(), Some(&value), AttributeManner::Either).await
            }
            Action::RemoveExtended { file, name } => {
                let (ino, node) = self.target(file, open).await?;
                plan.steps = vec![Step::SetExtended { node, name: name.clone(), value: None }];
                fs.set_extended_attribute(ino, name.as_bytes(), None, AttributeManner::Either).await
            }
            Action::Unlink(path) => {
                let (ino, directory, name) = self.place(path).await?;
                plan.steps = vec![Step::Remove { directory, name: name.into() }];
                fs.unlink(ino, name.as_bytes()).await
            }
            Action::RemoveDirectory(path) => {
                let (ino, directory, name) = self.place(path).await?;
                plan.steps = vec![Step::Remove { directory, name: name.into() }];
                fs.remove_directory(ino, name.as_bytes()).await
            }
            Action::Rename(from, to) => self.rename(from, to, RenameManner::Replace, plan).await,
            Action::Exchange(from, to) => self.rename(from, to, RenameManner::Exchange, plan).await,
            Action::Link(from, to) => {
                let ((ino, node), (at, directory, name)) = (self.target(from, open).await?, self.place(to).await?);
                plan.steps = vec![Step::Link { node, directory, name: name.into() }];
                fs.link(ino, at, name.as_bytes()).await
            }
            Action::Open(path, slot) => {
                let target = self.target(path, open).await?;
                fs.open(target.0).await?;
                match open.files.insert(*slot, target) {
                    Some((before, _)) => fs.release(before).await,
                    None => Ok(()),
                }
            }
            Action::Close(slot) => match open.files.remove(slot) {
                Some((ino, _)) => fs.release(ino).await,
                None => Err(FsError::NotFound(format!("#{slot}"))),
            },
            Action::Fsync(file) => {
                let (ino, node) = self.target(file, open).await?;
                plan.syncs = Some(Syncs::Node(node));
                self.subject.fsync(fs, ino).await
            }
            Action::Fdatasync(file) => {
                let (ino, node) = self.target(file, open).await?;
                plan.syncs = Some(Syncs::Content(node));
                fs.fdatasync(ino).await
            }
            Action::Sync => {
                plan.syncs = Some(Syncs::Everything);
                fs.sync().await
            }
            Action::Draft(slot, change) => self.draft(*slot, change, open, plan).await,
            Action::Abort(slots) => self.abort(slots, &open.drafts).await,
            Action::EndDraft(slot) => self.end_draft(*slot, &open.drafts).await,
            Action::Share { parts, lazily } => self.share(parts, *lazily, open, plan).await,
            // `perform` carries commits out, `lives` cuts.
            Action::Commit(_) | Action::Pause(_) | Action::Cut(_) => Ok(()),
        }
    }

    async fn make(&self, path: &str, kind: NewKind, plan: &mut Plan) -> FsResult<()> {
        let (at, directory, name) = self.place(path).await?;
        let node = self.new_node();
        plan.steps = vec![Step::Create { directory, name: name.into(), node, kind: kind.clone() }];
        let ino = match &kind {
            NewKind::File => self.fs.create(at, name.as_bytes(), NewNode::FILE).await?,
            NewKind::Directory => self.fs.create(at, name.as_bytes(), NewNode::DIRECTORY).await?,
            NewKind::Symlink(target) => self.fs.symlink(at, name.as_bytes(), target.as_bytes()).await?,
        };
        plan.made = Some((ino, node));
        Ok(())
    }

    /// Reads a whole file; directly up to the end of its last page.
    async fn read(&self, (ino, node): (Ino, NodeId), manner: Manner, plan: &mut Plan) -> FsResult<()> {
        let size = self.fs.attributes(ino).await?.size;
        let length = if manner.direct { size.next_multiple_of(PAGE_SIZE as u64) } else { size };
        let pages = pages_of(&*self.fs, (ino, length), manner).await?;
        plan.read = Some(Read { node, size, pages });
        Ok(())
    }

    /// Writes at `offset`, or at the end if it is `None`.
    async fn write(
        &self,
        (ino, node): (Ino, NodeId),
        offset: Option<u64>,
        Written { length, seed, manner }: Written,
        plan: &mut Plan,
    ) -> FsResult<()> {
        let position = offset.map_or(Position::End, Position::At);
        let outcome = self.fs.write(ino, position, content(seed, length), manner).await;
        // An append that fails began where the file ended when its turn came.
        let end = || offset.unwrap_or_else(|| self.state.borrow().tree.size(node));
        let start = outcome.as_ref().copied().unwrap_or_else(|_| end());
        let length = match &outcome {
            Ok(_) => length,
            Err(error) if may_be_half(error) => length.min(self.bytes_max().await),
            Err(_) => 0,
        };
        plan.steps = steps_of_write(self.subject.steps(), node, start, length, seed);
        outcome.map(drop)
    }

    /// The most bytes that a write which fails may have written: each page of them has a block.
    async fn bytes_max(&self) -> u64 {
        let space = self.fs.space().await;
        space.map_or(u64::MAX, |space| space.blocks.saturating_add(1).saturating_mul(PAGE_SIZE as u64))
    }

    async fn rename(&self, from: &str, to: &str, manner: RenameManner, plan: &mut Plan) -> FsResult<()> {
        let (source, target) = (self.place(from).await?, self.place(to).await?);
        if !self.are_one(&source, &target) {
            let step = Step::Rename { from: (source.1, source.2.into()), to: (target.1, target.2.into()), manner };
            plan.steps = vec![step];
        }
        let (from, to) = ((source.0, source.2.as_bytes()), (target.0, target.2.as_bytes()));
        self.subject.rename(&self.fs, from, to, manner).await
    }

    /// Whether two names are of one file: then a rename changes nothing, and a sync has nothing of it to make durable.
    fn are_one(&self, one: &(Ino, NodeId, &str), other: &(Ino, NodeId, &str)) -> bool {
        let tree = &self.state.borrow().tree;
        let named = tree.child(one.1, one.2);
        named.is_some() && named == tree.child(other.1, other.2)
    }
}

/// Whether an operation that got this error may have taken some of its steps.
fn may_be_half(error: &FsError) -> bool {
    matches!(error, FsError::NoSpace { .. } | FsError::Device(_) | FsError::ReadOnly(_) | FsError::Damaged { .. })
}

/// What a write puts into a file, and how: bytes that `seed` fixes.
struct Written {
    length: u64,
    seed: u64,
    manner: Manner,
}

/// The file system's own value for it.
fn changes(change: AttributeChange) -> AttributeChanges {
    let none = AttributeChanges::default();
    match change {
        AttributeChange::Permissions(bits) => AttributeChanges { permissions: Some(bits), ..none },
        AttributeChange::Owner { uid, gid } => AttributeChanges { uid: Some(uid), gid: Some(gid), ..none },
        AttributeChange::Accessed(seconds) => {
            let time = Timestamp { seconds: i64::from(seconds), nanoseconds: 0 };
            AttributeChanges { accessed: Some(time), modified: Some(time), ..none }
        }
    }
}
