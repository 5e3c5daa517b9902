//! Open: reads what a mount needs from an image; checks and replays its log.

use onewrite_block::{Cause, DevicePort, Lpn, Page, Request};

use super::balloc::Groups;
use super::format::extent::Node as Tree;
use super::format::features::Compat;
use super::format::{Extent, FormatError, Inode, Layout, Place, RawGroupDescriptor, RawSuperblock};
use super::guard::{SystemZone, check_descriptor};
use super::lost::expect_file_system;
use super::volume::take_superblock;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::journal::format::JournalSuperblock;
use crate::journal::{LogBlock, LogMap, Prospect, Recovered, RecoveryOptions, recover};

/// What a mount needs to know of an image.
pub(super) struct Opened {
    pub(super) superblock: RawSuperblock,
    pub(super) layout: Layout,
    pub(super) descriptors: Vec<RawGroupDescriptor>,
    pub(super) map: LogMap,
    pub(super) log_superblock: JournalSuperblock,
    pub(super) log_page: Page,
    pub(super) recovered: Option<Recovered>,
}

pub(super) async fn read_block(port: &DevicePort, block: BlockNo) -> FsResult<Page> {
    let mut pages = port.request(Request::read(block.page(), 1, Cause::Metadata)).await?;
    Ok(pages.pop().expect("a read of one page gives one"))
}

/// Reads what a mount needs; replays the log if it is not empty.
pub(super) async fn open(port: &DevicePort, recovery: RecoveryOptions) -> FsResult<Opened> {
    let superblock = match take_superblock(&read_block(port, BlockNo::FIRST).await?) {
        Ok(superblock) => superblock,
        Err(error) => {
            expect_file_system(port).await?;
            return Err(error);
        }
    };
    let layout = layout_of(port, &superblock)?;
    let descriptors = read_descriptors(port, &layout).await?;
    let map = log_map(port, &layout, &descriptors).await?;
    let log_block = map.block_of(LogBlock::SUPERBLOCK);
    let mut log_page = read_block(port, log_block).await?;
    let damage = |problem| FsError::Damaged { place: format!("journal superblock at block {log_block}"), problem };
    let mut log_superblock = JournalSuperblock::decode(&log_page.bytes()).map_err(damage)?;
    if u64::from(log_superblock.length) > map.length() {
        return Err(damage(format!("{} blocks, its inode has {}", log_superblock.length, map.length())));
    }
    if log_superblock.start == 0 {
        return Ok(Opened { superblock, layout, descriptors, map, log_superblock, log_page, recovered: None });
    }
    if let Some(refusal) = log_superblock.replay_refusal() {
        return Err(FsError::Unsupported(refusal));
    }
    let judge = async |prospect: Prospect<'_>| judge(port, &prospect, &map).await;
    let recovered = Some(recover(port, &map, (&mut log_superblock, &mut log_page), recovery, judge).await?);
    let superblock = take_superblock(&read_block(port, BlockNo::FIRST).await?)?;
    let layout = layout_of(port, &superblock)?;
    let descriptors = read_descriptors(port, &layout).await?;
    Ok(Opened { superblock, layout, descriptors, map, log_superblock, log_page, recovered })
}

/// Checks the state that a replay would produce, as a mount would read it. So a damaged log is never written home.
///
/// # Errors
/// [`FsError::Damaged`] if the replay would leave a damaged superblock, descriptor or system zone; the message names
/// it.
async fn judge(port: &DevicePort, prospect: &Prospect<'_>, map: &LogMap) -> FsResult<()> {
    let read = async {
        let first = prospect.read(BlockNo::FIRST, 1).await?;
        let layout = layout_of(port, &take_superblock(&first[0])?)?;
        let table = prospect.read(BlockNo(1), u64::from(layout.descriptor_blocks())).await?;
        let groups = Groups::new(decode_descriptors(&layout, &table)?);
        SystemZone::new(&layout, &groups, map).map(drop)
    };
    read.await.map_err(|error| match error {
        FsError::Damaged { place, problem } => {
            let problem = format!("its replay would write a damaged {place}: {problem}; nothing was written");
            FsError::Damaged { place: "journal".into(), problem }
        }
        error => error,
    })
}

pub(super) fn layout_of(port: &DevicePort, superblock: &RawSuperblock) -> FsResult<Layout> {
    let layout = superblock.features().check_writable().and_then(|()| Layout::decode(superblock));
    let layout = layout.map_err(|error| match error {
        FormatError::Unsupported { what } => {
            FsError::Unsupported(format!("{what}: such an image can only be read here (ls, cat, cp out of it)"))
        }
        error => error.into(),
    })?;
    let (blocks, pages) = (layout.block_count, port.geometry().pages);
    match blocks <= pages {
        true => Ok(layout),
        false => {
            let problem = format!("it has {blocks} blocks, the device only {pages}");
            Err(FsError::Damaged { place: "superblock".into(), problem })
        }
    }
}

/// Decodes and verifies the descriptors of all groups; `table` holds their blocks.
fn decode_descriptors(layout: &Layout, table: &[Page]) -> FsResult<Vec<RawGroupDescriptor>> {
    let first = layout.superblock_block() + 1;
    (0..layout.group_count)
        .map(|group| {
            let (block, offset) = layout.position_of_descriptor(group);
            let bytes = table[(block - first) as usize].bytes();
            let descriptor = RawGroupDescriptor::read(&bytes[offset..], group, layout)?;
            descriptor.verify_checksum(group, layout)?;
            check_descriptor(&descriptor, group, layout)?;
            Ok(descriptor)
        })
        .collect()
}

async fn read_descriptors(port: &DevicePort, layout: &Layout) -> FsResult<Vec<RawGroupDescriptor>> {
    let mut table = Vec::new();
    let (mut block, end) = (1, 1 + u64::from(layout.descriptor_blocks()));
    while block < end {
        let count = (end - block).min(u64::from(port.geometry().transfer_pages_max));
        table.extend(port.request(Request::read(Lpn(block), count as u32, Cause::Metadata)).await?);
        block += count;
    }
    decode_descriptors(layout, &table)
}

/// Where the log's blocks lie: the extents of the journal's inode.
async fn log_map(port: &DevicePort, layout: &Layout, descriptors: &[RawGroupDescriptor]) -> FsResult<LogMap> {
    let number = layout.journal_inode;
    if number.is_none() || !layout.features.compat.contains(Compat::HAS_JOURNAL) {
        return Err(FsError::Unsupported("an image without a journal inside it; add one with `tune2fs -j`".into()));
    }
    let position = layout.position_of_inode(number);
    let table = descriptors[position.group as usize].inode_table();
    let block = table + u64::from(position.table_block);
    let page = read_block(port, block).await?;
    let slot = &page.bytes()[position.offset..position.offset + usize::from(layout.inode_size)];
    let inode = Inode::decode(slot, number, layout)?;
    if inode.mode == 0 || inode.links == 0 {
        let problem = "the journal is empty".to_owned();
        return Err(FsError::Damaged { place: Place::Inode(number).to_string(), problem });
    }
    if !inode.has(super::format::inode::flags::EXTENTS) {
        return Err(FsError::Unsupported("a journal mapped without extents".into()));
    }
    let mut extents: Vec<Extent> = Vec::new();
    let mut pending: Vec<(BlockNo, Vec<u8>)> = vec![(block, inode.block.to_vec())];
    while let Some((place, bytes)) = pending.pop() {
        let tree = Tree::parse(&bytes, Place::Block(place))?;
        tree.check_entries(layout, Place::Block(place))?;
        extents.extend(tree.extents());
        if extents.len() + pending.len() > layout.block_count as usize {
            let problem = "its extents are more than the image has blocks".into();
            return Err(FsError::Damaged { place: "journal's inode".into(), problem });
        }
        for index in tree.indexes() {
            let child = read_block(port, index.node).await?;
            if Tree::parse(&child.bytes()[..], Place::Block(index.node))?.depth() >= tree.depth() {
                let place = format!("extent tree of the journal, block {}", index.node);
                return Err(FsError::Damaged { place, problem: "does not get flatter downwards".into() });
            }
            pending.push((index.node, child.bytes().to_vec()));
        }
    }
    extents.sort_unstable_by_key(|extent| extent.logical);
    let mut next = 0;
    let follows = |extent: &Extent| u64::from(extent.logical) == std::mem::replace(&mut next, extent.logical_end());
    if extents.is_empty() || !extents.iter().all(follows) {
        return Err(FsError::Damaged { place: "journal's inode".into(), problem: "has holes".into() });
    }
    Ok(LogMap::new(extents.iter().map(Extent::blocks).collect()))
}
