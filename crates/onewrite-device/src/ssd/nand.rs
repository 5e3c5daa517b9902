//! Flash: the state that survives a power cut. Blocks of pages with their out-of-band areas and erase counts.
//!
//! Invariants, asserted here because the layers above must never break them:
//! 1. Pages of a block are programmed in ascending order, each once between two erases.
//! 2. A page's out-of-band area is written together with the page.
//!
//! ```text
//!   blank ──program──► good ──erase──► blank        a cut during a program: good, torn or blank
//!                      torn ──erase──► blank        a cut during an erase: the old pages, all torn, or blank
//! ```
//!
//! A block without programmed pages takes no memory for pages. Forks share a block until one of them changes it.

use std::io;
use std::rc::Rc;

use onewrite_block::Page;

use super::backing::{Backing, BlockEntry};
use super::oob::Oob;
use crate::address::{FlashBlock, from};

/// A programmed page.
#[derive(Clone, Debug)]
pub(crate) struct FlashPage {
    /// The content.
    pub(crate) content: Page,
    /// Its out-of-band area.
    pub(crate) oob: Oob,
}

/// A block: its pages that are not blank, and the state that survives an erase.
#[derive(Clone, Debug, Default)]
struct Cells {
    pages: Vec<FlashPage>,
    erase_count: u32,
    is_bad: bool,
}

/// All blocks of a device. A clone lives in memory, even if its origin lives in a file.
#[derive(Debug)]
pub(crate) struct Flash {
    blocks: Vec<Rc<Cells>>,
    pages_per_block: u32,
    backing: Option<Backing>,
}

impl Clone for Flash {
    fn clone(&self) -> Flash {
        let mut blocks = self.blocks.clone();
        if self.backing.is_some() {
            for (block, shared) in from(FlashBlock(0)).zip(&mut blocks) {
                for (page, flash_page) in (0..).zip(&mut Rc::make_mut(shared).pages) {
                    flash_page.content = self.content(block, page);
                }
            }
        }
        Flash { blocks, pages_per_block: self.pages_per_block, backing: None }
    }
}

impl Flash {
    /// Blank flash.
    pub(crate) fn new(blocks: u32, pages_per_block: u32) -> Flash {
        let blank = Rc::new(Cells::default());
        Flash { blocks: vec![blank; blocks as usize], pages_per_block, backing: None }
    }

    /// The flash in a file. Content stays there until it is read.
    ///
    /// # Errors
    /// The system's error, or the damage.
    pub(crate) fn backed(backing: Backing, pages_per_block: u32) -> io::Result<Flash> {
        let mut blocks = Vec::new();
        for (block, entry) in from(FlashBlock(0)).zip(backing.blocks()?) {
            let areas = backing.areas(block, entry)?;
            let pages = areas.into_iter().map(|oob| FlashPage { content: Page::ZEROS, oob }).collect();
            blocks.push(Rc::new(Cells { pages, erase_count: entry.erase_count, is_bad: entry.is_bad }));
        }
        Ok(Flash { blocks, pages_per_block, backing: Some(backing) })
    }

    /// The first error of the file behind the flash; a second call returns `None`.
    pub(crate) fn take_error(&self) -> Option<String> {
        self.backing.as_ref()?.take_error()
    }

    /// Makes programmed pages survive a crash of the host.
    pub(crate) fn sync(&self) {
        self.backing.iter().for_each(Backing::sync);
    }

    /// The content of a programmed page.
    ///
    /// # Panics
    /// If the page is blank.
    pub(crate) fn content(&self, block: FlashBlock, page: u32) -> Page {
        match &self.backing {
            Some(backing) => backing.content(block, page),
            None => self.blocks[block.index()].pages[page as usize].content.clone(),
        }
    }

    /// Whether a programmed page takes memory for its content.
    #[inline]
    pub(crate) fn holds_payload(&self, block: FlashBlock, page: u32) -> bool {
        self.backing.is_none() && self.blocks[block.index()].pages[page as usize].content.takes_memory()
    }

    /// Drops the content of a page that nobody will read again. The page stays programmed and keeps its out-of-band
    /// area.
    ///
    /// No-op if a fork shares the block: the fork would keep the bytes anyway.
    pub(crate) fn drop_payload(&mut self, block: FlashBlock, page: u32) {
        if let Some(block) = Rc::get_mut(&mut self.blocks[block.index()])
            && let Some(page) = block.pages.get_mut(page as usize)
        {
            page.content = Page::ZEROS;
        }
    }

    fn write_entry(&self, block: FlashBlock) {
        let Cells { erase_count, is_bad, .. } = *self.blocks[block.index()];
        self.backing.iter().for_each(|backing| backing.set_block(block, BlockEntry { erase_count, is_bad }));
    }

    fn write_page(&mut self, block: FlashBlock, page: u32) {
        let Some(backing) = &self.backing else { return };
        let cells = Rc::make_mut(&mut self.blocks[block.index()]);
        let flash_page = &mut cells.pages[page as usize];
        let content = std::mem::replace(&mut flash_page.content, Page::ZEROS);
        backing.program(block, page, cells.erase_count, &content, flash_page.oob);
    }

    fn block_mut(&mut self, block: FlashBlock) -> &mut Cells {
        Rc::make_mut(&mut self.blocks[block.index()])
    }

    /// Pages of a block that are no longer blank.
    #[inline]
    pub(crate) fn programmed(&self, block: FlashBlock) -> u32 {
        self.blocks[block.index()].pages.len() as u32
    }

    /// Whether a block takes no more pages before an erase.
    pub(crate) fn is_full(&self, block: FlashBlock) -> bool {
        self.programmed(block) == self.pages_per_block
    }

    /// Erase count of a block.
    pub(crate) fn erase_count(&self, block: FlashBlock) -> u32 {
        self.blocks[block.index()].erase_count
    }

    /// Whether a block has the mark of a bad block.
    pub(crate) fn is_bad(&self, block: FlashBlock) -> bool {
        self.blocks[block.index()].is_bad
    }

    /// Marks a block bad. It is never programmed or erased again.
    pub(crate) fn mark_bad(&mut self, block: FlashBlock) {
        self.block_mut(block).is_bad = true;
        self.write_entry(block);
    }

    /// A programmed page, if it is not blank.
    #[inline]
    pub(crate) fn page(&self, block: FlashBlock, page: u32) -> Option<&FlashPage> {
        self.blocks[block.index()].pages.get(page as usize)
    }

    /// Programs the next blank page of a block.
    ///
    /// # Panics
    /// If the block is full or bad: the layer above broke the order.
    #[inline]
    pub(crate) fn program(&mut self, block: FlashBlock, content: Page, oob: Oob) {
        let capacity = self.pages_per_block as usize;
        let cells = self.block_mut(block);
        assert!(cells.pages.len() < capacity, "block {block} is programmed beyond its end");
        assert!(!cells.is_bad, "block {block} is bad and was programmed");
        if cells.pages.capacity() == 0 {
            cells.pages.reserve_exact(capacity);
        }
        cells.pages.push(FlashPage { content, oob });
        if self.backing.is_some() {
            self.write_page(block, self.programmed(block) - 1);
        }
    }

    /// Makes every page of a block blank.
    pub(crate) fn erase(&mut self, block: FlashBlock) {
        let cells = self.block_mut(block);
        assert!(!cells.is_bad, "block {block} is bad and was erased");
        cells.pages.clear();
        cells.erase_count += 1;
        self.write_entry(block);
    }

    /// Makes every page of a block unreadable, as an interrupted erase does.
    pub(crate) fn tear_block(&mut self, block: FlashBlock) {
        (0..self.programmed(block)).for_each(|page| self.tear_page(block, page));
    }

    /// Makes one page unreadable.
    pub(crate) fn tear_page(&mut self, block: FlashBlock, page: u32) {
        self.block_mut(block).pages[page as usize] = FlashPage { content: Page::ZEROS, oob: Oob::TORN };
        self.write_page(block, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Lpn;

    const OOB: Oob = Oob::page(Lpn(3), 1);

    #[test]
    #[should_panic(expected = "beyond its end")]
    fn a_full_block_takes_no_page_before_it_is_erased() {
        let mut flash = Flash::new(1, 2);
        (0..3).for_each(|_| flash.program(FlashBlock(0), Page::ZEROS, OOB));
    }

    #[test]
    fn an_erase_makes_pages_blank_and_is_counted() {
        let mut flash = Flash::new(2, 2);
        let block = FlashBlock(1);
        flash.program(block, Page::ZEROS, OOB);
        let fork = flash.clone();
        flash.erase(block);
        assert_eq!((flash.programmed(block), flash.erase_count(block), fork.programmed(block)), (0, 1, 1));
    }
}
