//! Repair: finds faults as the checker does, and plans the blocks that correct them.
//!
//! Nothing here writes. A repair plans over an overlay of changed blocks, in rounds of passes, until the checker finds
//! nothing. The caller then writes [`Repaired::blocks`]. Invariant: no repair makes an image worse. A plan has no
//! blocks to write if it does not end clean, or if the caller asked for safe repairs and one is not safe.
//!
//! ```text
//!   superblock ─► groups ─► orphans ─► inodes ─► maps ─► special ─► directories ─► links ─► counts ─► check
//!                 claims    released   claims    made               names,         counted  bitmaps
//!                                                anew               lost+found              made anew
//! ```
//!
//! The first owner of a block keeps it: the layout itself, then inodes by number. A later owner gets a copy while there
//! is room, else it loses the block. Bitmaps and counts always follow from the use found.
//!
//! Memory: the checker's, 4 KiB for each changed block, and 40 bytes for each copied block. `docs/decisions/042` says
//! how each kind of damage is repaired.

mod attributes;
mod backups;
mod block_map;
mod blocks;
mod change;
mod connect;
mod content;
mod counts;
mod directories;
mod groups;
mod inodes;
mod maps;
mod overlay;
mod shared;
mod special;
mod superblock;
mod tables;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use onewrite_block::Page;

use crate::api::FileKind;
use crate::block::BlockNo;
use crate::check::blocks::BlockUse;
use crate::check::{CheckOptions, INDEX_CURE, ReadBlocks, Report, check};
use crate::ext4::format::{InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock};
use backups::Trial;
pub use change::Change;
use content::Rebuild;
use overlay::{Changes, Overlay};

/// Rounds of passes after which a repair gives up.
const ROUNDS_MAX: usize = 8;
/// Most shared blocks and runs of blocks that a repair accepts; it ignores further ones as nonsense.
const SHARED_MAX: u64 = 1 << 20;

/// Which repairs may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Repairs without loss: counts, bitmaps, orphans, link counts, checksums of sound content.
    Safe,
    /// All repairs. They drop unusable parts and move files without a name to `lost+found`.
    All,
}

/// How to repair.
#[derive(Clone, Copy, Debug)]
pub struct RepairOptions {
    /// Which repairs may be made.
    pub manner: Manner,
    /// Seconds since 1970, for times of deletion and for new inodes.
    pub unix_time: u32,
}

/// What a repair found and planned.
#[derive(Debug)]
pub struct Repaired {
    /// The check before the repair.
    pub before: Report,
    /// The check with all changes in place.
    pub after: Report,
    /// With all changes, allowed or not, the image is clean.
    pub is_complete: bool,
    /// Why no repair is possible, with the cure if there is one.
    pub refusal: Option<String>,
    /// The repairs in order. The list is complete even if they are not allowed, so that the caller can print it.
    pub changes: Vec<Change>,
    /// Blocks that become copies of others: target and source. Copy them before writing [`Repaired::blocks`].
    pub copies: BTreeMap<BlockNo, BlockNo>,
    /// The changed blocks to write; none if the repair is not allowed or leaves damage.
    pub blocks: BTreeMap<BlockNo, Page>,
}

/// Checks the image behind `reader` and plans its repair.
///
/// Replay the log first: a repair empties a log that still holds changes, and loses them.
pub async fn repair<R: ReadBlocks>(reader: &R, options: &RepairOptions) -> Repaired {
    let every = CheckOptions { findings_max: 1 << 20 };
    let before = check(reader, &every).await;
    let is_sound = before.is_clean() && before.notes.is_empty() && before.orphans == 0 && !before.needs_recovery;
    let (mut after, mut changes, mut plan, mut refusal) = (before.clone(), Vec::new(), Changes::default(), None);
    if is_sound || before.has_unknown_features {
        let is_complete = before.is_clean();
        return Repaired { before, after, is_complete, refusal, changes, copies: plan.copies, blocks: plan.pages };
    }
    let mut trial = Trial::new(reader, &every, before.clone());
    trial.run().await;
    (after, changes, plan) = (trial.report, trial.changes, trial.plan);
    let mut widened = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let bad_indexes = after.findings.iter().filter(|finding| finding.cure == INDEX_CURE);
        let bad_indexes = bad_indexes.filter_map(|finding| finding.place.inode()).collect();
        let known = Known { options: *options, widened: &widened, bad_indexes };
        let overlay = Overlay::new(reader, plan.clone());
        let (found, more, overlay) = match mend(overlay, known).await {
            Ok(round) => round,
            Err(why) => {
                refusal = Some(why);
                break;
            }
        };
        if !more.is_empty() {
            widened.extend(more);
            continue;
        }
        after = check(&overlay, &every).await;
        changes.extend(found);
        plan = overlay.into_changes();
        if after.is_clean() {
            break;
        }
    }
    let is_allowed = options.manner == Manner::All || changes.iter().all(|change| change.is_safe);
    let is_complete = refusal.is_none() && after.is_clean();
    if !is_complete || !is_allowed {
        (after, plan) = (before.clone(), Changes::default());
    }
    Repaired { before, after, is_complete, refusal, changes, copies: plan.copies, blocks: plan.pages }
}

/// Knowledge at the start of a round.
struct Known<'a> {
    options: RepairOptions,
    /// Groups whose whole inode tables the round reads, whatever their descriptors say.
    widened: &'a BTreeSet<u32>,
    /// Directories with a hash tree that the checker could not follow.
    bad_indexes: BTreeSet<InodeNo>,
}

/// One round: the repairs, the groups to widen before another, and the changed image.
///
/// # Errors
/// Why no repair is possible.
async fn mend<'a, R: ReadBlocks>(
    overlay: Overlay<'a, R>,
    known: Known<'_>,
) -> Result<(Vec<Change>, BTreeSet<u32>, Overlay<'a, R>), String> {
    let mut changes = Vec::new();
    let lost = || "the superblock makes no sense, and no backup of it was found".to_owned();
    let (raw, layout) = superblock::take(&overlay, &mut changes).await.ok_or_else(lost)?;
    let mut mender = Mender {
        options: known.options,
        widened: known.widened.clone(),
        bad_indexes: known.bad_indexes,
        used: BlockUse::new(&layout),
        fixed: BlockUse::new(&layout),
        files: (0..layout.group_count).map(|_| Vec::new()).collect(),
        image: overlay,
        raw,
        layout,
        changes,
        descriptors: Vec::new(),
        released: BTreeSet::new(),
        truncated: BTreeSet::new(),
        rebuilds: Vec::new(),
        attribute_blocks: BTreeMap::new(),
        to_widen: BTreeSet::new(),
        shared_attributes: BTreeMap::new(),
        unsealed: BTreeMap::new(),
        shared_left: SHARED_MAX,
        next_free: BlockNo::FIRST,
    };
    mender.run().await?;
    Ok((mender.changes, mender.to_widen, mender.image))
}

/// What the repair knows about an inode.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    used: bool,
    kind: Option<FileKind>,
    /// Number of entries that name it, without `.` and `..`.
    names: u32,
    /// Number of directories in it.
    children: u32,
    /// The first directory that names it.
    parent: InodeNo,
}

/// What the passes share.
struct Mender<'a, R> {
    options: RepairOptions,
    widened: BTreeSet<u32>,
    bad_indexes: BTreeSet<InodeNo>,
    image: Overlay<'a, R>,
    raw: RawSuperblock,
    layout: Layout,
    changes: Vec<Change>,
    descriptors: Vec<RawGroupDescriptor>,
    /// Blocks in use, as found so far.
    used: BlockUse,
    /// Blocks of the layout itself.
    fixed: BlockUse,
    /// The inodes of each group that have been read.
    files: Vec<Vec<File>>,
    /// Orphans to remove or to shorten.
    released: BTreeSet<InodeNo>,
    truncated: BTreeSet<InodeNo>,
    rebuilds: Vec<Rebuild>,
    /// Attribute blocks with their number of inodes; 0 if the block is unusable.
    attribute_blocks: BTreeMap<BlockNo, u32>,
    to_widen: BTreeSet<u32>,
    /// Attribute blocks with another owner, with the inodes that name them.
    shared_attributes: BTreeMap<BlockNo, Vec<InodeNo>>,
    /// Nodes with a wrong checksum, with the checksum seed.
    unsealed: BTreeMap<BlockNo, u32>,
    /// Shared blocks and runs that the repair may still accept.
    shared_left: u64,
    next_free: BlockNo,
}

impl<R: ReadBlocks> Mender<'_, R> {
    /// All passes.
    ///
    /// # Errors
    /// Why the image cannot be repaired.
    async fn run(&mut self) -> Result<(), String> {
        self.group_pass().mend_groups().await?;
        self.group_pass().release_orphans().await;
        self.inode_pass().mend_inodes().await;
        self.directory_pass().mend_root().await;
        if !self.to_widen.is_empty() {
            return Ok(());
        }
        self.map_pass().make_rebuilds().await;
        self.inode_pass().count_attribute_blocks().await;
        self.special_pass().mend_journal().await?;
        self.special_pass().mend_resize_inode().await;
        self.directory_pass().mend_directories().await;
        if !self.to_widen.is_empty() {
            return Ok(());
        }
        self.directory_pass().connect().await;
        self.directory_pass().mend_links().await;
        self.group_pass().write_counts().await
    }

    /// Notes a repair that loses nothing.
    fn note(&mut self, place: Place, what: impl Display) {
        self.changes.push(Change { place, what: what.to_string(), is_safe: true });
    }

    /// Notes a repair that may lose something.
    fn note_loss(&mut self, place: Place, what: impl Display) {
        self.changes.push(Change { place, what: what.to_string(), is_safe: false });
    }

    async fn read(&self, block: BlockNo) -> Option<Page> {
        self.image.read_block(block).await.ok()
    }

    fn file(&mut self, inode: InodeNo) -> Option<&mut File> {
        let number = inode.index()?;
        let group = self.files.get_mut((number / self.layout.inodes_per_group) as usize)?;
        group.get_mut((number % self.layout.inodes_per_group) as usize)
    }

    fn look(&self, inode: InodeNo) -> File {
        let Some(number) = inode.index() else { return File::default() };
        let group = self.files.get((number / self.layout.inodes_per_group) as usize);
        let file = group.and_then(|group| group.get((number % self.layout.inodes_per_group) as usize));
        file.copied().unwrap_or_default()
    }

    /// All inodes in use, by number.
    fn used_inodes(&self) -> Vec<InodeNo> {
        let numbers = |(group, files): (usize, &Vec<File>)| {
            let first = group as u32 * self.layout.inodes_per_group + 1;
            (first..).zip(files).filter(|(_, file)| file.used).map(|(number, _)| InodeNo(number)).collect::<Vec<_>>()
        };
        self.files.iter().enumerate().flat_map(numbers).collect()
    }
}
