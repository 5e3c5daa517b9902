//! Handles: which files programs have open, through the kernel's cache or past it, and which handles own drafts.
//!
//! # Invariants
//! - An inode has at most one owner of a draft, and the owner is an open handle.
//! - While a cached handle owns a draft, no other handle of its inode is cached: so the kernel's cache, which all
//!   handles share, shows nobody else what the owner did not commit. A direct owner puts nothing into that cache.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use fuser::Errno;
use onewrite_fs::{DraftId, Ino};

/// An open file of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) ino: Ino,
    pub(super) handle: u64,
}

/// Whether reads and writes of a handle go through the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caching {
    Cached,
    Direct,
}

/// What `open` tells the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) handle: u64,
    pub(super) caching: Caching,
}

/// What is known of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manners {
    pub(super) caching: Caching,
    pub(super) can_read: bool,
    pub(super) can_write: bool,
    /// The user who opened it.
    pub(super) uid: u32,
    /// Whether its changes go into drafts that nobody asked for.
    pub(super) is_marked: bool,
}

/// A handle that owns the draft of its file.
#[derive(Clone, Copy, Debug)]
struct Owner {
    handle: u64,
    draft: DraftId,
    /// The user who began it.
    uid: u32,
    begun: Begun,
    phase: Phase,
    /// What its changes were so far.
    change: Change,
}

/// A change of a file through an open handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The file becomes shorter, but not empty, behind a commit of this handle.
    Cut,
    /// Anything else.
    Other,
}

/// How a draft began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// A program asked for it, and will ask for its commit.
    ByRequest,
    /// A program changed a marked file; `fsync` commits it.
    ByChange,
}

/// What may happen to an owned draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It takes changes.
    Open,
    /// It is being committed or aborted, and then ends: a change now would be lost.
    Ending,
}

/// The open files of a mount. 0 is the handle of directories.
#[derive(Default)]
pub(super) struct Handles {
    last: Cell<u64>,
    open: RefCell<BTreeMap<(Ino, u64), Manners>>,
    owners: RefCell<BTreeMap<Ino, Owner>>,
    /// Handles that committed drafts begun by changes.
    committed: RefCell<BTreeSet<(Ino, u64)>>,
}

impl Handles {
    /// Counts an open file in.
    pub(super) fn open(&self, ino: Ino, manners: Manners) -> Opened {
        let handle = self.last.get() + 1;
        self.last.set(handle);
        self.open.borrow_mut().insert((ino, handle), manners);
        Opened { handle, caching: manners.caching }
    }

    /// Counts an open file out; returns the draft that it owned.
    pub(super) fn close(&self, open: Open) -> Option<DraftId> {
        self.open.borrow_mut().remove(&(open.ino, open.handle));
        self.committed.borrow_mut().remove(&(open.ino, open.handle));
        self.disown(open)
    }

    /// `None` for a directory.
    pub(super) fn manners(&self, open: Open) -> Option<Manners> {
        self.open.borrow().get(&(open.ino, open.handle)).copied()
    }

    /// Whether another handle of the inode is cached.
    pub(super) fn has_cached_beside(&self, open: Open) -> bool {
        let handles = self.open.borrow();
        let mut of_inode = handles.range((open.ino, 0)..=(open.ino, u64::MAX));
        of_inode.any(|((_, handle), manners)| *handle != open.handle && manners.caching == Caching::Cached)
    }

    /// Whether user `uid` has the inode open for reading.
    pub(super) fn is_open_for_reading(&self, ino: Ino, uid: u32) -> bool {
        let handles = self.open.borrow();
        handles.range((ino, 0)..=(ino, u64::MAX)).any(|(_, manners)| manners.can_read && manners.uid == uid)
    }

    /// Makes a handle the owner of a draft.
    ///
    /// # Panics
    /// If the inode has an owner: then the file system would have refused the claim.
    pub(super) fn own(&self, open: Open, draft: DraftId, (uid, begun): (u32, Begun)) {
        let owner = Owner { handle: open.handle, draft, uid, begun, phase: Phase::Open, change: Change::Cut };
        let before = self.owners.borrow_mut().insert(open.ino, owner);
        assert!(before.is_none(), "{} has two owners", open.ino);
    }

    /// The draft of a handle if a change began it.
    pub(super) fn begun_by_change(&self, open: Open) -> Option<DraftId> {
        let owners = self.owners.borrow();
        let owner = owners.get(&open.ino).filter(|owner| owner.handle == open.handle)?;
        (owner.begun == Begun::ByChange).then_some(owner.draft)
    }

    /// Notes that an `fsync` of this handle committed a draft.
    pub(super) fn note_committed(&self, open: Open) {
        if self.open.borrow().contains_key(&(open.ino, open.handle)) {
            self.committed.borrow_mut().insert((open.ino, open.handle));
        }
    }

    /// Whether [`Handles::note_committed`] was called.
    pub(super) fn has_committed(&self, open: Open) -> bool {
        self.committed.borrow().contains(&(open.ino, open.handle))
    }

    /// Notes a change of the draft that the handle owns.
    pub(super) fn note_change(&self, open: Open, change: Change) {
        if change == Change::Other
            && let Some(owner) = self.owners.borrow_mut().get_mut(&open.ino).filter(|owner| owner.handle == open.handle)
        {
            owner.change = change;
        }
    }

    /// The draft of an inode if a change of a marked file began it, and all that it did was to make the file shorter.
    pub(super) fn lone_cut(&self, ino: Ino) -> Option<DraftId> {
        let owners = self.owners.borrow();
        let is_lone = |owner: &&Owner| {
            owner.begun == Begun::ByChange && owner.phase == Phase::Open && owner.change == Change::Cut
        };
        owners.get(&ino).filter(is_lone).map(|owner| owner.draft)
    }

    /// Notes that a program asked for the draft of this handle.
    pub(super) fn note_requested(&self, open: Open) {
        if let Some(owner) = self.owners.borrow_mut().get_mut(&open.ino).filter(|owner| owner.handle == open.handle) {
            owner.begun = Begun::ByRequest;
        }
    }

    /// Takes the draft away from its owner; `None` if the handle owns none.
    pub(super) fn disown(&self, open: Open) -> Option<DraftId> {
        let draft = self.draft(open)?;
        self.owners.borrow_mut().remove(&open.ino);
        Some(draft)
    }

    /// Takes the draft of an inode away from its owner, if it is still this one.
    pub(super) fn disown_inode(&self, ino: Ino, draft: DraftId) {
        self.owners.borrow_mut().retain(|other, owner| *other != ino || owner.draft != draft);
    }

    /// The draft that the handle owns.
    pub(super) fn draft(&self, open: Open) -> Option<DraftId> {
        let owners = self.owners.borrow();
        owners.get(&open.ino).filter(|owner| owner.handle == open.handle).map(|owner| owner.draft)
    }

    /// The draft that the handle owns, to change it.
    ///
    /// # Errors
    /// EBUSY while it is being committed or aborted.
    pub(super) fn open_draft(&self, open: Open) -> Result<Option<DraftId>, Errno> {
        let owners = self.owners.borrow();
        let owner = owners.get(&open.ino).filter(|owner| owner.handle == open.handle);
        match owner {
            Some(Owner { phase: Phase::Ending, .. }) => Err(Errno::EBUSY),
            owner => Ok(owner.map(|owner| owner.draft)),
        }
    }

    /// Begins the end of drafts: from now on they take no changes.
    ///
    /// # Errors
    /// EBUSY if one is ending already; then nothing has changed.
    pub(super) fn begin_end(&self, owned: &[(Ino, DraftId)]) -> Result<(), Errno> {
        let mut owners = self.owners.borrow_mut();
        let is_open = |owner: &Owner, draft| owner.draft == draft && owner.phase == Phase::Open;
        if !owned.iter().all(|(ino, draft)| owners.get(ino).is_some_and(|owner| is_open(owner, *draft))) {
            return Err(Errno::EBUSY);
        }
        for (ino, _) in owned {
            owners.get_mut(ino).expect("just seen").phase = Phase::Ending;
        }
        Ok(())
    }

    /// Lets drafts take changes again: their commit failed.
    pub(super) fn undo_end(&self, owned: &[(Ino, DraftId)]) {
        let mut owners = self.owners.borrow_mut();
        for (ino, draft) in owned {
            if let Some(owner) = owners.get_mut(ino).filter(|owner| owner.draft == *draft) {
                owner.phase = Phase::Open;
            }
        }
    }

    /// The draft of the inode, whoever owns it.
    pub(super) fn drafted(&self, ino: Ino) -> Option<DraftId> {
        self.owners.borrow().get(&ino).map(|owner| owner.draft)
    }

    /// The handle that owns the inode's draft.
    pub(super) fn owner(&self, ino: Ino) -> Option<Open> {
        self.owners.borrow().get(&ino).map(|owner| Open { ino, handle: owner.handle })
    }

    /// The user who began the inode's draft.
    pub(super) fn drafted_by(&self, ino: Ino) -> Option<u32> {
        self.owners.borrow().get(&ino).map(|owner| owner.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Manners =
        Manners { caching: Caching::Cached, can_read: true, can_write: true, uid: 0, is_marked: false };

    #[test]
    fn only_other_cached_handles_of_the_same_inode_count() {
        let handles = Handles::default();
        let first = Open { ino: Ino(12), handle: handles.open(Ino(12), WRITER).handle };
        handles.open(Ino(13), WRITER);
        handles.open(Ino(12), Manners { caching: Caching::Direct, ..WRITER });
        assert!(!handles.has_cached_beside(first));
        let second = Open { ino: Ino(12), handle: handles.open(Ino(12), WRITER).handle };
        assert!(handles.has_cached_beside(first));
        handles.close(second);
        assert!(!handles.has_cached_beside(first));
    }

    #[test]
    fn a_draft_that_ends_takes_no_changes() {
        let handles = Handles::default();
        let owner = Open { ino: Ino(12), handle: handles.open(Ino(12), WRITER).handle };
        handles.own(owner, DraftId(7), (1000, Begun::ByRequest));
        let owned = [(Ino(12), DraftId(7))];
        let open_draft = || handles.open_draft(owner).map_err(|error| error.code());
        assert_eq!(open_draft(), Ok(Some(DraftId(7))));
        handles.begin_end(&owned).unwrap();
        assert_eq!((open_draft(), handles.draft(owner)), (Err(Errno::EBUSY.code()), Some(DraftId(7))));
        assert!(handles.begin_end(&owned).is_err(), "two ends at once");
        handles.undo_end(&owned);
        assert_eq!(open_draft(), Ok(Some(DraftId(7))));
    }

    #[test]
    fn a_lone_cut_is_one_of_a_marked_file_without_another_change() {
        let handles = Handles::default();
        let owner = Open { ino: Ino(12), handle: handles.open(Ino(12), WRITER).handle };
        handles.own(owner, DraftId(7), (1000, Begun::ByChange));
        handles.note_change(owner, Change::Cut);
        assert_eq!((handles.lone_cut(Ino(12)), handles.lone_cut(Ino(13))), (Some(DraftId(7)), None));
        handles.begin_end(&[(Ino(12), DraftId(7))]).unwrap();
        assert_eq!(handles.lone_cut(Ino(12)), None, "it ends");
        handles.undo_end(&[(Ino(12), DraftId(7))]);
        handles.note_change(owner, Change::Other);
        handles.note_change(owner, Change::Cut);
        assert_eq!(handles.lone_cut(Ino(12)), None);
        handles.close(owner);
        handles.own(owner, DraftId(8), (1000, Begun::ByRequest));
        assert_eq!(handles.lone_cut(Ino(12)), None, "the program will commit it");
    }

    #[test]
    fn a_draft_belongs_to_its_handle_and_goes_with_it() {
        let handles = Handles::default();
        let owner = Open { ino: Ino(12), handle: handles.open(Ino(12), WRITER).handle };
        let other = Open { ino: Ino(12), handle: handles.open(Ino(12), WRITER).handle };
        handles.own(owner, DraftId(7), (1000, Begun::ByRequest));
        assert_eq!((handles.draft(owner), handles.draft(other)), (Some(DraftId(7)), None));
        assert_eq!((handles.drafted(Ino(12)), handles.drafted_by(Ino(12))), (Some(DraftId(7)), Some(1000)));
        assert_eq!((handles.close(other), handles.close(owner)), (None, Some(DraftId(7))));
        assert_eq!((handles.drafted(Ino(12)), handles.manners(owner)), (None, None));
    }
}
