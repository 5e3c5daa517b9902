//! Work: a seeded stream of steps on a directory, and what must be there after each.
//!
//! One idea: the plan alone says everything. The same steps run in a machine, on a mount of ours and in the judge's
//! model; the number of steps that are done is all that a judge needs to know.

mod judge;
mod model;
mod plan;
mod play;

pub use judge::{Attributes, judge};
pub use plan::{Plan, Reach, steps};
pub use play::play;

/// A file of the plan, by order of creation; never used again.
pub type FileId = u32;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes a regular file.
    Create { file: FileId, name: String },
    /// Makes a directory in the root.
    Directory { file: FileId, name: String },
    /// Makes a symbolic link.
    Symlink { file: FileId, name: String, target: String },
    /// Writes `length` bytes that only this write has.
    Write { file: FileId, name: String, offset: u64, length: u64, tag: u64 },
    /// Sets the size.
    Truncate { file: FileId, name: String, size: u64 },
    /// Makes a hole.
    Punch { file: FileId, name: String, offset: u64, length: u64 },
    /// Sets the attribute `user.a`.
    Attribute { file: FileId, name: String, length: u64, tag: u64 },
    /// Moves a name; what had the new one loses it.
    Rename { file: FileId, from: String, to: String },
    /// Adds a name.
    Link { file: FileId, from: String, to: String },
    /// Removes a name. If `holds`, it was the last; the file stays open and is written, until the next step of this
    /// kind.
    Unlink { file: FileId, name: String, holds: bool },
    /// Makes a file durable.
    Fsync { file: FileId, name: String },
    /// Makes all names durable: makes an empty file in the root and syncs the root.
    SyncNames { file: FileId, name: String },
    /// Makes all durable: sync(2) on a kernel's mount. On ours it does not arrive; see [`Plan::has_sync`].
    Sync,
}

/// The bytes of a write, from `offset` on: no two writes have the same.
pub fn content(tag: u64, offset: u64, length: u64) -> Vec<u8> {
    let word = |index: u64| (tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xd134_2543_de82_ef95)) | 1;
    (offset..offset + length).map(|at| word(at / 8).to_le_bytes()[(at % 8) as usize]).collect()
}
