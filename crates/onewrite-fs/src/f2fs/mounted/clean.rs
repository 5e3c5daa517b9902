//! Cleaning: empties segments, so that logs find whole ones.
//!
//! A summary says who owns each block of a victim. Content becomes dirty in memory and goes to the cold log, or gets
//! its new block there by SHARE (`clean_share`); nodes become dirty and go with the next checkpoint, which makes the
//! segment free.
//!
//! When few segments are free, an operation cleans before it begins, by greed, while a victim is less than
//! [`SHORT_USED_MAX`] full; fuller ones are threaded instead. In quiet times a task cleans by cost and benefit, or by
//! age.
//!
//! # Invariants
//! - Cleaning holds `changes` alone, so no operation is between looking at a page and changing it.
//! - A block is moved only if the slot that its summary names still names it.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Nanos;

use super::file::File;
use super::map::{Named, NodeSlot};
use super::options::Clean;
use super::views::Cleaner;
use super::volume::node_key;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::node;
use crate::f2fs::format::path::{first_block, is_direct};
use crate::f2fs::format::summary::{self, Summary};
use crate::f2fs::format::{DataAddress, Nid};
use crate::f2fs::space::{Victim, VictimBy};
use crate::pages::page_key;
use crate::runs::Runs;

/// Blocks in use of the fullest segment that is cleaned while segments are short.
const SHORT_USED_MAX: u16 = 384;
/// Blocks in use of the fullest segment that is cleaned in quiet times.
const QUIET_USED_MAX: u16 = 448;
/// Segments that an operation empties at once.
const SHORT_SEGMENTS: usize = 4;
/// Blocks of a victim that are read side by side.
const READS_AT_ONCE: usize = 16;
/// Time between two looks of the background task.
const QUIET_INTERVAL: Nanos = Nanos::from_secs(30);
/// The background task cleans while less than one segment in this number is free.
const QUIET_SHARE: usize = 3;

impl Cleaner<'_> {
    /// Empties segments while few are free and some are worth it, and makes a checkpoint. The caller holds no
    /// `changes`.
    ///
    /// # Errors
    /// Device errors and damage; the file system failed before.
    pub(super) async fn clean_if_short(&self) -> FsResult<()> {
        if !self.space.borrow().is_short() || self.clean(VictimBy::Greed, SHORT_USED_MAX, SHORT_SEGMENTS).await? == 0 {
            return Ok(());
        }
        onewrite_block::reached!("cleaning for want of free segments");
        self.checkpoints().checkpoint().await
    }

    /// Empties up to `count` segments; returns their number.
    async fn clean(&self, by: VictimBy, used_max: u16, count: usize) -> FsResult<usize> {
        let _alone = self.changes.write().await;
        self.check_writable()?;
        for cleaned in 0..count {
            let victims = self.space.borrow().victims(by, used_max);
            onewrite_block::reached!("nothing left to clean", victims.is_empty());
            let Some(first) = victims.first().map(|victim| victim.segment) else { return Ok(cleaned) };
            for victim in &victims {
                self.empty(victim).await?;
                self.count(|counters| counters.cleaning.segments += 1);
            }
            if self.space.borrow().victims(by, used_max).first().is_some_and(|next| next.segment == first) {
                onewrite_block::reached!("victim cannot be emptied");
                // Nodes, or content without room: they leave with the checkpoint.
                return Ok(cleaned + 1);
            }
        }
        Ok(count)
    }

    async fn empty(&self, victim: &Victim) -> FsResult<()> {
        let known = self.space.borrow().full_summary(victim.summary);
        let page = match known {
            Some(page) => page,
            None => self.meta_block(victim.summary).await?,
        };
        let owned = victim.blocks.iter().map(|(block, index)| (summary::entry(&page.bytes()[..], *index), *block));
        let owned: Vec<(Summary, BlockNo)> = owned.collect();
        match (victim.holds_nodes, self.options.clean) {
            (true, _) => self.move_nodes(&owned).await,
            (false, Clean::Copy) => self.copy_content(&owned).await,
            (false, Clean::Share) => self.share_content(&owned).await,
        }
    }

    async fn move_nodes(&self, owned: &[(Summary, BlockNo)]) -> FsResult<()> {
        for (owner, block) in owned {
            self.move_node(owner.nid, *block).await?;
        }
        Ok(())
    }

    /// Writes content elsewhere.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn copy_content(&self, owned: &[(Summary, BlockNo)]) -> FsResult<()> {
        let mut pages: Vec<(Rc<File>, u64)> = Vec::new();
        for part in owned.chunks(READS_AT_ONCE) {
            let mut wanted = Vec::with_capacity(part.len());
            for (owner, block) in part {
                wanted.extend(self.content_in(*owner, *block).await?.map(|(file, logical, _)| (file, logical)));
            }
            self.pages.fill_scattered(self.volume(), &wanted).await?;
            for (owner, block) in part {
                pages.extend(self.move_content(*owner, *block).await?);
            }
        }
        self.write_scattered(pages).await
    }

    /// Writes single pages, file by file, many at once.
    pub(super) async fn write_scattered(&self, mut pages: Vec<(Rc<File>, u64)>) -> FsResult<()> {
        pages.sort_by_key(|(file, logical)| (file.number(), *logical));
        for of_file in pages.chunk_by(|(one, _), (other, _)| one.number() == other.number()) {
            let mut runs = Runs::default();
            for (_, logical) in of_file {
                runs.insert(*logical..logical + 1);
            }
            let runs: Vec<Range<u64>> = runs.runs().collect();
            self.pages.write_ready_runs(self.volume(), &of_file[0].0, &runs).await?;
        }
        Ok(())
    }

    /// Makes a node dirty, if it lies in `block`.
    async fn move_node(&self, nid: Nid, block: BlockNo) -> FsResult<()> {
        let Some((owner, _)) = self.load_owned(nid).await? else { return Ok(()) };
        if self.nodes().nat_entry(nid).await?.address == DataAddress::Block(block) && self.pages.holds(node_key(nid)) {
            onewrite_block::reached!("node moved by cleaning");
            self.nodes().change_node(nid, owner, |_| ());
            self.count(|counters| counters.cleaning.moved_nodes += 1);
        }
        Ok(())
    }

    /// Makes the page dirty that `block` holds, if its summary is right. Returns file and page.
    async fn move_content(&self, owner: Summary, block: BlockNo) -> FsResult<Option<(Rc<File>, u64)>> {
        let Some((file, logical, _)) = self.content_in(owner, block).await? else { return Ok(None) };
        self.pages.file_page(self.volume(), &file, logical, logical + 1).await?;
        // Loading waits; the slot may be out of memory since.
        let Named::By(slot) = self.maps().find(&file, logical).await? else { return Ok(None) };
        let is_here = self.maps().address(&slot) == DataAddress::Block(block);
        if !is_here || !self.pages.holds(page_key(&*file, logical)) {
            onewrite_block::reached!("content changed while it was cleaned");
            return Ok(None);
        }
        onewrite_block::reached!("content moved by cleaning");
        self.moving.borrow_mut().insert((file.number(), logical));
        self.pages.change_dirty(&*file, logical, 0..0, |_| ());
        if file.is_directory() {
            self.note_names(&file);
        }
        Ok(Some((file, logical)))
    }

    /// The page of a file that `block` holds, and the slot that names it; `None` if its summary is wrong or old.
    pub(super) async fn content_in(
        &self,
        owner: Summary,
        block: BlockNo,
    ) -> FsResult<Option<(Rc<File>, u64, NodeSlot)>> {
        let Some((ino, offset)) = self.load_owned(owner.nid).await? else { return Ok(None) };
        if !is_direct(offset) {
            return Ok(None);
        }
        let file = self.file_for_cleaning(ino).await?;
        let logical = match offset {
            0 => u64::from(owner.slot),
            _ => first_block(offset, file.shape().address_count() as u64) + u64::from(owner.slot),
        };
        let Named::By(slot) = self.maps().find(&file, logical).await? else { return Ok(None) };
        Ok((self.maps().address(&slot) == DataAddress::Block(block)).then_some((file, logical, slot)))
    }

    /// Brings a node into memory of which only the number is known. Gives its inode and position; `None` if there is no
    /// such node.
    async fn load_owned(&self, nid: Nid) -> FsResult<Option<(Nid, u32)>> {
        if !self.layout.contains_node(nid) {
            return Ok(None);
        }
        let entry = self.nodes().nat_entry(nid).await?;
        let offset = match (self.pages.peek(node_key(nid)).map(|page| node::footer(&page.bytes()[..])), entry.address) {
            (Some(footer), _) => footer.offset,
            (None, DataAddress::Block(block)) if self.layout.main.contains(block) => {
                node::footer(&self.read_block(block).await?.bytes()[..]).offset
            }
            _ => return Ok(None),
        };
        self.nodes().load_node(nid, entry.ino, offset).await?;
        Ok(Some((entry.ino, offset)))
    }

    async fn file_for_cleaning(&self, ino: Nid) -> FsResult<Rc<File>> {
        match self.file_in_memory(ino) {
            Some(file) => Ok(file),
            None => self.nodes().file(ino.into()).await,
        }
    }

    /// Cleans in quiet times; ends when the file system fails.
    pub(super) async fn cleaning_task(&self) {
        loop {
            self.runtime.sleep(QUIET_INTERVAL).await;
            if self.pages.dirty_count() > 0 || !self.space.borrow().is_below(QUIET_SHARE) {
                continue;
            }
            onewrite_block::reached!("cleaning while nothing else happens");
            match self.clean(self.quiet_victims(), QUIET_USED_MAX, 1).await {
                Ok(0) => (),
                Ok(_) => self.wanted.ask(),
                Err(FsError::ReadOnly(_)) => return,
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// How victims are chosen in quiet times. Before the file system is as old as the threshold, nothing in it can be.
    fn quiet_victims(&self) -> VictimBy {
        self.note_age();
        match self.options.age_threshold {
            Some(threshold) if self.space.borrow().age >= threshold => VictimBy::Age { threshold },
            _ => VictimBy::CostBenefit,
        }
    }

    /// Whether cleaning moves a page of a file; it goes to the cold log then.
    pub(super) fn is_moving(&self, file: &File, logical: u64) -> bool {
        self.moving.borrow().contains(&(file.number(), logical))
    }

    /// Notes that pages of a file have their new blocks.
    pub(super) fn note_moved(&self, file: &File, pages: std::ops::Range<u64>) {
        let mut moving = self.moving.borrow_mut();
        for logical in pages {
            moving.remove(&(file.number(), logical));
        }
    }

    /// Seconds that the file system has been mounted in its life, now.
    pub(super) fn note_age(&self) {
        let since = self.runtime.now().0.saturating_sub(self.mounted_at.0) / 1_000_000_000;
        self.space.borrow_mut().age = self.age_at_mount + since;
    }
}
