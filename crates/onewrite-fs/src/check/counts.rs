//! Stage 6: bitmaps and counts must agree with what is in use.

use super::blocks::{GroupBits, WORDS, mark, words};
use super::{Checker, Finding, ReadBlocks};
use crate::api::FileKind;
use crate::ext4::format::group::BLOCK_UNINIT;
use crate::ext4::format::{Layout, Place, RawGroupDescriptor};

const CURE: &str = "e2fsck -f";
const BITS: usize = WORDS * 64;

static NOTHING: GroupBits = [0; WORDS];

/// Differences between a bitmap and the use found.
#[derive(Default)]
struct Differences {
    /// Set bits of free blocks or inodes: number and first bit.
    lost: (u32, Option<usize>),
    /// Clear bits of used blocks or inodes: number and first bit.
    missing: (u32, Option<usize>),
}

impl<R: ReadBlocks> Checker<'_, R> {
    /// Compares bitmaps and counts with the use found.
    pub(super) async fn check_counts(&mut self) {
        let (mut free_blocks, mut free_inodes) = (0, 0);
        for group in 0..self.descriptors.len() as u32 {
            self.check_block_bitmap(group).await;
            self.check_inode_bitmap(group).await;
            free_blocks += u64::from(self.check_group_blocks(group));
            free_inodes += u64::from(self.check_group_inodes(group));
        }
        self.report.used_blocks = self.layout.block_count - free_blocks;
        let stored = (self.superblock.free_blocks(), u64::from(self.superblock.free_inodes_count.get()));
        for (name, stored, found) in [("blocks", stored.0, free_blocks), ("inodes", stored.1, free_inodes)] {
            if stored != found && self.descriptors.len() == self.layout.group_count as usize {
                // Linux keeps the totals in memory and writes them when it unmounts.
                let problem = format!("counts {stored} free {name} of {found}");
                self.report.notes.push(Finding { place: Place::Superblock, problem, cure: "mount and unmount".into() });
            }
        }
    }

    async fn check_block_bitmap(&mut self, group: u32) {
        let descriptor = self.descriptors[group as usize].clone();
        if descriptor.has(BLOCK_UNINIT, &self.layout) {
            return self.check_unwritten_bitmap(group);
        }
        if descriptor.block_bitmap().is_none() {
            return;
        }
        let place = Place::Group(group);
        let Some(page) = self.read(descriptor.block_bitmap(), place).await else { return };
        let bytes = page.bytes();
        if let Err(error) = descriptor.verify_block_bitmap(&bytes[..], group, &self.layout) {
            self.report.add(place, error, CURE);
        }
        let mut expected = *self.blocks.group(group).unwrap_or(&NOTHING);
        let length = self.layout.blocks_in_group(group) as usize;
        mark(&mut expected, length, BITS - length);
        let found = Differences::between(words(&bytes[..]), &expected);
        let first = self.layout.first_block_of_group(group);
        self.report_differences(place, "block", found, length, |index| first.0 + index as u64);
    }

    /// Checks a group with an unwritten bitmap: only the layout's own blocks may be in use there.
    fn check_unwritten_bitmap(&mut self, group: u32) {
        let Some(used) = self.blocks.group(group) else { return };
        let (first, length) = (self.layout.first_block_of_group(group), self.layout.blocks_in_group(group));
        let expected = unwritten_bits(&self.layout, &self.descriptors[group as usize], group);
        let found = Differences::between(expected.into_iter(), used);
        self.report_differences(Place::Group(group), "block", found, length as usize, |index| first.0 + index as u64);
    }

    async fn check_inode_bitmap(&mut self, group: u32) {
        if !self.has_inode_bitmap(group) {
            return;
        }
        let (descriptor, place) = (self.descriptors[group as usize].clone(), Place::Group(group));
        let Some(page) = self.read(descriptor.inode_bitmap(), place).await else { return };
        let bytes = page.bytes();
        if let Err(error) = descriptor.verify_inode_bitmap(&bytes[..], group, &self.layout) {
            self.report.add(place, error, CURE);
        }
        // Stage 3 compared the bits of scanned slots.
        let scanned = self.inodes.group(group).len();
        let mut expected: GroupBits = NOTHING;
        for (word, bits) in expected.iter_mut().zip(words(&bytes[..])).take(scanned.div_ceil(64)) {
            *word = bits;
        }
        if !scanned.is_multiple_of(64) {
            expected[scanned / 64] &= (1 << (scanned % 64)) - 1;
        }
        let length = self.layout.inodes_per_group as usize;
        mark(&mut expected, length, BITS - length);
        let found = Differences::between(words(&bytes[..]), &expected);
        let first = u64::from(self.layout.inode_at(group, 0).0);
        self.report_differences(place, "inode", found, length, |index| first + index as u64);
    }

    fn report_differences(
        &mut self,
        place: Place,
        name: &str,
        found: Differences,
        length: usize,
        number: impl Fn(usize) -> u64,
    ) {
        if let (count, Some(first)) = found.lost {
            let problem = format!("{count} free {name}s are in use in the bitmap, the first {}", number(first));
            self.report.add(place, problem, CURE);
        }
        match found.missing {
            (_, Some(first)) if first >= length => {
                self.report.add(place, format!("the end of the {name} bitmap is not filled up"), CURE);
            }
            (count, Some(first)) => {
                let problem = format!("{count} {name}s in use are free in the bitmap, the first {}", number(first));
                self.report.add(place, problem, CURE);
            }
            _ => {}
        }
    }

    /// Compares the descriptor's count of free blocks; returns the true one.
    fn check_group_blocks(&mut self, group: u32) -> u32 {
        let used: u32 = self.blocks.group(group).map_or(0, |bits| bits.iter().map(|word| word.count_ones()).sum());
        let free = self.layout.blocks_in_group(group) - used;
        self.compare(group, "free blocks", self.descriptors[group as usize].free_blocks(), free);
        free
    }

    /// Compares the descriptor's counts of inodes; returns the true number of free ones.
    fn check_group_inodes(&mut self, group: u32) -> u32 {
        let (mut used, mut directories) = (0, 0);
        for record in self.inodes.group(group).iter().filter(|record| record.used) {
            used += 1;
            directories += u32::from(record.kind == Some(FileKind::Directory));
        }
        let descriptor = &self.descriptors[group as usize];
        let (free, stored, stored_directories) =
            (self.layout.inodes_per_group - used, descriptor.free_inodes(), descriptor.used_directories());
        self.compare(group, "free inodes", stored, free);
        self.compare(group, "directories", stored_directories, directories);
        free
    }

    fn compare(&mut self, group: u32, name: &str, stored: u32, found: u32) {
        if stored != found {
            self.report.add(Place::Group(group), format!("counts {stored} {name} of {found}"), CURE);
        }
    }
}

/// The bits that an unwritten bitmap stands for: the blocks of the layout in the group.
pub(crate) fn unwritten_bits(layout: &Layout, descriptor: &RawGroupDescriptor, group: u32) -> GroupBits {
    let (first, length) = (layout.first_block_of_group(group), layout.blocks_in_group(group));
    let mut expected = NOTHING;
    mark(&mut expected, 0, layout.base_blocks(group).min(length) as usize);
    for run in descriptor.metadata(layout) {
        let (from, to) = (run.start.max(first), run.end().min(first + u64::from(length)));
        if from < to {
            mark(&mut expected, (from - first) as usize, (to - from) as usize);
        }
    }
    expected
}

impl Differences {
    fn between(stored: impl Iterator<Item = u64>, expected: &GroupBits) -> Differences {
        let mut found = Differences::default();
        for (word, (stored, &expected)) in
            stored.zip(expected).enumerate().filter(|(_, (stored, expected))| stored != *expected)
        {
            for (bits, (count, first)) in
                [(stored & !expected, &mut found.lost), (expected & !stored, &mut found.missing)]
            {
                if bits != 0 {
                    *count += bits.count_ones();
                    first.get_or_insert(word * 64 + bits.trailing_zeros() as usize);
                }
            }
        }
        found
    }
}
