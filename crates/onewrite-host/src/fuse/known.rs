//! Known: which inodes the kernel knows, and which exist only for that reason.
//!
//! The kernel counts a lookup for each reply that names an inode, and reports the lookups that it forgets. Until then
//! it may use the number: for a working directory, an open file, a descriptor opened with `O_PATH`. So an inode that
//! loses its last name while the kernel knows it is *held*: kept open in the file system until the kernel forgets it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use onewrite_fs::Ino;

#[derive(Clone, Copy, Default)]
struct Knowledge {
    /// Number of replies that named the inode, less the forgotten lookups.
    lookups: u64,
    /// Number of opens by programs that are not released yet.
    opens: u64,
    /// Whether it is kept open here because it has no name any more.
    is_held: bool,
    /// Whether it certainly has neither set-ID bits nor capabilities that a write would remove.
    is_plain: bool,
    /// Whether a program asked for atomic files on it.
    is_atomic: bool,
    /// Whether a name of it fits the mount's pattern of atomic files.
    is_marked: bool,
}

/// The inodes that the kernel knows. Takes about 40 bytes for each inode in the kernel's cache.
#[derive(Default)]
pub(super) struct Known(RefCell<BTreeMap<Ino, Knowledge>>);

impl Known {
    /// Counts a reply that is going to name `ino`.
    pub(super) fn looked_up(&self, ino: Ino) {
        self.0.borrow_mut().entry(ino).or_default().lookups += 1;
    }

    pub(super) fn opened(&self, ino: Ino) {
        self.0.borrow_mut().entry(ino).or_default().opens += 1;
    }

    /// Counts a release; returns false if `ino` was not open.
    pub(super) fn released(&self, ino: Ino) -> bool {
        let mut inodes = self.0.borrow_mut();
        let Some(knowledge) = inodes.get_mut(&ino).filter(|knowledge| knowledge.opens > 0) else { return false };
        knowledge.opens -= 1;
        true
    }

    pub(super) fn knows(&self, ino: Ino) -> bool {
        self.0.borrow().contains_key(&ino)
    }

    /// Takes over one open of an inode that lost its last name; returns false if the inode is held already.
    pub(super) fn hold(&self, ino: Ino) -> bool {
        let mut inodes = self.0.borrow_mut();
        let knowledge = inodes.entry(ino).or_default();
        !std::mem::replace(&mut knowledge.is_held, true)
    }

    /// Whether [`Known::note_plain`] was called, and no [`Known::forget_plain`] after it.
    pub(super) fn is_plain(&self, ino: Ino) -> bool {
        self.0.borrow().get(&ino).is_some_and(|knowledge| knowledge.is_plain)
    }

    /// Whether [`Known::note_atomic`] was called.
    pub(super) fn is_atomic(&self, ino: Ino) -> bool {
        self.0.borrow().get(&ino).is_some_and(|knowledge| knowledge.is_atomic)
    }

    /// Notes that a program asked for atomic files on this inode.
    pub(super) fn note_atomic(&self, ino: Ino) {
        if let Some(knowledge) = self.0.borrow_mut().get_mut(&ino) {
            knowledge.is_atomic = true;
        }
    }

    /// Whether [`Known::note_marked`] was called.
    pub(super) fn is_marked(&self, ino: Ino) -> bool {
        self.0.borrow().get(&ino).is_some_and(|knowledge| knowledge.is_marked)
    }

    /// Notes that a name of the inode fits the mount's pattern of atomic files.
    pub(super) fn note_marked(&self, ino: Ino) {
        if let Some(knowledge) = self.0.borrow_mut().get_mut(&ino) {
            knowledge.is_marked = true;
        }
    }

    /// Notes that the inode has nothing that a write would remove.
    pub(super) fn note_plain(&self, ino: Ino) {
        if let Some(knowledge) = self.0.borrow_mut().get_mut(&ino) {
            knowledge.is_plain = true;
        }
    }

    /// Notes that the inode may have something that a write would remove.
    pub(super) fn forget_plain(&self, ino: Ino) {
        if let Some(knowledge) = self.0.borrow_mut().get_mut(&ino) {
            knowledge.is_plain = false;
        }
    }

    /// Subtracts `lookups` that the kernel forgot; returns true if `ino` was held and must be released now.
    pub(super) fn forgot(&self, ino: Ino, lookups: u64) -> bool {
        let mut inodes = self.0.borrow_mut();
        let Some(knowledge) = inodes.get_mut(&ino) else { return false };
        knowledge.lookups = knowledge.lookups.saturating_sub(lookups);
        if knowledge.lookups > 0 {
            return false;
        }
        let was_held = std::mem::take(&mut knowledge.is_held);
        if knowledge.opens == 0 {
            inodes.remove(&ino);
        }
        was_held
    }

    /// Forgets everything; returns each inode with the number of opens to release.
    pub(super) fn take_all(&self) -> Vec<(Ino, u64)> {
        let inodes = std::mem::take(&mut *self.0.borrow_mut());
        inodes.into_iter().map(|(ino, known)| (ino, known.opens + u64::from(known.is_held))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_inode_is_released_when_the_last_lookup_is_forgotten() {
        let (known, ino) = (Known::default(), Ino(12));
        known.looked_up(ino);
        known.looked_up(ino);
        assert!(known.hold(ino));
        assert!(!known.hold(ino), "held once only");
        assert!(!known.forgot(ino, 1));
        assert!(known.forgot(ino, 1));
        assert!(!known.knows(ino));
    }

    #[test]
    fn an_end_without_forgetting_names_what_is_still_open() {
        let known = Known::default();
        known.looked_up(Ino(12));
        known.opened(Ino(12));
        known.opened(Ino(12));
        assert!(known.released(Ino(12)));
        known.hold(Ino(12));
        assert_eq!(known.take_all(), [(Ino(12), 2)]);
        assert!(!known.released(Ino(12)), "it is gone");
    }
}
