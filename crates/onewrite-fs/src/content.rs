//! Content: the input of a write and the result of a read. Whole pages are not copied.

use std::borrow::Cow;

use onewrite_block::{PAGE_SIZE, Page, Pattern};

/// What to write.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// `length` bytes that depend only on `seed`, `compressible_percent` and the place in the file. Whole pages of it
    /// take no memory. [`pattern_page`] gives the page that holds the bytes.
    Pattern {
        /// Selects the bytes.
        seed: u64,
        /// Share of each page that is zeros, 0 to 100.
        compressible_percent: u8,
        /// Bytes.
        length: u64,
    },
}

impl Content<'_> {
    /// Bytes to write.
    pub fn length(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Pattern { length, .. } => *length,
        }
    }

    /// Page `page_index` of the file, if this content, written at `offset`, covers the whole page.
    pub fn whole_page(&self, offset: u64, page_index: u64) -> Option<Page> {
        let start = page_index * PAGE_SIZE as u64;
        if start < offset || start + PAGE_SIZE as u64 > offset + self.length() {
            return None;
        }
        Some(match self {
            Content::Bytes(bytes) => Page::from_slice(&bytes[(start - offset) as usize..][..PAGE_SIZE]),
            Content::Pattern { seed, compressible_percent, .. } => {
                pattern_page(*seed, *compressible_percent, page_index)
            }
        })
    }

    /// The part of this content, written at `offset`, that falls on page `page_index`; gives its first byte in the page
    /// and the bytes.
    pub fn part_of_page(&self, offset: u64, page_index: u64) -> (usize, Cow<'_, [u8]>) {
        let page_start = page_index * PAGE_SIZE as u64;
        let start = offset.max(page_start);
        let end = (offset + self.length()).min(page_start + PAGE_SIZE as u64);
        let in_page = (start - page_start) as usize;
        let length = (end - start) as usize;
        let bytes = match self {
            Content::Bytes(bytes) => Cow::Borrowed(&bytes[(start - offset) as usize..][..length]),
            Content::Pattern { seed, compressible_percent, .. } => {
                let pattern = pattern_of_page(*seed, *compressible_percent, page_index);
                Cow::Owned(pattern.part(in_page..in_page + length))
            }
        };
        (in_page, bytes)
    }
}

/// Page `page_index` of a file with the pattern of `seed`.
pub const fn pattern_page(seed: u64, compressible_percent: u8, page_index: u64) -> Page {
    Page::pattern(pattern_of_page(seed, compressible_percent, page_index))
}

const fn pattern_of_page(seed: u64, compressible_percent: u8, page_index: u64) -> Pattern {
    Pattern { seed: seed.wrapping_add(page_index.wrapping_mul(0xd134_2543_de82_ef95)), compressible_percent }
}

/// Result of a read: some of the bytes of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// The pages that the bytes lie in.
    pub pages: Vec<Page>,
    /// Bytes of the first page before the data.
    pub skip: usize,
    /// Bytes in all.
    pub length: usize,
}

impl Data {
    /// The bytes, copied into one buffer.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.pages.len() * PAGE_SIZE);
        self.append_to(&mut bytes);
        bytes
    }

    /// Appends the bytes to `bytes`.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        let (mut skip, mut left) = (self.skip, self.length);
        for page in &self.pages {
            let length = left.min(PAGE_SIZE - skip);
            bytes.extend_from_slice(&page.bytes()[skip..skip + length]);
            (skip, left) = (0, left - length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_pattern_are_parts_of_its_pages() {
        let content = Content::Pattern { seed: 5, compressible_percent: 0, length: 6000 };
        let (start, part) = content.part_of_page(100, 0);
        assert_eq!((start, part.len()), (100, 3996));
        assert_eq!(&part[..], &pattern_page(5, 0, 0).bytes()[100..]);
        assert_eq!(content.part_of_page(100, 1).1.len(), 2004);
        assert_eq!(content.whole_page(0, 0), Some(pattern_page(5, 0, 0)));
        assert_eq!(content.whole_page(100, 0), None);
    }

    #[test]
    fn data_is_the_bytes_behind_the_skipped_ones() {
        let page = |seed| pattern_page(seed, 0, 0);
        let all: Vec<u8> = [1, 2, 3].iter().flat_map(|seed| page(*seed).bytes().to_vec()).collect();
        let pages = vec![page(1), page(2), page(3)];
        for (skip, length) in [(0, 0), (0, 3 * PAGE_SIZE), (7, 5), (4095, 4098), (100, 3 * PAGE_SIZE - 100)] {
            let data = Data { pages: pages.clone(), skip, length };
            assert!(data.to_vec() == all[skip..skip + length], "{length} bytes from {skip} on");
        }
    }
}
