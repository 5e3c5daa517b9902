//! Views of a mounted file system: each has the volume's operations on one subject. A view borrows the volume and owns
//! nothing; what the volume itself can do, a view can.

/// Defines views of the `Volume` in scope and its methods that return them.
macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $view<'a> {
            volume: &'a Volume,
        }

        impl<'a> $view<'a> {
            /// The volume, for the page layer.
            #[allow(dead_code, reason = "not every subject has pages")]
            pub(super) fn volume(&self) -> &'a Volume {
                self.volume
            }
        }

        impl std::ops::Deref for $view<'_> {
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

pub(crate) use views;
