//! Pending: what changed since the last transaction, and what the image lacks of those before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use onewrite_block::Page;

use super::format::Mapped;
use crate::f2fs::format::Nid;
use crate::pages::PAGE_BYTES;

/// Pages written elsewhere above which an fsync makes a checkpoint: their mapping records would not be worth it.
const MOVES_MAX: usize = 1 << 16;

/// See the module's head.
#[derive(Default)]
pub(in crate::f2fs) struct Pending {
    /// Inodes whose block may have changed.
    pub(in crate::f2fs) touched: BTreeSet<Nid>,
    /// Blocks of inodes as checkpoint and log have them, of those that changed since the checkpoint.
    pub(in crate::f2fs) shadows: BTreeMap<Nid, Page>,
    /// New inodes that the log has.
    pub(in crate::f2fs) logged: BTreeSet<Nid>,
    /// Inodes that are gone, of those that checkpoint or log have.
    pub(in crate::f2fs) gone: Vec<Nid>,
    /// Inodes whose node of extended attributes changed, came or went.
    pub(in crate::f2fs) attributes: BTreeSet<Nid>,
    /// Files whose content goes with every transaction: directories, links, and those whose content moved.
    pub(in crate::f2fs) names: BTreeSet<Nid>,
    /// Bytes that became holes, in order of time.
    pub(in crate::f2fs) holes: BTreeMap<Nid, Vec<Range<u64>>>,
    /// Pages that got a block reserved without content.
    pub(in crate::f2fs) reserved: BTreeMap<Nid, Vec<Range<u64>>>,
    /// Pages whose new bytes were written to the image.
    pub(in crate::f2fs) moves: BTreeMap<(Nid, u64), Mapped>,
    /// Pages with bytes that the log has and the image lacks, with the number of transactions that wrote some.
    pub(in crate::f2fs) staged: BTreeMap<(Nid, u64), u32>,
}

impl Pending {
    /// Notes that an inode's block is about to change; `before` gives it as it is.
    pub(in crate::f2fs) fn note_change(&mut self, nid: Nid, before: impl FnOnce() -> Option<Page>) {
        self.touched.insert(nid);
        if !self.shadows.contains_key(&nid)
            && let Some(page) = before()
        {
            self.shadows.insert(nid, page);
        }
    }

    /// Notes that an inode is gone. `is_new` says that the checkpoint does not know it.
    pub(in crate::f2fs) fn note_gone(&mut self, nid: Nid, is_new: bool) {
        self.drop_pages(nid, 0..u64::MAX);
        self.touched.remove(&nid);
        self.names.remove(&nid);
        self.shadows.remove(&nid);
        self.attributes.remove(&nid);
        self.holes.remove(&nid);
        self.reserved.remove(&nid);
        if !is_new || self.logged.remove(&nid) {
            self.gone.push(nid);
        }
    }

    /// Notes that bytes of a file became a hole; up to `u64::MAX`, all that follow.
    pub(in crate::f2fs) fn note_hole(&mut self, nid: Nid, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        let pages = bytes.start.div_ceil(PAGE_BYTES)..bytes.end / PAGE_BYTES;
        self.drop_pages(nid, pages.clone());
        if let Some(reserved) = self.reserved.get_mut(&nid).filter(|_| !pages.is_empty()) {
            *reserved = reserved.iter().flat_map(|range| without(range, &pages)).collect();
        }
        let holes = self.holes.entry(nid).or_default();
        match holes.last_mut() {
            Some(last) if last.start <= bytes.start && bytes.end <= last.end => (),
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => holes.push(bytes),
        }
    }

    /// Forgets pages of a file.
    fn drop_pages(&mut self, nid: Nid, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        let keys = (nid, pages.start)..(nid, pages.end);
        let gone: Vec<_> = self.moves.range(keys.clone()).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| _ = self.moves.remove(key));
        let gone: Vec<_> = self.staged.range(keys).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| _ = self.staged.remove(key));
    }

    /// Notes that the newest bytes of a page lie in the image.
    pub(in crate::f2fs) fn note_move(&mut self, nid: Nid, index: u64, mapped: Mapped) {
        self.moves.insert((nid, index), mapped);
    }

    /// Takes the pages of a file that were written to the image, in order.
    pub(in crate::f2fs) fn take_moves(&mut self, nid: Nid) -> Vec<(u64, Mapped)> {
        let keys: Vec<_> = self.moves.range((nid, 0)..=(nid, u64::MAX)).map(|(key, _)| *key).collect();
        keys.iter().map(|key| (key.1, self.moves.remove(key).expect("just seen"))).collect()
    }

    /// Whether so many pages moved that a checkpoint is cheaper.
    pub(in crate::f2fs) fn has_too_many_moves(&self) -> bool {
        self.moves.len() > MOVES_MAX
    }

    /// Files with pages that the log has and the image lacks: the hottest first, by changes for each page. So pages
    /// that change alike lie beside each other in the logs. Source: StageFS §3.3.
    pub(in crate::f2fs) fn staged_files(&self) -> Vec<Nid> {
        let mut files: BTreeMap<Nid, (u64, u64)> = BTreeMap::new();
        for ((nid, _), count) in &self.staged {
            let (pages, changes) = files.entry(*nid).or_default();
            *pages += 1;
            *changes += u64::from(*count);
        }
        let mut sorted: Vec<(Nid, (u64, u64))> = files.into_iter().collect();
        sorted.sort_by(|(_, (pages, changes)), (_, (other_pages, others))| {
            (others * pages).cmp(&(changes * other_pages))
        });
        sorted.into_iter().map(|(nid, _)| nid).collect()
    }

    /// Runs of a file's pages that the log has and the image lacks.
    pub(in crate::f2fs) fn staged_runs(&self, nid: Nid) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for ((_, index), _) in self.staged.range((nid, 0)..=(nid, u64::MAX)) {
            match runs.last_mut() {
                Some(last) if last.end == *index => last.end += 1,
                _ => runs.push(*index..index + 1),
            }
        }
        runs
    }
}

/// The parts of a range outside another.
pub(in crate::f2fs) fn without(range: &Range<u64>, hole: &Range<u64>) -> Vec<Range<u64>> {
    let parts = [range.start..range.end.min(hole.start), range.start.max(hole.end)..range.end];
    parts.into_iter().filter(|part| part.start < part.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockNo;

    const FILE: Nid = Nid(9);

    fn mapped(block: u64) -> Mapped {
        Mapped { block: BlockNo(block), digest: 0 }
    }

    #[test]
    fn a_hole_takes_what_was_there_before_it_and_nothing_that_comes_later() {
        let mut pending = Pending::default();
        (0..4).for_each(|index| pending.note_move(FILE, index, mapped(index)));
        pending.staged.insert((FILE, 2), 1);
        pending.reserved.entry(FILE).or_default().push(0..10);
        pending.note_hole(FILE, 4000..3 * 4096);
        pending.note_move(FILE, 2, mapped(20));
        assert_eq!(pending.reserved[&FILE], [0..1, 3..10]);
        assert!(pending.staged.is_empty());
        assert_eq!(pending.take_moves(FILE), [(0, mapped(0)), (2, mapped(20)), (3, mapped(3))]);
        assert!(pending.take_moves(FILE).is_empty());
    }

    #[test]
    fn an_inode_that_nobody_knows_leaves_no_trace() {
        let mut pending = Pending::default();
        for (is_new, is_logged, expected) in [(true, false, 0), (true, true, 1), (false, false, 1)] {
            pending.note_change(FILE, || Some(Page::ZEROS));
            pending.note_move(FILE, 1, mapped(1));
            if is_logged {
                pending.logged.insert(FILE);
            }
            pending.note_gone(FILE, is_new);
            assert!(pending.touched.is_empty() && pending.shadows.is_empty() && pending.moves.is_empty());
            assert_eq!(std::mem::take(&mut pending.gone).len(), expected, "new {is_new}, logged {is_logged}");
        }
    }

    #[test]
    fn the_hottest_files_come_first_each_in_runs() {
        let mut pending = Pending::default();
        for (nid, index, count) in [(1, 0, 1), (1, 1, 1), (2, 7, 9), (2, 8, 1), (3, 0, 4), (1, 5, 1)] {
            pending.staged.insert((Nid(nid), index), count);
        }
        assert_eq!(pending.staged_files(), [Nid(2), Nid(3), Nid(1)]);
        assert_eq!(pending.staged_runs(Nid(1)), [0..2, 5..6]);
    }
}
