//! Views of a mounted ext4; see [`crate::views`].

use super::volume::Volume;
use crate::views::views;

views! {
    /// Free blocks and inodes, and the orphan list (`balloc`, `ialloc`, `orphans`).
    Allocator by allocator;
    /// Files' extent trees (`map`, `survey`).
    Extents by extents;
    /// Names: directories and what happens to their entries (`dir`, `create`, `rename`).
    Directories by directories;
    /// Content of files: written, removed, shifted, delayed, synced (`write`, `truncate`, `shift`, `delayed`, `sync`,
    /// `orphans`).
    Contents by contents;
    /// Pages of files that take the content of others (`share`).
    Shares by shares;
    /// Drafts of atomic files (`atomic`).
    Atomics by atomics;
    /// Extended attributes (`attributes`).
    ExtendedAttributes by extended_attributes;
}
