//! Page set: which pages a trace has, to count the different ones.
//!
//! A word of 64 bits for each 64 pages of which one was seen. Where pages lie together that takes a fraction of a byte
//! a page, and the words stay in the processor's cache; where they are scattered, at most 40 bytes.

use rustc_hash::FxHashMap;

const WORD_PAGES: u32 = 64;

/// See the module's head.
#[derive(Default)]
pub(crate) struct PageSet {
    /// Bits by page number divided by [`WORD_PAGES`].
    words: FxHashMap<u64, u64>,
    count: u64,
}

impl PageSet {
    /// Adds a page.
    #[inline]
    pub(crate) fn insert(&mut self, page: u64) {
        let word = self.words.entry(page / u64::from(WORD_PAGES)).or_default();
        let bit = 1 << (page % u64::from(WORD_PAGES));
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }

    /// Number of different pages.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn it_counts_as_a_set_of_numbers_does() {
        let (mut choices, mut pages, mut model) = (Choices::new(5), PageSet::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let page = choices.below(3) << 60 | choices.below(3000);
            pages.insert(page);
            model.insert(page);
            assert_eq!(pages.count(), model.len() as u64);
        }
    }
}
