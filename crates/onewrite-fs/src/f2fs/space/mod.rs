//! Space: which blocks of the main area are in use, where the six logs stand, and how much is left.
//!
//! Its one idea: between two checkpoints a block changes only from free to used. A block that is given back stays as it
//! is until the next checkpoint is durable, so the last checkpoint and the nodes that fsyncs wrote behind it find
//! everything that they name.
//!
//! ```text
//!   free segment ──► a log's ──► full ──► its blocks are given back one by one ──► empty ──► checkpoint ──► free
//!                      ▲                        │ few free segments are left
//!                      └── its free blocks ◄────┘
//! ```
//!
//! # Invariants
//! - A log never takes a block that is in use, was in use at the last checkpoint, or was taken since.
//! - A segment holds either content or nodes while any of its blocks is in use.
//! - A segment is free if none of its blocks is in use, was in use at the last checkpoint, or was taken since, and no
//!   log stands in it.

mod free;
mod logs;
mod sections;
mod segment;
mod threads;
mod victims;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::Page;

use super::format::layout::SEGMENT_BLOCKS;
use super::format::node::NodeRole;
use super::format::sit::{LogKind, SitEntry};
use super::format::summary::{self, SummaryKind};
use super::format::{Checkpoint, Layout, SegmentNo};
use crate::api::{FsError, FsResult};
use crate::block::{BlockNo, BlockRange};
use free::FreeSegments;
pub(super) use logs::{Log, Owner, Prepared};
pub(super) use sections::Ground;
use sections::Sections;
use segment::{Map, Segment};
pub(super) use victims::{Victim, VictimBy};

/// Free segments that only a checkpoint takes, for its nodes, and recovery, for what it makes anew.
const RESERVE: usize = 6;
/// With as many free segments or fewer, logs thread through free blocks of used segments.
const THREADED_FROM: usize = RESERVE + 2;
/// As [`RESERVE`], in sections, where nothing is threaded: a mount behind a power cut moves the logs to new ones.
const RESERVE_SECTIONS: usize = 8;
/// Sections of it that are not for cleaning.
const RESERVE_FROM_CLEANING: usize = 5;

/// What the logs may take of the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) enum Reserve {
    /// Nothing.
    Closed,
    /// All of it for nodes and names, and on whole ground nothing for content: writeback goes on until the gate of a
    /// checkpoint closes, and would leave none.
    ForNodes,
    /// All of it for nodes, names and pages that only a staging area has ([`Space::room_for_content`]); on whole ground
    /// none of it for other writeback.
    ForStaged,
    /// All of it for all: only the mount writes.
    ForAll,
}

/// See the module's head.
pub(super) struct Space {
    layout: Layout,
    segments: Vec<Segment>,
    /// What is taken, cleaned and given back as a whole.
    sections: Sections,
    /// Logs that do not go on in the section in which they stand.
    astray: [bool; 6],
    /// Blocks taken since the last checkpoint, by segment.
    taken: BTreeMap<SegmentNo, Map>,
    /// Segments whose entry differs from that of the last checkpoint.
    changed: BTreeSet<SegmentNo>,
    free: FreeSegments,
    /// Segments that no log takes before the next checkpoint.
    barred: Vec<SegmentNo>,
    /// Used segments that a log may enter.
    prepared: Vec<Prepared>,
    logs: [Log; 6],
    reserve: Reserve,
    /// Pages that only a staging area has.
    staged: usize,
    /// Summaries of full segments that are still to be written.
    full: BTreeMap<BlockNo, Page>,
    counts: Counts,
    /// Blocks that the commits of drafts will take: neither in use nor to be had.
    drafted: u64,
    /// Seconds that the file system has been mounted in its life.
    pub(super) age: u64,
}

/// What is in use, as a checkpoint counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Blocks that files and nodes may take.
    pub(super) user_blocks: u64,
    /// Blocks of nodes and content, reserved ones too.
    pub(super) blocks: u64,
    /// Nodes.
    pub(super) nodes: u32,
    /// Nodes that are inodes.
    pub(super) inodes: u32,
    /// Most blocks in use when recovery has rolled forward: those at the last checkpoint, for what was removed since is
    /// back then, and all that were reserved since.
    recovered_max: u64,
}

impl Counts {
    /// Whether files and nodes may take all blocks that recovery gives them.
    pub(super) fn has_room_for_recovery(&self) -> bool {
        let has_room = self.recovered_max <= self.user_blocks;
        onewrite_block::reached!("what was removed since the checkpoint leaves recovery no room", !has_room);
        has_room
    }

    fn reserve(&mut self, blocks: u64) {
        self.blocks += blocks;
        self.recovered_max += blocks;
    }
}

impl Space {
    /// The space as a checkpoint has it: `entries` for all segments, and the owners of the blocks of the logs'
    /// segments.
    ///
    /// On whole ground a log writes each section in order, from its first block to its last.
    pub(super) fn new(
        layout: &Layout,
        checkpoint: &Checkpoint,
        entries: &[SitEntry],
        logs: [Log; 6],
        ground: Ground,
    ) -> Space {
        let raw = &checkpoint.raw;
        let counts = Counts {
            user_blocks: raw.user_block_count.get(),
            blocks: raw.valid_block_count.get(),
            nodes: raw.valid_node_count.get(),
            inodes: raw.valid_inode_count.get(),
            recovered_max: raw.valid_block_count.get(),
        };
        let segments: Vec<Segment> = entries.iter().map(Segment::new).collect();
        let free = FreeSegments::new(segments.len());
        let sections = Sections::new(layout, ground);
        let mut space = Space {
            layout: layout.clone(),
            segments,
            sections,
            astray: [false; 6],
            taken: BTreeMap::new(),
            changed: BTreeSet::new(),
            free,
            barred: Vec::new(),
            prepared: Vec::new(),
            logs,
            reserve: Reserve::Closed,
            staged: 0,
            full: BTreeMap::new(),
            counts,
            drafted: 0,
            age: raw.elapsed_time.get(),
        };
        for section in space.sections.all().filter(|section| space.is_vacant(section)).collect::<Vec<_>>() {
            for segment in section {
                space.free.give(SegmentNo(segment));
            }
        }
        space
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Where a log stands.
    pub(super) fn log(&self, kind: LogKind) -> &Log {
        &self.logs[kind as usize]
    }

    /// Counts `blocks` more in use.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if files and nodes may not take so many.
    pub(super) fn reserve(&mut self, blocks: u64) -> FsResult<()> {
        self.expect_room(blocks)?;
        self.counts.reserve(blocks);
        Ok(())
    }

    /// # Errors
    /// [`FsError::NoSpace`] if files, nodes and drafts may not take `blocks` more.
    pub(super) fn expect_room(&self, blocks: u64) -> FsResult<()> {
        let free = self.available_blocks();
        if blocks > free {
            onewrite_block::reached!("no free block of F2FS left");
            return Err(FsError::NoSpace { what: "blocks", needed: blocks, free });
        }
        Ok(())
    }

    /// Blocks that files, nodes and drafts may still take.
    pub(super) fn available_blocks(&self) -> u64 {
        self.counts.user_blocks.saturating_sub(self.counts.blocks + self.drafted)
    }

    /// Blocks that the commits of drafts will take.
    pub(super) fn drafted(&self) -> u64 {
        self.drafted
    }

    /// Notes that the commits of drafts will take `after` blocks in place of `before`.
    pub(super) fn note_drafted(&mut self, before: u64, after: u64) {
        self.drafted = (self.drafted + after).saturating_sub(before);
    }

    /// Counts `blocks` in use that a draft had reserved.
    pub(super) fn take_drafted(&mut self, blocks: u64) {
        self.drafted = self.drafted.saturating_sub(blocks);
        self.counts.reserve(blocks);
    }

    /// Undoes [`Space::take_drafted`].
    pub(super) fn return_drafted(&mut self, blocks: u64) {
        self.drafted += blocks;
        self.unreserve(blocks);
    }

    /// Counts `blocks` fewer in use.
    pub(super) fn unreserve(&mut self, blocks: u64) {
        self.counts.blocks = self.counts.blocks.saturating_sub(blocks);
    }

    /// Counts a node that was made; its block is reserved.
    pub(super) fn add_node(&mut self, role: NodeRole) {
        self.counts.nodes += 1;
        self.counts.inodes += u32::from(role == NodeRole::Inode);
    }

    /// Counts a node that is gone; its block is no longer reserved.
    pub(super) fn drop_node(&mut self, role: NodeRole) {
        self.counts.nodes = self.counts.nodes.saturating_sub(1);
        self.counts.inodes = self.counts.inodes.saturating_sub(u32::from(role == NodeRole::Inode));
    }

    /// Whether a block of the main area is in use.
    pub(super) fn is_used(&self, block: BlockNo) -> bool {
        self.layout.position(block).is_some_and(|(segment, index)| self.segments[segment.0 as usize].is_used(index))
    }

    /// Gives a block back; no-op for a block that is free or outside the main area.
    pub(super) fn give_back(&mut self, block: BlockNo) {
        if let Some((segment, index)) = self.layout.position(block) {
            self.segments[segment.0 as usize].give_back(index, self.age);
            self.changed.insert(segment);
        }
    }

    /// Takes a block that recovery found in use. False if it is in use already or lies outside the main area.
    pub(super) fn claim(&mut self, block: BlockNo, kind: LogKind) -> bool {
        let Some((segment, index)) = self.layout.position(block) else { return false };
        if self.is_used(block) {
            return false;
        }
        // The segment stays that of the log that stands in it, or that filled it.
        let log = self.logs.iter().zip(LogKind::ALL).find(|(log, _)| log.segment() == segment).map(|(_, kind)| kind);
        let found = &self.segments[segment.0 as usize];
        self.mark(segment, index, log.or(found.kind()).unwrap_or(kind));
        true
    }

    fn mark(&mut self, segment: SegmentNo, index: usize, kind: LogKind) {
        self.take_section(segment);
        self.segments[segment.0 as usize].take(index, kind, self.age);
        self.taken.entry(segment).or_default().set(index);
        self.changed.insert(segment);
    }

    /// Keeps all logs away from a block until the next checkpoint, and out of its segment, unless they stand in it;
    /// no-op outside the main area.
    pub(super) fn bar_block(&mut self, block: BlockNo) {
        let Some((segment, index)) = self.layout.position(block) else { return };
        self.taken.entry(segment).or_default().set(index);
        if !self.barred.contains(&segment) {
            self.take_section(segment);
            self.barred.push(segment);
        }
    }

    /// Whether no block of a segment is in use or was at the last checkpoint.
    pub(super) fn is_unused(&self, segment: SegmentNo) -> bool {
        self.segments[segment.0 as usize].is_unused()
    }

    /// Says who owns a block that recovery claims. `summary` is that of its segment so far, which the SSA gets with the
    /// owner, unless a log stands in the segment.
    pub(super) fn put_owner(&mut self, block: BlockNo, owner: Owner, mut summary: Page) {
        let Some((segment, index)) = self.layout.position(block) else { return };
        if let Some(log) = self.logs.iter_mut().find(|log| log.segment() == segment) {
            return log.put_owner(index, owner);
        }
        let bytes = &mut summary.bytes_mut()[..];
        summary::put_entry(bytes, index, owner.summary, owner.version);
        summary::put_kind(bytes, SummaryKind::Data);
        self.full.insert(self.layout.ssa + u64::from(segment.0), summary);
    }

    /// Whether anything differs from the last checkpoint.
    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty() || !self.full.is_empty() || !self.barred.is_empty()
    }

    /// Lets the logs take the reserve until the next checkpoint is durable.
    pub(super) fn open_reserve(&mut self, reserve: Reserve) {
        self.reserve = reserve;
        self.look_again();
    }

    /// Whether recovery finds room after an fsync: the whole reserve is there, and the count has room, too.
    pub(super) fn has_room_for_recovery(&self) -> bool {
        self.counts.has_room_for_recovery() && self.free.count() >= self.reserved()
    }

    /// Whether a checkpoint would give back segments that are needed, or `nodes` changed nodes need all that is left.
    pub(super) fn wants_checkpoint(&self, nodes: usize) -> bool {
        let is_starved = self.logs.iter().any(Log::is_full);
        let is_scarce = self.free.count() <= self.scarce_from() + nodes / SEGMENT_BLOCKS as usize;
        let is_emptied = |segment: &SegmentNo| self.segments[segment.0 as usize].used() == 0;
        let emptied = || self.changed.iter().filter(|segment| is_emptied(segment)).count() > self.logs.len();
        let gives_back = || if self.sections.are_whole() { self.has_emptied_section() } else { emptied() };
        is_starved && self.has_changes() || is_scarce && gives_back()
    }

    /// Segments without a block in use in which no log stands, as a checkpoint counts them.
    pub(super) fn empty_segments(&self) -> u32 {
        let stand = self.logs.each_ref().map(Log::segment);
        let is_empty =
            |(index, segment): &(usize, &Segment)| segment.used() == 0 && !stand.contains(&SegmentNo(*index as u32));
        self.segments.iter().enumerate().filter(is_empty).count() as u32
    }

    /// The summary that block `block` of the SSA is about to get.
    pub(super) fn full_summary(&self, block: BlockNo) -> Option<Page> {
        self.full.get(&block).cloned()
    }

    /// Summaries of full segments that are not written yet, by block.
    pub(super) fn full_summaries(&self) -> impl Iterator<Item = (BlockNo, Page)> {
        self.full.iter().map(|(block, page)| (*block, page.clone()))
    }

    /// Entries that differ from those of the last checkpoint.
    pub(super) fn changed_entries(&self) -> Vec<(SegmentNo, SitEntry)> {
        self.changed.iter().map(|segment| (*segment, self.segments[segment.0 as usize].entry())).collect()
    }

    /// The state is that of a durable checkpoint from now on. Gives the runs of blocks of segments that are free now.
    pub(super) fn note_checkpoint(&mut self) -> Vec<BlockRange> {
        self.reserve = Reserve::Closed;
        self.staged = 0;
        self.counts.recovered_max = self.counts.blocks;
        self.full.clear();
        self.taken.clear();
        self.forget_prepared();
        let mut freed: Vec<SegmentNo> = std::mem::take(&mut self.barred);
        let stand = self.logs.each_ref().map(Log::segment);
        for segment in std::mem::take(&mut self.changed) {
            self.segments[segment.0 as usize].note_checkpoint();
            freed.push(segment);
        }
        if self.sections.are_whole() {
            return self.free_sections(&freed);
        }
        freed.sort_unstable();
        freed.dedup();
        freed.retain(|segment| self.segments[segment.0 as usize].is_unused() && !stand.contains(segment));
        freed.retain(|segment| self.free.give(*segment));
        let run = |segment: &SegmentNo| self.layout.segment_start(*segment).run(SEGMENT_BLOCKS);
        freed.iter().map(run).collect()
    }

    /// # Errors
    /// The first invariant that does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let stand = self.logs.each_ref().map(Log::segment);
        for (index, segment) in self.segments.iter().enumerate() {
            let number = SegmentNo(index as u32);
            segment.check().map_err(|problem| format!("segment {number}: {problem}"))?;
            let holds_nothing = segment.is_unused() && !self.taken.contains_key(&number);
            let is_free = match self.sections.are_whole() {
                true => self.is_vacant(&self.sections.of(number)),
                false => holds_nothing && !stand.contains(&number) && !self.barred.contains(&number),
            };
            if self.free.contains(number) != is_free {
                return Err(format!("segment {number} is free: {is_free}; the free segments say otherwise"));
            }
        }
        let marked: u64 = self.segments.iter().map(|segment| u64::from(segment.used())).sum();
        match marked <= self.counts.blocks {
            true => Ok(()),
            false => Err(format!("{marked} blocks are marked, {} are counted", self.counts.blocks)),
        }
    }
}
