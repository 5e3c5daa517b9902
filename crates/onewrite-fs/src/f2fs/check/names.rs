//! Names of directories: each lies where its hash says, names an inode in use, and `.` and `..` lead where they must.

use super::{Checker, Named};
use crate::api::FileKind;
use crate::f2fs::format::dentry::{self, Entry, Shape};
use crate::f2fs::format::inode::inline;
use crate::f2fs::format::{Inode, Nid, Place};

/// What `.` and `..` must name.
#[derive(Clone, Copy, Debug)]
struct Dots {
    own: Nid,
    parent: Nid,
}

impl Checker {
    /// The names in one block of a directory, or (`logical` none) in its inode.
    pub(super) fn check_names(&mut self, directory: &Inode, parent: Nid, logical: Option<u64>, bytes: &[u8]) {
        let inode = directory.number;
        let (shape, place) = match logical {
            None => (Shape::inline(bytes.len()), Place::Inode(inode)),
            Some(logical) => (Shape::BLOCK, Place::FileBlock { inode, logical }),
        };
        let mut dots = 0;
        for entry in dentry::entries(bytes, shape, place, 0) {
            match entry {
                Err(error) => self.report.add_error(place, &error),
                Ok(entry) if entry.is_dot() => {
                    dots += 1;
                    self.check_dot(&entry, Dots { own: inode, parent }, place);
                }
                Ok(entry) => self.check_name(directory, &entry, logical, place),
            }
        }
        let needs_dots = logical.unwrap_or(0) == 0 && directory.raw.i_inline & inline::DOTS == 0;
        if needs_dots && dots != 2 {
            self.report.add(place, format!("{dots} of the names `.` and `..`"));
        }
    }

    fn check_dot(&mut self, entry: &Entry<'_>, Dots { own, parent }: Dots, place: Place) {
        let expected = if entry.name == b"." { own } else { parent };
        let name = String::from_utf8_lossy(entry.name);
        if entry.ino != expected && parent.is_some() {
            self.report.add(place, format!("`{name}` names inode {}, not {expected}", entry.ino));
        }
        if entry.kind != Some(FileKind::Directory) {
            self.report.add(place, format!("`{name}` is no directory"));
        }
    }

    fn check_name(&mut self, directory: &Inode, entry: &Entry<'_>, logical: Option<u64>, place: Place) {
        let name = String::from_utf8_lossy(entry.name).escape_debug().to_string();
        if entry.hash != entry.expected_hash() {
            let (found, expected) = (entry.hash, entry.expected_hash());
            self.report.add(place, format!("`{name}` has the hash {found:#010x}, its bytes give {expected:#010x}"));
        }
        if let Some(logical) = logical {
            let level = dentry::level_of(logical, directory.raw.i_dir_level);
            let bucket = dentry::bucket(level, directory.raw.i_dir_level, entry.expected_hash());
            if !bucket.contains(&logical) {
                self.report.add(place, format!("`{name}` lies in another bucket than its hash says"));
            }
            if level >= directory.raw.i_current_depth.get() {
                let depth = directory.raw.i_current_depth.get();
                self.report.add(place, format!("`{name}` lies on level {level}, the directory has {depth}"));
            }
        }
        if entry.kind.is_none() {
            self.report.add(place, format!("`{name}` has an unknown kind"));
        }
        if !self.nat.contains_key(&entry.ino) {
            self.report.add(place, format!("`{name}` names inode {}, which is free", entry.ino));
            return;
        }
        if entry.kind == Some(FileKind::Directory)
            && let Some(known) = self.inodes.get_mut(&directory.number)
        {
            known.found += 1;
        }
        self.pending.push(Named { nid: entry.ino, parent: directory.number, kind: entry.kind });
    }
}
