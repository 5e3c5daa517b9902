//! Stage 5: every directory has one name and a path from the root; link counts equal the names found.

use super::ReadBlocks;
use super::views::DirectoryStage;
use crate::api::FileKind;
use crate::ext4::format::features::Compat;
use crate::ext4::format::{InodeNo, Place, ROOT_INODE};

const CURE: &str = "e2fsck -f connects it to lost+found";
/// A directory with more links than this has link count 1.
const NAMES_MAX: u32 = 65_000;

impl<R: ReadBlocks> DirectoryStage<'_, '_, R> {
    /// Checks paths and link counts.
    pub(super) fn check_tree(&mut self) {
        if self.inodes.look(ROOT_INODE).kind != Some(FileKind::Directory) {
            self.report.add(Place::Inode(ROOT_INODE), "the root directory is missing", "e2fsck -f makes a new one");
        }
        if let Some(root) = self.inodes.find(ROOT_INODE) {
            root.reached = true;
        }
        let directories = std::mem::take(&mut self.directories);
        for directory in &directories {
            self.check_parent(directory.inode, directory.dotdot);
        }
        self.directories = directories;
        self.check_links();
    }

    fn check_parent(&mut self, number: InodeNo, dotdot: InodeNo) {
        let place = Place::Inode(number);
        let record = self.inodes.look(number);
        let parent = if number == ROOT_INODE { ROOT_INODE } else { record.parent };
        if self.layout.is_reserved(number) && number != ROOT_INODE {
            return;
        }
        if parent.is_none() && !record.orphan {
            self.report.add(place, "a directory without a name", CURE);
        } else if parent.is_some() && dotdot.is_some() && dotdot != parent {
            let problem = format!("`..` is inode {dotdot} but directory {parent} names it");
            self.report.add(place, problem, "e2fsck -f");
        }
        if parent.is_some() && self.reach(number) {
            self.report.add(place, "a directory below itself", CURE);
        }
    }

    /// Marks a directory and its ancestors as reached; true if they form a circle.
    fn reach(&mut self, number: InodeNo) -> bool {
        let mut at = number;
        loop {
            let Some(record) = self.inodes.find(at) else { return false };
            if record.reached {
                // This walk marked it before, and it is not the root: a circle.
                return record.walk == number && at != ROOT_INODE;
            }
            (record.reached, record.walk) = (true, number);
            at = record.parent;
        }
    }

    fn check_links(&mut self) {
        let journal = self.layout.journal_inode;
        let orphans = match self.layout.features.compat.contains(Compat::ORPHAN_FILE) {
            true => InodeNo(self.superblock.orphan_file_inum.get()),
            false => InodeNo::NONE,
        };
        let first = self.layout.first_inode;
        let wrong: Vec<_> = self
            .inodes
            .used()
            .filter(|&(number, _)| ![journal, orphans].contains(&number) && (number >= first || number == ROOT_INODE))
            .filter(|(_, record)| record.names != u32::from(record.links))
            .filter(|(_, record)| !(record.orphan && record.links == 0 && record.kind == Some(FileKind::Directory)))
            .collect();
        for (number, record) in wrong {
            let place = Place::Inode(number);
            let is_directory = record.kind == Some(FileKind::Directory);
            match record.names {
                names if is_directory && names > NAMES_MAX && record.links == 1 => {}
                0 => self.report.add(place, "a file without a name", CURE),
                names => {
                    self.report.add(place, format!("counts {} names but has {names}", record.links), "e2fsck -f");
                }
            }
        }
    }
}
