//! Commits of drafts: of the content of one file by a chain of nodes, of all else by a checkpoint.
//!
//! Lock order: directories by inode number, files by inode number, `changes`. Checks that can fail for a reason of the
//! caller come before the first change.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::file::File;
use super::super::sync::Synced;
use super::super::views::DraftCommits;
use super::super::volume::Volume;
use super::publish::Written;
use crate::api::{FsError, FsResult};
use crate::atomic::DraftId;
use crate::drafts::{Committing, Directories, DraftFile, DraftHost, Drafting, FileOf, Left, NameChange, Origin};
use crate::pages::PagedFile;

/// Checkpoints after which a commit gives up that finds no room for content.
const ATTEMPTS: usize = 8;

/// What one commit takes.
struct Work {
    drafts: Vec<DraftId>,
    names: Vec<NameChange>,
    directories: Directories<File>,
    /// The files that change or lose a name, in lock order.
    nodes: BTreeMap<u64, Rc<File>>,
}

/// What an attempt came to that cannot go on now.
enum Stopped {
    /// Pages were written in between, or cleaned.
    Again,
    /// A checkpoint makes room.
    Full,
}

/// An attempt of a commit.
type Attempt<T> = FsResult<Result<T, Stopped>>;

impl<'a> DraftCommits<'a> {
    pub(super) fn all(&self) -> Drafting<'a, Volume> {
        Drafting(self.volume())
    }

    /// See [`AtomicFiles::commit_drafts`](crate::AtomicFiles::commit_drafts).
    pub(super) async fn commit(&self, drafts: &[DraftId]) -> FsResult<()> {
        self.check_writable()?;
        let committing = Committing::begin(self.volume(), drafts)?;
        let changed = self.changed_files(drafts)?;
        let has_names = drafts.iter().any(|id| self.drafts.read(*id, |draft| !draft.names.is_empty()) == Ok(true));
        onewrite_block::reached!("several drafts in one commit of F2FS", drafts.len() > 1);
        match &changed[..] {
            [] if !has_names => {
                drop(committing);
                self.sync_files(drafts).await
            }
            [(id, file)] if !has_names => self.commit_alone(drafts, *id, &file.node, committing).await,
            _ => self.commit_together(drafts, committing).await,
        }
    }

    /// Makes the files of drafts without changes durable.
    async fn sync_files(&self, drafts: &[DraftId]) -> FsResult<()> {
        for id in drafts {
            for node in self.all().nodes_of(*id)? {
                self.syncs().sync_file(&node, Synced::Everything).await?;
            }
        }
        Ok(())
    }

    /// The files that drafts change, each with its draft.
    fn changed_files(&self, drafts: &[DraftId]) -> FsResult<Vec<(DraftId, FileOf<Volume>)>> {
        let mut changed = Vec::new();
        for id in drafts {
            self.drafts.read(*id, |draft| {
                let files = draft.files.values().filter(|file| file.is_changed());
                changed.extend(files.map(|file| (*id, file.clone())));
            })?;
        }
        Ok(changed)
    }

    /// Runs attempts of a commit until one comes to an end.
    async fn attempts<T>(&self, mut attempt: impl AsyncFnMut() -> Attempt<T>) -> FsResult<T> {
        for _ in 0..ATTEMPTS {
            self.cleaner().balance().await?;
            match attempt().await? {
                Ok(done) => return Ok(done),
                Err(Stopped::Again) => (),
                Err(Stopped::Full) => self.checkpoints().checkpoint().await?,
            }
        }
        Err(FsError::NoSpace { what: "segments for content", needed: 1, free: 0 })
    }

    /// Commits the content of one file.
    async fn commit_alone(
        &self,
        drafts: &[DraftId],
        id: DraftId,
        node: &Rc<File>,
        committing: Committing<'_, Volume>,
    ) -> FsResult<()> {
        let round = self.attempts(async || self.try_alone(drafts, id, node).await).await;
        drop(committing);
        self.syncs().finish(round?).await
    }

    /// Publishes the content of one file and places its nodes. Gives the round that writes them; `None` if it takes a
    /// checkpoint. That may come later: only whole chains and checkpoints carry nodes of the file, and these have all.
    async fn try_alone(&self, drafts: &[DraftId], id: DraftId, node: &Rc<File>) -> Attempt<Option<u64>> {
        let _held = node.lock().write().await;
        if let Err(stopped) = self.write_ordinary(node).await? {
            return Ok(Err(stopped));
        }
        let _changes = self.changes.read().await;
        self.check_writable()?;
        if self.has_ordinary_pages(node) {
            return Ok(Err(Stopped::Again));
        }
        let file = self.all().file(id, node.ino())?;
        let written = match self.write_pages(id, file).await {
            Err(FsError::NoSpace { .. }) => return Ok(Err(Stopped::Full)),
            written => written?,
        };
        self.publish(&written).await.inspect_err(|error| self.fail(error))?;
        drafts.iter().for_each(|id| self.note_committed(*id));
        // A name that is gone must not come back under the commit: SQLite removes its journal without a sync.
        let is_name_gone = !self.names_gone.borrow().is_empty();
        let placed = match is_name_gone {
            false => self.syncs().place(node, Synced::Everything).await,
            true => Ok(None),
        };
        onewrite_block::reached!("commit of one file makes a checkpoint", placed == Ok(None));
        Ok(Ok(placed.inspect_err(|error| self.fail(error))?))
    }

    /// Writes what ordinary writes left dirty: the commit makes the file durable as a whole.
    async fn write_ordinary(&self, node: &Rc<File>) -> Attempt<()> {
        self.pages.sync(self.volume(), node).await?;
        Ok(if self.has_ordinary_pages(node) { Err(Stopped::Full) } else { Ok(()) })
    }

    /// Commits changes of several files, and of names.
    async fn commit_together(&self, drafts: &[DraftId], committing: Committing<'_, Volume>) -> FsResult<()> {
        let done = self.attempts(async || self.try_together(drafts).await).await;
        drop(committing);
        let (outcome, left) = done?;
        let released = left.release(self.volume()).await;
        outcome.and(released)
    }

    /// Publishes all changes and makes a checkpoint, which nothing can come between. Gives its outcome, and what is
    /// given up.
    async fn try_together(&self, drafts: &[DraftId]) -> Attempt<(FsResult<()>, Left<File>)> {
        let mut work = self.work(drafts).await?;
        let directories: Vec<_> = work.directories.values().cloned().collect();
        let mut directories_held = Vec::with_capacity(directories.len());
        for directory in &directories {
            directories_held.push(directory.lock().write().await);
        }
        for node in self.all().check_names(&work.directories, &work.names).await? {
            work.nodes.insert(PagedFile::number(&*node), node);
        }
        let nodes: Vec<_> = work.nodes.values().cloned().collect();
        let mut nodes_held = Vec::with_capacity(nodes.len());
        for node in &nodes {
            nodes_held.push(node.lock().write().await);
        }
        for (_, file) in self.changed_files(drafts)? {
            if let Err(stopped) = self.write_ordinary(&file.node).await? {
                return Ok(Err(stopped));
            }
        }
        let _alone = self.changes.write().await;
        self.check_writable()?;
        let written = match self.write_all(&work).await? {
            Ok(written) => written,
            Err(stopped) => return Ok(Err(stopped)),
        };
        nodes.iter().for_each(|node| node.add_opener());
        let published = self.publish_all(&work, &written).await.inspect_err(|error| self.fail(error));
        let outcome = match published {
            Ok(()) => self.checkpoints().checkpoint_alone().await,
            failed => failed,
        };
        let kept = drafts.iter().flat_map(|id| self.take_directories(*id)).collect();
        Ok(Ok((outcome, Left([kept, nodes.clone()].concat()))))
    }

    async fn work(&self, drafts: &[DraftId]) -> FsResult<Work> {
        let (mut names, mut nodes) = (Vec::new(), BTreeMap::new());
        for id in drafts {
            self.drafts.read(*id, |draft| {
                names.extend(draft.names.iter().cloned());
                nodes.extend(draft.files.iter().map(|(number, file)| (*number, Rc::clone(&file.node))));
            })?;
        }
        let directories = self.all().directories_of(&names).await?;
        Ok(Work { drafts: drafts.to_vec(), names, directories, nodes })
    }

    /// Writes the private pages of all files, and lets directories get the form in which they change. The caller holds
    /// all locks.
    async fn write_all(&self, work: &Work) -> Attempt<Vec<Written>> {
        for directory in work.directories.values() {
            self.contents().move_out_names(directory).await?;
        }
        let mut all = Vec::new();
        for (id, file) in self.changed_files(&work.drafts)? {
            let is_clean = !self.has_ordinary_pages(&file.node);
            let written = if is_clean { self.write_pages(id, file).await.map(Some) } else { Ok(None) };
            match written {
                Ok(Some(written)) => {
                    all.push(written);
                    continue;
                }
                stopped => {
                    all.iter().for_each(|written| self.give_back(written));
                    return match stopped {
                        Ok(_) => Ok(Err(Stopped::Again)),
                        Err(FsError::NoSpace { .. }) => Ok(Err(Stopped::Full)),
                        Err(error) => Err(error),
                    };
                }
            }
        }
        Ok(Ok(all))
    }

    /// Makes all changes in memory. The caller holds all locks, and `changes` alone.
    async fn publish_all(&self, work: &Work, written: &[Written]) -> FsResult<()> {
        for id in &work.drafts {
            let names = self.drafts.change_committing(*id, |draft| std::mem::take(&mut draft.names));
            self.space.borrow_mut().note_drafted(names.len() as u64 * Volume::NAME_COST.reserved, 0);
        }
        for change in &work.names {
            self.make_change(&work.directories, change).await?;
        }
        for file in written {
            self.publish(file).await?;
        }
        work.drafts.iter().for_each(|id| self.note_committed(*id));
        Ok(())
    }

    /// The directories that a draft kept open for its changes of names, which are made now.
    fn take_directories(&self, id: DraftId) -> Vec<Rc<File>> {
        self.drafts.change_committing(id, |draft| std::mem::take(&mut draft.directories))
    }

    /// Makes the draft's files those that were just committed, and gives back what their maps did not need.
    fn note_committed(&self, id: DraftId) {
        let left = self.drafts.change_committing(id, |draft| {
            let left = draft.cost(self.volume()).reserved;
            draft.files.values_mut().for_each(|file| *file = DraftFile::new(Rc::clone(&file.node), Origin::Claimed));
            left
        });
        self.space.borrow_mut().note_drafted(left, 0);
        self.pages.owned_pages().drop_private(id.owner());
    }
}
