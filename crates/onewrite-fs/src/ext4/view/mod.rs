//! View: an image of any ext2, ext3 or ext4 that is only read.
//!
//! Its one idea: reading needs none of what makes writing hard. Nothing is allocated, so that quota, bigalloc or shared
//! blocks do not matter; directories are read from end to end, so that no hash tree does; and a log that waits for
//! replay is laid over the image in memory. What a view needs is a device that can be read.
//!
//! ```text
//!   ImageView (FileView) ─ files, directories, attributes ─ map ─ blocks ─► LogView, then the device
//! ```
//!
//! # Invariants
//! - Nothing is ever written.
//! - Each operation ends and nothing panics, whatever the image holds: no walk goes deeper than the format allows, and
//!   no directory has more blocks than the image.
//! - Memory is bounded: the cache, the log's copies up to a bound, and what an operation gives back.
//! - A checksum that does not hold is an error that names its place. In a rescue it is not looked at; what cannot be
//!   read is left out or read as zeros, and told by [`ImageView::losses`].

mod adrift;
mod attributes;
mod blocks;
mod directories;
mod files;
mod map;
mod open;

use std::cell::RefCell;

use crate::api::{Attributes, DirectoryEntry, FileView, FsError, FsResult, Ino, Manner, SeekTarget, Space};
use crate::content::Data;
use crate::ext4::format::features::Incompat;
use crate::ext4::format::{Layout, ROOT_INODE, RawSuperblock};
use crate::journal::Recovered;
use blocks::Blocks;

/// Losses that are kept in words; those beyond are counted.
const LOSSES_MAX: usize = 1_000;

/// How to view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// Read what can be read of a damaged image: backups in place of what is damaged, checksums not looked at.
    pub is_rescue: bool,
    /// Metadata pages kept in memory.
    pub cache_pages: usize,
}

impl Default for ViewOptions {
    fn default() -> ViewOptions {
        ViewOptions { is_rescue: false, cache_pages: 1024 }
    }
}

/// What a rescue could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Each in words, in the order in which they were met; a thousand at most.
    pub told: Vec<String>,
    /// All of them.
    pub count: u64,
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
    /// What a rescue shows as the root directory, if that cannot be read.
    made_up_root: Option<Vec<DirectoryEntry>>,
}

impl ImageView {
    /// What was found in the log, if it holds anything, and of how many blocks it has newer copies.
    pub fn recovered(&self) -> Option<(Recovered, u64)> {
        self.recovered
    }

    /// What whoever reads should know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What could not be read so far; nothing unless in a rescue.
    pub fn losses(&self) -> Losses {
        self.losses.borrow().clone()
    }

    /// Notes what a rescue cannot read, once.
    fn lose(&self, what: String) {
        let mut losses = self.losses.borrow_mut();
        if losses.told.contains(&what) {
            return;
        }
        losses.count += 1;
        if losses.told.len() < LOSSES_MAX {
            losses.told.push(what);
        }
    }

    /// Whether a rescue is on and goes on without what `error` keeps from being read, which is then noted.
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

    /// Whether directories say what their names name.
    fn keeps_kinds(&self) -> bool {
        self.layout.features.incompat.contains(Incompat::FILETYPE)
    }
}

impl FileView for ImageView {
    fn root(&self) -> Ino {
        Ino(u64::from(ROOT_INODE))
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
        self.attribute_value(&self.file(ino).await?, name).await
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.attribute_names(&self.file(ino).await?).await
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
            0 => 0,
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
