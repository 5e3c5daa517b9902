//! Truncation, holes, reservations and deletion: what takes blocks and nodes from a file.

use std::ops::Range;
use std::rc::Rc;

use super::file::File;
use super::map::{Named, number_at};
use super::views::Contents;
use crate::api::{Allocation, FileKind, FsError, FsResult, Ino};
use crate::content::Content;
use crate::f2fs::format::node::{self, NodeRole, POINTERS, XATTR_OFFSET};
use crate::f2fs::format::{DataAddress, Nid};
use crate::pages::{PAGE_BYTES, PagedFile};

impl Contents<'_> {
    /// Sets the size of a file. The caller holds its lock alone, and `changes`.
    pub(super) async fn set_size(&self, file: &Rc<File>, size: u64) -> FsResult<()> {
        self.move_out_content(file).await?;
        let before = file.size();
        if size <= before {
            // As Linux does, a truncation to the size that it has gives back what `fallocate` took behind it.
            if size < before {
                self.zero_tail(file, size).await?;
            }
            self.free_pages(file, size.div_ceil(PAGE_BYTES)..u64::MAX).await?;
            self.note_hole(file, size..u64::MAX);
        } else {
            self.zero_tail(file, before).await?;
        }
        file.change_raw(|raw| raw.i_size.set(size));
        self.stamp_modified(file);
        Ok(())
    }

    /// Makes pages of a file holes, and frees nodes that name nothing then. The caller holds the file's lock alone, and
    /// `changes`.
    pub(super) async fn free_pages(&self, file: &Rc<File>, pages: Range<u64>) -> FsResult<()> {
        self.pages.discard(file.number().0.into(), pages.clone());
        self.pages.wait_for_writes(&**file).await;
        self.note_hole(file, pages.start.saturating_mul(PAGE_BYTES)..pages.end.saturating_mul(PAGE_BYTES));
        let end = pages.end.min(super::map::size_max(file) / PAGE_BYTES);
        let mut index = pages.start;
        while index < end {
            let slot = match self.maps().find(file, index).await? {
                Named::Nothing { count } => {
                    index = index.saturating_add(count);
                    continue;
                }
                Named::By(slot) => slot,
            };
            let count = slot.left.min(end - index);
            let addresses = self.maps().addresses(&slot, count);
            for (slot, address) in &addresses {
                self.maps().set_address(file, slot, DataAddress::Hole);
                if let DataAddress::Block(block) = address {
                    self.space.borrow_mut().give_back(*block);
                }
            }
            if !addresses.is_empty() {
                self.space.borrow_mut().unreserve(addresses.len() as u64);
                self.maps().drop_blocks(file, addresses.len() as u64);
            }
            if slot.node != file.number() {
                self.drop_empty_nodes(file, index).await?;
            }
            index += count;
        }
        Ok(())
    }

    /// Drops the nodes on the way to block `logical` that name nothing, from below.
    async fn drop_empty_nodes(&self, file: &Rc<File>, logical: u64) -> FsResult<()> {
        let path = self.maps().path(file, logical)?;
        let owner = file.number();
        let mut chain = vec![(owner, 0)];
        for step in path.steps() {
            let (above, offset) = *chain.last().expect("the inode");
            self.nodes().load_node(above, owner, offset).await?;
            let at = number_at(NodeRole::of(above, owner), step.slot);
            let nid = self.nodes().read_node(above, |bytes| FsResult::Ok(Nid(node::pointer(&bytes[..], at))))?;
            chain.push((nid, step.offset));
        }
        for depth in (1..chain.len()).rev() {
            let (nid, offset) = chain[depth];
            self.nodes().load_node(nid, owner, offset).await?;
            let is_empty = |bytes: &onewrite_block::PageBytes| {
                FsResult::Ok((0..POINTERS).all(|index| node::pointer(&bytes[..], index) == 0))
            };
            if !self.nodes().read_node(nid, is_empty)? {
                return Ok(());
            }
            let (above, offset) = chain[depth - 1];
            self.nodes().load_node(above, owner, offset).await?;
            let at = number_at(NodeRole::of(above, owner), path.steps()[depth - 1].slot);
            self.nodes().change_node(above, owner, |bytes| node::put_pointer(bytes, at, 0));
            onewrite_block::reached!("node of addresses emptied");
            self.nodes().drop_node(nid, owner);
            self.maps().drop_blocks(file, 1);
            // An fsync writes the nodes that are there; it cannot say that one is gone.
            file.bind_to(self.version());
        }
        Ok(())
    }

    /// Deletes an inode without names and openers, and all that it has. The caller holds `changes`.
    pub(super) async fn delete(&self, file: &Rc<File>) -> FsResult<()> {
        let owner = file.number();
        self.pages.discard(owner.0.into(), 0..u64::MAX);
        self.pages.wait_for_writes(&**file).await;
        // Nothing of it is left to stage, whether what follows can be read or not.
        self.note_hole(file, 0..u64::MAX);
        let few = file.few_addresses();
        if few.is_none() && is_mapped(file) && self.maps().has_nodes(file).await? {
            Box::pin(self.free_pages(file, file.shape().address_count() as u64..u64::MAX)).await?;
        }
        let attributes = Nid(file.raw().i_xattr_nid.get());
        if attributes.is_some() {
            self.nodes().load_node(attributes, owner, XATTR_OFFSET).await?;
            self.nodes().drop_node(attributes, owner);
            // If what follows cannot be read, the file stays, without them.
            file.change_raw(|raw| raw.i_xattr_nid.set(0));
            self.maps().drop_blocks(file, 1);
        }
        let named = match few {
            Some(addresses) => self.nodes().nat_entry(owner).await.map(|_| addresses)?,
            None => {
                self.nodes().load_node(owner, owner, 0).await?;
                if is_mapped(file) { self.maps().addresses_in_inode(file) } else { Vec::new() }
            }
        };
        // No wait from here on. The inode is dropped, so it stays as it is.
        self.give_back(&named);
        self.pages.dirty_files().forget(&**file);
        file.note_deleted();
        self.files.remove(owner);
        self.orphans.remove(owner);
        self.nodes().drop_node(owner, owner);
        self.note_gone(owner);
        Ok(())
    }

    fn give_back(&self, addresses: &[DataAddress]) {
        let mut space = self.space.borrow_mut();
        for address in addresses {
            if let DataAddress::Block(block) = address {
                space.give_back(*block);
            }
        }
        space.unreserve(addresses.len() as u64);
    }

    /// Takes one link from a file that lost a name; a directory loses all. Deletes it if it has none left and nobody
    /// has it open. The caller holds `changes`.
    pub(super) async fn drop_link(&self, file: &Rc<File>) -> FsResult<()> {
        let left = if file.is_directory() { 0 } else { file.links().saturating_sub(1) };
        file.change_raw(|raw| raw.i_links.set(left));
        if left == 0 && !file.is_open() {
            // Nothing names what could not be deleted; the unmount or the next mount does it.
            return self.delete(file).await.inspect_err(|_| {
                self.stamp_changed(file);
                self.orphans.insert(file.number());
            });
        }
        self.stamp_changed(file);
        // The nodes of an fsync do not say which names are gone.
        file.bind_to(self.version());
        onewrite_block::reached!("nameless file of F2FS stays open", left == 0);
        if left == 0 {
            self.orphans.insert(file.number());
        }
        Ok(())
    }

    /// Ends one open of a file.
    pub(super) async fn release(&self, file: &Rc<File>) -> FsResult<()> {
        file.drop_opener();
        if file.is_open() || file.links() > 0 {
            return Ok(());
        }
        let _held = file.lock().write().await;
        let _changes = self.changes.read().await;
        if file.is_deleted() || file.is_open() || self.check_writable().is_err() {
            return Ok(());
        }
        self.delete(file).await
    }

    /// Deletes the inodes without a name that are still open: nobody reaches them once the image is unmounted.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn delete_nameless(&self) -> FsResult<()> {
        for nid in self.orphans.all() {
            let Some(file) = self.files.get(nid) else { continue };
            let _held = file.lock().write().await;
            let _changes = self.changes.read().await;
            if !file.is_deleted() && file.links() == 0 {
                self.delete(&file).await?;
            }
        }
        Ok(())
    }

    /// See `FileSystem::allocate`. The caller holds the file's lock alone, and `changes`.
    pub(super) async fn allocate_file(&self, file: &Rc<File>, bytes: Range<u64>, what: Allocation) -> FsResult<()> {
        self.move_out_content(file).await?;
        match what {
            Allocation::Extend => self.reserve_bytes(file, bytes.clone(), file.size().max(bytes.end)).await?,
            Allocation::KeepSize => self.reserve_bytes(file, bytes, file.size()).await?,
            Allocation::PunchHole => self.punch(file, bytes).await?,
            Allocation::ZeroRange => {
                self.punch(file, bytes.start..bytes.end).await?;
                self.reserve_bytes(file, bytes.clone(), file.size().max(bytes.end)).await?;
            }
            Allocation::CollapseRange => self.collapse(file, bytes).await?,
            Allocation::InsertRange => self.insert_hole(file, bytes).await?,
        }
        self.stamp_modified(file);
        Ok(())
    }

    async fn reserve_bytes(&self, file: &Rc<File>, bytes: Range<u64>, size: u64) -> FsResult<()> {
        if size > file.size() {
            self.zero_tail(file, file.size()).await?;
        }
        let pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        let (reached, outcome) = self.reserve_pages(file, pages.clone()).await;
        self.note_reserved(file, pages.start..reached);
        outcome?;
        if size > file.size() {
            file.change_raw(|raw| raw.i_size.set(size));
        }
        Ok(())
    }

    /// Makes a range a hole, up to the end of the file; partial pages at its ends become zeros.
    async fn punch(&self, file: &Rc<File>, bytes: Range<u64>) -> FsResult<()> {
        let size = file.size();
        if bytes.start >= bytes.end.min(size) {
            return Ok(());
        }
        let end = if bytes.end < size { bytes.end } else { size.next_multiple_of(PAGE_BYTES) };
        let (first, stop) = (bytes.start.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let head_end = end.min(first * PAGE_BYTES).min(size);
        self.zero_part(file, bytes.start..head_end).await?;
        self.zero_part(file, (stop * PAGE_BYTES).max(head_end)..end).await?;
        match first < stop {
            true => self.free_pages(file, first..stop).await,
            false => Ok(()),
        }
    }

    /// Zeros a part of a page, unless the page is a hole.
    async fn zero_part(&self, file: &Rc<File>, bytes: Range<u64>) -> FsResult<()> {
        let index = bytes.start / PAGE_BYTES;
        if bytes.is_empty() || !self.is_written(file, index).await? {
            return Ok(());
        }
        self.pages.file_page(self.volume(), file, index, index + 1).await?;
        let at = (bytes.start % PAGE_BYTES) as usize;
        let part = at..at + (bytes.end - bytes.start) as usize;
        self.pages.change_dirty(&**file, index, part, |bytes| bytes.fill(0));
        Ok(())
    }

    /// Removes a range of whole pages: the content behind it moves. No checkpoint comes between.
    async fn collapse(&self, file: &Rc<File>, bytes: Range<u64>) -> FsResult<()> {
        let size = file.size();
        check_shift(file.ino(), &bytes, bytes.end < size)?;
        // The pages that move go with the inode.
        self.note_names(file);
        let pages = (bytes.end - bytes.start) / PAGE_BYTES;
        for run in self.runs(file, bytes.end / PAGE_BYTES..size.div_ceil(PAGE_BYTES)).await? {
            match run {
                NodeRun::Missing(holes) => self.free_pages(file, holes.start - pages..holes.end - pages).await?,
                NodeRun::There(run) => {
                    for index in run {
                        self.move_page(file, index, index - pages).await?;
                    }
                }
            }
        }
        self.set_size(file, size - (bytes.end - bytes.start)).await
    }

    /// Inserts a hole of whole pages: the content behind its start moves back. No checkpoint comes between.
    async fn insert_hole(&self, file: &Rc<File>, bytes: Range<u64>) -> FsResult<()> {
        let size = file.size();
        check_shift(file.ino(), &bytes, bytes.start < size)?;
        self.note_names(file);
        let length = bytes.end - bytes.start;
        self.check_end(file, size.saturating_add(length))?;
        self.zero_tail(file, size).await?;
        file.change_raw(|raw| raw.i_size.set(size + length));
        let pages = length / PAGE_BYTES;
        for run in self.runs(file, bytes.start / PAGE_BYTES..size.div_ceil(PAGE_BYTES)).await?.into_iter().rev() {
            match run {
                NodeRun::Missing(holes) => self.free_pages(file, holes.start + pages..holes.end + pages).await?,
                NodeRun::There(run) => {
                    for index in run.rev() {
                        self.move_page(file, index, index + pages).await?;
                    }
                }
            }
        }
        self.free_pages(file, bytes.start / PAGE_BYTES..bytes.end / PAGE_BYTES).await
    }

    /// Which of the pages have a node that may name them, and which have none, in order: a hole of terabytes is a few
    /// runs.
    async fn runs(&self, file: &File, pages: Range<u64>) -> FsResult<Vec<NodeRun>> {
        let (mut runs, mut index) = (Vec::new(), pages.start);
        while index < pages.end {
            let named = self.maps().find(file, index).await?;
            let count = match &named {
                Named::Nothing { count } => *count,
                Named::By(slot) => slot.left,
            };
            let run = index..pages.end.min(index.saturating_add(count));
            index = run.end;
            runs.push(if matches!(named, Named::By(_)) { NodeRun::There(run) } else { NodeRun::Missing(run) });
        }
        Ok(runs)
    }

    /// Gives page `to` the content of page `from`.
    async fn move_page(&self, file: &Rc<File>, from: u64, to: u64) -> FsResult<()> {
        if !self.is_written(file, from).await? {
            self.free_pages(file, to..to + 1).await?;
            return match self.is_named(file, from).await? {
                true => self.reserve_pages(file, to..to + 1).await.1,
                false => Ok(()),
            };
        }
        let page = self.pages.file_page(self.volume(), file, from, from + 1).await?;
        let bytes = page.bytes().to_vec();
        let (reached, outcome) = self.reserve_pages(file, to..to + 1).await;
        debug_assert!(outcome.is_err() || reached > to, "the page has a block");
        outcome?;
        let content = (to * PAGE_BYTES, Content::Bytes(&bytes[..]));
        let mut step = self.pages.begin_step(self.volume(), file, to..to + 1, content).await?;
        self.pages.put_dirty(self.volume(), file, to..to + 1, &mut step).await
    }
}

/// Whether the inode names blocks.
fn is_mapped(file: &File) -> bool {
    matches!(file.kind(), FileKind::Regular | FileKind::Directory | FileKind::Symlink) && !file.is_inline()
}

/// Consecutive pages of a file.
enum NodeRun {
    /// With a node that has their addresses.
    There(Range<u64>),
    /// Without one: holes.
    Missing(Range<u64>),
}

/// # Errors
/// If a range to remove or insert is not of whole pages, or ends behind the file.
fn check_shift(ino: Ino, bytes: &Range<u64>, is_inside: bool) -> FsResult<()> {
    if !bytes.start.is_multiple_of(PAGE_BYTES) || !bytes.end.is_multiple_of(PAGE_BYTES) {
        let Range { start, end } = bytes;
        return Err(FsError::Invalid(format!("the range {start}..{end} of {ino} is not of whole 4 KiB pages")));
    }
    match is_inside {
        true => Ok(()),
        false => Err(FsError::Invalid(format!("the range reaches the end of {ino}; truncate or extend it instead"))),
    }
}
