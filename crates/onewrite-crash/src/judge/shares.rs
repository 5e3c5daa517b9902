//! Shares: what the judge asks of shared pages.
//!
//! Whether a share happened shows at a page only where the content tells: not where what a later operation wrote was
//! found, and not where the page had the same content before.

use std::collections::BTreeMap;
use std::ops::Range;

use onewrite_block::{PAGE_SIZE, Page};

use super::pages::is_seen;
use super::{Judge, Obligations, Returned, Version};
use crate::hash::ZEROS;
use crate::history::Operation;
use crate::model::{FileContent, ItemKind, Listing, NodeId, SharedPages, Step, Tree};
use crate::recovery::Found;
use crate::sizes::Change;

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// Whether a share happened, by one of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Before,
    After,
    /// The content does not tell.
    Unknown,
}

/// The shared ranges of an operation.
fn parts(operation: &Operation) -> impl Iterator<Item = &SharedPages> {
    operation.steps.iter().flat_map(|step| match step {
        Step::Share(parts) => &parts[..],
        _ => &[],
    })
}

impl Obligations {
    /// An operation has returned: its pages are there.
    pub(super) fn oblige_shares(&mut self, returned: Returned, operation: &Operation) {
        let Returned { place, index, has_joined } = returned;
        for part in parts(operation) {
            self.shared_pages.extend(part.target_pages.clone().map(|page| ((part.target, page), place + 1)));
            self.shared.insert(part.target, place + 1);
            if has_joined {
                self.whole.insert(part.target, (place, index));
            }
        }
        self.content = self.content.max(place + 1);
    }
}

impl Judge<'_> {
    /// Notes the sizes that a share gave to its targets. A larger size is part of its transaction.
    pub(super) fn note_shared_sizes(&mut self, tree: &Tree, (step, grown): (&Step, &[NodeId]), change: Change) {
        for node in grown {
            self.sizes.note(*node, Change { size: tree.size(*node), grows: false, ..change });
        }
        let Step::Share(parts) = step else { return };
        parts.iter().for_each(|part| self.sizes.note_shared(part.target, change.order, part.target_end()));
    }

    /// A line for each share of which some pages are there and others are not.
    pub(super) fn torn_shares(&self, listing: &Listing, found: &Found, happened: usize) -> Vec<String> {
        let mut files = BTreeMap::new();
        for (path, item) in found.listing.items() {
            if let ItemKind::File(content) = &item.kind {
                files.insert(NodeId(listing.owner(path).expect("shapes are equal") as u32), content);
            }
        }
        let operations = self.history.operations.iter().filter(|operation| operation.begin < happened);
        operations.filter_map(|operation| self.torn_share(operation, &files, happened)).collect()
    }

    fn torn_share(
        &self,
        operation: &Operation,
        files: &BTreeMap<NodeId, &FileContent>,
        happened: usize,
    ) -> Option<String> {
        let mut first = [None; 2];
        for part in parts(operation) {
            let Some(content) = files.get(&part.target) else { continue };
            for index in part.target_pages.clone() {
                let place = match self.seen((part.target, index), content, operation.begin..happened) {
                    Seen::Before => 0,
                    Seen::After => 1,
                    Seen::Unknown => continue,
                };
                first[place].get_or_insert((part.target, index));
            }
        }
        let [Some((_, before)), Some((_, after))] = first else { return None };
        Some(format!("! `{}`: page {after} is as after it, page {before} as before it", operation.action))
    }

    fn seen(&self, page: (NodeId, u64), content: &FileContent, time: Range<usize>) -> Seen {
        let versions = self.versions.get(&page).map_or(&[][..], Vec::as_slice);
        let Some(shared) = versions.iter().find(|version| version.begin == time.start) else { return Seen::Unknown };
        let index = page.1;
        let found = content.pages.shown(index).1;
        let behind = content.size.saturating_sub(index * PAGE_BYTES);
        let visible = if behind == 0 { PAGE_SIZE } else { behind.min(PAGE_BYTES) as usize };
        let is_found = |version: &Version| is_seen(version.content(), found, visible);
        let mut later = versions.iter().filter(|version| version.order > shared.order && version.begin < time.end);
        if later.any(is_found) {
            return Seen::Unknown;
        }
        let initial = self.history.initial.page(page.0, index).unwrap_or((Page::ZEROS, ZEROS));
        let mut earlier = versions.iter().filter(|version| version.order < shared.order);
        let was_before = is_seen(initial, found, visible) || earlier.any(is_found);
        match (was_before, is_found(shared)) {
            (true, false) => Seen::Before,
            (false, true) => Seen::After,
            _ => Seen::Unknown,
        }
    }
}
