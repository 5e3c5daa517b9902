//! Credits: how many blocks the commit of a draft may change, which its handle asks the journal for, and how many free
//! blocks it needs.

use super::plan::Spill;
use crate::drafts::{Cost, FileOf};
use crate::ext4::balloc::ALLOCATION_CREDITS;
use crate::ext4::dir::{ENTRY_CREDITS, REMOVE_CREDITS};
use crate::ext4::map::MAP_CREDITS;
use crate::ext4::map::replace::tree_blocks;
use crate::ext4::orphans::ORPHAN_CREDITS;
use crate::ext4::truncate::FREE_CREDITS;
use crate::ext4::volume::Volume;
use crate::runs::Runs;

/// Nodes of a map that a split of an extent may add: a leaf and its parent.
const SPLIT_BLOCKS: u64 = 2;

/// Blocks reserved for the tree of a spill file: so many, and one for each so many pages.
const SPILL_TREE_MIN: usize = 2;
const SPILL_TREE_EXTENTS: usize = 100;

/// Credits of one change of a name: an entry added, another removed, two inodes and two directories, an orphan.
pub(super) const NAME_CREDITS: usize = ENTRY_CREDITS + REMOVE_CREDITS + 4 + 2 * ORPHAN_CREDITS;

/// What the commit of a file takes in `group_count` groups: blocks that it may change, and free blocks.
pub(super) fn of_file(file: &FileOf<Volume>, group_count: usize) -> Cost {
    // A spill file takes its blocks without a change, too: for pages that are promised, and for its tree.
    if let Some(spill) = &file.plan.spill {
        return with_spill(file, spill, group_count);
    }
    if !file.is_changed() {
        return Cost::default();
    }
    let plan = &file.plan;
    let (private, new) = (file.private.count() as usize, plan.new.count() as usize);
    let mapped_anew = new + plan.unwritten.count() as usize;
    let runs = plan.new.run_count() + plan.unwritten.run_count();
    let map = runs * MAP_CREDITS + mapped_anew.div_ceil(64);
    let mapped = Cost {
        changed: 1 + private + map + ALLOCATION_CREDITS * new.min(group_count),
        reserved: plan.new.count() + plan.unwritten.run_count() as u64 * SPLIT_BLOCKS,
    };
    let dropped = if rewrites_map(file, group_count) { of_rewriting(file, group_count) } else { of_dropping(file) };
    mapped + dropped
}

/// Whether the commit frees dropped pages by a new map, and not extent by extent.
pub(super) fn rewrites_map(file: &FileOf<Volume>, group_count: usize) -> bool {
    file.plan.spill.is_none() && of_rewriting(file, group_count).changed < of_dropping(file).changed
}

/// The dropped pages are freed extent by extent.
fn of_dropping(file: &FileOf<Volume>) -> Cost {
    let extents = file.plan.dropped_extents;
    Cost { changed: file.dropped.run_count() + extents * FREE_CREDITS, reserved: extents as u64 * SPLIT_BLOCKS }
}

/// The map without the dropped pages is written anew.
fn of_rewriting(file: &FileOf<Volume>, group_count: usize) -> Cost {
    let tree = tree_blocks(file.plan.extents_before + file.dropped.run_count());
    Cost { changed: of_map(tree, file, group_count), reserved: tree as u64 }
}

/// Blocks that change with a map of `tree` blocks that is written anew: these, and the bitmaps around them, around the
/// old trees and around the content that is freed.
fn of_map(tree: usize, file: &FileOf<Volume>, group_count: usize) -> usize {
    let trees = tree + file.plan.tree_before + file.plan.spill.as_ref().map_or(0, |spill| spill.tree_blocks);
    // An extent lies in two groups at most. What is moved changes no bitmap.
    let extents = 2 * file.plan.extents_before;
    let freed = if file.dropped.is_empty() { extents.min(replaced_max(file)) } else { extents };
    tree + ALLOCATION_CREDITS * group_count.min(trees + freed)
}

/// Most pages that give their old blocks back because others take their place.
fn replaced_max(file: &FileOf<Volume>) -> usize {
    let promised = file.plan.spill.as_ref().map_or(0, |spill| spill.promised.count());
    (file.private.count() + file.spilled.count() + promised) as usize
}

/// A file with a spill file: its private pages, which are memory, its new map, and both inodes. The blocks are reserved
/// for the worst map of these pages, so that a page written again needs no more of them, and for the spill file's tree.
/// Pages that are promised count as spilled, one at a time is private.
fn with_spill(file: &FileOf<Volume>, spill: &Spill, group_count: usize) -> Cost {
    let count = |pages: &Runs| pages.count() as usize;
    let (private, spilled, promised) = (count(&file.private), count(&file.spilled), count(&spill.promised));
    // An extent put into the middle of another makes three of two; so does a dropped run.
    let around = promised + private + file.dropped.run_count();
    let tree = |pieces: usize| tree_blocks(file.plan.extents_before + 2 * (pieces + around));
    let in_memory = private.max(promised.min(1));
    let own_tree = (SPILL_TREE_MIN + (spilled + around) / SPILL_TREE_EXTENTS).saturating_sub(spill.tree_blocks);
    Cost {
        changed: in_memory + 2 + of_map(tree(spill.extents_max.min(spilled)), file, group_count),
        reserved: file.plan.new.count() + spill.promised_new.count() + (tree(spilled) + own_tree) as u64,
    }
}
