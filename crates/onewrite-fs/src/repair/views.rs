//! Views: each view has the repair's passes on one subject. A view borrows the mender and owns nothing.

use std::ops::{Deref, DerefMut};

use super::Mender;

/// Defines views and the methods of [`Mender`] that return them.
macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident;)*) => {
        $($(#[$doc])*
        pub(super) struct $view<'m, 'a, R>(&'m mut Mender<'a, R>);

        impl<'a, R> Deref for $view<'_, 'a, R> {
            type Target = Mender<'a, R>;

            fn deref(&self) -> &Mender<'a, R> {
                self.0
            }
        }

        impl<'a, R> DerefMut for $view<'_, 'a, R> {
            fn deref_mut(&mut self) -> &mut Mender<'a, R> {
                self.0
            }
        })*

        impl<'a, R> Mender<'a, R> {
            $($(#[$doc])*
            pub(super) fn $method(&mut self) -> $view<'_, 'a, R> {
                $view(self)
            })*
        }
    };
}

views! {
    /// Groups: descriptors, lost tables, bitmaps and counts (`groups`, `tables`, `counts`).
    GroupPass by group_pass;
    /// Maps of content (`maps`, `block_map`, `shared`).
    MapPass by map_pass;
    /// Inodes and their attributes (`inodes`, `attributes`).
    InodePass by inode_pass;
    /// Names and paths (`directories`, `connect`).
    DirectoryPass by directory_pass;
    /// Journal and resize inode (`special`).
    SpecialPass by special_pass;
}
