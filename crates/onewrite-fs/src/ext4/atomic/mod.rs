//! Drafts: what owners of atomic files changed and did not commit yet.
//!
//! A draft keeps whole pages as private pages of the page layer, and here what surrounds them: sizes, dropped pages,
//! changes of names. Nothing of it is in shared metadata before the commit, so no other commit can carry it along. The
//! commit (`commit`) takes all of it into one handle of the journal, that is, into one transaction.
//!
//! # Invariants
//! - A file has at most one draft (`Node::claimant`); while it has one, nobody else changes its content.
//! - `private` holds the pages that the page layer keeps for the owner. `new` and `unwritten` are parts of it: pages
//!   that need a block, and pages whose block reads as zeros. All others have a written block that nobody can take.
//! - Blocks are reserved for every page in `new`, for nodes of the map where extents may split
//!   (`DraftFile::reserved_blocks`), and for each change of a name (`NAME_BLOCKS`).
//! - Who drops the changes of a draft holds the locks of its files; who reads or changes a file holds the file's lock.
//! - All drafts together fit into one transaction of the log (`Drafts::credits`).

mod change;
mod claims;
mod commit;
mod content;
mod credits;
mod drafts;
mod names;
mod operations;

pub(super) use claims::claimed;
pub(super) use drafts::Drafts;
