//! Views: each view has the volume's operations on one subject. A view borrows the volume and owns nothing.

use std::ops::Deref;

use super::volume::Volume;

/// Defines views and the methods of [`Volume`] that return them.
macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $view<'a> {
            volume: &'a Volume,
        }

        impl Deref for $view<'_> {
            type Target = Volume;

            fn deref(&self) -> &Volume {
                self.volume
            }
        })*

        impl Volume {
            $($(#[$doc])*
            pub(super) fn $method(&self) -> $view<'_> {
                $view { volume: self }
            })*
        }
    };
}

views! {
    /// Free blocks and inodes, and the orphan list (`balloc`, `ialloc`, `orphans`).
    Allocator by allocator;
    /// Files' extent trees (`map`, `survey`).
    Extents by extents;
    /// Names: directories and what happens to their entries (`dir`, `create`, `rename`).
    Directories by directories;
    /// Content of files: written, removed, shifted, delayed, synced (`write`, `truncate`, `shift`, `delayed`, `sync`,
    /// `orphans`).
    Contents by contents;
    /// Pages of files that take the content of others (`share`).
    Shares by shares;
    /// Drafts of atomic files (`atomic`).
    Atomics by atomics;
    /// Extended attributes (`attributes`).
    ExtendedAttributes by extended_attributes;
}

impl<'a> Atomics<'a> {
    /// The volume, for the page layer.
    pub(super) fn volume(&self) -> &'a Volume {
        self.volume
    }
}

impl<'a> Shares<'a> {
    /// The volume, for the page layer.
    pub(super) fn volume(&self) -> &'a Volume {
        self.volume
    }
}

impl<'a> Contents<'a> {
    /// The volume, for the page layer.
    pub(super) fn volume(&self) -> &'a Volume {
        self.volume
    }
}
