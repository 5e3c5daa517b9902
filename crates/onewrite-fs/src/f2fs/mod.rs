//! F2FS: reads real images. [`view`] shows the tree, [`check`] finds what is wrong, [`mkfs`] makes empty ones.
//!
//! ```text
//!   view (FileView) ─┐
//!   check            ├─ tables: superblock, checkpoint, NAT, SIT ─ blocks ─► device
//!   mkfs             └─ format: bytes ↔ structures, no I/O
//! ```
//!
//! `docs/f2fs.md` says what is read and what is refused.

mod blocks;
pub mod check;
pub mod format;
pub mod mkfs;
mod tables;
pub mod view;

pub use tables::marked_copies;
