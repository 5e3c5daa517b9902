//! Drafts of atomic files ([`crate::drafts`]) on F2FS.
//!
//! Its one idea: the pages of a commit go to new blocks that nothing names; then all of it changes in memory while no
//! checkpoint and no fsync can begin; then one write decides.
//!
//! ```text
//!   one file's content:   pages written ─► nodes name them ─► chain of the fsync, its last node marked
//!   several files, names: pages written ─► nodes and names change ─► checkpoint
//! ```
//!
//! # Invariants
//! - `Plan::new` are private pages for which the committed file has no block; `Plan::missing` are the nodes that they
//!   need. A block is reserved for each of these, and for each change of a name.
//! - A commit that cannot have its blocks now has changed nothing but empty nodes; it gives the blocks back, makes a
//!   checkpoint and begins anew.
//! - What fails behind the first change ends all changes of the file system ([`Volume::fail`]).
//!
//! [`Volume::fail`]: super::volume::Volume::fail

mod commit;
mod host;
mod names;
mod operations;
mod plan;
mod publish;

pub(super) use plan::Drafts;
