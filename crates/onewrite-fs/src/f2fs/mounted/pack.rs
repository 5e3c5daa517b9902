//! Pack: the blocks of a checkpoint, computed from what changed.

use std::collections::BTreeMap;

use onewrite_block::{PAGE_SIZE, Page};
use zerocopy::little_endian::{U32, U64};

use super::stage::Stage;
use super::views::Checkpoints;
use crate::api::FsResult;
use crate::block::BlockNo;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::nat::{self, NatEntry};
use crate::f2fs::format::sit::{self, LogKind, SitEntry, clear_bit, set_bit, test_bit};
use crate::f2fs::format::summary::{
    ENTRIES, ENTRY_SIZE, JOURNAL_OFFSET, JOURNAL_SIZE, NAT_JOURNAL_MAX, SIT_JOURNAL_MAX, compact_blocks,
    compact_places, nat_journal_of, sit_journal_of,
};
use crate::f2fs::format::{Checkpoint, Nid, SegmentNo, orphan};

/// Why a checkpoint is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// To make changes durable.
    Running,
    /// Behind a crash: nodes that are written from now on have another version than those that were lost.
    Mount,
    /// For an unmount: nothing follows it.
    Unmount,
}

/// How entries of a table become durable: in the journal of a summary, or in blocks.
pub(super) struct Planned<K, E> {
    pub(super) journal: BTreeMap<K, E>,
    pub(super) blocks: Vec<(BlockNo, Page)>,
    /// The bitmap of valid copies.
    bitmap: Vec<u8>,
}

/// The blocks of a pack, its end last, and what they say.
pub(super) struct Pack {
    pub(super) blocks: Vec<(BlockNo, Page)>,
    pub(super) checkpoint: Checkpoint,
}

const DATA_LOGS: [LogKind; 3] = [LogKind::HotData, LogKind::WarmData, LogKind::ColdData];
const NODE_LOGS: [LogKind; 3] = [LogKind::HotNode, LogKind::WarmNode, LogKind::ColdNode];

impl Checkpoints<'_> {
    /// Plans how changed entries of the NAT become durable.
    pub(super) async fn plan_nat(&self) -> FsResult<Planned<Nid, NatEntry>> {
        let entries = self.numbers.borrow().entries();
        let bitmap = self.checkpoint.borrow().nat_bitmap.clone();
        if entries.len() <= NAT_JOURNAL_MAX {
            return Ok(Planned { journal: entries, blocks: Vec::new(), bitmap });
        }
        let copies = |index| self.layout.nat_copies(index);
        let put = |bytes: &mut [u8], index, entry: &NatEntry| nat::put_entry(bytes, index, *entry);
        self.plan_blocks(&entries, bitmap, nat::position, copies, put).await
    }

    /// Plans how changed entries of the SIT become durable.
    pub(super) async fn plan_sit(&self) -> FsResult<Planned<SegmentNo, SitEntry>> {
        let mut entries = self.sit_journal.borrow().clone();
        entries.extend(self.space.borrow().changed_entries());
        let bitmap = self.checkpoint.borrow().sit_bitmap.clone();
        if entries.len() <= SIT_JOURNAL_MAX {
            return Ok(Planned { journal: entries, blocks: Vec::new(), bitmap });
        }
        let copies = |index| self.layout.sit_copies(index);
        self.plan_blocks(&entries, bitmap, sit::position, copies, sit::put_entry).await
    }

    /// Plans blocks with these entries, each in the copy that is not valid now.
    async fn plan_blocks<K: Copy + Ord, E>(
        &self,
        entries: &BTreeMap<K, E>,
        mut bitmap: Vec<u8>,
        position: impl Fn(K) -> (u64, usize),
        copies: impl Fn(u64) -> [BlockNo; 2],
        put: impl Fn(&mut [u8], usize, &E),
    ) -> FsResult<Planned<K, E>> {
        let mut blocks: Vec<(BlockNo, Page)> = Vec::new();
        let mut current = None;
        for (key, entry) in entries {
            let (block, index) = position(*key);
            if current != Some(block) {
                current = Some(block);
                let valid = usize::from(test_bit(&bitmap, block as usize));
                let page = self.read_block(copies(block)[valid]).await?;
                blocks.push((copies(block)[1 - valid], page));
                match valid {
                    0 => set_bit(&mut bitmap, block as usize),
                    _ => clear_bit(&mut bitmap, block as usize),
                }
            }
            let (_, page) = blocks.last_mut().expect("just pushed");
            put(&mut page.bytes_mut()[..], index, entry);
        }
        Ok(Planned { journal: BTreeMap::new(), blocks, bitmap })
    }

    /// Plans the pack.
    pub(super) fn plan_pack(
        &self,
        numbers: &Planned<Nid, NatEntry>,
        segments: &Planned<SegmentNo, SitEntry>,
        reason: Reason,
    ) -> Pack {
        let orphans: Vec<Nid> = self.orphans.all();
        let orphans = orphan::blocks(&orphans);
        onewrite_block::reached!("checkpoint with orphans", !orphans.is_empty());
        let (summaries, is_compact) = self.summaries(numbers, segments, reason);
        let mut checkpoint = self.checkpoint.borrow().clone();
        checkpoint.pack = 1 - checkpoint.pack;
        (checkpoint.nat_bitmap, checkpoint.sit_bitmap) = (numbers.bitmap.clone(), segments.bitmap.clone());
        let kept = flags::LARGE_NAT_BITMAP | flags::ERROR | flags::FSCK;
        let set = [
            (flags::CRC_RECOVERY, true),
            (flags::COMPACT, is_compact),
            (flags::ORPHANS, !orphans.is_empty()),
            (flags::UMOUNT, reason == Reason::Unmount),
        ];
        let new = set.into_iter().filter(|(_, is_set)| *is_set).fold(0, |flags, (flag, _)| flags | flag);
        let raw = &mut checkpoint.raw;
        raw.ckpt_flags.set(raw.ckpt_flags.get() & kept | new);
        raw.checkpoint_ver.set(raw.checkpoint_ver.get().wrapping_add(1));
        let start = 1 + self.layout.payload_blocks + orphans.len() as u32;
        raw.cp_pack_start_sum = U32::new(start);
        raw.cp_pack_total_block_count = U32::new(start + summaries.len() as u32 + 1);
        checkpoint.stage = self.stage.as_ref().filter(|_| reason != Reason::Unmount).map(Stage::mark);
        self.put_counts(&mut checkpoint);
        let head = checkpoint.encode(&self.layout);
        let mut bytes: Vec<&[u8]> = head.chunks(PAGE_SIZE).collect();
        bytes.extend(orphans.iter().map(|block| &block[..]));
        bytes.extend(summaries.iter().map(|block| &block[..]));
        bytes.push(&head[..PAGE_SIZE]);
        let first = self.layout.pack(checkpoint.pack);
        let pages = bytes.into_iter().map(Page::from_slice);
        let blocks = (first.0..).map(BlockNo).zip(pages).collect();
        Pack { blocks, checkpoint }
    }

    fn put_counts(&self, checkpoint: &mut Checkpoint) {
        let space = self.space.borrow();
        let counts = space.counts();
        for kind in LogKind::ALL {
            checkpoint.set_log(kind, space.log(kind).position());
        }
        let raw = &mut checkpoint.raw;
        raw.valid_block_count = U64::new(counts.blocks);
        raw.free_segment_count = U32::new(space.empty_segments());
        raw.valid_node_count = U32::new(counts.nodes);
        raw.valid_inode_count = U32::new(counts.inodes);
        raw.next_free_nid = U32::new(self.numbers.borrow().next_free().0);
        raw.elapsed_time = U64::new(space.age);
    }

    /// The summaries of the logs, with the journals; and whether those of content are compact.
    fn summaries(
        &self,
        numbers: &Planned<Nid, NatEntry>,
        segments: &Planned<SegmentNo, SitEntry>,
        reason: Reason,
    ) -> (Vec<Vec<u8>>, bool) {
        let space = self.space.borrow();
        let nat = nat_journal_of(&numbers.journal.iter().map(|(nid, entry)| (*nid, *entry)).collect::<Vec<_>>());
        let sit =
            sit_journal_of(&segments.journal.iter().map(|(segment, entry)| (*segment, *entry)).collect::<Vec<_>>());
        let logs = DATA_LOGS.map(|kind| space.log(kind));
        let counts = logs.map(|log| {
            let position = log.position();
            if position.is_threaded { ENTRIES } else { usize::from(position.next) }
        });
        let is_compact = compact_blocks(counts) < logs.len();
        onewrite_block::reached!("checkpoint with whole summaries", !is_compact);
        let mut blocks: Vec<Vec<u8>>;
        if is_compact {
            blocks = vec![vec![0; PAGE_SIZE]; compact_blocks(counts)];
            blocks[0][..JOURNAL_SIZE].copy_from_slice(&nat);
            blocks[0][JOURNAL_SIZE..2 * JOURNAL_SIZE].copy_from_slice(&sit);
            let owners = logs.iter().zip(counts).flat_map(|(log, count)| (0..count).map(|index| (log.owners(), index)));
            for ((owners, index), (block, at)) in owners.zip(compact_places(counts)) {
                blocks[block][at..at + ENTRY_SIZE].copy_from_slice(&owners[index * ENTRY_SIZE..][..ENTRY_SIZE]);
            }
        } else {
            blocks = logs.iter().map(|log| log.owners().to_vec()).collect();
            blocks[LogKind::HotData as usize][JOURNAL_OFFSET..][..JOURNAL_SIZE].copy_from_slice(&nat);
            blocks[LogKind::ColdData as usize][JOURNAL_OFFSET..][..JOURNAL_SIZE].copy_from_slice(&sit);
        }
        if reason == Reason::Unmount {
            blocks.extend(NODE_LOGS.map(|kind| space.log(kind).owners().to_vec()));
        }
        (blocks, is_compact)
    }
}
