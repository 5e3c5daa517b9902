//! F2FS: reads real images. [`view`] shows the tree.
//!
//! ```text
//!   view (FileView) ─ tables: superblock, checkpoint, NAT ─ blocks ─► device
//!         └──────────────── format: bytes ↔ structures, no I/O
//! ```
//!
//! `docs/f2fs.md` says what is read and what is refused.

mod blocks;
pub mod format;
mod tables;
pub mod view;

pub use tables::marked_copies;
