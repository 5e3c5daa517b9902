//! One repair, as the user reads it.

use std::fmt::{self, Display};

use crate::ext4::format::Place;

/// One repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where it was made.
    pub place: Place,
    /// What was done.
    pub what: String,
    /// The repair loses nothing.
    pub is_safe: bool,
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
