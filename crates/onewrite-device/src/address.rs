//! Addresses: logical page, flash page, flash block, logical block; and the arithmetic between them, in one place.
//!
//! ```text
//!   Lpn ──page map──► Ppn ──numbering──► FlashBlock and the page in it
//!   LogicalBlock ──block map──► FlashBlock
//! ```
//!
//! All are four-byte numbers from 0, because maps hold millions of them. A request names its pages by
//! [`onewrite_block::Lpn`]: the same logical page in eight bytes. [`Lpn::of`] and [`Lpn::wide`] convert where requests
//! come in.

use std::fmt;
use std::ops::Range;

/// A logical page of a device: the address that the host uses. Less than the device's number of logical pages, at most
/// 2^30.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// A flash page: the place of content. A [`Numbering`] gives its block and its page in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppn(pub u32);

/// A flash block: the unit of erase. Less than the device's number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlashBlock(pub u32);

/// A logical block: as many consecutive logical pages as a flash block has pages. The unit of a block map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogicalBlock(pub u32);

/// An address, as [`each`] needs it.
pub(crate) trait Address: Copy {
    /// The address with this number.
    fn numbered(number: u32) -> Self;
    /// Its number.
    fn number(self) -> u32;
}

impl Lpn {
    /// The logical page that a request names. The device has admitted the request, so the number fits.
    #[inline]
    pub(crate) const fn of(page: onewrite_block::Lpn) -> Lpn {
        debug_assert!(page.0 <= u32::MAX as u64);
        Lpn(page.0 as u32)
    }

    /// The logical page as a request names it.
    pub(crate) const fn wide(self) -> onewrite_block::Lpn {
        onewrite_block::Lpn(self.0 as u64)
    }

    /// Its index in a table of logical pages.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The page `count` pages further on.
    #[inline]
    pub const fn offset(self, count: u32) -> Lpn {
        Lpn(self.0 + count)
    }

    /// `count` pages from this one on.
    #[inline]
    pub const fn run(self, count: u32) -> Range<Lpn> {
        self..self.offset(count)
    }
}

impl Ppn {
    /// Its index in a table of flash pages.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlashBlock {
    /// Its index in a table of flash blocks.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LogicalBlock {
    /// The logical block of a page, and the page's index in it; blocks have `block_pages` pages.
    #[inline]
    pub(crate) const fn place(lpn: Lpn, block_pages: u32) -> (LogicalBlock, u32) {
        (LogicalBlock(lpn.0 / block_pages), lpn.0 % block_pages)
    }

    /// Its first page; blocks have `block_pages` pages.
    #[inline]
    pub(crate) const fn first(self, block_pages: u32) -> Lpn {
        Lpn(self.0 * block_pages)
    }

    /// The logical blocks that a range of pages touches.
    pub(crate) fn touched(pages: &Range<Lpn>, block_pages: u32) -> Range<LogicalBlock> {
        LogicalBlock(pages.start.0 / block_pages)..LogicalBlock(pages.end.0.div_ceil(block_pages))
    }

    /// Its index in a table of logical blocks.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Address for Lpn {
    #[inline]
    fn numbered(number: u32) -> Lpn {
        Lpn(number)
    }
    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

impl Address for Ppn {
    #[inline]
    fn numbered(number: u32) -> Ppn {
        Ppn(number)
    }
    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

impl Address for FlashBlock {
    #[inline]
    fn numbered(number: u32) -> FlashBlock {
        FlashBlock(number)
    }
    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

impl Address for LogicalBlock {
    #[inline]
    fn numbered(number: u32) -> LogicalBlock {
        LogicalBlock(number)
    }
    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

/// The addresses of a range, in ascending order.
#[inline]
pub(crate) fn each<A: Address>(
    range: Range<A>,
) -> impl DoubleEndedIterator<Item = A> + ExactSizeIterator + Clone + use<A> {
    (range.start.number()..range.end.number()).map(A::numbered)
}

/// The addresses from `first` on, without an end.
#[inline]
pub(crate) fn from<A: Address>(first: A) -> impl Iterator<Item = A> + use<A> {
    (first.number()..).map(A::numbered)
}

/// The indices of a range of logical pages in a table of logical pages.
#[inline]
pub(crate) const fn indices(range: &Range<Lpn>) -> Range<usize> {
    range.start.index()..range.end.index()
}

impl fmt::Display for Lpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Ppn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for FlashBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry of a page map, in four bytes: a flash page, or one of two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MapEntry(u32);

impl MapEntry {
    /// No flash page.
    pub(crate) const NONE: MapEntry = MapEntry(u32::MAX);
    /// No flash page either; the owner of the map says why.
    pub(crate) const MARK: MapEntry = MapEntry(u32::MAX - 1);

    /// The entry that names a flash page.
    #[inline]
    pub(crate) const fn at(ppn: Ppn) -> MapEntry {
        debug_assert!(ppn.0 < MapEntry::MARK.0);
        MapEntry(ppn.0)
    }

    /// The flash page, if the entry names one.
    #[inline]
    pub(crate) const fn page(self) -> Option<Ppn> {
        if self.0 < MapEntry::MARK.0 { Some(Ppn(self.0)) } else { None }
    }

    /// The entry of a word. On flash an entry is its word.
    pub(crate) const fn of_word(word: u32) -> MapEntry {
        MapEntry(word)
    }

    /// The word of an entry on flash.
    pub(crate) const fn word(self) -> u32 {
        self.0
    }
}

/// How flash pages are numbered: block after block, and the pages of a block in order.
pub(crate) trait Numbering: Copy {
    /// Page `page` of a block.
    fn ppn(self, block: FlashBlock, page: u32) -> Ppn;

    /// The block of a flash page, and the page in it.
    fn place(self, ppn: Ppn) -> (FlashBlock, u32);

    /// The block of a flash page.
    #[inline]
    fn block(self, ppn: Ppn) -> FlashBlock {
        self.place(ppn).0
    }

    /// The first `count` pages of a block.
    #[inline]
    fn pages(self, block: FlashBlock, count: u32) -> Range<Ppn> {
        let first = self.ppn(block, 0);
        first..Ppn(first.0 + count)
    }
}

/// Every block starts at a multiple of a power of two. The numbers between the end of a block and the next one are
/// unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aligned {
    /// Low bits of a page's number; they give the page's index in its block.
    bits: u32,
}

impl Aligned {
    /// For blocks of `pages_per_block` pages.
    #[inline]
    pub(crate) const fn new(pages_per_block: u32) -> Aligned {
        Aligned { bits: pages_per_block.next_power_of_two().trailing_zeros() }
    }

    /// Size of the number range of `blocks` blocks, with the unused numbers.
    pub(crate) const fn page_numbers(self, blocks: u32) -> u32 {
        blocks << self.bits
    }
}

impl Numbering for Aligned {
    #[inline]
    fn ppn(self, block: FlashBlock, page: u32) -> Ppn {
        Ppn((block.0 << self.bits) + page)
    }

    #[inline]
    fn place(self, ppn: Ppn) -> (FlashBlock, u32) {
        (FlashBlock(ppn.0 >> self.bits), ppn.0 & ((1 << self.bits) - 1))
    }
}

/// Every number is used: a block starts where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dense {
    /// Pages of a block.
    pub(crate) block_pages: u32,
}

impl Numbering for Dense {
    #[inline]
    fn ppn(self, block: FlashBlock, page: u32) -> Ppn {
        Ppn(block.0 * self.block_pages + page)
    }

    #[inline]
    fn place(self, ppn: Ppn) -> (FlashBlock, u32) {
        (FlashBlock(ppn.0 / self.block_pages), ppn.0 % self.block_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every page of a few blocks is found where it was put, and no two pages share a number.
    fn is_one_to_one(numbering: impl Numbering, block_pages: u32) {
        let mut last = None;
        for block in each(FlashBlock(0)..FlashBlock(5)) {
            for page in 0..block_pages {
                let ppn = numbering.ppn(block, page);
                assert_eq!(numbering.place(ppn), (block, page));
                assert!(last < Some(ppn), "{ppn} comes after {last:?}");
                last = Some(ppn);
            }
            assert_eq!(numbering.pages(block, block_pages).end.0, last.unwrap().0 + 1);
        }
    }

    #[test]
    fn a_flash_page_names_its_block_and_place_in_either_numbering() {
        for block_pages in [1, 2, 24, 32, 33] {
            is_one_to_one(Aligned::new(block_pages), block_pages);
            is_one_to_one(Dense { block_pages }, block_pages);
        }
        assert_eq!(Aligned::new(24).page_numbers(3), 96);
        assert_eq!(Dense { block_pages: 24 }.ppn(FlashBlock(3), 0), Ppn(72));
    }

    #[test]
    fn a_map_entry_is_a_page_or_a_mark() {
        assert_eq!(MapEntry::at(Ppn(7)).page(), Some(Ppn(7)));
        assert_eq!((MapEntry::NONE.page(), MapEntry::MARK.page()), (None, None));
        assert_eq!(MapEntry::of_word(MapEntry::MARK.word()), MapEntry::MARK);
        assert_eq!(size_of::<MapEntry>(), 4);
    }

    #[test]
    fn a_range_touches_the_logical_blocks_of_its_first_and_last_page() {
        let touched = |start: u32, count| LogicalBlock::touched(&Lpn(start).run(count), 8);
        assert_eq!(touched(7, 1), LogicalBlock(0)..LogicalBlock(1));
        assert_eq!(touched(7, 2), LogicalBlock(0)..LogicalBlock(2));
        assert_eq!(LogicalBlock::place(Lpn(19), 8), (LogicalBlock(2), 3));
        assert_eq!(LogicalBlock(2).first(8), Lpn(16));
    }
}
