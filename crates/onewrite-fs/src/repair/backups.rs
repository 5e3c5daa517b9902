//! Before all passes: corrects numbers of the superblock and places in descriptors that contradict the image.
//!
//! A damaged number can have a good checksum and a possible value, and still every file that depends on it is lost. So
//! if a backup differs, the checker runs with the backup's numbers. The backup wins if the checker then finds fewer
//! faults.

use super::change::Change;
use super::overlay::{Changes, Overlay};
use super::superblock;
use crate::block::BlockNo;
use crate::check::{CheckOptions, ReadBlocks, Report, check};
use crate::ext4::format::features::{Features, Incompat};
use crate::ext4::format::{Layout, Place, RawGroupDescriptor, RawSuperblock};

/// An image with the backups that have proved right laid over it.
pub(super) struct Trial<'a, R> {
    reader: &'a R,
    options: &'a CheckOptions,
    /// The check of the image as planned so far.
    pub report: Report,
    pub plan: Changes,
    pub changes: Vec<Change>,
}

impl<'a, R: ReadBlocks> Trial<'a, R> {
    pub(super) fn new(reader: &'a R, options: &'a CheckOptions, report: Report) -> Trial<'a, R> {
        Trial { reader, options, report, plan: Changes::default(), changes: Vec::new() }
    }

    /// Tries the backup of the superblock, then the backups of the descriptors.
    pub(super) async fn run(&mut self) {
        if let Some(plan) = self.with_numbers_of_a_backup().await {
            self.take_if_better(plan, Place::Superblock, "its numbers are those of a backup").await;
        }
        if let Some((group, plan)) = self.with_places_of_backups().await {
            let what = "the places of bitmaps and inodes are those of a backup, here and wherever they differ";
            self.take_if_better(plan, Place::Group(group), what).await;
        }
    }

    async fn take_if_better(&mut self, plan: Changes, place: Place, what: &str) {
        let overlay = Overlay::new(self.reader, plan);
        let report = check(&overlay, self.options).await;
        if report.finding_count < self.report.finding_count {
            self.changes.push(Change { place, what: what.to_owned(), is_safe: false });
            (self.report, self.plan) = (report, overlay.into_changes());
        }
    }

    async fn with_numbers_of_a_backup(&self) -> Option<Changes> {
        let image = Overlay::new(self.reader, self.plan.clone());
        let page = image.read_block(BlockNo::FIRST).await.ok()?;
        let stored = RawSuperblock::in_first_block(&page.bytes()[..]).ok()?.clone();
        let layout = Layout::decode(&stored).ok()?;
        let (_, mut backup) = superblock::backup(&image).await?;
        let Features { compat, mut incompat, ro_compat } = backup.features();
        incompat = incompat.without(Incompat::RECOVER);
        if stored.features().incompat.contains(Incompat::RECOVER) {
            incompat = incompat.with(Incompat::RECOVER);
        }
        backup.set_features(Features { compat, incompat, ro_compat });
        backup.last_orphan.set(stored.last_orphan.get());
        backup.set_checksum();
        let differs = Layout::decode(&backup).is_ok_and(|other| other != layout);
        // A backup with another UUID may belong to an earlier file system on this device.
        if !differs || backup.uuid != stored.uuid {
            return None;
        }
        superblock::store(&image, &page, &backup);
        Some(image.into_changes())
    }

    /// The image with the places from backups, and the first group that they change.
    async fn with_places_of_backups(&self) -> Option<(u32, Changes)> {
        let image = Overlay::new(self.reader, self.plan.clone());
        let page = image.read_block(BlockNo::FIRST).await.ok()?;
        let layout = Layout::decode(RawSuperblock::in_first_block(&page.bytes()[..]).ok()?).ok()?;
        let mut first = None;
        for group in 0..layout.group_count {
            let own = descriptor_at(&image, &layout, group, layout.position_of_descriptor(group)).await?;
            let Some(backup) = backup_of(&image, &layout, group).await else { continue };
            let restored = with_places(&own, &backup);
            if restored == own {
                continue;
            }
            first = first.or(Some(group));
            let (block, offset) = layout.position_of_descriptor(group);
            let mut page = image.read_block(block).await.ok()?;
            let mut bytes = vec![0; usize::from(layout.descriptor_size)];
            restored.clone().write(&mut bytes, group, &layout);
            page.write(offset, &bytes);
            image.put(block, page);
        }
        Some((first?, image.into_changes()))
    }
}

/// The descriptor `own` with the places of `other`.
pub(super) fn with_places(own: &RawGroupDescriptor, other: &RawGroupDescriptor) -> RawGroupDescriptor {
    let mut restored = own.clone();
    restored.set_block_bitmap(other.block_bitmap());
    restored.set_inode_bitmap(other.inode_bitmap());
    restored.set_inode_table(other.inode_table());
    restored
}

/// The first sound backup of a descriptor.
pub(super) async fn backup_of<R: ReadBlocks>(
    image: &Overlay<'_, R>,
    layout: &Layout,
    group: u32,
) -> Option<RawGroupDescriptor> {
    for position in layout.backups_of_descriptor(group) {
        if let Some(backup) = descriptor_at(image, layout, group, position).await
            && backup.verify_checksum(group, layout).is_ok()
            && backup.inode_table().is_some()
        {
            return Some(backup);
        }
    }
    None
}

/// Reads the descriptor of a group at the given block and byte.
pub(super) async fn descriptor_at<R: ReadBlocks>(
    image: &Overlay<'_, R>,
    layout: &Layout,
    group: u32,
    (block, offset): (BlockNo, usize),
) -> Option<RawGroupDescriptor> {
    let page = image.read_block(block).await.ok()?;
    RawGroupDescriptor::read(&page.bytes()[offset..], group, layout).ok()
}
