//! Nearest: which steps of the operations under way are done, seen from the tree that was found.
//!
//! An operation that failed is under way for ever, and where blocks run out each page of a write is a step; and sixteen
//! tasks may all wait. So there may be more combinations of such operations than can be tried in advance. Each one
//! changes paths of its own, so the tree that was found tells of each how far it came.

use super::ways::Ways;
use super::{Candidate, Judge};
use crate::model::{Item, Listing, Step, Tree};
use crate::recovery::Found;
use crate::subject::Keeps;

impl Judge<'_> {
    /// Whether parts of operations under way explain a tree that no candidate matches, if some of them failed, or not
    /// all combinations are candidates.
    pub(super) fn is_explained(&self, found: &Found, happened: usize) -> bool {
        if self.failed.is_empty() && !self.lacks_candidates {
            return false;
        }
        let (obligations, ended) = (&self.obligations[happened], self.history.ended());
        (obligations.prefix..=self.ended_count[happened]).any(|prefix| {
            let (candidate, listing) = self.nearest((prefix, &ended), found, happened);
            self.meets(&candidate, obligations) && self.fits((&candidate, &listing), found, happened)
        })
    }

    /// The candidate behind `prefix` ended operations that is nearest to what was found.
    fn nearest(&self, (prefix, ended): (usize, &[usize]), found: &Found, happened: usize) -> (Candidate, Listing) {
        let stop = ended.get(prefix).and_then(|next| self.operation(*next).end).unwrap_or(happened);
        let operations = self.under_way(stop.min(happened), prefix, ended);
        let (base, steps) = (&self.trees[prefix], self.steps_of(&operations));
        let way = self.way_to(found, base, &steps);
        // In the order in which the operations ended.
        let listing = Ways::new(base).tree(&steps, &way).unwrap_or_else(|| base.clone()).listing();
        let partial = operations.into_iter().zip(way).filter(|(_, count)| *count > 0).collect();
        let (full, shape, skeleton) = (listing.full_hash(), listing.shape_hash(), listing.skeleton_hash());
        (Candidate { prefix, partial, full, shape, skeleton }, listing)
    }

    /// Takes as many steps of each operation as bring the tree nearest to that which was found, again and again until
    /// none brings it nearer.
    fn way_to(&self, found: &Found, base: &Tree, steps: &[&[Step]]) -> Vec<usize> {
        let (mut tree, mut way) = (base.clone(), vec![0; steps.len()]);
        let mut distance = self.distance(&tree.listing(), found);
        loop {
            let before = distance;
            for (steps, taken) in steps.iter().zip(&mut way) {
                let mut further = tree.clone();
                for (count, step) in (*taken + 1..).zip(&steps[*taken..]) {
                    if further.apply(step).is_none() {
                        break;
                    }
                    let now = self.distance(&further.listing(), found);
                    if now < distance {
                        (distance, *taken, tree) = (now, count, further.clone());
                    }
                }
            }
            if distance == before {
                return way;
            }
        }
    }

    /// How far a tree is from the one that was found: in what the mode promises to be that of a prefix; then in sizes,
    /// which may lag under delayed allocation, but are all that a truncation or a shift changes.
    fn distance(&self, listing: &Listing, found: &Found) -> (usize, usize) {
        let by = |of: fn(&Item) -> u64| listing.distance(&found.listing, of);
        (by(self.compared()), if self.promises.delays { by(Item::shape_hash) } else { 0 })
    }

    /// What of an item the mode promises to be that of a prefix.
    fn compared(&self) -> fn(&Item) -> u64 {
        match self.promises.keeps {
            Keeps::Version => Item::full_hash,
            _ if self.promises.delays => Item::name_hash,
            _ => Item::shape_hash,
        }
    }

    fn fits(&self, (candidate, listing): (&Candidate, &Listing), found: &Found, happened: usize) -> bool {
        let is_like = listing.distance(&found.listing, self.compared()) == 0;
        is_like && (self.keeps_versions() || self.stale((candidate, listing), found, happened).is_none())
    }
}
