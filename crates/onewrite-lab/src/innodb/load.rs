//! Load: which pages the transactions read and change.
//!
//! **Sysbench OLTP** (A. Kopytov; its `oltp` script with defaults): each transaction takes one of the tables and has
//! ten point selects, four ranges of 100 rows, an update of an indexed and of another column, a deletion and an
//! insertion of the same row. Rows are drawn as its "special" distribution has it: three quarters of all draws fall on
//! 1% of the rows, which lie together in the middle.
//!
//! **LinkBench** (Armstrong et al., SIGMOD 2013): one operation each, by its table of frequencies; nodes and links are
//! drawn by a Zipf law of 0.8 (the paper fits power laws; the exponent is ours). A link has a page of links, of their
//! index and of their counts.
//!
//! Rows are 200 bytes and more, entries of an index a dozen, so 14 of 15 pages of a table hold rows and one in 15 its
//! index. A changed page has 300 bytes in the log, a transaction one more for its undo page. These three are ours.

use onewrite_block::Choices;

use super::job::Load;
use super::scale::{FILE_PAGES, FILES};
use crate::workload::Zipf;

/// A page by its number in all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageNo(pub(super) u64);

impl PageNo {
    pub(super) const fn file(self) -> u64 {
        self.0 / FILE_PAGES
    }

    pub(super) const fn place(self) -> u64 {
        self.0 % FILE_PAGES
    }
}

/// What a transaction does to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Change,
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) kind: &'static str,
    pub(super) pages: Vec<(PageNo, Access)>,
}

/// Draws transactions.
pub(super) struct Drawer {
    load: Load,
    chance: Choices,
    zipf: Zipf,
}

/// Pages of a table that hold rows; the others hold its index.
const ROW_PAGES: u64 = FILE_PAGES - FILE_PAGES / 15;
const INDEX_PAGES: u64 = FILE_PAGES - ROW_PAGES;
/// Exponent of LinkBench's law.
const SKEW: f64 = 0.8;

const SELECTS: usize = 10;
const RANGES: usize = 4;

/// Operations of LinkBench with their frequencies in tenths of a percent, and whether they change nodes or links.
const LINKBENCH: [(&str, u64, Object, Access); 10] = [
    ("add link", 90, Object::Link, Access::Change),
    ("delete link", 30, Object::Link, Access::Change),
    ("update link", 80, Object::Link, Access::Change),
    ("count links", 49, Object::Count, Access::Read),
    ("get links", 5, Object::Link, Access::Read),
    ("list links", 507, Object::Link, Access::Read),
    ("add node", 26, Object::Node, Access::Change),
    ("delete node", 10, Object::Node, Access::Change),
    ("update node", 74, Object::Node, Access::Change),
    ("get node", 129, Object::Node, Access::Read),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    Node,
    Link,
    Count,
}

impl Drawer {
    pub(super) fn new(load: Load, mut chance: Choices) -> Drawer {
        let zipf = Zipf::new(FILES * ROW_PAGES, SKEW, None, &mut chance);
        Drawer { load, chance, zipf }
    }

    pub(super) fn draw(&mut self) -> Transaction {
        match self.load {
            Load::Sysbench => self.sysbench(),
            Load::Linkbench => self.linkbench(),
        }
    }

    fn sysbench(&mut self) -> Transaction {
        let table = self.chance.below(FILES);
        let row = |chance: &mut Choices| PageNo(table * FILE_PAGES + special(chance));
        let index = |chance: &mut Choices| PageNo(table * FILE_PAGES + ROW_PAGES + chance.below(INDEX_PAGES));
        let chance = &mut self.chance;
        let mut pages: Vec<_> = (0..SELECTS + RANGES).map(|_| (row(chance), Access::Read)).collect();
        // The indexed column: its row, the entry that goes and the one that comes.
        pages.extend([row(chance), index(chance), index(chance)].map(|page| (page, Access::Change)));
        pages.push((row(chance), Access::Change));
        // A row goes and comes again, with its entries.
        pages.extend([row(chance), index(chance), index(chance)].map(|page| (page, Access::Change)));
        Transaction { kind: "transaction", pages }
    }

    fn linkbench(&mut self) -> Transaction {
        let mut draw = self.chance.below(1_000);
        let (kind, _, object, access) = LINKBENCH
            .into_iter()
            .find(|(_, share, ..)| {
                let is_it = draw < *share;
                draw = draw.wrapping_sub(*share);
                is_it
            })
            .expect("the frequencies are a thousand");
        let count = match object {
            Object::Node | Object::Count => 1,
            // Rows and index; the count changes with them.
            Object::Link => 2 + usize::from(access == Access::Change),
        };
        let pages = (0..count).map(|_| (self.popular(), access)).collect();
        Transaction { kind, pages }
    }

    /// A page of any table by the law.
    fn popular(&mut self) -> PageNo {
        let place = self.zipf.draw(&mut self.chance);
        PageNo(place / ROW_PAGES * FILE_PAGES + place % ROW_PAGES)
    }
}

/// A page of a table's rows by sysbench's distribution.
fn special(chance: &mut Choices) -> u64 {
    const HOT: u64 = ROW_PAGES / 100;
    match chance.chance(3, 4) {
        true => ROW_PAGES / 2 - HOT / 2 + chance.below(HOT),
        false => chance.below(ROW_PAGES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linkbench_has_the_frequencies_of_its_paper() {
        assert_eq!(LINKBENCH.iter().map(|(_, share, ..)| share).sum::<u64>(), 1_000);
        let mut drawer = Drawer::new(Load::Linkbench, Choices::new(1));
        let changes = (0..10_000).filter(|_| drawer.draw().pages.iter().any(|(_, access)| *access == Access::Change));
        let changes = changes.count();
        assert!((2_950..3_250).contains(&changes), "{changes} of 10,000 change something; the paper has 31%");
    }

    #[test]
    fn three_quarters_of_sysbench_fall_on_few_pages() {
        let mut chance = Choices::new(1);
        let middle = ROW_PAGES / 2 - 10..ROW_PAGES / 2 + 10;
        let hot = (0..10_000).filter(|_| middle.contains(&special(&mut chance))).count();
        assert!((7_400..7_800).contains(&hot), "{hot} of 10,000");
        let pages = Drawer::new(Load::Sysbench, chance).draw().pages;
        assert_eq!(pages.iter().filter(|(_, access)| *access == Access::Change).count(), 7);
        assert!(pages.iter().all(|(page, _)| page.file() == pages[0].0.file() && page.place() < FILE_PAGES));
    }
}
