//! A record of 20 bytes for each inode that may be in use.

use crate::api::FileKind;
use crate::ext4::format::InodeNo;
use crate::ext4::format::Layout;

/// What the check knows about an inode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// The inode is in use.
    pub used: bool,
    /// It is on the orphan list.
    pub orphan: bool,
    /// Its mode names this kind.
    pub kind: Option<FileKind>,
    /// Link count of the inode.
    pub links: u16,
    /// Names found.
    pub names: u32,
    /// The first directory that names it; [`InodeNo::NONE`] until found.
    pub parent: InodeNo,
    /// For a directory: the walk up from `walk` passed it. Always true for the root.
    pub reached: bool,
    /// Inode at which the first walk through this directory began.
    pub walk: InodeNo,
}

const _: () = assert!(size_of::<Record>() <= 20);

/// Records by group. Groups with only never used inodes take no memory.
pub(super) struct InodeTable {
    groups: Vec<Vec<Record>>,
    inodes_per_group: u32,
}

impl InodeTable {
    pub(super) fn new(layout: &Layout) -> InodeTable {
        let groups = (0..layout.group_count).map(|_| Vec::new()).collect();
        InodeTable { groups, inodes_per_group: layout.inodes_per_group }
    }

    /// Makes room for the first `count` inodes of a group.
    pub(super) fn open(&mut self, group: u32, count: u32) {
        self.groups[group as usize] = vec![Record::default(); count as usize];
    }

    /// The record of an inode; `None` if its number is 0 or it lies outside the used parts of the tables.
    pub(super) fn find(&mut self, inode: InodeNo) -> Option<&mut Record> {
        let number = inode.index()?;
        let records = self.groups.get_mut((number / self.inodes_per_group) as usize)?;
        records.get_mut((number % self.inodes_per_group) as usize)
    }

    /// A copy of an inode's record; the record of an unused inode if there is none.
    pub(super) fn look(&mut self, inode: InodeNo) -> Record {
        self.find(inode).copied().unwrap_or_default()
    }

    /// The records of a group.
    pub(super) fn group(&self, group: u32) -> &[Record] {
        &self.groups[group as usize]
    }

    /// All inodes in use, by number.
    pub(super) fn used(&self) -> impl Iterator<Item = (InodeNo, Record)> {
        let first = |group: usize| group as u32 * self.inodes_per_group + 1;
        self.groups.iter().enumerate().flat_map(move |(group, records)| {
            (first(group)..)
                .zip(records)
                .filter(|(_, record)| record.used)
                .map(|(inode, record)| (InodeNo(inode), *record))
        })
    }
}
