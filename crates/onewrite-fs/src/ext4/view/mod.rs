//! View: reads an image of any ext2, ext3 or ext4 and never writes it.
//!
//! Its one idea: a reader can ignore what makes writing hard. It allocates nothing, so quota, bigalloc and shared
//! blocks do not matter. It reads directories from start to end, so hash trees do not matter. If a log waits for
//! replay, its newer copies replace blocks in memory. A view needs only a readable device.
//!
//! ```text
//!   ImageView (FileView) ─ files, directories, attributes ─ map ─ blocks ─► LogView, then the device
//! ```
//!
//! # Invariants
//! - Nothing writes.
//! - Each operation ends and nothing panics, whatever the image holds. No walk goes deeper than the format allows, and
//!   no directory has more blocks than the image.
//! - Memory is bounded: the cache, the log's copies up to a bound, and the result of an operation.
//! - A wrong checksum is an error that names its place. A rescue ignores checksums. It leaves out unreadable parts or
//!   reads them as zeros, and [`ImageView::losses`] lists them.

mod adrift;
mod attributes;
mod blocks;
mod directories;
mod files;
mod map;
mod open;
mod run;

use std::cell::RefCell;

use crate::api::{Attributes, DirectoryEntry, FileView, FsError, FsResult, Ino, Manner, SeekTarget, Space};
use crate::content::Data;
use crate::ext4::format::features::Incompat;
use crate::ext4::format::{InodeNo, Layout, ROOT_INODE, RawSuperblock};
use crate::journal::Recovered;
use crate::losses::Losses;
use blocks::Blocks;

/// How to view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// Read as much as possible of a damaged image: use backups in place of damaged structures and ignore checksums.
    pub is_rescue: bool,
    /// Metadata pages kept in memory.
    pub cache_pages: usize,
}

impl Default for ViewOptions {
    fn default() -> ViewOptions {
        ViewOptions { is_rescue: false, cache_pages: 1024 }
    }
}

/// See the module's head.
pub struct ImageView {
    blocks: Blocks,
    superblock: RawSuperblock,
    layout: Layout,
    options: ViewOptions,
    recovered: Option<(Recovered, u64)>,
    warnings: Vec<String>,
    losses: RefCell<Losses>,
    /// Entries of the substitute for an unreadable root directory, in a rescue.
    made_up_root: Option<Vec<DirectoryEntry>>,
}

impl ImageView {
    /// If the log holds anything: what recovery found in it, and the number of blocks with newer copies.
    pub fn recovered(&self) -> Option<(Recovered, u64)> {
        self.recovered
    }

    /// Warnings for the reader.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Losses so far; empty outside a rescue.
    pub fn losses(&self) -> Losses {
        self.losses.borrow().clone()
    }

    /// Notes a loss of a rescue.
    fn lose(&self, what: String) {
        self.losses.borrow_mut().note(what);
    }

    /// Whether a rescue can continue in spite of `error`; if so, notes the loss.
    fn is_lost(&self, error: &FsError, what: impl FnOnce() -> String) -> bool {
        use FsError::{Damaged, Device, NotFound, Unsupported};
        let is_lost =
            self.options.is_rescue && matches!(error, Damaged { .. } | Device(_) | NotFound(_) | Unsupported(_));
        if is_lost {
            let cause = match error {
                Damaged { place, problem } => format!("{place}: {problem}"),
                other => other.to_string(),
            };
            self.lose(format!("{} ({cause})", what()));
        }
        is_lost
    }

    /// Whether directory entries store the file's kind.
    fn keeps_kinds(&self) -> bool {
        self.layout.features.incompat.contains(Incompat::FILETYPE)
    }
}

impl FileView for ImageView {
    fn root(&self) -> Ino {
        ROOT_INODE.into()
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        let directory = self.file(directory).await?;
        let mut cursor = 0;
        loop {
            let entries = self.entries_from(&directory, cursor).await?;
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            if let Some(entry) = entries.iter().find(|entry| entry.name == name) {
                return Ok(entry.ino);
            }
        }
        Err(FsError::NotFound(String::from_utf8_lossy(name).into_owned()))
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        Ok(self.attributes_of(&self.file(ino).await?))
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.link_target(&self.file(ino).await?).await
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, _manner: Manner) -> FsResult<Data> {
        self.read_file(&self.file(ino).await?, offset, length).await
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        self.usable_entries(&self.file(directory).await?, cursor).await
    }

    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.extended_attributes().attribute_value(&self.file(ino).await?, name).await
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.extended_attributes().attribute_names(&self.file(ino).await?).await
    }

    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64> {
        self.seek_in(&self.file(ino).await?, offset, target).await
    }

    async fn space(&self) -> FsResult<Space> {
        let layout = &self.layout;
        let (mut free_blocks, mut inodes_free, mut taken) = (0, 0, 0);
        for group in 0..layout.group_count {
            let descriptor = self.descriptor(group).await?;
            free_blocks += u64::from(descriptor.free_blocks()) * self.counted_blocks();
            inodes_free += u64::from(descriptor.free_inodes());
            taken += u64::from(layout.base_blocks(group)) + 2 + u64::from(layout.inode_table_blocks());
        }
        let log = match layout.journal_inode {
            InodeNo::NONE => 0,
            number => self.any_file(number).await?.size / self.block_size(),
        };
        let in_pages = |blocks: u64| (u128::from(blocks) * u128::from(self.block_size()) / 4096) as u64;
        Ok(Space {
            blocks: in_pages(layout.block_count.saturating_sub(taken + log)),
            blocks_free: in_pages(free_blocks.min(layout.block_count)),
            inodes: layout.inode_count.into(),
            inodes_free: inodes_free.min(layout.inode_count.into()),
        })
    }
}
