//! Drafts: what owners of atomic files changed and did not commit yet, for any file system.
//!
//! A draft keeps whole pages as private pages of the page layer, and here what surrounds them: sizes, dropped pages,
//! changes of names. Where the file system can, pages that take too much memory wait on the device ([`Spills`]).
//! Nothing of it is in shared metadata before the commit, so nothing else can carry it along. What a commit does and
//! costs, the file system says ([`DraftHost`]); the rest is here once.
//!
//! # Invariants
//! - A file has at most one draft (`Claimable::claimant`); while it has one, nobody else changes its content.
//! - `DraftFile::private` holds the pages that the page layer keeps for the owner.
//! - What the commit takes is reserved: the sum of `Cost::reserved` of all drafts (`Drafts::cost`).
//! - Who drops the changes of a draft holds the locks of its files; who reads or changes a file holds the file's lock.
//! - One commit takes all drafts together: `Cost::changed` is at most [`DraftHost::changed_max`].

mod change;
mod claims;
mod content;
mod host;
mod names;
mod room;
mod table;

pub(crate) use change::{Name, NameChange};
pub(crate) use claims::{Committing, Drafting, Left, expect_unclaimed};
pub(crate) use host::{Claimable, DraftHost, FileOf, NoSpills, PlansSpill, Spills};
pub(crate) use names::Directories;
pub(crate) use table::{Cost, Draft, DraftFile, Drafts, Origin};
