//! Pages: what one may hold, and how it is compared with that.

use onewrite_block::{PAGE_SIZE, Page};

use super::{Candidate, Judge, Version};
use crate::hash::{ZEROS, page_hash};
use crate::model::{FileContent, NodeId};
use crate::states::SECTOR;
use crate::subject::Keeps;

/// What a page held from a position among the ended operations on; `None` for what it held before the run.
struct Given {
    from: Option<usize>,
    content: (Page, u64),
}

impl Given {
    fn by(version: &Version) -> Given {
        Given { from: Some(version.order), content: version.content() }
    }
}

impl Judge<'_> {
    /// Whether page `index` holds what the mode allows it to hold outside full scope.
    pub(super) fn is_allowed(
        &self,
        candidate: &Candidate,
        (node, index): (NodeId, u64),
        content: &FileContent,
        happened: usize,
    ) -> bool {
        let (page, found) = content.pages.shown(index);
        let visible = (content.size - index * PAGE_SIZE as u64).min(PAGE_SIZE as u64) as usize;
        let versions = self.versions.get(&(node, index)).map_or(&[][..], Vec::as_slice);
        let synced = self.obligations[happened].of_page(node, index);
        if self.promises.keeps == Keeps::Metadata && !self.promises.delays {
            let since = |version: &Version| version.allocates && version.order >= synced && version.begin < happened;
            if versions.iter().any(since) {
                return true;
            }
        }
        let (in_force, from) = self.in_force(candidate, (node, index), synced);
        if self.shows_lost_tail((node, index), (page, visible), &in_force) {
            return true;
        }
        let later = versions.iter().filter(|version| version.order >= from && version.begin < happened);
        let in_force = (!self.has_arrived((candidate, node), index, content.size, happened)).then_some(in_force);
        let given = in_force.into_iter().chain(later.map(Given::by));
        let allowed: Vec<(Page, u64)> = given.map(|given| self.without_cut(candidate, (node, index), given)).collect();
        let pages = || allowed.iter().map(|(page, _)| page.clone()).collect::<Vec<_>>();
        allowed.iter().any(|version| is_seen(version.clone(), found, visible))
            || self.tears && is_mixed(page, &pages(), visible)
    }

    /// Whether a page that grew shows what it held at first and, in `writeback`, anything behind the end that the file
    /// had then: what an earlier life wrote there and lost may have reached the disk before its size.
    fn shows_lost_tail(&self, (node, index): (NodeId, u64), (page, visible): (&Page, usize), in_force: &Given) -> bool {
        let size = self.history.initial.size(node);
        let known = (size % PAGE_SIZE as u64) as usize;
        self.promises.keeps == Keeps::Metadata
            && in_force.from.is_none()
            && index == size / PAGE_SIZE as u64
            && (1..visible).contains(&known)
            && cut(page.clone(), known) == cut(in_force.content.0.clone(), known)
    }

    /// What a page held before anything that it may have been given since, and the position from which that counts.
    fn in_force(&self, candidate: &Candidate, (node, index): (NodeId, u64), synced: usize) -> (Given, usize) {
        let versions = self.versions.get(&(node, index)).map_or(&[][..], Vec::as_slice);
        let allocated = versions.iter().rfind(|version| version.allocates && version.order < candidate.prefix);
        if let Some(allocated) = allocated.filter(|version| self.promises.delays && version.order >= synced) {
            return (Given { from: Some(allocated.order), content: (Page::ZEROS, ZEROS) }, allocated.order);
        }
        let lower = allocated.map_or(0, |version| version.order + 1).max(synced);
        let initial = || self.history.initial.page(node, index).unwrap_or((Page::ZEROS, ZEROS));
        let before = versions.iter().rfind(|version| version.order < lower);
        (before.map_or_else(|| Given { from: None, content: initial() }, Given::by), lower)
    }

    /// Whether `index` is the last page of a size that nothing but a write gave, which follows its content. A page that
    /// was a hole again may be one still.
    fn has_arrived(&self, (candidate, node): (&Candidate, NodeId), index: u64, size: u64, happened: usize) -> bool {
        let is_last = index == (size - 1) / PAGE_SIZE as u64;
        if !self.promises.delays || !is_last {
            return false;
        }
        let place = self.surviving(candidate, node, happened);
        let is_hole = |version: &Version| version.hash == ZEROS && version.begin < happened;
        size > self.sizes.certain(node, self.history.initial.size(node), &place)
            && !self.versions.get(&(node, index)).is_some_and(|versions| versions.iter().any(is_hole))
    }

    /// What a page was given, without the bytes that surviving truncations cut off since. In `writeback` these may
    /// still be there.
    fn without_cut(&self, candidate: &Candidate, (node, index): (NodeId, u64), given: Given) -> (Page, u64) {
        let Given { from, content: (mut page, hash) } = given;
        let cut = self.cuts.first_byte((node, index), from, candidate.prefix);
        match cut.filter(|_| self.promises.keeps == Keeps::Data) {
            Some(cut) => {
                page.bytes_mut()[cut..].fill(0);
                let hash = page_hash(&page);
                (page, hash)
            }
            None => (page, hash),
        }
    }
}

/// Whether each sector of a page, within the file's size, comes from one of `versions`. On a disk that tears pages,
/// content that is overwritten in place may be torn.
pub(super) fn is_mixed(page: &Page, versions: &[Page], visible: usize) -> bool {
    let bytes = page.bytes();
    let versions: Vec<_> = versions.iter().map(Page::bytes).collect();
    (0..visible).step_by(SECTOR).all(|start| {
        let sector = start..visible.min(start + SECTOR);
        versions.iter().any(|version| version[sector.clone()] == bytes[sector.clone()])
    })
}

/// Whether this version of a page has the hash `found` when only its first `visible` bytes are in the file.
pub(crate) fn is_seen((page, hash): (Page, u64), found: u64, visible: usize) -> bool {
    hash == found || visible < PAGE_SIZE && cut(page, visible) == found
}

/// The hash of a page when only its first `visible` bytes are in the file.
fn cut(mut page: Page, visible: usize) -> u64 {
    page.bytes_mut()[visible..].fill(0);
    page_hash(&page)
}
