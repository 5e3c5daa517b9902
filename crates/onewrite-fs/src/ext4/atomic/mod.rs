//! Drafts of atomic files ([`crate::drafts`]) on ext4. The commit (`commit`) takes all of a draft into one handle of
//! the journal, that is, into one transaction.
//!
//! # Invariants
//! - `Plan::new` and `Plan::unwritten` are parts of a file's private pages: pages that need a block, and pages whose
//!   block reads as zeros. All others have a written block that nobody can take. (A file with a spill file: `spill`.)
//! - Blocks are reserved for every page in `new`, for nodes of the map where extents may split, and for each change of
//!   a name (`host`).
//! - All drafts together fit into one transaction of the log.

mod commit;
mod credits;
mod host;
mod names;
mod operations;
mod plan;
mod publish;
mod spill;

pub(super) use plan::Drafts;
