//! What is known of each inode: 20 bytes for each that may be in use.

use crate::api::FileKind;
use crate::ext4::format::Layout;

/// What the check knows of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// The inode is in use.
    pub used: bool,
    /// It is on the orphan list.
    pub orphan: bool,
    /// Its mode names this kind.
    pub kind: Option<FileKind>,
    /// Names that the inode says it has.
    pub links: u16,
    /// Names that were found.
    pub names: u32,
    /// The first directory that names it; 0 while none was found.
    pub parent: u32,
    /// A directory that was met on the way up from `walk`, or the root.
    pub reached: bool,
    /// Where the walk began that met it first.
    pub walk: u32,
}

const _: () = assert!(size_of::<Record>() <= 20);

/// Records by group; groups whose inodes were never used take nothing.
pub(super) struct InodeTable {
    groups: Vec<Vec<Record>>,
    inodes_per_group: u32,
}

impl InodeTable {
    pub fn new(layout: &Layout) -> InodeTable {
        let groups = (0..layout.group_count).map(|_| Vec::new()).collect();
        InodeTable { groups, inodes_per_group: layout.inodes_per_group }
    }

    /// Makes room for the first `count` inodes of a group.
    pub fn open(&mut self, group: u32, count: u32) {
        self.groups[group as usize] = vec![Record::default(); count as usize];
    }

    /// The record of an inode; `None` if its number is 0 or it lies where nothing is in use.
    pub fn find(&mut self, inode: u32) -> Option<&mut Record> {
        let number = inode.checked_sub(1)?;
        let records = self.groups.get_mut((number / self.inodes_per_group) as usize)?;
        records.get_mut((number % self.inodes_per_group) as usize)
    }

    /// A copy of the record of an inode; that of an unused one if there is none.
    pub fn look(&mut self, inode: u32) -> Record {
        self.find(inode).copied().unwrap_or_default()
    }

    /// The records of a group.
    pub fn group(&self, group: u32) -> &[Record] {
        &self.groups[group as usize]
    }

    /// All inodes in use, by number.
    pub fn used(&self) -> impl Iterator<Item = (u32, Record)> {
        let first = |group: usize| group as u32 * self.inodes_per_group + 1;
        self.groups.iter().enumerate().flat_map(move |(group, records)| {
            (first(group)..).zip(records).filter(|(_, record)| record.used).map(|(inode, record)| (inode, *record))
        })
    }
}
