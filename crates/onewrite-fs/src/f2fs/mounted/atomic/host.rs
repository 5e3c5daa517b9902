//! What drafts need to know of F2FS.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::RwLock;

use super::super::file::File;
use super::super::map::Named;
use super::super::views::DraftCommits;
use super::super::volume::Volume;
use super::plan::{Drafts, Plan};
use crate::api::{FsError, FsResult, Ino, NewNode};
use crate::atomic::DraftId;
use crate::drafts::{Claimable, Cost, DraftHost, FileOf, NoSpills, PlansSpill};
use crate::f2fs::format::DataAddress;
use crate::pages::{PagedFile, Pages};

/// What a change of a name takes: for a new one a block of names, and the nodes on the way to it; of the blocks in
/// memory also those of the old name, and three inodes.
const NAME_COST: Cost = Cost { changed: 8, reserved: 4 };
/// Nodes that freeing a run of pages may leave changed: two at each end.
const RUN_NODES: usize = 4;

impl Claimable for File {
    fn lock(&self) -> &RwLock {
        File::lock(self)
    }

    fn claimant(&self) -> Option<DraftId> {
        File::claimant(self)
    }

    fn set_claimant(&self, draft: Option<DraftId>) {
        File::set_claimant(self, draft);
    }

    fn add_opener(&self) {
        File::add_opener(self);
    }

    fn drop_opener(&self) {
        File::drop_opener(self);
    }

    fn is_directory(&self) -> bool {
        File::is_directory(self)
    }

    fn expect_regular(&self) -> FsResult<()> {
        File::expect_regular(self)
    }

    fn expect_undeleted(&self) -> FsResult<()> {
        File::expect_undeleted(self)
    }

    fn expect_alive(&self) -> FsResult<()> {
        self.expect_named()
    }
}

impl PlansSpill<File> for Plan {}

impl DraftHost for Volume {
    type Plan = Plan;
    type Spills<'a> = NoSpills;

    const NAME_COST: Cost = NAME_COST;

    fn page_layer(&self) -> &Pages {
        &self.pages
    }

    fn drafts(&self) -> &Drafts {
        &self.drafts
    }

    fn expect_writable(&self) -> FsResult<()> {
        self.check_writable()
    }

    fn expect_drafts(&self) -> FsResult<()> {
        match &self.stage {
            None => Ok(()),
            Some(_) => Err(FsError::Unsupported(
                "atomic files on F2FS with a staging area, whose log has no place for them; copy the tree to an image \
                 that mkfs made without --stage"
                    .into(),
            )),
        }
    }

    async fn existing(&self, ino: Ino) -> FsResult<Rc<File>> {
        self.nodes().file(ino).await
    }

    fn expect_end(&self, file: &File, end: u64) -> FsResult<()> {
        self.contents().check_end(file, end)
    }

    async fn prepare_claim(&self, file: &Rc<File>) -> FsResult<()> {
        let _changes = self.changes.read().await;
        self.check_writable()?;
        self.contents().move_out_content(file).await
    }

    async fn end_open(&self, file: &Rc<File>) -> FsResult<()> {
        self.contents().release(file).await
    }

    fn cost(&self, file: &FileOf<Volume>) -> Cost {
        let plan = &file.plan;
        let reserved = plan.new.count() + plan.missing.len() as u64;
        let nodes = 1 + plan.touched.len() + file.dropped.run_count() * RUN_NODES;
        let changed = if file.is_changed() { file.private.count() as usize + nodes } else { 0 };
        Cost { changed, reserved }
    }

    fn changed_max(&self) -> usize {
        self.options.draft_blocks_max()
    }

    fn expect_room(&self, more: u64) -> FsResult<()> {
        self.space.borrow().expect_room(more)
    }

    fn note_reserved(&self, before: u64, after: u64) {
        self.space.borrow_mut().note_drafted(before, after);
    }

    async fn plan_page(&self, file: &mut FileOf<Volume>, index: u64) -> FsResult<()> {
        let steps = self.maps().path(&file.node, index)?;
        let has_block = match self.maps().find(&file.node, index).await? {
            Named::By(slot) => self.maps().address(&slot) != DataAddress::Hole,
            Named::Nothing { count } => {
                let depth = (0..steps.steps().len()).find(|depth| steps.rest_below(*depth) == count).unwrap_or(0);
                file.plan.missing.extend(steps.steps()[depth..].iter().map(|step| step.offset));
                false
            }
        };
        if !has_block {
            file.plan.new.insert(index..index + 1);
        }
        file.plan.touched.extend(steps.steps().iter().map(|step| step.offset));
        Ok(())
    }

    async fn plan_dropped(&self, file: &mut FileOf<Volume>, pages: Range<u64>) -> FsResult<()> {
        file.plan.new.remove(pages);
        Ok(())
    }

    async fn name_in(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<Option<Ino>> {
        Ok(self.directories().find_name(directory, name).await?.map(|found| found.ino()))
    }

    async fn create_unnamed(&self, directory: &Rc<File>, name: &[u8], node: NewNode) -> FsResult<Rc<File>> {
        self.cleaner().balance().await?;
        let _changes = self.changes.read().await;
        self.check_writable()?;
        let created = self.directories().make_inode(directory.number(), name, node).await?;
        created.change_raw(|raw| raw.i_links.set(0));
        self.nodes().note_unsaved(&created);
        created.add_opener();
        self.orphans.insert(created.number());
        Ok(created)
    }
}

impl DraftCommits<'_> {
    /// Reserves a block for a node of a file. That of a claimed file is one that its draft has reserved: nobody but the
    /// commit makes nodes there.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], if no draft has the file.
    pub(in crate::f2fs::mounted) fn reserve_node(&self, file: &File) -> FsResult<()> {
        let mut space = self.space.borrow_mut();
        match file.claimant() {
            Some(_) => space.take_drafted(1),
            None => space.reserve(1)?,
        }
        Ok(())
    }

    /// Undoes [`DraftCommits::reserve_node`].
    pub(in crate::f2fs::mounted) fn unreserve_node(&self, file: &File) {
        let mut space = self.space.borrow_mut();
        if file.claimant().is_some() { space.return_drafted(1) } else { space.unreserve(1) }
    }

    /// Notes that the node at position `offset` of a file was made.
    pub(in crate::f2fs::mounted) fn note_made(&self, file: &File, offset: u32) {
        let Some(draft) = file.claimant() else { return };
        self.drafts.change_committing(draft, |draft| {
            if let Some(drafted) = draft.files.get_mut(&PagedFile::number(file)) {
                drafted.plan.missing.remove(&offset);
            }
        });
    }
}
