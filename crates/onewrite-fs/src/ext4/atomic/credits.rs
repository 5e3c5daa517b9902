//! Credits: how many blocks the commit of a draft may change, which its handle asks the journal for.

use super::drafts::{Draft, DraftFile, Drafts};
use crate::ext4::balloc::ALLOCATION_CREDITS;
use crate::ext4::dir::{ENTRY_CREDITS, REMOVE_CREDITS};
use crate::ext4::map::MAP_CREDITS;
use crate::ext4::orphans::ORPHAN_CREDITS;
use crate::ext4::truncate::FREE_CREDITS;

/// Credits of one change of a name: an entry added, another removed, two inodes and two directories, an orphan.
pub(super) const NAME_CREDITS: usize = ENTRY_CREDITS + REMOVE_CREDITS + 4 + 2 * ORPHAN_CREDITS;

impl DraftFile {
    /// Blocks that its commit may change in `group_count` groups.
    pub(super) fn credits(&self, group_count: usize) -> usize {
        if !self.is_changed() {
            return 0;
        }
        let (private, new) = (self.private.count() as usize, self.new.count() as usize);
        let mapped_anew = new + self.unwritten.count() as usize;
        let runs = self.new.run_count() + self.unwritten.run_count();
        let map = runs * MAP_CREDITS + mapped_anew.div_ceil(64);
        1 + private
            + self.dropped.run_count()
            + map
            + ALLOCATION_CREDITS * new.min(group_count)
            + self.dropped_extents * FREE_CREDITS
    }
}

impl Draft {
    pub(super) fn credits(&self, group_count: usize) -> usize {
        let files: usize = self.files.values().map(|file| file.credits(group_count)).sum();
        files + self.names.len() * NAME_CREDITS
    }
}

impl Drafts {
    /// Blocks that the commit of all drafts together may change.
    pub(super) fn credits(&self, group_count: usize) -> usize {
        self.sum(|draft| draft.credits(group_count))
    }
}
