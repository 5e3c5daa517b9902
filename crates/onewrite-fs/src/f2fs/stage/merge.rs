//! Merge: what all transactions of an area say together, file by file.

use std::collections::BTreeMap;
use std::ops::Range;

use super::area::Scanned;
use super::format::{self, Mapped, Record};
use super::pending::without;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::Nid;
use crate::pages::PAGE_BYTES;

/// A change of bytes of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::f2fs) enum Patch {
    /// From this byte on, these bytes.
    Bytes(usize, Vec<u8>),
    /// Zeros.
    Zeros(Range<usize>),
}

/// A page of a file: its block, if it is not the checkpoint's, and what changed in it then, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::f2fs) struct MergedPage {
    pub(in crate::f2fs) block: Option<Mapped>,
    pub(in crate::f2fs) patches: Vec<Patch>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::f2fs) struct MergedFile {
    pub(in crate::f2fs) is_new: bool,
    pub(in crate::f2fs) is_gone: bool,
    /// Bytes of the inode's block, in order.
    pub(in crate::f2fs) inode: Vec<(usize, Vec<u8>)>,
    /// The extended attributes behind those in the inode, if they changed.
    pub(in crate::f2fs) attributes: Option<Vec<u8>>,
    /// Pages that the checkpoint has and the file lost.
    pub(in crate::f2fs) holes: Vec<Range<u64>>,
    pub(in crate::f2fs) reserved: Vec<Range<u64>>,
    pub(in crate::f2fs) pages: BTreeMap<u64, MergedPage>,
}

/// All that an area says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::f2fs) struct Merged {
    pub(in crate::f2fs) files: BTreeMap<Nid, MergedFile>,
    /// Transactions that changed anything.
    pub(in crate::f2fs) transactions: u64,
}

impl Merged {
    /// Merges complete transactions.
    ///
    /// # Errors
    /// [`FsError::Damaged`] for a transaction whose records mean nothing.
    pub(in crate::f2fs) fn of(scanned: &Scanned) -> FsResult<Merged> {
        let mut merged = Merged::default();
        for found in &scanned.found {
            let place = || format!("transaction {} of the staging area", found.number);
            let records =
                format::decode(&found.stream).map_err(|problem| FsError::Damaged { place: place(), problem })?;
            merged.transactions += u64::from(!records.is_empty());
            records.into_iter().for_each(|record| merged.add(record));
        }
        Ok(merged)
    }

    fn add(&mut self, record: Record<'_>) {
        match record {
            Record::New(nid) => *self.file(nid) = MergedFile { is_new: true, ..MergedFile::default() },
            Record::Gone(nid) => {
                let is_new = self.file(nid).is_new;
                *self.file(nid) = MergedFile { is_gone: true, is_new, ..MergedFile::default() };
            }
            Record::Inode(nid, offset, bytes) => self.file(nid).inode.push((offset.into(), bytes.to_vec())),
            Record::Attributes(nid, list) => self.file(nid).attributes = Some(list.to_vec()),
            Record::Data(nid, offset, bytes) => {
                let at = (offset % PAGE_BYTES) as usize;
                self.file(nid).page(offset / PAGE_BYTES).patches.push(Patch::Bytes(at, bytes.to_vec()));
            }
            Record::Mapping(nid, first, pages) => {
                for (index, mapped) in (first..).zip(pages) {
                    *self.file(nid).page(index) = MergedPage { block: Some(mapped), patches: Vec::new() };
                }
            }
            Record::Hole(nid, bytes) => self.file(nid).make_hole(bytes),
            Record::Reserved(nid, pages) => self.file(nid).reserved.push(pages),
        }
    }

    fn file(&mut self, nid: Nid) -> &mut MergedFile {
        self.files.entry(nid).or_default()
    }
}

impl MergedFile {
    fn page(&mut self, index: u64) -> &mut MergedPage {
        self.pages.entry(index).or_default()
    }

    fn make_hole(&mut self, bytes: Range<u64>) {
        let whole = bytes.start.div_ceil(PAGE_BYTES)..bytes.end / PAGE_BYTES;
        let end = if bytes.end == u64::MAX { whole.end * PAGE_BYTES } else { bytes.end };
        self.zero_part(bytes.start..bytes.end.min(whole.start.saturating_mul(PAGE_BYTES)));
        if whole.start < whole.end {
            self.pages.retain(|index, _| !whole.contains(index));
            self.reserved = self.reserved.iter().flat_map(|range| without(range, &whole)).collect();
            self.holes.push(whole.clone());
        }
        if whole.start <= whole.end {
            self.zero_part(bytes.start.max(whole.end * PAGE_BYTES)..end);
        }
    }

    /// Zeros bytes within one page.
    fn zero_part(&mut self, bytes: Range<u64>) {
        if bytes.start < bytes.end {
            let at = (bytes.start % PAGE_BYTES) as usize;
            let part = at..at + (bytes.end - bytes.start) as usize;
            self.page(bytes.start / PAGE_BYTES).patches.push(Patch::Zeros(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockNo;

    const FILE: Nid = Nid(7);

    fn merged(records: &[Record<'_>]) -> MergedFile {
        let mut merged = Merged::default();
        records.iter().for_each(|record| merged.add(record.clone()));
        merged.files.remove(&FILE).expect("the file")
    }

    #[test]
    fn a_record_that_a_truncation_made_stale_is_not_applied() {
        let mapped = vec![Mapped { block: BlockNo(50), digest: 0 }; 3];
        let file = merged(&[
            Record::Mapping(FILE, 0, mapped.clone()),
            Record::Data(FILE, 2 * 4096 + 5, &[1; 10]),
            Record::Hole(FILE, 4000..u64::MAX),
            Record::Data(FILE, 4096 + 7, &[2; 3]),
        ]);
        assert_eq!((file.holes.len(), file.holes[0].clone()), (1, 1..u64::MAX / 4096));
        let first = MergedPage { block: Some(mapped[0]), patches: vec![Patch::Zeros(4000..4096)] };
        let second = MergedPage { block: None, patches: vec![Patch::Bytes(7, vec![2; 3])] };
        assert_eq!(file.pages, BTreeMap::from([(0, first), (1, second)]));
    }

    #[test]
    fn a_hole_within_a_page_and_one_over_two_ends_of_pages_are_zeros() {
        let file = merged(&[Record::Hole(FILE, 100..200), Record::Hole(FILE, 5000..3 * 4096 + 10)]);
        let zeros = |range: Range<usize>| MergedPage { block: None, patches: vec![Patch::Zeros(range)] };
        let pages = [(0, zeros(100..200)), (1, zeros(904..4096)), (3, zeros(0..10))];
        assert_eq!((file.pages, file.holes.len(), file.holes[0].clone()), (BTreeMap::from(pages), 1, 2..3));
    }

    #[test]
    fn a_hole_takes_what_was_reserved_before() {
        let file = merged(&[Record::Reserved(FILE, 0..10), Record::Hole(FILE, 2 * 4096..4 * 4096)]);
        assert_eq!(file.reserved, [0..2, 4..10]);
    }

    #[test]
    fn a_whole_page_replaces_what_changed_before_and_an_end_all_of_it() {
        let mapped = Mapped { block: BlockNo(50), digest: 0 };
        let file = merged(&[Record::Data(FILE, 5, &[1; 10]), Record::Mapping(FILE, 0, vec![mapped])]);
        assert_eq!(file.pages[&0], MergedPage { block: Some(mapped), patches: Vec::new() });
        let file = merged(&[Record::New(FILE), Record::Inode(FILE, 0, &[1]), Record::Gone(FILE)]);
        assert_eq!(file, MergedFile { is_new: true, is_gone: true, ..MergedFile::default() });
    }
}
