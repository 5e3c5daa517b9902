//! Pass 2: every inode: its fields and its map.

use super::File;
use super::content::Content;
use super::views::InodePass;
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::check::disguise::{begins_as_directory, block_to_look_at};
use crate::check::special::reserved_problem;
use crate::ext4::format::extent::Node;
use crate::ext4::format::features::{Compat, Incompat, RoCompat};
use crate::ext4::format::inode::{flags, verify_checksum};
use crate::ext4::format::{Inode, InodeNo, Place, RESIZE_INODE, ROOT_INODE};

/// A symbolic link shorter than this lies in its inode, in bytes.
const FAST_LINK_MAX: u64 = 60;
const FRAGMENT: std::ops::Range<usize> = 0x70..0x74;
const EXTRA_SIZE: std::ops::Range<usize> = 0x80..0x82;

/// A part of an inode table, as the group's descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TablePart {
    /// Its inodes may be in use.
    Scanned,
    /// Its inodes were never used. A damaged descriptor may say so of inodes in use.
    Never,
}

impl<R: ReadBlocks> InodePass<'_, '_, R> {
    pub(super) async fn mend_inodes(&mut self) {
        for group in 0..self.layout.group_count {
            let scanned = self.descriptors[group as usize].scanned_inodes(&self.layout);
            let length = if self.widened.contains(&group) { self.layout.inodes_per_group } else { scanned };
            self.files[group as usize] = vec![File::default(); length as usize];
            for index in 0..length {
                let number = self.layout.inode_at(group, index);
                let Some(slot) = self.slot(number).await else { continue };
                let part = if index < scanned { TablePart::Scanned } else { TablePart::Never };
                self.mend_slot(number, slot, part).await;
            }
            // The walk read unused inodes of widened tables too; keep only records up to the last used one.
            let used = self.files[group as usize].iter().rposition(|file| file.used).map_or(0, |last| last + 1);
            self.files[group as usize].truncate(used.max(scanned as usize));
        }
    }

    async fn mend_slot(&mut self, number: InodeNo, mut slot: Vec<u8>, part: TablePart) {
        let is_known = part == TablePart::Scanned;
        let place = Place::Inode(number);
        let reserved = self.layout.is_reserved(number);
        let mut is_resized = false;
        let links = u16::from_le_bytes([slot[0x1a], slot[0x1b]]);
        if links == 0 && !reserved {
            return self.mend_free_slot(number, &slot).await;
        }
        let mut inode = match Inode::decode_unverified(&slot, number, &self.layout) {
            Ok(inode) => inode,
            Err(_) if !is_known => return,
            Err(_) => {
                slot[EXTRA_SIZE].copy_from_slice(&self.layout.new_extra_isize.to_le_bytes());
                self.note_loss(place, "the size of its further fields is set");
                is_resized = true;
                let Ok(inode) = Inode::decode_unverified(&slot, number, &self.layout) else { return };
                inode
            }
        };
        let blank = reserved && slot.iter().all(|&byte| byte == 0);
        let is_sealed = blank || verify_checksum(&slot, number, &inode, &self.layout).is_ok();
        if !is_known && !is_sealed && self.layout.features.metadata_csum() {
            return;
        }
        if let Some(file) = self.file(number) {
            file.used = true;
        }
        if blank {
            return;
        }
        let before = (inode.clone(), slot.clone());
        self.mend_disguise(number, &mut inode).await;
        if let Some(why) = self.mend_fields(number, &mut inode) {
            return self.clear_inode(number, why).await;
        }
        if slot[FRAGMENT] != [0; 4] {
            slot[FRAGMENT].fill(0);
            self.note(place, "the address of a fragment is taken out");
        }
        self.mend_inode_attributes(number, &inode, &mut slot);
        if let Some(why) = self.mend_content(number, &mut inode).await {
            return self.clear_inode(number, why).await;
        }
        if let Some(file) = self.file(number) {
            file.kind = inode.kind();
        }
        if !is_sealed {
            self.note(place, "the checksum is made anew");
        }
        if (&inode, &slot) != (&before.0, &before.1) || !is_sealed || is_resized {
            inode.encode_into(&mut slot, number, &self.layout);
            self.put_slot(number, &slot).await;
        }
    }

    /// Restores the kind of a directory with a wrong mode.
    async fn mend_disguise(&mut self, number: InodeNo, inode: &mut Inode) {
        let Some(block) = block_to_look_at(inode, &self.layout) else { return };
        let Some(page) = self.read(block).await else { return };
        if begins_as_directory(&page.bytes()[..], number) {
            inode.mode = FileKind::Directory.mode_bits() | inode.mode & 0o7777;
            self.note_loss(Place::Inode(number), "is a directory again, which its mode did not say");
        }
    }

    async fn mend_free_slot(&mut self, number: InodeNo, slot: &[u8]) {
        let Ok(mut inode) = Inode::decode_unverified(slot, number, &self.layout) else { return };
        let released = self.released.contains(&number);
        let unfinished = inode.dtime == 0 && inode.mode != 0;
        if released || unfinished || (inode.dtime != 0 && inode.dtime <= self.layout.inode_count) {
            (inode.dtime, inode.size, inode.sectors) = (self.options.unix_time, 0, 0);
            inode.file_acl = BlockNo::FIRST;
            inode.block.fill(0);
            inode.flags &= !(flags::EXTENTS | flags::INDEX);
            let what = if released { "an orphan is removed" } else { "a free inode gets a time of deletion" };
            self.note(Place::Inode(number), what);
            self.put_inode(number, &inode).await;
        }
    }

    /// Corrects fields; returns a reason if the inode must be cleared.
    fn mend_fields(&mut self, number: InodeNo, inode: &mut Inode) -> Option<&'static str> {
        let place = Place::Inode(number);
        let reserved = number < self.layout.first_inode && number != ROOT_INODE;
        let special = number == self.layout.journal_inode || number == RESIZE_INODE;
        if reserved && !special {
            let problem = reserved_problem(number, inode);
            let odd = !matches!(inode.kind(), Some(FileKind::Regular)) && inode.mode != 0;
            if problem.is_some() || odd {
                return Some(problem.unwrap_or("is reserved but no file"));
            }
        }
        if inode.kind().is_none() && !(reserved && inode.mode == 0) {
            return (number != ROOT_INODE).then_some("the mode names no kind of file");
        }
        if reserved && inode.mode == 0 && inode.flags & !flags::EXTENTS != 0 {
            return Some("is reserved but has flags");
        }
        if inode.dtime != 0 && (inode.links > 0 || self.truncated.contains(&number)) {
            inode.dtime = 0;
            self.note(place, "the time of deletion is taken out");
        }
        let unknown = self.impossible_flags(inode);
        if unknown != 0 {
            inode.flags &= !unknown;
            self.note_loss(place, format!("flags {unknown:#x} are taken out"));
        }
        let holds_content = matches!(inode.kind(), Some(FileKind::Regular | FileKind::Directory));
        let looks_extent = Node::parse(&inode.block, place).is_ok_and(|node| !node.is_empty());
        if holds_content && self.has_extents() && !inode.has(flags::EXTENTS) && looks_extent {
            inode.flags |= flags::EXTENTS;
            self.note_loss(place, "the flag of extents is set: there are extents");
        }
        match inode.kind() {
            Some(FileKind::Regular | FileKind::Directory) | None => None,
            Some(FileKind::Symlink) => self.mend_fast_link(number, inode),
            Some(_) => {
                let before = inode.clone();
                inode.size = 0;
                inode.flags &= !(flags::EXTENTS | flags::INDEX | flags::IMMUTABLE | flags::APPEND);
                inode.block[16..].fill(0);
                if *inode != before {
                    self.note_loss(place, "what only files and directories have is taken out");
                }
                None
            }
        }
    }

    fn impossible_flags(&self, inode: &Inode) -> u32 {
        let features = self.layout.features;
        let directory = inode.kind() == Some(FileKind::Directory);
        let rules = [
            (flags::INDEX, directory && features.compat.contains(Compat::DIR_INDEX)),
            (flags::EXTENTS, self.has_extents()),
            (flags::HUGE_FILE, features.ro_compat.contains(RoCompat::HUGE_FILE)),
            (flags::INLINE_DATA, features.incompat.contains(Incompat::INLINE_DATA)),
            (flags::ENCRYPT, features.incompat.contains(Incompat::ENCRYPT)),
            (flags::EA_INODE, features.incompat.contains(Incompat::EA_INODE)),
            (flags::IMAGIC, features.compat.contains(Compat::IMAGIC_INODES)),
            (flags::CASEFOLD, features.incompat.contains(Incompat::CASEFOLD)),
            (flags::VERITY, features.ro_compat.contains(RoCompat::VERITY)),
        ];
        let wrong = |sum: u32, (flag, allowed): (u32, bool)| if allowed { sum } else { sum | flag };
        let mut unknown = rules.into_iter().fold(0, wrong);
        if inode.kind() == Some(FileKind::Symlink) {
            unknown |= flags::IMMUTABLE | flags::APPEND;
        }
        inode.flags & unknown
    }

    /// Corrects a symbolic link whose target lies in the inode; returns a reason if the inode must be cleared.
    fn mend_fast_link(&mut self, number: InodeNo, inode: &mut Inode) -> Option<&'static str> {
        let place = Place::Inode(number);
        let is_fast = inode.size > 0 && inode.size < FAST_LINK_MAX;
        if !is_fast {
            return None;
        }
        if inode.has(flags::EXTENTS) {
            if Node::parse(&inode.block, place).is_ok() {
                return Some("a short symbolic link without its target");
            }
            inode.flags &= !flags::EXTENTS;
            self.note_loss(place, "the flag of extents is taken out of a short link");
        }
        let length = inode.block.iter().position(|&byte| byte == 0).unwrap_or(inode.block.len()) as u64;
        if length == 0 || length >= FAST_LINK_MAX {
            return Some("a symbolic link without a target");
        }
        if inode.size != length {
            inode.size = length;
            self.note_loss(place, "the size of a link is that of its target");
        }
        None
    }

    /// Claims the blocks of an inode and corrects size and sectors; returns a reason if the inode must be cleared.
    async fn mend_content(&mut self, number: InodeNo, inode: &mut Inode) -> Option<&'static str> {
        if number == RESIZE_INODE {
            return None;
        }
        let has_map = match inode.kind() {
            Some(FileKind::Regular | FileKind::Directory) => true,
            Some(FileKind::Symlink) => inode.size == 0 || inode.size >= FAST_LINK_MAX,
            Some(_) => false,
            None => number < self.layout.first_inode && number != ROOT_INODE,
        };
        let mut content = match has_map {
            true => self.map_pass().claim_content(number, inode).await,
            false => Content::default(),
        };
        let is_link = inode.kind() == Some(FileKind::Symlink);
        if is_link && has_map {
            let whole =
                content.pieces.len() == 1 && content.data_blocks() == 1 && content.pieces[0].extent.logical == 0;
            if !whole {
                self.map_pass().give_up(&content);
                return Some("a symbolic link without the block of its target");
            }
            if let Some(why) = self.mend_slow_link(number, inode, content.pieces[0].extent.physical).await {
                self.map_pass().give_up(&content);
                return Some(why);
            }
        }
        if content.is_damaged && number < self.layout.first_inode && number != ROOT_INODE {
            let is_journal = number == self.layout.journal_inode;
            self.map_pass().give_up(&content);
            return Some(if is_journal { "the map of the journal is damaged" } else { "reserved, with a damaged map" });
        }
        if inode.kind() == Some(FileKind::Regular) {
            self.map_pass().shorten(number, inode, &mut content);
            self.mend_size(number, inode, &content);
        }
        let attributes = self.claim_attributes(number, inode).await;
        let sectors = (content.blocks + attributes) * u64::from(self.layout.block_size / 512);
        if content.is_damaged {
            content.attributes = attributes;
            self.note_loss(Place::Inode(number), "the map is made anew from what is sound");
            self.rebuilds.push(content.into_rebuild(number));
        } else if sectors != inode.sectors {
            inode.sectors = sectors;
            self.note(Place::Inode(number), format!("counts {sectors} sectors"));
        }
        None
    }

    async fn mend_slow_link(&mut self, number: InodeNo, inode: &mut Inode, block: BlockNo) -> Option<&'static str> {
        let page = self.read(block).await?;
        let bytes = page.bytes();
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()) as u64;
        if length < FAST_LINK_MAX || length == bytes.len() as u64 {
            return Some("a symbolic link without a target");
        }
        if inode.size != length {
            inode.size = length;
            self.note_loss(Place::Inode(number), "the size of a link is that of its target");
        }
        None
    }

    fn mend_size(&mut self, number: InodeNo, inode: &mut Inode, content: &Content) {
        let block_size = u64::from(self.layout.block_size);
        let last_written = content.pieces.iter().rfind(|piece| !piece.extent.unwritten);
        let end = last_written.map_or(0, |piece| piece.extent.logical_end());
        let size_max = block_size * ((1 << 32) - 1);
        let is_journal = number == self.layout.journal_inode;
        if end > 0 && inode.size < (end - 1) * block_size || inode.size > size_max {
            inode.size = (end * block_size).min(size_max);
            self.note_loss(Place::Inode(number), format!("the size is set to {} bytes", inode.size));
        } else if is_journal && inode.size != content.data_blocks() * block_size {
            inode.size = content.data_blocks() * block_size;
            self.note_loss(Place::Inode(number), format!("the size is set to {} bytes", inode.size));
        }
    }
}
