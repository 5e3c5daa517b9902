//! Spilling: private pages of a draft wait on the device for the commit.
//!
//! A claimed file gets a **spill file**: an inode without a name, which holds spilled pages at their own places. It is
//! on the orphan list, so that after a crash the next mount, the kernel or e2fsck removes it. The commit of a file that
//! has one moves extents from there into the file's map and frees the blocks that they replace; the journal carries
//! only the map. So a draft may be larger than a transaction, the log and the memory, and its content is written once,
//! with or without SHARE. The price: pages get new places, and the commit needs one FLUSH more.
//!
//! # Invariants
//! - Each page of `DraftFile::spilled` has a written block in the spill file, and the page cache holds no newer page.
//! - Each private page of a file with a spill file has a block there, or a reserved one: in `Plan::new`, or delayed in
//!   the spill file.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Cause, Page, Request};

use super::plan::{Plan, Spill};
use crate::api::{FsResult, NewNode};
use crate::atomic::DraftId;
use crate::drafts::{Draft, DraftFile, DraftHost, FileOf, Spills};
use crate::ext4::inodes::Node;
use crate::ext4::map::Mapping;
use crate::ext4::map::replace::divided;
use crate::ext4::views::Atomics;
use crate::ext4::volume::Volume;
use crate::ext4::write::{NewBlocks, map_credits};
use crate::pages::{PAGE_BYTES, page_key};
use crate::runs::Runs;

/// Drift of the bound of extents at which they are counted again.
const RECOUNT_EXTENTS: usize = 340;

/// Most pages that are sent to the device together.
const STEP_PAGES: u64 = 256;

impl<'a> From<&'a Volume> for Atomics<'a> {
    fn from(volume: &'a Volume) -> Atomics<'a> {
        volume.atomics()
    }
}

impl Spills<Volume> for Atomics<'_> {
    async fn wait_for_space(&self, available: &mut Option<u64>) -> FsResult<bool> {
        self.volume().wait_for_space(available).await
    }

    fn step_pages(&self) -> Option<u64> {
        Some(self.volume().changed_max() as u64)
    }

    async fn spilled_page(&self, file: &FileOf<Volume>, index: u64, stop: u64) -> FsResult<Page> {
        let spill = file.plan.spill.as_ref().expect("a file with spilled pages has a spill file");
        self.pages().file_page(self.volume(), &spill.node, index, stop).await
    }

    async fn promise(&self, id: DraftId, node: &Rc<Node>, pages: Range<u64>) -> FsResult<()> {
        let file = self.file_of(id, node)?;
        let (mut promised, mut promised_new) = (Runs::default(), file.private.clone());
        promised.insert(pages.clone());
        if let Some(spill) = &file.plan.spill {
            for index in pages {
                if self.has_block(&spill.node, index).await? {
                    promised_new.insert(index..index + 1);
                }
            }
        }
        promised_new = promised.without(&promised_new);
        let form = self.with_spill(&file).await?;
        let planned = |holder: &Rc<Node>| {
            let mut later = form.clone();
            let spill = later.plan.spill.get_or_insert_with(|| Spill::new(Rc::clone(holder)));
            (spill.promised, spill.promised_new) = (promised.clone(), promised_new.clone());
            later
        };
        let Some(_) = &file.plan.spill else {
            // The file stands for its spill file until that is there.
            self.drafting().check_growth(&planned(node), &file)?;
            let spill = self.new_spill(node).await?;
            return self.keep_or_release(&spill, self.drafting().put_file(id, planned(&spill))).await;
        };
        self.drafting().put_file(id, planned(node))
    }

    fn end_promise(&self, id: DraftId, node: &Node) {
        let is_there = self.drafts().read(id, |draft| draft.files.contains_key(&node.file_number())) == Ok(true);
        if is_there {
            self.alter(id, node, |file| {
                if let Some(spill) = &mut file.plan.spill {
                    (spill.promised, spill.promised_new) = (Runs::default(), Runs::default());
                }
            });
        }
    }

    async fn spill(&self, id: DraftId, node: &Rc<Node>) -> FsResult<usize> {
        let file = self.file_of(id, node)?;
        let (before, private) = (self.volume().cost(&file).changed, file.private.count() as usize);
        if file.plan.spill.is_none() && !self.begin_spill(id, file).await? {
            return Ok(0);
        }
        self.spill_rest(id, node).await?;
        self.count_extents(id, node).await?;
        Ok(private.max(before.saturating_sub(self.volume().cost(&self.file_of(id, node)?).changed)))
    }

    async fn free_unused(&self, id: DraftId, node: &Rc<Node>) -> FsResult<()> {
        let file = self.file_of(id, node)?;
        let Some(spill) = file.plan.spill.filter(|spill| spill.has_unused) else { return Ok(()) };
        // Private pages go to the blocks that they have.
        let mut used = file.spilled.clone();
        for run in file.private.runs() {
            used.insert(run);
        }
        let (_, unused) = divided(&self.extents().all(&spill.node).await?, &used);
        onewrite_block::reached!("spilled pages freed before the commit", !unused.is_empty());
        for extent in unused {
            let pages = extent.logical.into()..extent.logical_end();
            self.contents().free_blocks_of(&spill.node, pages).await?;
        }
        let mut stale = spill.node.pending().next_delayed(0);
        while let Some(run) = stale {
            for index in run.clone().filter(|index| !used.contains(*index)) {
                self.contents().unreserve(&spill.node, index..index + 1);
            }
            stale = spill.node.pending().next_delayed(run.end);
        }
        let tree_blocks = self.extents().tree_blocks_of(&spill.node).await?.len();
        self.alter(id, node, |file| {
            let spill = file.plan.spill.as_mut().expect("it has one");
            (spill.has_unused, spill.tree_blocks) = (false, tree_blocks);
        });
        Ok(())
    }
}

impl Atomics<'_> {
    /// Counts the extents of the spilled pages again if the bound has drifted from them: a page that is written again
    /// and spilled again counts once more.
    async fn count_extents(&self, id: DraftId, node: &Node) -> FsResult<()> {
        let file = self.file_of(id, node)?;
        let Some(spill) = file.plan.spill else { return Ok(()) };
        if spill.extents_max > 2 * spill.extents_counted + RECOUNT_EXTENTS {
            let counted = divided(&self.extents().all(&spill.node).await?, &file.spilled).0.len();
            onewrite_block::reached!("extents of spilled pages counted again", counted < spill.extents_max);
            self.alter(id, node, |file| {
                let spill = file.plan.spill.as_mut().expect("it has one");
                (spill.extents_max, spill.extents_counted) = (counted, counted);
            });
        }
        Ok(())
    }

    /// The file in its form with a spill file, but without that if it has none.
    async fn with_spill(&self, file: &FileOf<Volume>) -> FsResult<FileOf<Volume>> {
        if file.plan.spill.is_some() {
            return Ok(file.clone());
        }
        let extents_before = self.extents().all(&file.node).await?.len();
        let tree_before = self.extents().tree_blocks_of(&file.node).await?.len();
        let plan = Plan { extents_before, tree_before, new: file.private.clone(), ..Plan::default() };
        Ok(DraftFile { plan, ..file.clone() })
    }

    async fn new_spill(&self, node: &Node) -> FsResult<Rc<Node>> {
        self.directories().create_unnamed(node, NewNode { permissions: 0o600, ..NewNode::FILE }).await
    }

    /// Releases a new spill file if a draft could not take it.
    async fn keep_or_release(&self, spill: &Rc<Node>, outcome: FsResult<()>) -> FsResult<()> {
        if outcome.is_err() {
            self.contents().release(spill).await?;
        }
        outcome
    }

    /// Gives a file of a draft a spill file. Returns false if the commit would not take less with it.
    async fn begin_spill(&self, id: DraftId, file: FileOf<Volume>) -> FsResult<bool> {
        let mut form = self.with_spill(&file).await?;
        // The file stands for its spill file until that is there. The private pages are about to leave memory.
        form.plan.spill = Some(Spill::new(Rc::clone(&file.node)));
        if self.volume().cost(&form).changed - file.private.count() as usize >= self.volume().cost(&file).changed {
            return Ok(false);
        }
        let spill = self.new_spill(&file.node).await?;
        form.plan.spill = Some(Spill::new(Rc::clone(&spill)));
        self.keep_or_release(&spill, self.put_spill(id, form)).await.map(|()| true)
    }

    /// Replaces a file of a draft by its form with a spill file. Its private pages are about to leave memory, so only
    /// blocks on the device count. Does not wait.
    fn put_spill(&self, id: DraftId, file: FileOf<Volume>) -> FsResult<()> {
        let old = self.drafts().read(id, |draft| draft.files[&file.node.file_number()].clone())?;
        let (old, new) = (self.volume().cost(&old).reserved, self.volume().cost(&file).reserved);
        if new > old {
            self.volume().expect_room(new - old)?;
        }
        self.drafts().change_committing(id, |draft| draft.files.insert(file.node.file_number(), file));
        self.note_reserved(old, new);
        Ok(())
    }

    /// Spills all private pages of a file that has a spill file. The caller holds the file's lock alone.
    pub(super) async fn spill_rest(&self, id: DraftId, node: &Rc<Node>) -> FsResult<()> {
        loop {
            let file = self.file_of(id, node)?;
            let runs = self.next_runs(&file);
            if runs.is_empty() {
                return Ok(());
            }
            let spill = file.plan.spill.expect("the caller sees to it").node;
            self.spill_runs(id, node, &spill, &runs).await?;
        }
    }

    /// The first private pages of a file, at most [`STEP_PAGES`].
    fn next_runs(&self, file: &FileOf<Volume>) -> Vec<Range<u64>> {
        let mut left = STEP_PAGES;
        let cut = |run: Range<u64>| {
            let run = run.start..run.end.min(run.start + left);
            left -= run.end - run.start;
            run
        };
        file.private.runs().map(cut).take_while(|run| !run.is_empty()).collect()
    }

    fn file_of(&self, id: DraftId, node: &Node) -> FsResult<FileOf<Volume>> {
        self.drafting().file(id, node.ino())
    }

    async fn spill_runs(&self, id: DraftId, node: &Node, spill: &Rc<Node>, runs: &[Range<u64>]) -> FsResult<()> {
        self.hand_over_to(id, node, spill, runs);
        self.give_blocks(spill, runs).await?;
        let page = |index| self.pages().owned_pages().private_page(id.owner(), page_key(node, index));
        let pages = runs.iter().cloned().flatten().map(|index| (index, page(index).expect("the page is private")));
        runs.iter().for_each(|run| self.pages().discard(spill.file_number(), run.clone()));
        self.pages().write_past_cache(self.volume(), spill, pages.collect()).await?;
        onewrite_block::reached!("draft spilled");
        let mut extents = 0;
        for run in runs {
            extents += self.extents().survey(spill, run.clone()).await?.into_parts().len();
        }
        let tree_blocks = self.extents().tree_blocks_of(spill).await?.len();
        self.alter(id, node, |file| {
            for run in runs {
                file.private.remove(run.clone());
                file.spilled.insert(run.clone());
            }
            let spill = file.plan.spill.as_mut().expect("it has one");
            spill.extents_max += extents;
            spill.tree_blocks = tree_blocks;
        });
        let owned = self.pages().owned_pages();
        runs.iter().for_each(|run| owned.drop_private_range(id.owner(), node.file_number(), run.clone()));
        Ok(())
    }

    /// Gives all of `runs` written blocks in the spill file, which takes reserved ones. Each extent is a transaction's
    /// step of its own: on a fragmented disk they lie in many groups.
    async fn give_blocks(&self, spill: &Rc<Node>, runs: &[Range<u64>]) -> FsResult<()> {
        for run in runs {
            let holes: Vec<_> = self.extents().survey(spill, run.clone()).await?.holes().collect();
            for mut hole in holes {
                while !hole.is_empty() {
                    let mut handle = self.journal().start(map_credits(8) + 1).await?;
                    self.load_inode_block(spill.number()).await?;
                    let _map = spill.map_lock().write().await;
                    let contents = self.contents();
                    let extent = contents.allocate_extent(&mut handle, spill, hole.clone(), NewBlocks::Written).await?;
                    hole.start = extent.logical_end();
                    if spill.size() < hole.start * PAGE_BYTES {
                        spill.set_size(hole.start * PAGE_BYTES);
                    }
                    self.load_inode_block(spill.number()).await?;
                    self.save(&mut handle, spill);
                }
            }
        }
        Ok(())
    }

    /// Lets the reserved blocks of private pages be those of the spill file. Does not wait.
    fn hand_over_to(&self, id: DraftId, node: &Node, spill: &Node, runs: &[Range<u64>]) {
        let mut handed = Runs::default();
        self.drafts().change_committing(id, |draft| {
            let new = &mut draft.files.get_mut(&node.file_number()).expect("the caller holds its lock").plan.new;
            for run in runs {
                while let Some(next) = new.first_from(run.start).filter(|next| next.start < run.end) {
                    let part = next.start..next.end.min(run.end);
                    new.remove(part.clone());
                    handed.insert(part);
                }
            }
        });
        handed.runs().for_each(|part| spill.pending().delay(part));
    }

    /// Changes a file of a draft, and gives back the blocks that its commit needs no more. Does not wait.
    fn alter(&self, id: DraftId, node: &Node, change: impl FnOnce(&mut FileOf<Volume>)) {
        let (before, after) = self.drafts().change_committing(id, |draft| {
            let file = draft.files.get_mut(&node.file_number()).expect("the caller holds its lock");
            let before = self.volume().cost(file).reserved;
            change(file);
            (before, self.volume().cost(file).reserved)
        });
        self.note_reserved(before, after);
    }

    /// Makes durable what the drafts have spilled, before the transaction that moves it. Spills what is still private
    /// of files that have a spill file. The caller holds the locks of all files.
    pub(super) async fn settle_spills(&self, drafts: &[DraftId]) -> FsResult<()> {
        let mut has_spilled = false;
        for id in drafts {
            let with_spill = |draft: &Draft<Node, Plan>| {
                draft
                    .files
                    .values()
                    .filter(|file| file.plan.spill.is_some())
                    .map(|file| Rc::clone(&file.node))
                    .collect()
            };
            let nodes: Vec<Rc<Node>> = self.drafts().read(*id, with_spill)?;
            for node in &nodes {
                self.spill_rest(*id, node).await?;
                self.free_unused(*id, node).await?;
            }
            has_spilled |= !nodes.is_empty();
        }
        if has_spilled {
            self.port().request(Request::flush(Cause::Data)).await?;
        }
        Ok(())
    }

    /// See [`DraftHost::plan_page`], for a file with a spill file.
    pub(super) async fn plan_spilled_page(&self, file: &mut FileOf<Volume>, index: u64) -> FsResult<()> {
        let is_spilled = file.spilled.contains(index);
        let spill = file.plan.spill.as_mut().expect("the caller sees to it");
        // A page taken out of the middle of an extent leaves two of it.
        spill.extents_max += usize::from(is_spilled);
        spill.promised.remove(index..index + 1);
        spill.promised_new.remove(index..index + 1);
        if !self.has_block(&spill.node, index).await? {
            file.plan.new.insert(index..index + 1);
        }
        Ok(())
    }

    /// Whether a page has a block in a spill file, or a reserved one.
    async fn has_block(&self, spill: &Node, index: u64) -> FsResult<bool> {
        let is_delayed = spill.pending().is_delayed(index);
        Ok(is_delayed || matches!(self.extents().map(spill, index as u32).await?, Mapping::Mapped(_)))
    }
}
