//! Contents: the content of flash pages by version, while a page with that version exists.
//!
//! Copies of a version share its content. A version counts from the order of its first program until the erase of the
//! last page with it. So there are never more versions than flash pages. Zeros are not kept: a version without an entry
//! reads as zeros.

use onewrite_block::Page;
use rustc_hash::FxHashMap;

#[derive(Clone, Debug)]
struct Kept {
    page: Page,
    /// Flash pages with this version, including pages under program.
    copies: u32,
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    by_version: FxHashMap<u64, Kept>,
}

impl Contents {
    /// The content of a version.
    pub(super) fn page(&self, version: u64) -> Page {
        self.by_version.get(&version).map_or(Page::ZEROS, |kept| kept.page.clone())
    }

    /// Keeps the content of a new version. The ordered program of it counts as the first copy.
    pub(super) fn keep(&mut self, version: u64, page: Page) {
        if !page.same_handle(&Page::ZEROS) {
            let before = self.by_version.insert(version, Kept { page, copies: 0 });
            assert!(before.is_none(), "version {version} is written twice");
        }
    }

    /// Counts one more page with a version.
    #[inline]
    pub(super) fn gain(&mut self, version: u64) {
        if let Some(kept) = self.by_version.get_mut(&version) {
            kept.copies += 1;
        }
    }

    /// Counts the erase of a page with a version.
    #[inline]
    pub(super) fn lose(&mut self, version: u64) {
        if let Some(kept) = self.by_version.get_mut(&version) {
            kept.copies -= 1;
            if kept.copies == 0 {
                self.by_version.remove(&version);
            }
        }
    }

    /// Counts again after a power cut: keeps the content of these versions of flash pages.
    pub(super) fn recount(&mut self, versions: impl Iterator<Item = u64>) {
        self.by_version.values_mut().for_each(|kept| kept.copies = 0);
        versions.for_each(|version| self.gain(version));
        self.by_version.retain(|_, kept| kept.copies > 0);
    }

    /// Number of versions with content.
    pub(super) fn len(&self) -> usize {
        self.by_version.len()
    }

    /// Verifies the counts against the pages of the flash.
    pub(super) fn check(&self, versions: impl Iterator<Item = u64>) -> Result<(), String> {
        let mut counted: FxHashMap<u64, u32> = self.by_version.keys().map(|version| (*version, 0)).collect();
        versions.for_each(|version| {
            if let Some(found) = counted.get_mut(&version) {
                *found += 1;
            }
        });
        let wrong = self.by_version.iter().map(|(version, kept)| (version, kept.copies, counted[version]));
        match wrong.filter(|(_, copies, found)| copies != found).min() {
            None => Ok(()),
            Some((version, copies, found)) => {
                Err(format!("version {version} is on {found} flash pages, its content counts {copies}"))
            }
        }
    }
}
