//! Views of a mounted F2FS; see [`crate::views`].

use super::volume::Volume;
use crate::views::views;

views! {
    /// Nodes, in memory and on their way out, and their numbers (`nodes`, `load`, `number_search`).
    Nodes by nodes;
    /// Addresses of files' pages, in nodes (`map`).
    Maps by maps;
    /// Names: directories and what happens to their entries (`directories`, `create`, `rename`).
    Directories by directories;
    /// Content of files: written, removed, shifted, moved out of the inode (`write`, `truncate`, `convert`).
    Contents by contents;
    /// Extended attributes (`attributes`).
    ExtendedAttributes by extended_attributes;
    /// The fsync of a file (`sync`).
    Syncs by syncs;
    /// The commits of drafts of atomic files (`atomic`).
    DraftCommits by draft_commits;
    /// Checkpoints and the packs that hold them (`checkpoint`, `pack`).
    Checkpoints by checkpoints;
    /// Space won back in time (`clean`, `balance`).
    Cleaner by cleaner;
    /// What a mount does behind a crash (`recover`, `unnamed`).
    Recovery by recovery;
}
