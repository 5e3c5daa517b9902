//! The checker: reads an image and reports each fault, its place and its cure.
//!
//! It writes nothing, panics on no image, and ends on any image: it claims every metadata block before it follows it,
//! so it follows no block twice. Memory: a bit for each block of a group in use, 20 bytes for each inode that may be in
//! use, 16 bytes for each block of a directory and for each name of the largest directory. The work is proportional to
//! the blocks and inodes in use. `docs/decisions/042` says what counts as damage.
//!
//! ```text
//!   superblock ─► groups ─► orphans ─► inodes ─► directories ─► tree ─► counts
//!     layout      claims     list       claims      names       paths    bitmaps, free counts
//! ```
//!
//! Each stage uses the results of earlier stages in [`Checker`]. A stage reports damage and continues with the parts
//! that it can still trust. Only an unusable superblock ends the check.
//!
//! A log that waits for replay is not damage, but replay it first ([`Report::needs_recovery`]).

mod attributes;
pub(crate) mod blocks;
pub(crate) mod counts;
mod directories;
mod directory;
pub(crate) mod disguise;
mod groups;
mod htree;
pub(crate) mod indirect;
mod inodes;
pub(crate) mod map;
pub(crate) mod orphans;
pub(crate) mod read;
mod report;
pub(crate) mod special;
mod table;
mod tree;
mod views;

use std::borrow::Cow;

use onewrite_block::Page;

use crate::block::{BlockNo, BlockRange};
use crate::ext4::format::features::Incompat;
use crate::ext4::format::group::INODE_UNINIT;
use crate::ext4::format::{InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock};
use crate::ext4::lost;
use blocks::BlockUse;
use directory::{Directory, DirectoryBlock};
pub use read::{ReadBlocks, ReadError};
pub use report::{Finding, Report};
use table::InodeTable;

/// How to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Most findings to keep; the check still runs to its end.
    pub findings_max: usize,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { findings_max: 1_000 }
    }
}

/// Checks the image behind `reader`.
pub async fn check<R: ReadBlocks>(reader: &R, options: &CheckOptions) -> Report {
    let mut report = Report::new(options.findings_max);
    if let Some((raw, layout)) = read_layout(reader, &mut report).await {
        let mut checker = Checker::new(reader, raw, layout, report);
        checker.run().await;
        report = checker.report;
    }
    report
}

/// The cure for a damaged hash tree.
pub(crate) const INDEX_CURE: &str = "e2fsck -fD rebuilds the index";

/// The cure for a damaged superblock; names a backup if there is a sound one.
async fn superblock_cure<R: ReadBlocks>(reader: &R) -> String {
    match lost::find(reader).await {
        Some(place) => format!("restore it from its backup: `onewrite fsck -y`, or {place}"),
        None => "no backup of it was found: copy the image before anything is tried".to_owned(),
    }
}

async fn read_layout<R: ReadBlocks>(reader: &R, report: &mut Report) -> Option<(RawSuperblock, Layout)> {
    let page = match reader.read_block(BlockNo::FIRST).await {
        Ok(page) => page,
        Err(error) => {
            report.add(Place::Superblock, error, "check the device");
            return None;
        }
    };
    let decoded = RawSuperblock::in_first_block(&page.bytes()[..])
        .and_then(|raw| Layout::decode(raw).map(|layout| (raw.clone(), layout)));
    let (raw, layout) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            report.add(Place::Superblock, error, superblock_cure(reader).await);
            return None;
        }
    };
    let known = layout.features.check_writable().and_then(|()| layout.features.check_known());
    if let Err(error) = known {
        report.has_unknown_features = true;
        report.add(Place::Superblock, error, "check it with a tool that knows the features");
        return None;
    }
    if let Err(error) = reader.read_block(BlockNo(layout.block_count - 1)).await {
        let problem = format!("the image is shorter than the {} blocks of its superblock: {error}", layout.block_count);
        report.add(Place::Superblock, problem, "restore the missing end of the image");
        return None;
    }
    Some((raw, layout))
}

/// What the stages share.
struct Checker<'a, R> {
    reader: &'a R,
    superblock: RawSuperblock,
    layout: Layout,
    report: Report,
    descriptors: Vec<RawGroupDescriptor>,
    blocks: BlockUse,
    inodes: InodeTable,
    /// Inodes on the orphan list, sorted.
    orphans: Vec<InodeNo>,
    directories: Vec<Directory>,
    directory_blocks: Vec<DirectoryBlock>,
    /// Attribute blocks with the number of inodes that name each, sorted by block.
    attribute_blocks: Vec<(BlockNo, u32)>,
    large_files: bool,
    /// The cure for damaged group descriptors.
    groups_cure: Cow<'static, str>,
}

impl<'a, R: ReadBlocks> Checker<'a, R> {
    fn new(reader: &'a R, superblock: RawSuperblock, layout: Layout, mut report: Report) -> Checker<'a, R> {
        report.needs_recovery = layout.features.incompat.contains(Incompat::RECOVER);
        Checker {
            reader,
            superblock,
            report,
            descriptors: Vec::new(),
            blocks: BlockUse::new(&layout),
            inodes: InodeTable::new(&layout),
            layout,
            orphans: Vec::new(),
            directories: Vec::new(),
            directory_blocks: Vec::new(),
            attribute_blocks: Vec::new(),
            large_files: false,
            groups_cure: Cow::Borrowed("e2fsck -f"),
        }
    }

    async fn run(&mut self) {
        self.check_groups().await;
        self.check_orphans().await;
        self.inode_stage().check_inodes().await;
        self.inode_stage().check_attribute_references().await;
        self.check_special().await;
        self.directory_stage().check_directories().await;
        self.directory_stage().check_tree();
        self.check_counts().await;
    }

    /// Reads a block; an error becomes a finding.
    async fn read(&mut self, block: BlockNo, place: Place) -> Option<Page> {
        match self.reader.read_block(block).await {
            Ok(page) => Some(page),
            Err(error) => {
                self.report.add(place, format!("block {block}: {error}"), "check the device");
                None
            }
        }
    }

    /// Marks blocks as in use by `place`. False, with a finding, if one is outside the image or already in use.
    fn claim(&mut self, run: BlockRange, place: Place) -> bool {
        if !self.layout.contains_block(run.start) || !run.ends_by(self.layout.end()) {
            let BlockRange { start, count: length } = run;
            self.report.add(place, format!("block {start}, length {length}, lies beyond the image"), "e2fsck -f");
            return false;
        }
        match self.blocks.claim(run) {
            None => true,
            Some(block) => {
                let cure = "e2fsck -f gives each owner a copy of its own";
                self.report.add(place, format!("block {block} belongs to something else too"), cure);
                false
            }
        }
    }

    /// Largest possible file, in bytes.
    pub(super) fn file_size_max(&self) -> u64 {
        u64::from(self.layout.block_size) * ((1 << 32) - 1)
    }

    /// Whether the inode bitmap of a group has been written.
    pub(super) fn has_inode_bitmap(&self, group: u32) -> bool {
        let descriptor = &self.descriptors[group as usize];
        !descriptor.has(INODE_UNINIT, &self.layout) && descriptor.inode_bitmap().is_some()
    }
}
