//! View: reads an F2FS image and never writes it.
//!
//! Its one idea: a checkpoint is a whole tree. Everything is read as the newer sound checkpoint has it; what was
//! written later is not looked at, except to warn that an fsync made something durable behind it
//! ([`F2fsView::warnings`]).
//!
//! # Invariants
//! - Nothing writes.
//! - Each operation ends and nothing panics, whatever the image holds. A node is followed only if its footer names this
//!   place in this file, so no walk meets a node twice.
//! - Memory is bounded: the cache, the journals of the checkpoint, and the result of an operation.
//! - A wrong checksum is an error that names its place. A damaged name hides itself alone: listings leave it out, and
//!   [`F2fsView::losses`] tells of it.

mod attributes;
mod directories;
mod files;
pub(super) mod stat;
mod synced;

use std::cell::RefCell;

use onewrite_block::DevicePort;

use super::format::layout::ROOT_INODE;
use super::tables::Tables;
use crate::api::{Attributes, DirectoryEntry, FileKind, FileView, FsError, FsResult, Ino, Manner, SeekTarget, Space};
use crate::content::Data;
use crate::losses::Losses;

/// Metadata pages kept in memory.
const CACHE_PAGES: usize = 1024;

/// See the module's head.
pub struct F2fsView {
    tables: Tables,
    warnings: Vec<String>,
    unseen_fsyncs: u64,
    losses: RefCell<Losses>,
}

impl F2fsView {
    /// Opens the image on `port` for reading. Writes nothing, whatever the state of the image.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] for features that Onewrite lacks, by name; [`FsError::Damaged`] if neither superblock
    /// or neither checkpoint is sound; device errors.
    pub async fn open(port: &DevicePort) -> FsResult<F2fsView> {
        let tables = Tables::open(port, CACHE_PAGES).await?;
        let mut warnings: Vec<String> = tables.warnings.iter().map(ToString::to_string).collect();
        let mut view = F2fsView { tables, warnings: Vec::new(), unseen_fsyncs: 0, losses: RefCell::default() };
        warnings.extend(view.unseen_area(port).await?);
        let staged = view.count_staged(port).await?;
        view.unseen_fsyncs = view.count_fsyncs().await?;
        if view.unseen_fsyncs > 0 {
            let nodes = view.unseen_fsyncs;
            warnings.push(format!("{nodes} nodes of fsyncs behind the last checkpoint are not shown"));
        }
        if staged > 0 {
            warnings.push(format!("{staged} transactions that fsyncs staged behind the last checkpoint are not shown"));
        }
        view.unseen_fsyncs += staged;
        view.warnings = warnings;
        Ok(view)
    }

    /// Warnings for the reader: copies that were damaged, and what fsync made durable behind the checkpoint.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Nodes and transactions that fsyncs made durable behind the last checkpoint; the view does not show them.
    pub fn unseen_fsyncs(&self) -> u64 {
        self.unseen_fsyncs
    }

    /// Losses so far: damaged names, which listings leave out.
    pub fn losses(&self) -> Losses {
        self.losses.borrow().clone()
    }
}

impl FileView for F2fsView {
    fn root(&self) -> Ino {
        ROOT_INODE.into()
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        self.name_in(&self.inode(directory).await?, name).await
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        let inode = self.inode(ino).await?;
        Ok(stat::of(inode.number, inode.kind, &inode.raw, inode.created, inode.device))
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.link_target(&self.inode(ino).await?).await
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, _manner: Manner) -> FsResult<Data> {
        let inode = self.inode(ino).await?;
        match inode.kind {
            FileKind::Regular => self.content(&inode, offset, length).await,
            FileKind::Directory => Err(FsError::IsDirectory(ino.to_string())),
            _ => Err(FsError::Invalid(format!("{ino} is no file"))),
        }
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        self.names(&self.inode(directory).await?, cursor).await
    }

    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.attribute_value(&self.inode(ino).await?, name).await
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.attribute_names(&self.inode(ino).await?).await
    }

    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64> {
        let inode = self.inode(ino).await?;
        match inode.kind {
            FileKind::Regular => self.seek_in(&inode, offset, target).await,
            _ => Err(FsError::Invalid(format!("{ino} is no file"))),
        }
    }

    async fn space(&self) -> FsResult<Space> {
        let raw = &self.tables.checkpoint.raw;
        let blocks = raw.user_block_count.get();
        let blocks_free = blocks.saturating_sub(raw.valid_block_count.get());
        // Numbers 0 to 2 are never given. Each node takes a block, too.
        let inodes = u64::from(self.tables.layout.nid_end() - ROOT_INODE.0).min(blocks);
        let inodes_free = inodes.saturating_sub(raw.valid_node_count.get().into()).min(blocks_free);
        Ok(Space { blocks, blocks_free, inodes, inodes_free })
    }
}
