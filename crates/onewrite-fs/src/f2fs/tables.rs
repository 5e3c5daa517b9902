//! Tables: from the superblock to the place of each node.
//!
//! Opening reads a superblock (the second if the first is damaged), the newer sound checkpoint pack and its journals.
//! After that a node's place costs at most one read of the NAT.

use std::collections::BTreeMap;
use std::fmt;

use onewrite_block::{DevicePort, PAGE_SIZE, Page};

use super::blocks::Blocks;
use super::format::checkpoint::{flags, verified_head};
use super::format::nat::{self, NatEntry};
use super::format::node::{self, Footer};
use super::format::sit::{self, LogKind, SitEntry, test_bit};
use super::format::summary::{self, JOURNAL_OFFSET, JOURNAL_SIZE};
use super::format::superblock::{RawSuperblock, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSET};
use super::format::{Checkpoint, DataAddress, FormatError, Inode, Layout, Nid, Place, SegmentNo};
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;

/// Copies of the superblock, and checkpoint packs.
pub(super) const COPIES: u8 = 2;

/// See the module's head.
pub(super) struct Tables {
    pub(super) blocks: Blocks,
    pub(super) layout: Layout,
    pub(super) checkpoint: Checkpoint,
    /// Newer NAT entries, by node.
    pub(super) nat_journal: BTreeMap<Nid, NatEntry>,
    /// Newer SIT entries, by segment.
    pub(super) sit_journal: BTreeMap<SegmentNo, SitEntry>,
    /// Damage that was got around: a bad copy of superblock or checkpoint.
    pub(super) warnings: Vec<Warning>,
}

/// Damage that was got around.
pub(super) struct Warning {
    pub(super) place: Place,
    /// What is wrong there, and what is used in its stead.
    pub(super) problem: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// The copies of the superblock, 0 and 1, that have F2FS's magic number.
///
/// # Errors
/// Device errors.
pub async fn marked_copies(port: &DevicePort) -> FsResult<[bool; 2]> {
    let blocks = Blocks::new(port, 1);
    let mut marked = [false; 2];
    for (copy, marked) in marked.iter_mut().enumerate().take(blocks.count().min(2) as usize) {
        let page = blocks.block(BlockNo(copy as u64)).await?;
        *marked = page.bytes()[SUPERBLOCK_OFFSET..].starts_with(&SUPERBLOCK_MAGIC.to_le_bytes());
    }
    Ok(marked)
}

impl Tables {
    /// Reads superblock, checkpoint and journals.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] for features that Onewrite lacks; [`FsError::Damaged`] if no copy of the superblock, or
    /// no checkpoint pack, or a journal is sound; device errors.
    pub(super) async fn open(port: &DevicePort, cache_pages: usize) -> FsResult<Tables> {
        let blocks = Blocks::new(port, cache_pages);
        let mut warnings = Vec::new();
        let layout = superblock(&blocks, &mut warnings).await?;
        if layout.main.end().0 > blocks.count() {
            let problem =
                format!("its main area ends at block {}, the device at {}", layout.main.end(), blocks.count());
            return Err(FsError::Damaged { place: "superblock".into(), problem });
        }
        let checkpoint = checkpoint(&blocks, &layout, &mut warnings).await?;
        let (nat_journal, sit_journal) = (BTreeMap::new(), BTreeMap::new());
        let mut tables = Tables { blocks, layout, checkpoint, nat_journal, sit_journal, warnings };
        tables.read_journals().await?;
        Ok(tables)
    }

    async fn read_journals(&mut self) -> FsResult<()> {
        let start = self.summaries_start();
        let hot = self.blocks.block(start).await?;
        let (nat, sit) = match self.checkpoint.has(flags::COMPACT) {
            true => (journal_at(&hot, 0), journal_at(&hot, JOURNAL_SIZE)),
            false => {
                let cold = self.blocks.block(start + LogKind::ColdData as u64).await?;
                (journal_at(&hot, JOURNAL_OFFSET), journal_at(&cold, JOURNAL_OFFSET))
            }
        };
        self.nat_journal = summary::nat_journal(&nat)?.into_iter().collect();
        self.sit_journal = summary::sit_journal(&sit)?.into_iter().collect();
        Ok(())
    }

    /// First block of the summaries in the checkpoint pack.
    pub(super) fn summaries_start(&self) -> BlockNo {
        self.layout.pack(self.checkpoint.pack) + u64::from(self.checkpoint.raw.cp_pack_start_sum.get())
    }

    /// The valid copy of block `index` of the NAT.
    pub(super) fn nat_block(&self, index: u64) -> BlockNo {
        self.layout.nat_copies(index)[usize::from(test_bit(&self.checkpoint.nat_bitmap, index as usize))]
    }

    /// The valid copy of block `index` of the SIT.
    pub(super) fn sit_block(&self, index: u64) -> BlockNo {
        self.layout.sit_copies(index)[usize::from(test_bit(&self.checkpoint.sit_bitmap, index as usize))]
    }

    /// Where node `nid` lies.
    pub(super) async fn nat_entry(&self, nid: Nid) -> FsResult<NatEntry> {
        if let Some(entry) = self.nat_journal.get(&nid) {
            return Ok(*entry);
        }
        let (block, index) = nat::position(nid);
        let page = self.blocks.block(self.nat_block(block)).await?;
        Ok(nat::entry(&page.bytes()[..], index))
    }

    /// What the SIT says about a segment.
    pub(super) async fn sit_entry(&self, segment: SegmentNo) -> FsResult<SitEntry> {
        if let Some(entry) = self.sit_journal.get(&segment) {
            return Ok(*entry);
        }
        let (block, index) = sit::position(segment);
        let page = self.blocks.block(self.sit_block(block)).await?;
        Ok(sit::entry(&page.bytes()[..], index))
    }

    /// The block of node `nid`, which belongs to inode `owner` at position `offset` of its tree.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the number is free; [`FsError::Damaged`] if NAT or footer disagree.
    pub(super) async fn node(&self, nid: Nid, owner: Nid, offset: u32) -> FsResult<Page> {
        if !self.layout.contains_node(nid) {
            return Err(FormatError::field(Place::Node(nid), "nid", nid.0, "there is no such number").into());
        }
        let entry = self.nat_entry(nid).await?;
        let DataAddress::Block(block) = entry.address else {
            return Err(FsError::NotFound(format!("node {nid} (its number is free)")));
        };
        if !self.layout.main.contains(block) {
            return Err(FormatError::field(Place::Nat(nid), "block_addr", block.0, "outside the main area").into());
        }
        let page = self.blocks.block(block).await?;
        let footer = node::footer(&page.bytes()[..]);
        expect_owner(&footer, &entry, &NamedNode { nid, owner, offset })?;
        Ok(page)
    }

    /// The inode `nid`, verified.
    ///
    /// # Errors
    /// As [`Tables::node`] and [`Inode::decode`].
    pub(super) async fn inode(&self, nid: Nid) -> FsResult<Inode> {
        let page = self.node(nid, nid, 0).await?;
        Ok(Inode::decode(&page.bytes()[..], nid, &self.layout)?)
    }
}

/// The journal at byte `at` of a block.
fn journal_at(page: &Page, at: usize) -> Vec<u8> {
    page.bytes()[at..at + JOURNAL_SIZE].to_vec()
}

/// A node as the tree of its inode names it.
pub(super) struct NamedNode {
    pub(super) nid: Nid,
    pub(super) owner: Nid,
    /// Its position in the tree.
    pub(super) offset: u32,
}

/// Ok if NAT and footer say that the node is this one, of this inode, at this position.
pub(super) fn expect_owner(footer: &Footer, entry: &NatEntry, node: &NamedNode) -> Result<(), FormatError> {
    let NamedNode { nid, owner, offset } = *node;
    let place = Place::Node(nid);
    if footer.nid != nid {
        return Err(FormatError::field(place, "footer's nid", footer.nid.0, "the NAT names another node here"));
    }
    if footer.ino != owner {
        return Err(FormatError::field(place, "footer's ino", footer.ino.0, "another inode names the node"));
    }
    if entry.ino != owner {
        return Err(FormatError::field(Place::Nat(nid), "ino", entry.ino.0, "another inode names the node"));
    }
    match footer.offset == offset {
        true => Ok(()),
        false => Err(FormatError::field(place, "footer's offset", footer.offset, "it is named for another place")),
    }
}

async fn superblock(blocks: &Blocks, warnings: &mut Vec<Warning>) -> FsResult<Layout> {
    let mut first_error = None;
    for copy in 0..COPIES {
        let page = blocks.block(BlockNo(copy.into())).await?;
        let decoded = RawSuperblock::in_block(&page.bytes()[..], copy).and_then(|raw| Layout::decode(&raw, copy));
        match decoded {
            Ok(found) => {
                if let Some(FormatError::Damaged { place, problem }) = first_error {
                    warnings.push(Warning { place, problem: format!("{problem}; the second copy is used") });
                }
                return Ok(found);
            }
            Err(error @ FormatError::Unsupported { .. }) => return Err(error.into()),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.expect("both copies were tried").into())
}

/// The sound pack with the higher version.
async fn checkpoint(blocks: &Blocks, layout: &Layout, warnings: &mut Vec<Warning>) -> FsResult<Checkpoint> {
    let first = pack(blocks, layout, 0).await;
    let second = pack(blocks, layout, 1).await;
    match (first, second) {
        // Versions wrap around: the newer is a little ahead.
        (Ok(first), Ok(second)) if (second.version().wrapping_sub(first.version()) as i64) > 0 => Ok(second),
        (Ok(first), Ok(_)) => Ok(first),
        (Ok(sound), Err(FsError::Damaged { problem, .. })) | (Err(FsError::Damaged { problem, .. }), Ok(sound)) => {
            let place = Place::Checkpoint(1 - sound.pack);
            warnings.push(Warning { place, problem: format!("{problem}; the other pack is used") });
            Ok(sound)
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// Reads pack `pack`; it is sound if its head and the repetition of it agree.
pub(super) async fn pack(blocks: &Blocks, layout: &Layout, pack: u8) -> FsResult<Checkpoint> {
    let start = layout.pack(pack);
    let mut bytes = Vec::with_capacity(PAGE_SIZE * (1 + layout.payload_blocks as usize));
    for index in 0..=u64::from(layout.payload_blocks) {
        bytes.extend_from_slice(&blocks.block(start + index).await?.bytes()[..]);
    }
    let checkpoint = Checkpoint::decode(&bytes, layout, pack)?;
    let last = u64::from(checkpoint.raw.cp_pack_total_block_count.get()) - 1;
    let page = blocks.block(start + last).await?;
    let (end, _) = verified_head(&page.bytes()[..], pack)?;
    if end.checkpoint_ver != checkpoint.raw.checkpoint_ver {
        let rule = "head and end of the pack have one version";
        return Err(
            FormatError::field(Place::Checkpoint(pack), "checkpoint_ver", end.checkpoint_ver.get(), rule).into()
        );
    }
    Ok(checkpoint)
}
