//! Credits: how many blocks the commit of a draft may change, which its handle asks the journal for.

use crate::drafts::FileOf;
use crate::ext4::balloc::ALLOCATION_CREDITS;
use crate::ext4::dir::{ENTRY_CREDITS, REMOVE_CREDITS};
use crate::ext4::map::MAP_CREDITS;
use crate::ext4::orphans::ORPHAN_CREDITS;
use crate::ext4::truncate::FREE_CREDITS;
use crate::ext4::volume::Volume;

/// Credits of one change of a name: an entry added, another removed, two inodes and two directories, an orphan.
pub(super) const NAME_CREDITS: usize = ENTRY_CREDITS + REMOVE_CREDITS + 4 + 2 * ORPHAN_CREDITS;

/// Blocks that the commit of a file may change in `group_count` groups.
pub(super) fn of_file(file: &FileOf<Volume>, group_count: usize) -> usize {
    if !file.is_changed() {
        return 0;
    }
    let plan = &file.plan;
    let (private, new) = (file.private.count() as usize, plan.new.count() as usize);
    let mapped_anew = new + plan.unwritten.count() as usize;
    let runs = plan.new.run_count() + plan.unwritten.run_count();
    let map = runs * MAP_CREDITS + mapped_anew.div_ceil(64);
    1 + private
        + file.dropped.run_count()
        + map
        + ALLOCATION_CREDITS * new.min(group_count)
        + plan.dropped_extents * FREE_CREDITS
}
