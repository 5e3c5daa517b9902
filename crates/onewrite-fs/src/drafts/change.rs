//! Changes of names that wait for the commit of their draft.

use crate::api::Ino;
use crate::names::display;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) directory: Ino,
    pub(crate) name: Vec<u8>,
}

impl Name {
    pub(crate) fn new((directory, name): (Ino, &[u8])) -> Name {
        Name { directory, name: name.to_vec() }
    }

    pub(crate) fn text(&self) -> String {
        display(&self.name)
    }
}

/// A change of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// A file that the draft created gets its name.
    Link(Ino, Name),
    /// A file loses a name.
    Unlink(Name),
    /// A file's name moves; the target is replaced.
    Rename(Name, Name),
}

impl NameChange {
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        let (first, second) = match self {
            NameChange::Link(_, name) | NameChange::Unlink(name) => (name, None),
            NameChange::Rename(from, to) => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }
}
