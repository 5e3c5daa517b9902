//! Views: each view has the journal's operations on one subject. A view borrows the journal and owns nothing.

use std::ops::Deref;

use super::Journal;

/// Defines views and the methods of [`Journal`] that return them.
macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $view<'a>(&'a Journal);

        impl Deref for $view<'_> {
            type Target = Journal;

            fn deref(&self) -> &Journal {
                self.0
            }
        })*

        impl Journal {
            $($(#[$doc])*
            pub fn $method(&self) -> $view<'_> {
                $view(self)
            })*
        }
    };
}

views! {
    /// Committed content that is not home yet (`read_back`).
    Copies by copies;
    /// Compressed records (`frames`).
    Packing by packing;
}
