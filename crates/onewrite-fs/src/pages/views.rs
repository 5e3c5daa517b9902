//! Views: each view has the layer's operations on one subject. A view borrows the layer and owns nothing.

use std::ops::Deref;

use super::Pages;

/// Defines views and the methods of [`Pages`] that return them.
macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $view<'a>(&'a Pages);

        impl Deref for $view<'_> {
            type Target = Pages;

            fn deref(&self) -> &Pages {
                self.0
            }
        })*

        impl Pages {
            $($(#[$doc])*
            pub fn $method(&self) -> $view<'_> {
                $view(self)
            })*
        }
    };
}

views! {
    /// Files with dirty pages: background writeback and throttling (`line`).
    DirtyFiles by dirty_files;
    /// Pages that an owner keeps or holds privately (`owners`).
    OwnedPages by owned_pages;
}
