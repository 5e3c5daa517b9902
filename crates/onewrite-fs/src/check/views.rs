//! Views: each view has the check's stages on one subject. A view borrows the checker and owns nothing.

use std::ops::{Deref, DerefMut};

use super::Checker;

/// Defines views and the methods of [`Checker`] that return them.
macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident;)*) => {
        $($(#[$doc])*
        pub(super) struct $view<'m, 'a, R>(&'m mut Checker<'a, R>);

        impl<'a, R> Deref for $view<'_, 'a, R> {
            type Target = Checker<'a, R>;

            fn deref(&self) -> &Checker<'a, R> {
                self.0
            }
        }

        impl<'a, R> DerefMut for $view<'_, 'a, R> {
            fn deref_mut(&mut self) -> &mut Checker<'a, R> {
                self.0
            }
        })*

        impl<'a, R> Checker<'a, R> {
            $($(#[$doc])*
            pub(super) fn $method(&mut self) -> $view<'_, 'a, R> {
                $view(self)
            })*
        }
    };
}

views! {
    /// Inodes and their attributes (`inodes`, `attributes`).
    InodeStage by inode_stage;
    /// Maps of content (`map`, `indirect`).
    MapStage by map_stage;
    /// Names, indexes and paths (`directories`, `htree`, `tree`).
    DirectoryStage by directory_stage;
}
