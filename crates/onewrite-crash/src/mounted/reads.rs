//! Reads: holds what reads returned during a run to what was written.
//!
//! A page of a read is what the page held when the read began, or what an operation gave it that was under way beside
//! the read. Of operations beside each other the order of their ends is the order of their steps (see `history`). If
//! one of them has several steps and others change the same file, nobody knows the order of all; such a read is not
//! judged.

use onewrite_block::{PAGE_SIZE, Page};

use crate::hash::{ZEROS, page_hash};
use crate::history::{Happening, History, Operation, Read};
use crate::judge::{Breach, Promise, changes, is_seen};
use crate::model::{NodeId, Tree};

/// The first read that returned what was not there.
pub(super) fn wrong_read(history: &History) -> Option<Breach> {
    let mut tree = history.initial.clone();
    for happening in &history.happenings {
        match happening {
            Happening::Begin(operation) => {
                let operation = &history.operations[*operation];
                if let Some(wrong) =
                    operation.read.as_ref().and_then(|read| wrong_in(history, (operation, read), &tree))
                {
                    let what = format!("`{}` returned what was not there: {wrong}", operation.action);
                    return Some(Breach { promise: Promise::Reading, what, difference: Vec::new() });
                }
            }
            Happening::End(operation) => {
                history.operations[*operation].steps.iter().for_each(|step| drop(tree.apply(step)));
            }
        }
    }
    None
}

/// What is wrong in one read, which began when the tree was `tree`.
fn wrong_in(history: &History, (operation, read): (&Operation, &Read), tree: &Tree) -> Option<String> {
    let beside = beside(history, operation, read.node)?;
    let trees = trees(tree, &beside, read.node);
    if trees.len() == 1 && read.size != tree.size(read.node) {
        return Some(format!("{} bytes of {}", read.size, tree.size(read.node)));
    }
    let wrong = read.pages.iter().find(|(index, page)| !is_one_of(&trees, (read, *index), page))?;
    Some(format!("page {}", wrong.0))
}

/// The operations beside a read that change its file, in the order of their ends; `None` if their order is not known.
fn beside<'a>(history: &'a History, read: &Operation, node: NodeId) -> Option<Vec<&'a Operation>> {
    let end = read.end?;
    let is_beside = |other: &&Operation| other.begin < end && other.end.is_none_or(|other| other > read.begin);
    let touches = |other: &&Operation| other.steps.iter().any(|step| changes(step, node));
    let mut beside: Vec<&Operation> = history.operations.iter().filter(is_beside).filter(touches).collect();
    beside.sort_by_key(|operation| operation.end);
    let is_ordered = beside.len() < 2 || beside.iter().all(|operation| operation.steps.len() == 1);
    (is_ordered && beside.iter().all(|operation| operation.end.is_some())).then_some(beside)
}

/// The trees during a read, as far as they differ in its file.
fn trees(first: &Tree, beside: &[&Operation], node: NodeId) -> Vec<Tree> {
    let mut trees = vec![first.clone()];
    for step in beside.iter().flat_map(|operation| &operation.steps).filter(|step| changes(step, node)) {
        let mut next = trees[trees.len() - 1].clone();
        if next.apply(step).is_some() {
            trees.push(next);
        }
    }
    trees
}

fn is_one_of(trees: &[Tree], (read, index): (&Read, u64), page: &Page) -> bool {
    let visible = read.size.saturating_sub(index * PAGE_SIZE as u64).min(PAGE_SIZE as u64) as usize;
    let mut found = page.clone();
    if visible < PAGE_SIZE {
        found.bytes_mut()[visible..].fill(0);
    }
    let found = page_hash(&found);
    let held = |tree: &Tree| tree.page(read.node, index).unwrap_or((Page::ZEROS, ZEROS));
    trees.iter().any(|tree| is_seen(held(tree), found, visible))
}
