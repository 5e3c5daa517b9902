//! The checker of F2FS: reads an image and reports each fault with its place.
//!
//! It writes nothing, panics on no image, and ends on any image: it claims each node and each block of content before
//! it follows it, so it follows none twice. Memory: 74 bytes and 512 bits for each segment, some 60 bytes for each node
//! and each inode in use. `docs/f2fs.md` says where it differs from `fsck.f2fs`.
//!
//! ```text
//!   superblocks, checkpoint ─► NAT, SIT ─► walk from the root, quota files, orphans ─► what the walk did not meet
//!                              entries       nodes, content, names, summaries            NAT, bitmaps, links, counts
//! ```
//!
//! Each stage reports damage and continues with what it can still trust. Without a sound superblock and checkpoint
//! nothing can be checked.

mod claims;
mod counts;
mod names;
mod owners;
mod report;
mod tables;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::DevicePort;

use super::format::checkpoint::{StagePlace, flags};
use super::format::layout::{ROOT_INODE, SEGMENT_BLOCKS};
use super::format::nat::NatEntry;
use super::format::sit::SitEntry;
use super::format::{Nid, Place};
use super::stage::area::{Area, problem_of};
use super::stage::merge::Merged;
use super::summaries::Summaries;
use super::tables::Tables;
use crate::api::{FileKind, FsResult};
use claims::Claims;
pub use report::{Finding, Report};

/// Metadata pages kept in memory.
const CACHE_PAGES: usize = 4096;

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

/// Checks the image on `port`.
///
/// # Errors
/// [`FsError::Unsupported`](crate::FsError::Unsupported) for features that Onewrite lacks;
/// [`FsError::Damaged`](crate::FsError::Damaged) if there is no sound superblock or checkpoint; device errors.
pub async fn check(port: &DevicePort, options: &CheckOptions) -> FsResult<Report> {
    let tables = Tables::open(port, CACHE_PAGES).await?;
    let mut checker = Checker::new(tables, options).await?;
    checker.run(port).await?;
    Ok(checker.report)
}

/// What is known of an inode.
#[derive(Clone, Copy, Debug)]
struct Known {
    kind: FileKind,
    /// Names that it says it has.
    links: u32,
    /// Names that were found; of a directory, with those of itself and its children.
    found: u32,
}

/// An inode to look at, and how it was named.
#[derive(Clone, Copy, Debug)]
struct Named {
    nid: Nid,
    /// The directory that names it; [`Nid::NONE`] for quota files and orphans.
    parent: Nid,
    /// What the name says that it is.
    kind: Option<FileKind>,
}

/// What the stages share.
struct Checker {
    tables: Tables,
    report: Report,
    /// Entries of the NAT in use.
    nat: BTreeMap<Nid, NatEntry>,
    /// Entries of the SIT, by segment.
    sit: Vec<SitEntry>,
    summaries: Summaries,
    claims: Claims,
    /// Nodes that the walk met.
    nodes: BTreeSet<Nid>,
    inodes: BTreeMap<Nid, Known>,
    orphans: Vec<Nid>,
    pending: Vec<Named>,
    /// Blocks that are reserved but have no address.
    reserved: u64,
}

impl Checker {
    async fn new(tables: Tables, options: &CheckOptions) -> FsResult<Checker> {
        let mut report = Report::new(options.findings_max);
        for warning in &tables.warnings {
            report.note(warning.place, &warning.problem);
        }
        let summaries = Summaries::read(&tables).await?;
        Ok(Checker {
            claims: Claims::new(tables.layout.main_segments as usize * SEGMENT_BLOCKS as usize),
            tables,
            report,
            nat: BTreeMap::new(),
            sit: Vec::new(),
            summaries,
            nodes: BTreeSet::new(),
            inodes: BTreeMap::new(),
            orphans: Vec::new(),
            pending: Vec::new(),
            reserved: 0,
        })
    }

    async fn run(&mut self, port: &DevicePort) -> FsResult<()> {
        self.check_copies().await?;
        self.read_nat().await?;
        self.read_sit().await?;
        self.read_orphans().await?;
        self.pending.push(Named { nid: ROOT_INODE, parent: ROOT_INODE, kind: Some(FileKind::Directory) });
        let quota = self.tables.layout.quota_inodes.into_iter().filter(|nid| nid.is_some());
        let nameless = quota.chain(self.orphans.clone());
        self.pending.extend(nameless.map(|nid| Named { nid, parent: Nid::NONE, kind: None }));
        while let Some(named) = self.pending.pop() {
            self.check_inode(named).await?;
        }
        self.check_links();
        self.check_claims();
        self.check_counts();
        if self.tables.checkpoint.has(flags::FSCK | flags::ERROR) {
            self.report.add(Place::Current, "it is marked as in need of fsck");
        }
        if !self.tables.checkpoint.has(flags::UMOUNT) {
            let was_clean = self.report.is_clean();
            let behind = self.behind(port).await?.map_or_else(String::new, |behind| format!("; {behind}"));
            self.report.is_of_stage_alone = was_clean && !self.report.is_clean();
            self.report.note(Place::Current, format!("the image was not unmounted{behind}"));
        }
        Ok(())
    }

    /// What is told of what fsyncs made durable behind the checkpoint. If a staging area behind the image is damaged,
    /// or is not there, that is a finding, and nothing else is told.
    async fn behind(&mut self, port: &DevicePort) -> FsResult<Option<&'static str>> {
        const NEXT: &str = "what fsync made durable behind it comes with the next mount";
        let Some(mark) = self.tables.checkpoint.stage else { return Ok(Some(NEXT)) };
        let area = Area::behind(port, &self.tables.layout).await?.filter(|area| area.mark() == mark);
        let Some(area) = area else {
            if mark.place == StagePlace::Apart {
                return Ok(Some(mark.place.missing()));
            }
            self.report.add(Place::Current, mark.place.missing());
            return Ok(None);
        };
        let version = self.tables.checkpoint.version();
        let scanned = area.scan(version, true).await?;
        if let Err(error) = scanned.expect_whole(version).and_then(|()| Merged::of(&scanned).map(drop)) {
            self.report.add(Place::Current, problem_of(&error));
            return Ok(None);
        }
        Ok(Some(NEXT))
    }
}
