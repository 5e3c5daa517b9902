//! F2FS: reads real images. [`view`] shows the tree, [`check`] finds what is wrong.
//!
//! ```text
//!   view (FileView) ─┐
//!   check            ├─ tables: superblock, checkpoint, NAT, SIT ─ blocks ─► device
//!                    └─ format: bytes ↔ structures, no I/O
//! ```
//!
//! `docs/f2fs.md` says what is read and what is refused.

mod blocks;
pub mod check;
pub mod format;
mod tables;
pub mod view;

pub use tables::marked_copies;
