//! What drafts need to know of ext4.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::RwLock;

use super::credits::NAME_CREDITS;
use super::plan::{Drafts, Plan};
use crate::api::{FsError, FsResult, Ino, NewNode};
use crate::atomic::DraftId;
use crate::drafts::{Claimable, Cost, DraftHost, FileOf};
use crate::ext4::inodes::Node;
use crate::ext4::map::Mapping;
use crate::ext4::mode::Scope;
use crate::ext4::survey::Part;
use crate::ext4::views::Atomics;
use crate::ext4::volume::Volume;
use crate::pages::Pages;

/// Blocks that a directory may need for one more entry.
const NAME_BLOCKS: u64 = 3;

impl Claimable for Node {
    fn lock(&self) -> &RwLock {
        Node::lock(self)
    }

    fn claimant(&self) -> Option<DraftId> {
        Node::claimant(self)
    }

    fn set_claimant(&self, draft: Option<DraftId>) {
        Node::set_claimant(self, draft);
    }

    fn add_opener(&self) {
        Node::add_opener(self);
    }

    fn drop_opener(&self) {
        Node::drop_opener(self);
    }

    fn is_directory(&self) -> bool {
        Node::is_directory(self)
    }

    fn expect_regular(&self) -> FsResult<()> {
        self.expect_file()
    }

    fn expect_undeleted(&self) -> FsResult<()> {
        Node::expect_undeleted(self)
    }

    fn expect_alive(&self) -> FsResult<()> {
        match self.inode().links {
            0 => Err(FsError::NotFound(Node::ino(self).to_string())),
            _ => Ok(()),
        }
    }
}

impl DraftHost for Volume {
    type Plan = Plan;
    type Spills<'a> = Atomics<'a>;

    const NAME_COST: Cost = Cost { changed: NAME_CREDITS, reserved: NAME_BLOCKS };

    fn page_layer(&self) -> &Pages {
        self.pages()
    }

    fn drafts(&self) -> &Drafts {
        Volume::drafts(self)
    }

    fn expect_writable(&self) -> FsResult<()> {
        self.check_writable()
    }

    fn expect_drafts(&self) -> FsResult<()> {
        match self.scope() {
            Scope::Full => Ok(()),
            _ => Err(FsError::Unsupported(format!(
                "atomic files in mode `{}`, which writes content in place; mount with data, data+async, ldj, or with \
                 sdj on a device with SHARE",
                self.options().mode
            ))),
        }
    }

    async fn existing(&self, ino: Ino) -> FsResult<Rc<Node>> {
        self.node(ino).await
    }

    fn expect_end(&self, node: &Node, end: u64) -> FsResult<()> {
        self.contents().check_end(node, end)
    }

    async fn end_open(&self, node: &Rc<Node>) -> FsResult<()> {
        self.contents().release(node).await
    }

    fn cost(&self, file: &FileOf<Volume>) -> Cost {
        super::credits::of_file(file, self.groups().len() as usize)
    }

    fn changed_max(&self) -> usize {
        self.journal().transaction_blocks_max()
    }

    fn expect_room(&self, more: u64) -> FsResult<()> {
        if self.contents().can_reserve(more) {
            return Ok(());
        }
        let free = self.groups().available_blocks().saturating_sub(self.contents().kept_blocks());
        Err(FsError::NoSpace { what: "blocks", needed: more, free })
    }

    fn note_reserved(&self, before: u64, after: u64) {
        self.groups().reserve(self.groups().reserved_blocks() + after - before);
    }

    async fn plan_page(&self, file: &mut FileOf<Volume>, index: u64) -> FsResult<()> {
        if file.plan.spill.is_some() {
            return self.atomics().plan_spilled_page(file, index).await;
        }
        let alone = index..index + 1;
        let parts = self.extents().survey(&file.node, alone.clone()).await?.into_parts();
        let is_unwritten = matches!(parts.first(), Some(Part::Mapped(it)) if it.unwritten);
        onewrite_block::reached!("draft writes into an unwritten extent", is_unwritten);
        match parts.first() {
            _ if file.dropped.contains(index) => file.plan.new.insert(alone),
            Some(Part::Mapped(extent)) if extent.unwritten => file.plan.unwritten.insert(alone),
            Some(Part::Mapped(_)) => 0,
            _ => file.plan.new.insert(alone),
        };
        Ok(())
    }

    async fn plan_dropped(&self, file: &mut FileOf<Volume>, pages: Range<u64>) -> FsResult<()> {
        file.plan.new.remove(pages.clone());
        if let Some(spill) = &mut file.plan.spill {
            // Pages taken out of the middle of an extent leave two of it.
            spill.extents_max += 1;
            spill.has_unused = true;
            return Ok(());
        }
        file.plan.unwritten.remove(pages);
        file.plan.extents_before = self.extents().all(&file.node).await?.len();
        file.plan.tree_before = self.extents().tree_blocks_of(&file.node).await?.len();
        file.plan.dropped_extents = 0;
        let mut index = 0;
        while let Some(run) = file.dropped.first_from(index) {
            file.plan.dropped_extents += self.extents_in(&file.node, run.clone()).await?;
            index = run.end;
        }
        Ok(())
    }

    async fn name_in(&self, directory: &Rc<Node>, name: &[u8]) -> FsResult<Option<Ino>> {
        Ok(self.directories().find_entry(directory, name).await?.map(|entry| entry.ino))
    }

    async fn create_unnamed(&self, directory: &Rc<Node>, _: &[u8], node: NewNode) -> FsResult<Rc<Node>> {
        self.directories().create_unnamed(directory, node).await
    }
}

impl Volume {
    /// Extents of the committed file that have blocks in `pages`; a group's worth of blocks at most counts as one.
    async fn extents_in(&self, node: &Node, pages: Range<u64>) -> FsResult<usize> {
        let (mut count, mut index) = (0, pages.start);
        while index < pages.end {
            index += match self.extents().map(node, index as u32).await? {
                Mapping::Hole(length) => length,
                Mapping::Mapped(extent) => {
                    let length = u64::from(extent.length).min(pages.end - index);
                    count += length.div_ceil(self.layout().blocks_per_group.into()) as usize;
                    length
                }
            };
        }
        Ok(count)
    }
}
