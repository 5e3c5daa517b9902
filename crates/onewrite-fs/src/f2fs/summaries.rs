//! Summaries that the checkpoint holds: those of the logs.

use std::collections::BTreeMap;

use crate::api::FsResult;
use crate::f2fs::format::SegmentNo;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::{self, ENTRIES, ENTRY_SIZE};
use crate::f2fs::tables::Tables;

/// Blocks of summaries that the checkpoint holds, by segment, and how many of the pack they take.
pub(in crate::f2fs) struct Summaries {
    by_segment: BTreeMap<SegmentNo, Vec<u8>>,
    /// Segments of the logs of nodes, if the checkpoint has no summaries of them: footers say the same.
    unsaid: Vec<SegmentNo>,
    blocks: u32,
}

impl Summaries {
    pub(in crate::f2fs) async fn read(tables: &Tables) -> FsResult<Summaries> {
        let mut blocks = BTreeMap::new();
        let checkpoint = &tables.checkpoint;
        let start = tables.summaries_start();
        let mut taken = 3;
        if checkpoint.has(flags::COMPACT) {
            let (read, count) = compact(tables).await?;
            blocks.extend(read);
            taken = count;
        } else {
            for (index, kind) in LogKind::ALL.into_iter().take(3).enumerate() {
                let page = tables.blocks.block(start + index as u64).await?;
                blocks.insert(checkpoint.log(kind).segment, page.bytes().to_vec());
            }
        }
        if checkpoint.has_node_summaries() {
            for (index, kind) in LogKind::ALL.into_iter().skip(3).enumerate() {
                let page = tables.blocks.block(start + taken + index as u64).await?;
                blocks.insert(checkpoint.log(kind).segment, page.bytes().to_vec());
            }
        }
        let nodes = LogKind::ALL.into_iter().skip(3).map(|kind| checkpoint.log(kind).segment);
        let unsaid = if checkpoint.has_node_summaries() { Vec::new() } else { nodes.collect() };
        taken += 3 * u64::from(checkpoint.has_node_summaries());
        Ok(Summaries { by_segment: blocks, unsaid, blocks: taken as u32 })
    }

    /// The summary of a segment, as a block; `None` if it lies in the SSA.
    pub(in crate::f2fs) fn of(&self, segment: SegmentNo) -> Option<&[u8]> {
        self.by_segment.get(&segment).map(Vec::as_slice)
    }

    /// Whether nothing but the footers says who owns the blocks of a segment.
    pub(in crate::f2fs) fn is_unsaid(&self, segment: SegmentNo) -> bool {
        self.unsaid.contains(&segment)
    }

    /// Blocks of the pack that they take.
    pub(in crate::f2fs) fn blocks(&self) -> u32 {
        self.blocks
    }
}

/// Compact summaries as blocks, and the number of blocks that they take.
async fn compact(tables: &Tables) -> FsResult<(BTreeMap<SegmentNo, Vec<u8>>, u64)> {
    let logs = [LogKind::HotData, LogKind::WarmData, LogKind::ColdData].map(|kind| tables.checkpoint.log(kind));
    let counts = logs.map(|log| if log.is_threaded { ENTRIES } else { usize::from(log.next) });
    // A footer of zeros says that the blocks are content.
    let mut blocks: BTreeMap<SegmentNo, Vec<u8>> = logs.iter().map(|log| (log.segment, vec![0; 4096])).collect();
    let owners = logs.iter().zip(counts).flat_map(|(log, count)| (0..count).map(|index| (log.segment, index)));
    for ((segment, index), (block, at)) in owners.zip(summary::compact_places(counts)) {
        let page = tables.blocks.block(tables.summaries_start() + block as u64).await?;
        let entry = &page.bytes()[at..at + ENTRY_SIZE];
        let target = blocks.get_mut(&segment).expect("a log's segment");
        target[index * ENTRY_SIZE..(index + 1) * ENTRY_SIZE].copy_from_slice(entry);
    }
    Ok((blocks, summary::compact_blocks(counts) as u64))
}
