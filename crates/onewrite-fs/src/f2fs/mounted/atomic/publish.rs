//! Publishing: the private pages of a file get blocks, then the file names them.

use onewrite_block::{Cause, InFlight, Page};

use super::super::file::File;
use super::super::map::{Named, NodeSlot};
use super::super::views::DraftCommits;
use super::super::volume::Volume;
use crate::api::{FsError, FsResult};
use crate::atomic::DraftId;
use crate::block::BlockNo;
use crate::drafts::FileOf;
use crate::f2fs::format::summary::Summary;
use crate::f2fs::format::{DataAddress, FormatError, Place};
use crate::f2fs::space::Owner;
use crate::pages::{PagedFile, page_key};
use crate::transfer::{Durability, send_run, wait_all};

/// A file of a commit, and the blocks that hold its private pages and that nothing names yet.
pub(super) struct Written {
    pub(super) draft: DraftId,
    pub(super) file: FileOf<Volume>,
    blocks: Vec<(u64, BlockNo)>,
}

impl DraftCommits<'_> {
    /// Writes the private pages of a file to new blocks, and waits. Makes the nodes that will name them, and keeps
    /// those in memory. The caller holds the file's lock alone, and `changes`.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the log has no blocks before the next checkpoint; device errors. No block is taken then.
    pub(super) async fn write_pages(&self, draft: DraftId, file: FileOf<Volume>) -> FsResult<Written> {
        let (mut written, mut under_way) = (Written { draft, file, blocks: Vec::new() }, Vec::new());
        let taken = self.send_pages(&mut written, &mut under_way).await;
        let arrived = wait_all(under_way).await.map_err(FsError::from);
        self.is_unflushed.set(true);
        match taken.and(arrived) {
            Ok(()) => Ok(written),
            Err(error) => {
                self.give_back(&written);
                Err(error)
            }
        }
    }

    async fn send_pages(&self, written: &mut Written, under_way: &mut Vec<InFlight>) -> FsResult<()> {
        for run in written.file.private.clone().runs() {
            let mut index = run.start;
            while index < run.end {
                let slot = self.maps().find_or_make(&written.file.node, index).await?;
                // A changed node stays in memory.
                self.nodes().change_node(slot.node, written.file.node.number(), |_| ());
                let first = written.blocks.len();
                self.take_blocks(written, &slot, index, slot.left.min(run.end - index))?;
                let taken = &written.blocks[first..];
                let pages: Vec<Page> = taken.iter().map(|(index, _)| self.private_page(written, *index)).collect();
                index += pages.len() as u64;
                let start = taken[0].1.page();
                under_way
                    .extend(send_run(&self.port, start, pages.into_iter(), Durability::Volatile, Cause::Data).await);
            }
        }
        Ok(())
    }

    /// Takes blocks beside each other for at most `most` pages from `index` on, which `slot` and those behind it name.
    /// Does not wait.
    fn take_blocks(&self, written: &mut Written, slot: &NodeSlot, index: u64, most: u64) -> FsResult<()> {
        let kind = Volume::log_of_content(&written.file.node);
        let version = self.numbers.borrow().known(slot.node).map_or(0, |entry| entry.version);
        let mut space = self.space.borrow_mut();
        let room = space.run_of(kind, most);
        onewrite_block::reached!("commit of a draft finds no segment", room == 0);
        for behind in 0..room.max(1) {
            let slot = slot.behind(behind);
            let owner = Owner { summary: Summary { nid: slot.node, slot: slot.index as u16 }, version };
            let nothing = || FsError::NoSpace { what: "segments for content", needed: 1, free: 0 };
            written.blocks.push((index + behind, space.take(kind, owner).ok_or_else(nothing)?));
        }
        Ok(())
    }

    fn private_page(&self, written: &Written, index: u64) -> Page {
        let key = page_key(&*written.file.node, index);
        let page = self.pages.owned_pages().private_page(written.draft.owner(), key);
        page.expect("the page layer keeps what `private` names")
    }

    /// Gives back the blocks of pages that are not published.
    pub(super) fn give_back(&self, written: &Written) {
        let mut space = self.space.borrow_mut();
        written.blocks.iter().for_each(|(_, block)| space.give_back(*block));
    }

    /// Makes the draft's content of a file the file's content, in memory. The caller holds the file's lock alone, and
    /// `changes`.
    ///
    /// # Errors
    /// Device errors and damage; a part may be changed then.
    pub(super) async fn publish(&self, written: &Written) -> FsResult<()> {
        let Written { file, blocks, .. } = written;
        let node = &file.node;
        for (index, block) in blocks {
            self.name_block(written, *index, *block).await?;
        }
        // Behind the new pages, so that no node goes that names them.
        for run in file.dropped.without(&file.private).runs() {
            onewrite_block::reached!("draft of F2FS drops pages");
            self.contents().free_pages(node, run).await?;
        }
        if file.size != node.size() {
            node.change_raw(|raw| raw.i_size.set(file.size));
        }
        self.stamp_modified(node);
        Ok(())
    }

    async fn name_block(&self, written: &Written, index: u64, block: BlockNo) -> FsResult<()> {
        let node = &written.file.node;
        let Named::By(slot) = self.maps().find(node, index).await? else {
            let place = Place::FileBlock { inode: node.number(), logical: index };
            return Err(FormatError::field(place, "address", 0_u32, "a node for it was just made").into());
        };
        match self.maps().address(&slot) {
            DataAddress::Hole => self.count_new(written, index),
            DataAddress::Block(old) => self.space.borrow_mut().give_back(old),
            _ => (),
        }
        self.maps().set_address(node, &slot, DataAddress::Block(block));
        self.pages.insert(page_key(&**node, index), self.private_page(written, index));
        Ok(())
    }

    /// Counts a page that had no block; its draft has reserved one.
    fn count_new(&self, written: &Written, index: u64) {
        let node = &written.file.node;
        self.drafts.change_committing(written.draft, |draft| {
            let file = draft.files.get_mut(&PagedFile::number(&**node)).expect("a file stays in its draft");
            file.plan.new.remove(index..index + 1);
        });
        self.space.borrow_mut().take_drafted(1);
        self.maps().add_blocks(node, 1);
    }

    /// Whether pages of a file are dirty or on their way: those of ordinary writes, or of cleaning.
    pub(super) fn has_ordinary_pages(&self, file: &File) -> bool {
        file.pages().is_dirty() || self.pages.is_writing(file)
    }
}
