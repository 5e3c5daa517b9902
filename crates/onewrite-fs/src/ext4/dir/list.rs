//! Entries in an order that stays the same while the directory changes.
//!
//! With `dir_index`, entries come in the order of their names' hashes, as in Linux. A cursor is a position in that
//! order: 0 is `.`, 1 is `..`, then 2 + hash. A split of a leaf does not change a name's position. A reader that
//! continues from a cursor sees each name that existed the whole time exactly once. A directory of several blocks
//! without a hash tree uses byte offsets as cursors; its entries never move.

use onewrite_block::PAGE_SIZE;

use super::tree::{Reach, TreePath};
use super::{DirectoryBlock, place};
use crate::api::{DirectoryEntry, FileKind, FsResult};
use crate::ext4::format::directory::{Entries, Entry, HashVersion, NameHash};
use crate::ext4::format::features::Compat;
use crate::ext4::inodes::Node;
use crate::ext4::views::Directories;

/// Cursors of `.` and `..`.
const DOTS: [(&[u8], u64); 2] = [(b".", 0), (b"..", 1)];
/// Cursor of the lowest hash.
const FIRST_HASH: u64 = 2;

fn cursor_of(hash: NameHash) -> u64 {
    FIRST_HASH + (u64::from(hash.major >> 1) << 32 | u64::from(hash.minor))
}

/// The hash key to search for when a listing continues at `cursor`.
fn major_of(cursor: u64) -> u32 {
    ((cursor - FIRST_HASH) >> 32 << 1) as u32
}

impl Directories<'_> {
    /// Some entries from `cursor` on; none at the end.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn entries_from(&self, directory: &Node, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let has_order = self.layout().features.compat.contains(Compat::DIR_INDEX);
        match has_order && (self.is_indexed(directory) || self.block_count(directory) == 1) {
            true => self.entries_by_hash(directory, cursor).await,
            false => self.entries_by_offset(directory, cursor).await,
        }
    }

    async fn entries_by_offset(&self, directory: &Node, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let mut logical = (cursor / PAGE_SIZE as u64) as u32;
        let mut skip = (cursor % PAGE_SIZE as u64) as usize;
        while logical < self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            let start = u64::from(logical) * PAGE_SIZE as u64;
            let next = |entry: &Entry<'_>| start + (entry.offset + entry.record_length) as u64;
            let from = |entry: &Entry<'_>| entry.offset >= skip;
            let entries = self.used_entries(directory, block, from, next)?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            (logical, skip) = (logical + 1, 0);
        }
        Ok(Vec::new())
    }

    async fn entries_by_hash(&self, directory: &Node, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        if cursor < FIRST_HASH {
            return self.dots(directory, cursor).await;
        }
        if !self.is_indexed(directory) {
            let block = self.load_directory_block(directory, 0).await?;
            return self.leaf_by_hash(directory, block, self.layout().hash_version, cursor);
        }
        let (hash, levels) = self.tree_shape(directory).await?;
        let mut path: TreePath = self.tree_path_to(directory, (hash, levels), major_of(cursor)).await?;
        loop {
            let leaf = self.load_directory_block(directory, path.leaf.logical).await?;
            let entries = self.leaf_by_hash(directory, leaf, hash, cursor)?;
            if !entries.is_empty() || !self.next_leaf(directory, &mut path, Reach::AnyHash).await? {
                return Ok(entries);
            }
        }
    }

    async fn dots(&self, directory: &Node, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let block = self.load_directory_block(directory, 0).await?;
        let place_of = |entry: &Entry<'_>| DOTS.iter().find(|(name, _)| *name == entry.name).map(|(_, place)| *place);
        let from = |entry: &Entry<'_>| place_of(entry).is_some_and(|place| place >= cursor);
        self.used_entries(directory, block, from, |entry| place_of(entry).map_or(FIRST_HASH, |place| place + 1))
    }

    fn leaf_by_hash(
        &self,
        directory: &Node,
        leaf: DirectoryBlock,
        hash: HashVersion,
        cursor: u64,
    ) -> FsResult<Vec<DirectoryEntry>> {
        let place = |entry: &Entry<'_>| cursor_of(hash.hash(entry.name, self.layout().hash_seed));
        let from = |entry: &Entry<'_>| !matches!(entry.name, b"." | b"..") && place(entry) >= cursor;
        let mut entries = self.used_entries(directory, leaf, from, |entry| place(entry) + 1)?;
        entries.sort_by(|one, other| (one.next, &one.name).cmp(&(other.next, &other.name)));
        Ok(entries)
    }

    /// The used entries of a block in memory that `wanted` accepts; `next` gives the cursor behind each.
    fn used_entries(
        &self,
        directory: &Node,
        block: DirectoryBlock,
        wanted: impl Fn(&Entry<'_>) -> bool,
        next: impl Fn(&Entry<'_>) -> u64,
    ) -> FsResult<Vec<DirectoryEntry>> {
        self.with_block(block, |bytes| {
            let mut entries = Vec::new();
            for entry in Entries::new(&bytes[..], place(directory, block.logical)) {
                let entry = entry?;
                if entry.is_used() && wanted(&entry) {
                    entries.push(DirectoryEntry {
                        name: entry.name.to_vec(),
                        ino: entry.inode.into(),
                        kind: FileKind::from_entry_byte(entry.kind).unwrap_or(FileKind::Regular),
                        next: next(&entry),
                    });
                }
            }
            Ok(entries)
        })
    }
}
