//! Steps: how an operation is divided into steps.

use std::ops::Range;

use onewrite_block::PAGE_SIZE;
use onewrite_fs::WRITE_STEP_BYTES;

use super::tree::{NodeId, Step, Tree};
use crate::action::Blocks;
use crate::subject::Steps;

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// The steps into which the file system divides one `write()`.
pub(crate) fn steps_of_write(divided: Steps, node: NodeId, offset: u64, length: u64, seed: u64) -> Vec<Step> {
    let (mut steps, mut start, end) = (Vec::new(), offset, offset + length);
    while start < end {
        let stop = (divided.write_end)(start, end);
        assert!(stop == end || end - start > WRITE_STEP_BYTES, "a write of {} bytes takes two steps", end - start);
        steps.push(Step::Write { node, offset: start, length: stop - start, seed });
        start = stop;
    }
    steps
}

/// A file as an operation meets it.
#[derive(Clone, Copy)]
pub(crate) struct Met<'a> {
    pub(crate) node: NodeId,
    pub(crate) size: u64,
    /// What is known of its blocks.
    pub(crate) tree: &'a Tree,
}

/// The steps that turn a range of a file into zeros: first the partial pages at its ends, then whole pages from the
/// last to the first, though they may go together. Pages without a block go together always: there may be four thousand
/// million of them. A range that covers the last byte covers its whole page.
pub(super) fn steps_of_punch(file: &Met<'_>, offset: u64, end: u64) -> Vec<Step> {
    let Met { node, size, tree } = *file;
    if offset >= end.min(size) {
        return Vec::new();
    }
    let end = if end < size { end } else { size.next_multiple_of(PAGE_BYTES) };
    let (first, stop) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
    let head_end = end.min(first * PAGE_BYTES);
    let tail_start = (stop * PAGE_BYTES).max(head_end);
    let parts = [(offset, head_end), (tail_start, end)].into_iter().filter(|(start, end)| start < end);
    let parts = parts.map(|(start, end)| Step::Zero { node, offset: start, length: end - start });
    let freed = if first < stop { freed(first..stop, &tree.blocks_in(node, first..stop)) } else { Vec::new() };
    parts.chain(freed.into_iter().map(|pages| Step::Free { node, pages })).collect()
}

/// The pages that have blocks one by one, and the holes between them, from the last to the first.
fn freed(range: Range<u64>, blocks: &[u64]) -> Vec<Range<u64>> {
    let (mut pieces, mut end) = (Vec::new(), range.end);
    for block in blocks.iter().rev() {
        pieces.extend([block + 1..end, *block..block + 1]);
        end = *block;
    }
    pieces.push(range.start..end);
    pieces.retain(|pages| !pages.is_empty());
    pieces
}

/// The steps of an allocation in a file: first the zeros, then the new size or the shift.
pub(crate) fn steps_of_allocation(file: &Met<'_>, bytes: Range<u64>, how: Blocks) -> Vec<Step> {
    let (offset, end, Met { node, size, .. }) = (bytes.start, bytes.end, *file);
    let mut steps = match how {
        Blocks::Punch | Blocks::Zero | Blocks::Collapse => steps_of_punch(file, offset, end),
        Blocks::Extend | Blocks::Insert => Vec::new(),
    };
    let (first, stop) = (offset / PAGE_BYTES, end / PAGE_BYTES);
    match how {
        Blocks::Punch => (),
        Blocks::Zero | Blocks::Extend if end > size => steps.push(Step::Truncate { node, size: end }),
        Blocks::Zero | Blocks::Extend => (),
        Blocks::Collapse => steps.push(Step::Shift { node, from: stop, to: first }),
        Blocks::Insert => steps.push(Step::Shift { node, from: first, to: stop }),
    }
    steps
}

/// Splits writes into single pages: when space runs out or a request fails, a write may end at any page.
pub(crate) fn by_pages(steps: &[Step]) -> Vec<Step> {
    let pages = |step: &Step| match *step {
        Step::Write { node, offset, length, seed } => {
            let bounds = (offset / PAGE_BYTES + 1..).map(|index| index * PAGE_BYTES);
            let ends = bounds.take_while(|bound| *bound < offset + length).chain([offset + length]);
            let starts = std::iter::once(offset).chain(ends.clone());
            starts.zip(ends).map(|(from, to)| Step::Write { node, offset: from, length: to - from, seed }).collect()
        }
        _ => vec![step.clone()],
    };
    steps.iter().flat_map(pages).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ItemKind;
    use crate::model::tree::file_tree;

    /// Steps of up to 64 KiB that end at multiples of 64 KiB.
    const STEPS: Steps = Steps { write_end: |start, end| end.min((start / 65_536 + 1) * 65_536) };

    #[test]
    fn a_write_is_cut_where_the_file_system_says() {
        let steps = steps_of_write(STEPS, NodeId(3), 100, 200 * 1024, 1);
        let ends: Vec<u64> = steps
            .iter()
            .map(|step| match step {
                Step::Write { offset, length, .. } => offset + length,
                _ => unreachable!(),
            })
            .collect();
        assert_eq!(ends, [65_536, 131_072, 196_608, 100 + 200 * 1024]);
    }

    #[test]
    fn a_write_by_pages_gives_what_the_write_gives() {
        let steps = steps_of_write(STEPS, NodeId(7), 5000, 70_000, 3);
        let content = |steps: &[Step]| {
            let (mut tree, _) = file_tree();
            steps.iter().for_each(|step| drop(tree.apply(step)));
            tree.listing().full_hash()
        };
        let pages = by_pages(&steps);
        assert_eq!((steps.len(), pages.len()), (2, 18));
        assert_eq!(content(&steps), content(&pages));
    }

    #[test]
    fn a_punched_range_reads_as_zeros_and_its_whole_pages_are_holes() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Write { node, offset: 0, length: 20_000, seed: 4 }).unwrap();
        let punched =
            |tree: &Tree, size, bytes: Range<u64>| steps_of_punch(&Met { node, size, tree }, bytes.start, bytes.end);
        let steps = punched(&tree, 20_000, 4_000..13_000);
        assert_eq!(steps.len(), 4, "two parts of pages, two pages: {steps:?}");
        assert_eq!(steps[2], Step::Free { node, pages: 2..3 });
        steps.iter().for_each(|step| assert_eq!(tree.apply(step).unwrap().len(), 1));
        let listing = tree.listing();
        let ItemKind::File(content) = &listing.item("/a").unwrap().kind else { panic!() };
        let page = |index: u64| content.pages.filled().find(|(at, _)| *at == index).map(|(_, page)| page);
        let before = crate::action::content(4, 20_000);
        let whole = |index: u64| before.whole_page(0, index).expect("a whole page");
        assert!(page(1).is_none() && page(2).is_none() && page(4).is_some());
        let (mut head, mut tail) = (whole(0), whole(3));
        head.bytes_mut()[4_000..].fill(0);
        tail.bytes_mut()[..13_000 - 12_288].fill(0);
        assert_eq!((page(0), page(3)), (Some(&head), Some(&tail)));
        assert_eq!(
            punched(&tree, 18_000, 16_384..18_000),
            [Step::Free { node, pages: 4..5 }],
            "the last page as a whole"
        );
        assert_eq!(punched(&tree, 20_000, 20_000..30_000), [], "behind the end");
    }
    #[test]
    fn the_holes_of_a_punched_range_go_together() {
        let (mut tree, node) = file_tree();
        let (page, size) = (1 << 30, 1 << 44);
        tree.apply(&Step::Write { node, offset: page * PAGE_BYTES, length: 4096, seed: 4 }).unwrap();
        let steps = steps_of_punch(&Met { node, size, tree: &tree }, 4096, size);
        let free = |pages| Step::Free { node, pages };
        assert_eq!(steps, [free(page + 1..size / PAGE_BYTES), free(page..page + 1), free(1..page)]);
        let touched: Vec<usize> = steps.iter().map(|step| tree.apply(step).unwrap().len()).collect();
        assert_eq!(touched, [0, 1, 0]);
    }
}
