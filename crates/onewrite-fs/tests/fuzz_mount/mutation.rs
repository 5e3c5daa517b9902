//! Mutations of a specimen, and correct checksums for the changed structures.

use std::collections::BTreeSet;

use onewrite_block::{Choices, Image, Lpn, Page, PageBytes};
use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::directory::{block, htree};
use onewrite_fs::ext4::format::{Inode, InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock, attribute, extent};
use zerocopy::FromBytes;

use crate::log::{self, What};
use crate::specimen::{BLOCK, Kind, Specimen, bytes};

/// A specimen under mutation.
pub struct Mutant<'a> {
    specimen: &'a Specimen,
    image: Image,
    touched: BTreeSet<u64>,
    log_touched: bool,
}

/// The image of `specimen` after one to four mutations; if `sealed`, with good checksums.
pub fn mutate(specimen: &Specimen, choices: &mut Choices, sealed: bool) -> Image {
    let (image, touched) = (specimen.image.clone(), BTreeSet::new());
    let mut mutant = Mutant { specimen, image, touched, log_touched: false };
    for _ in 0..=choices.index(4) {
        let in_log = specimen.log.len() > 1 && choices.chance(1, 2);
        match in_log {
            true => mutant.mutate_log(choices),
            false => mutant.mutate_home(choices),
        }
    }
    if sealed {
        mutant.seal();
    }
    mutant.image
}

/// A value that often causes bugs.
fn interesting(old: u64, bits: u64, choices: &mut Choices) -> u64 {
    match choices.index(9) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old ^ 1 << choices.below(bits),
        5 => 1 << choices.below(bits),
        6 => (1 << choices.below(bits)) - 1,
        7 => choices.below(300),
        _ => choices.bits(),
    }
}

/// Changes one aligned field among the first `length` bytes.
fn hurt(bytes: &mut [u8], length: usize, choices: &mut Choices) {
    let size = [1, 2, 4, 8][choices.index(4)];
    let at = choices.index(length.min(bytes.len()) / size) * size;
    hurt_field(&mut bytes[at..at + size], choices);
}

fn hurt_field(field: &mut [u8], choices: &mut Choices) {
    let mut word = [0; 8];
    word[..field.len()].copy_from_slice(field);
    let new = interesting(u64::from_le_bytes(word), field.len() as u64 * 8, choices);
    field.copy_from_slice(&new.to_le_bytes()[..field.len()]);
}

impl Mutant<'_> {
    fn change(&mut self, block: u64, change: impl FnOnce(&mut PageBytes)) {
        let mut content = bytes(&self.image, block);
        change(&mut content);
        self.image.set(Lpn(block), Page::new(content));
        self.touched.insert(block);
    }

    /// Picks a metadata block; every kind is equally likely.
    fn structure(&self, choices: &mut Choices) -> (u64, Kind) {
        let kind = |kind: &Kind| std::mem::discriminant(kind);
        let all = &self.specimen.kinds;
        let (_, wanted) = all.iter().nth(choices.index(all.len())).expect("below its length");
        let wanted = match choices.index(3) {
            0 => *wanted,
            // Rare kinds occur only once in an image.
            _ => {
                let mut distinct: Vec<Kind> = Vec::new();
                for one in all.values() {
                    if distinct.iter().all(|other| kind(other) != kind(one)) {
                        distinct.push(*one);
                    }
                }
                distinct[choices.index(distinct.len())]
            }
        };
        let alike: Vec<u64> =
            all.iter().filter(|(_, one)| kind(one) == kind(&wanted)).map(|(block, _)| *block).collect();
        let block = alike[choices.index(alike.len())];
        (block, all[&block])
    }

    /// A block number that is wrong for content.
    fn wrong_block(&self, own: u64, choices: &mut Choices) -> u64 {
        let count = self.specimen.layout.block_count;
        match choices.index(6) {
            0 => own,
            1 => self.structure(choices).0,
            2 => self.specimen.log_blocks[choices.index(self.specimen.log_blocks.len())],
            3 => [0, 1, count - 1, count, count + 1][choices.index(5)],
            4 => choices.bits() >> choices.below(64),
            _ => choices.below(count),
        }
    }

    fn inode(&self, choices: &mut Choices) -> InodeNo {
        self.specimen.inodes[choices.index(self.specimen.inodes.len())]
    }

    /// An inode number that is likely to cause an error.
    fn wrong_inode(&self, choices: &mut Choices) -> InodeNo {
        match choices.index(4) {
            0 => InodeNo([0, 1, 2, 7, 8, 11][choices.index(6)]),
            1 => InodeNo(self.specimen.layout.inode_count.wrapping_add(choices.below(3) as u32).wrapping_sub(1)),
            2 => InodeNo(choices.bits() as u32),
            _ => self.inode(choices),
        }
    }

    fn mutate_home(&mut self, choices: &mut Choices) {
        match choices.index(12) {
            0 => self.flip_bits(choices),
            1 => self.exchange_blocks(choices),
            2 => self.point_extent(choices),
            3 => self.point_entry(choices),
            4 => self.chain_orphans(choices),
            5 | 6 => self.hurt_inode(choices),
            _ => self.hurt_structure(choices),
        }
    }

    fn flip_bits(&mut self, choices: &mut Choices) {
        let block = self.structure(choices).0;
        for _ in 0..=choices.index(3) {
            let bit = choices.index(BLOCK * 8);
            self.change(block, |content| content[bit / 8] ^= 1 << (bit % 8));
        }
    }

    fn exchange_blocks(&mut self, choices: &mut Choices) {
        let (one, other) = (self.structure(choices).0, self.structure(choices).0);
        let (first, second) = (bytes(&self.image, one), bytes(&self.image, other));
        self.change(one, |content| *content = second);
        if choices.chance(1, 2) {
            self.change(other, |content| *content = first);
        }
    }

    fn hurt_structure(&mut self, choices: &mut Choices) {
        let (block, kind) = self.structure(choices);
        let slot = usize::from(self.specimen.layout.inode_size);
        self.change(block, |content| match kind {
            Kind::Superblock => hurt(&mut content[1024..2048], 0x280, choices),
            Kind::Descriptors => hurt(content, 0x100, choices),
            Kind::BlockBitmap(_) | Kind::InodeBitmap(_) => hurt(content, BLOCK, choices),
            Kind::InodeTable(_) => {
                let start = choices.index(BLOCK / slot) * slot;
                hurt(&mut content[start..start + slot], slot, choices);
            }
            Kind::ExtentNode(_) => hurt(content, 60, choices),
            Kind::Entries(_) => hurt(content, [40, 600, BLOCK][choices.index(3)], choices),
            Kind::TreeRoot(_) | Kind::TreeNode(_) => hurt(content, 80, choices),
            Kind::Attributes => hurt(content, 64, choices),
        });
    }

    /// Changes a field of an inode.
    fn hurt_inode(&mut self, choices: &mut Choices) {
        // Mode, size, links, sectors, flags, root of the extents, generation, attributes, size, extra size.
        let fields: [(usize, usize); 14] = [
            (0, 2),
            (4, 4),
            (0x1a, 2),
            (0x1c, 4),
            (0x20, 4),
            (0x14, 4),
            (0x28, 2),
            (0x2a, 2),
            (0x2c, 2),
            (0x2e, 2),
            (0x34 + choices.index(24) * 2, 2),
            (0x64, 4),
            (0x68, 4),
            (0x6c, 4),
        ];
        let (block, offset) = self.specimen.slot(self.inode(choices));
        let (at, size) = fields[choices.index(fields.len())];
        self.change(block, |content| hurt_field(&mut content[offset + at..offset + at + size], choices));
    }

    /// Makes an extent or an index point elsewhere, sometimes at its own block.
    fn point_extent(&mut self, choices: &mut Choices) {
        let (own, start) = match choices.index(2) {
            0 => {
                let nodes = |(block, kind): (&u64, &Kind)| matches!(kind, Kind::ExtentNode(_)).then_some(*block);
                let nodes: Vec<u64> = self.specimen.kinds.iter().filter_map(nodes).collect();
                if nodes.is_empty() {
                    return;
                }
                (nodes[choices.index(nodes.len())], 0)
            }
            _ => {
                let (block, offset) = self.specimen.slot(self.inode(choices));
                (block, offset + 0x28)
            }
        };
        let (target, entry) = (self.wrong_block(own, choices), choices.index(3));
        self.change(own, |content| {
            let at = start + 12 + entry * 12;
            let is_leaf = content[start + 6] == 0 && content[start + 7] == 0;
            let (low, high) = if is_leaf { (at + 8, at + 6) } else { (at + 4, at + 8) };
            content[low..low + 4].copy_from_slice(&(target as u32).to_le_bytes());
            content[high..high + 2].copy_from_slice(&((target >> 32) as u16).to_le_bytes());
        });
    }

    /// Makes a directory entry, also `..`, name another inode, or a hash tree another block.
    fn point_entry(&mut self, choices: &mut Choices) {
        let is_directory = |kind: &Kind| matches!(kind, Kind::Entries(_) | Kind::TreeRoot(_) | Kind::TreeNode(_));
        let blocks: Vec<u64> =
            self.specimen.kinds.iter().filter(|(_, kind)| is_directory(kind)).map(|(block, _)| *block).collect();
        let block = blocks[choices.index(blocks.len())];
        let kind = self.specimen.kinds[&block];
        let inode = self.wrong_inode(choices);
        let which = choices.index(12);
        let target = choices.below(12) as u32;
        self.change(block, |content| match kind {
            Kind::Entries(_) => {
                let mut at = 0;
                for _ in 0..which {
                    let length = usize::from(u16::from_le_bytes([content[at + 4], content[at + 5]]));
                    if length == 0 || at + length + 12 > BLOCK {
                        break;
                    }
                    at += length;
                }
                content[at..at + 4].copy_from_slice(&inode.0.to_le_bytes());
            }
            _ => {
                let at = 0x24 + which * 8;
                content[at..at + 4].copy_from_slice(&target.to_le_bytes());
            }
        });
    }

    /// Makes an orphan list of up to three inodes. They may be in use or free, and the list may be a circle.
    fn chain_orphans(&mut self, choices: &mut Choices) {
        let mut next = if choices.chance(1, 2) { InodeNo::NONE } else { self.wrong_inode(choices) };
        for _ in 0..=choices.index(3) {
            let inode = self.inode(choices);
            let (block, offset) = self.specimen.slot(inode);
            let is_unlinked = choices.chance(1, 2);
            self.change(block, |content| {
                content[offset + 0x14..offset + 0x18].copy_from_slice(&next.0.to_le_bytes());
                if is_unlinked {
                    content[offset + 0x1a..offset + 0x1c].fill(0);
                }
            });
            next = inode;
        }
        self.change(0, |content| content[1024 + 0xe8..1024 + 0xec].copy_from_slice(&next.0.to_le_bytes()));
    }

    fn mutate_log(&mut self, choices: &mut Choices) {
        self.log_touched = true;
        let items = &self.specimen.log;
        let index = choices.index(items.len());
        let item = if choices.chance(1, 6) { &items[0] } else { &items[index] };
        let other = &items[choices.index(items.len())];
        match &item.what {
            _ if choices.chance(1, 12) => {
                let content = bytes(&self.image, other.place);
                self.change(item.place, |block| *block = content);
            }
            What::Superblock => self.change(item.place, |block| hurt(block, 0x60, choices)),
            What::Descriptor { tags, .. } if !tags.is_empty() && choices.chance(1, 2) => {
                let home = self.wrong_block(item.place, choices);
                let (offset, _) = tags[choices.index(tags.len())];
                self.change(item.place, |block| {
                    block[offset..offset + 4].copy_from_slice(&(home as u32).to_be_bytes());
                });
            }
            What::Descriptor { .. } => self.change(item.place, |block| hurt(block, 120, choices)),
            What::Copy { home } => self.hurt_copy(item.place, *home, choices),
            What::Revoke => self.change(item.place, |block| hurt(block, 40, choices)),
            What::Commit => self.change(item.place, |block| hurt(block, 60, choices)),
        }
    }

    fn hurt_copy(&mut self, place: u64, home: u64, choices: &mut Choices) {
        let slot = usize::from(self.specimen.layout.inode_size);
        let start = match self.specimen.kinds.get(&home) {
            Some(Kind::InodeTable(_)) => choices.index(BLOCK / slot) * slot,
            Some(Kind::Superblock) => 1024,
            _ => 0,
        };
        self.change(place, |block| hurt(&mut block[start..], 120, choices));
    }

    /// Corrects the checksums of all changed structures, also of copies in the log.
    fn seal(&mut self) {
        for block in self.touched.clone() {
            if let Some(kind) = self.specimen.kinds.get(&block) {
                self.seal_block(block, block, *kind);
            }
        }
        if !self.log_touched {
            return;
        }
        for item in &self.specimen.log {
            if let What::Copy { home } = item.what
                && self.touched.contains(&item.place)
                && let Some(kind) = self.specimen.kinds.get(&home)
            {
                self.seal_block(item.place, home, *kind);
            }
        }
        log::seal(&mut self.image, &self.specimen.log);
    }

    fn seal_block(&mut self, place: u64, home: u64, kind: Kind) {
        let layout = &self.specimen.layout;
        let mut content = bytes(&self.image, place);
        match kind {
            Kind::BlockBitmap(group) | Kind::InodeBitmap(group) if place == home => {
                return self.seal_bitmap(&content, group, kind);
            }
            Kind::Superblock => {
                let raw = RawSuperblock::mut_from_bytes(&mut content[1024..2048]).expect("1,024 bytes");
                raw.checksum.set(raw.computed_checksum());
            }
            _ => seal_content(&mut content, home, kind, layout),
        }
        self.image.set(Lpn(place), Page::new(content));
    }

    fn seal_bitmap(&mut self, bitmap: &PageBytes, group: u32, kind: Kind) {
        let layout = &self.specimen.layout;
        let (block, offset) = layout.position_of_descriptor(group);
        let mut table = bytes(&self.image, block.0);
        let mut descriptor = RawGroupDescriptor::read(&table[offset..], group, layout).expect("64 bytes");
        match kind {
            Kind::BlockBitmap(_) => descriptor.update_block_bitmap_checksum(bitmap, layout),
            _ => descriptor.update_inode_bitmap_checksum(bitmap, layout),
        }
        descriptor.write(&mut table[offset..], group, layout);
        self.image.set(block.page(), Page::new(table));
    }
}

fn seal_content(content: &mut PageBytes, home: u64, kind: Kind, layout: &Layout) {
    match kind {
        Kind::Descriptors => {
            let size = usize::from(layout.descriptor_size);
            for (group, slot) in (0..layout.group_count).zip(content.chunks_mut(size)) {
                let mut descriptor = RawGroupDescriptor::read(slot, group, layout).expect("a whole slot");
                descriptor.write(slot, group, layout);
            }
        }
        Kind::InodeTable(first) => {
            for (number, slot) in (first.0..).map(InodeNo).zip(content.chunks_mut(usize::from(layout.inode_size))) {
                // Without a valid `extra_isize` there is no checksum to correct.
                if let Ok(inode) = Inode::decode_unverified(slot, number, layout) {
                    inode.encode_into(slot, number, layout);
                }
            }
        }
        Kind::ExtentNode(seed) => extent::set_checksum(content, seed, layout),
        Kind::Entries(seed) => block::set_checksum(content, seed, layout),
        Kind::TreeRoot(seed) => {
            if let Ok(mut root) = htree::IndexMut::root(content, layout, Place::Block(BlockNo(home))) {
                root.set_checksum(seed, layout);
            }
        }
        Kind::TreeNode(seed) => {
            if let Ok(mut node) = htree::IndexMut::node(content, layout, Place::Block(BlockNo(home))) {
                node.set_checksum(seed, layout);
            }
        }
        Kind::Attributes => attribute::set_checksum(content, BlockNo(home), layout),
        Kind::Superblock | Kind::BlockBitmap(_) | Kind::InodeBitmap(_) => (),
    }
}
