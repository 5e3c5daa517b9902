//! Stage 3: every inode that may be in use: its fields and the blocks of its content.

use onewrite_block::Page;

use super::ReadBlocks;
use super::disguise::{begins_as_directory, block_to_look_at};
use super::map::Mapped;
use super::special::reserved_problem;
use super::views::InodeStage;
use crate::api::FileKind;
use crate::ext4::format::features::{Compat, Incompat, RoCompat};
use crate::ext4::format::inode::{attribute_area, flags, verify_checksum};
use crate::ext4::format::{Inode, InodeNo, Place, RESIZE_INODE, ROOT_INODE};

const CURE: &str = "e2fsck -f";
const LINKS: usize = 0x1a;
const FRAGMENT: usize = 0x70;
/// A symbolic link shorter than this lies in its inode, in bytes.
const FAST_LINK_MAX: u64 = 60;
/// Files of this size or more need the feature large_file, in bytes.
const LARGE_FILE: u64 = 1 << 31;

/// A slot of an inode table.
struct InodeSlot<'a> {
    number: InodeNo,
    bytes: &'a [u8],
    /// The inode's bit in the bitmap.
    marked: bool,
}

impl<R: ReadBlocks> InodeStage<'_, '_, R> {
    /// Checks all inodes that may be in use.
    pub(super) async fn check_inodes(&mut self) {
        for group in 0..self.descriptors.len() as u32 {
            let descriptor = self.descriptors[group as usize].clone();
            let scanned = descriptor.scanned_inodes(&self.layout);
            if scanned == 0 || descriptor.inode_table().is_none() {
                continue;
            }
            self.inodes.open(group, scanned);
            let bitmap = match descriptor.inode_bitmap() {
                block if block.is_some() => self.read(block, Place::Group(group)).await,
                _ => None,
            };
            self.check_table(group, scanned, bitmap).await;
        }
        if self.large_files && !self.layout.features.ro_compat.contains(RoCompat::LARGE_FILE) {
            self.report.add(Place::Superblock, "a file has 2 GiB or more without the feature large_file", CURE);
        }
    }

    async fn check_table(&mut self, group: u32, scanned: u32, bitmap: Option<Page>) {
        let table = self.descriptors[group as usize].inode_table();
        let (per_block, size) = (self.layout.inodes_per_block(), usize::from(self.layout.inode_size));
        let bits = bitmap.as_ref().map(Page::bytes);
        for block in 0..scanned.div_ceil(per_block) {
            let first = block * per_block;
            let Some(page) = self.read(table + u64::from(block), Place::Group(group)).await else { continue };
            let bytes = page.bytes();
            for (index, bytes) in (first..scanned).zip(bytes.chunks_exact(size)) {
                let number = self.layout.inode_at(group, index);
                // Without a bitmap the link count decides.
                let in_use = bytes[LINKS] | bytes[LINKS + 1] != 0 || number < self.layout.first_inode;
                let marked = bits.as_ref().map_or(in_use, |bits| bits[index as usize / 8] >> (index % 8) & 1 == 1);
                if marked || in_use {
                    self.check_slot(InodeSlot { number, bytes, marked }).await;
                } else {
                    self.check_free_slot(number, bytes);
                }
            }
        }
    }

    /// Checks a free inode. A removed inode keeps its mode and has a time of deletion.
    fn check_free_slot(&mut self, number: InodeNo, bytes: &[u8]) {
        let (has_mode, has_dtime) = (bytes[..2] != [0; 2], bytes[0x14..0x18] != [0; 4]);
        if has_mode && !has_dtime {
            self.report.add(Place::Inode(number), "is free but has a mode and no time of deletion", CURE);
        }
    }

    async fn check_slot(&mut self, slot: InodeSlot<'_>) {
        let (number, place) = (slot.number, Place::Inode(slot.number));
        let reserved = number < self.layout.first_inode;
        let inode = match Inode::decode_unverified(slot.bytes, number, &self.layout) {
            Ok(inode) => inode,
            Err(error) => {
                self.mark_used(number, None, 0);
                return self.report.add(place, error, CURE);
            }
        };
        let blank = reserved && inode.mode == 0 && inode.links == 0 && slot.bytes.iter().all(|&byte| byte == 0);
        if !blank && let Err(error) = verify_checksum(slot.bytes, number, &inode, &self.layout) {
            self.report.add(place, error, CURE);
        }
        let orphan = self.is_orphan(number);
        let used = inode.links > 0 || reserved || orphan;
        if slot.marked != used {
            let problem = if used { "is in use but free in the bitmap" } else { "has no links but is not free" };
            self.report.add(place, problem, CURE);
        }
        if used {
            self.mark_used(number, inode.kind(), inode.links);
        }
        if used && slot.bytes[FRAGMENT..FRAGMENT + 4] != [0; 4] {
            self.report.add(place, "has the address of a fragment, which ext4 does not know", CURE);
        }
        if used && !blank {
            self.check_fields(number, &inode);
            self.check_content(number, &inode).await;
            self.check_inode_attributes(number, attribute_area(slot.bytes, &inode));
        }
    }

    fn mark_used(&mut self, number: InodeNo, kind: Option<FileKind>, links: u16) {
        let orphan = self.is_orphan(number);
        self.report.used_inodes += 1;
        self.report.directories += u64::from(kind == Some(FileKind::Directory));
        if let Some(record) = self.inodes.find(number) {
            (record.used, record.orphan, record.kind, record.links) = (true, orphan, kind, links);
        }
    }

    fn check_fields(&mut self, number: InodeNo, inode: &Inode) {
        let orphan = self.is_orphan(number);
        let place = Place::Inode(number);
        let reserved = number < self.layout.first_inode && number != ROOT_INODE;
        if reserved
            && number != self.layout.journal_inode
            && let Some(problem) = reserved_problem(number, inode)
        {
            self.report.add(place, problem, CURE);
        }
        if inode.dtime != 0 && inode.links > 0 && !orphan {
            self.report.add(place, "is in use but has a time of deletion", CURE);
        }
        match inode.kind() {
            None if reserved && inode.mode == 0 => {}
            None => self.report.add(place, format!("mode {:#o} names no kind of file", inode.mode), CURE),
            Some(FileKind::Regular) => {}
            Some(kind) if reserved => self.report.add(place, format!("is reserved but a {kind:?}"), CURE),
            Some(kind) => self.check_kind(place, inode, kind),
        }
        if inode.kind() == Some(FileKind::Regular) && inode.size >= LARGE_FILE {
            self.large_files = true;
        }
        self.check_flags(place, inode);
    }

    fn check_flags(&mut self, place: Place, inode: &Inode) {
        let features = self.layout.features;
        let directory = inode.kind() == Some(FileKind::Directory);
        let rules = [
            (flags::INDEX, directory && features.compat.contains(Compat::DIR_INDEX), "a hash tree"),
            (flags::EXTENTS, features.incompat.contains(Incompat::EXTENTS), "extents"),
            (flags::HUGE_FILE, features.ro_compat.contains(RoCompat::HUGE_FILE), "a huge file"),
            (flags::INLINE_DATA, features.incompat.contains(Incompat::INLINE_DATA), "inline data"),
            (flags::ENCRYPT, features.incompat.contains(Incompat::ENCRYPT), "encryption"),
            (flags::EA_INODE, features.incompat.contains(Incompat::EA_INODE), "the value of an attribute"),
            (flags::IMAGIC, features.compat.contains(Compat::IMAGIC_INODES), "one of AFS"),
            (flags::CASEFOLD, features.incompat.contains(Incompat::CASEFOLD), "folded case"),
            (flags::VERITY, features.ro_compat.contains(RoCompat::VERITY), "verity"),
        ];
        for (flag, allowed, name) in rules {
            if inode.flags & flag != 0 && !allowed {
                self.report.add(place, format!("is flagged as {name}, which it cannot be"), CURE);
            }
        }
    }

    fn check_kind(&mut self, place: Place, inode: &Inode, kind: FileKind) {
        if kind == FileKind::Directory {
            return;
        }
        if inode.flags & (flags::IMMUTABLE | flags::APPEND) != 0 {
            self.report.add(place, format!("a {kind:?} that may not change"), CURE);
        }
        if kind == FileKind::Symlink {
            return;
        }
        if inode.size != 0 {
            self.report.add(place, format!("a {kind:?} of {} bytes", inode.size), CURE);
        }
        if inode.flags & (flags::EXTENTS | flags::INDEX) != 0 {
            self.report.add(place, format!("a {kind:?} with flags {:#x}", inode.flags), CURE);
        }
        if inode.block[16..].iter().any(|&byte| byte != 0) {
            self.report.add(place, format!("a {kind:?} with a map of blocks"), CURE);
        }
    }

    async fn check_content(&mut self, number: InodeNo, inode: &Inode) {
        if number == RESIZE_INODE {
            return;
        }
        let has_map = match inode.kind() {
            Some(FileKind::Regular | FileKind::Directory) => true,
            Some(FileKind::Symlink) => !self.check_fast_link(number, inode),
            Some(_) => false,
            // The inode of bad blocks has no mode.
            None => number < self.layout.first_inode,
        };
        let mapped = match has_map {
            true if inode.has(flags::EXTENTS) => self.map_stage().walk_extents(number, inode).await,
            true => self.map_stage().walk_block_map(number, inode).await,
            false => Mapped::default(),
        };
        if !has_map && inode.kind().is_some() {
            self.check_disguise(number, inode).await;
        }
        let attributes = self.claim_attributes(number, inode).await;
        let sectors = (mapped.blocks + attributes) * u64::from(self.layout.block_size / 512);
        if mapped.sound && sectors != inode.sectors {
            let problem = format!("counts {} sectors but has {sectors}", inode.sectors);
            self.report.add(Place::Inode(number), problem, CURE);
        }
        match inode.kind() {
            // The cleanup of orphans completes an unfinished truncation.
            _ if self.is_orphan(number) => {}
            Some(FileKind::Directory) => self.check_directory_size(number, inode, &mapped),
            Some(FileKind::Symlink) if has_map => self.check_slow_link(number, inode, &mapped).await,
            Some(FileKind::Regular) => self.check_file_size(number, inode, &mapped),
            None => self.check_unnamed_size(number, inode),
            _ => {}
        }
    }

    async fn check_disguise(&mut self, number: InodeNo, inode: &Inode) {
        let place = Place::Inode(number);
        let Some(block) = block_to_look_at(inode, &self.layout) else { return };
        let Some(page) = self.read(block, place).await else { return };
        if begins_as_directory(&page.bytes()[..], number) {
            self.report.add(place, "is a directory by what it holds but not by its mode", CURE);
        }
    }

    /// Checks the size of a reserved inode without a mode.
    fn check_unnamed_size(&mut self, number: InodeNo, inode: &Inode) {
        if inode.size > self.file_size_max() {
            self.report.add(Place::Inode(number), format!("has {} bytes, more than a file can", inode.size), CURE);
        }
    }

    fn check_file_size(&mut self, number: InodeNo, inode: &Inode, mapped: &Mapped) {
        let last_start = mapped.last_written.map_or(0, |block| u64::from(block) * u64::from(self.layout.block_size));
        if inode.size < last_start {
            let problem = format!("has {} bytes but data at byte {last_start}", inode.size);
            self.report.add(Place::Inode(number), problem, CURE);
        } else if number == self.layout.journal_inode
            && inode.size != mapped.data_blocks * u64::from(self.layout.block_size)
        {
            let problem = format!("a journal of {} bytes in {} blocks", inode.size, mapped.data_blocks);
            self.report.add(Place::Inode(number), problem, CURE);
        } else if inode.size > self.file_size_max() {
            self.report.add(Place::Inode(number), format!("has {} bytes, more than a file can", inode.size), CURE);
        }
    }

    fn check_directory_size(&mut self, number: InodeNo, inode: &Inode, mapped: &Mapped) {
        let block_size = u64::from(self.layout.block_size);
        let blocks = mapped.last.map_or(0, |last| u64::from(last) + 1);
        let place = Place::Inode(number);
        if !mapped.sound {
            return;
        }
        if inode.size != blocks * block_size {
            self.report.add(place, format!("a directory of {} bytes with {blocks} blocks", inode.size), CURE);
        } else if mapped.data_blocks != blocks || blocks == 0 {
            let problem = format!("a directory with {} of {blocks} blocks", mapped.data_blocks);
            self.report.add(place, problem, CURE);
        }
    }

    /// Whether the link's target lies in the inode; if so, checks it.
    fn check_fast_link(&mut self, number: InodeNo, inode: &Inode) -> bool {
        if inode.size == 0 || inode.size >= FAST_LINK_MAX {
            return false;
        }
        let length = inode.block.iter().position(|&byte| byte == 0).unwrap_or(inode.block.len());
        if inode.has(flags::EXTENTS) {
            self.report.add(Place::Inode(number), "a short symbolic link with extents", CURE);
        } else if length as u64 != inode.size {
            let problem = format!("a symbolic link of {} bytes whose target has {length}", inode.size);
            self.report.add(Place::Inode(number), problem, CURE);
        }
        true
    }

    async fn check_slow_link(&mut self, number: InodeNo, inode: &Inode, mapped: &Mapped) {
        let place = Place::Inode(number);
        let (Some(block), true) = (mapped.first_block, mapped.data_blocks == 1 && mapped.last == Some(0)) else {
            if mapped.sound {
                self.report.add(place, "a symbolic link without the one block of its target", CURE);
            }
            return;
        };
        let Some(page) = self.read(block, place).await else { return };
        let bytes = page.bytes();
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        if length as u64 != inode.size || length == bytes.len() {
            let problem = format!("a symbolic link of {} bytes whose target has {length}", inode.size);
            self.report.add(place, problem, CURE);
        }
    }
}
