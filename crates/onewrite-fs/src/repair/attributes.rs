//! Extended attributes: keeps the sound ones and drops the rest.

use onewrite_block::Page;

use super::views::InodePass;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::ext4::format::attribute::{self, AttributeList, Attributes, ListPlace};
use crate::ext4::format::inode::attribute_area_mut;
use crate::ext4::format::{Inode, InodeNo, Place};

impl<R: ReadBlocks> InodePass<'_, '_, R> {
    /// Keeps the sound attributes behind an inode's fields.
    pub(super) fn mend_inode_attributes(&mut self, number: InodeNo, inode: &Inode, slot: &mut [u8]) {
        let place = Place::Inode(number);
        let area = attribute_area_mut(slot, inode);
        if Attributes::in_inode(area, place).check().is_ok() {
            return;
        }
        let kept = sound(Attributes::in_inode(area, place), ListPlace::Inode);
        let _ = kept.write_in_inode(area);
        self.note_loss(place, format!("of its attributes {} are kept, the rest dropped", kept.iter().count()));
    }

    /// Counts a reference to an inode's attribute block; returns the number of blocks that the inode's sector count
    /// includes for it.
    pub(super) async fn claim_attributes(&mut self, number: InodeNo, inode: &mut Inode) -> u64 {
        let block = inode.file_acl;
        if block.is_none() {
            return 0;
        }
        let usable = match self.attribute_blocks.get(&block).copied() {
            Some(users) => users > 0,
            None if self.is_attribute_block_too(block).await => {
                self.shared_attributes.entry(block).or_default().push(number);
                return 1;
            }
            None => {
                let is_free = block < self.layout.end() && !self.used.is_used(block);
                let usable = is_free && self.mend_attribute_block(block).await;
                if usable {
                    self.used.claim(block.alone());
                    self.attribute_blocks.insert(block, 0);
                }
                usable
            }
        };
        if !usable {
            inode.file_acl = BlockNo::FIRST;
            self.note_loss(Place::Inode(number), "its block of attributes is dropped");
            return 0;
        }
        *self.attribute_blocks.entry(block).or_default() += 1;
        1
    }

    /// Whether a block of another owner is also a sound attribute block.
    async fn is_attribute_block_too(&mut self, block: BlockNo) -> bool {
        let is_other = block < self.layout.end() && self.used.is_used(block) && !self.fixed.is_used(block);
        let Some(page) = (if is_other { self.read(block).await } else { None }) else { return false };
        let bytes = page.bytes();
        let is_sound = Attributes::in_block(&bytes[..], Place::Block(block)).and_then(Attributes::check).is_ok();
        is_sound && attribute::verify_checksum(&bytes[..], block, &self.layout).is_ok()
    }

    /// Keeps the sound attributes of a block; false if there are none.
    async fn mend_attribute_block(&mut self, block: BlockNo) -> bool {
        let place = Place::Block(block);
        let Some(page) = self.read(block).await else { return false };
        let mut bytes = *page.bytes();
        if attribute::header(&bytes[..], place).is_err() {
            return false;
        }
        let is_sound = Attributes::in_block(&bytes[..], place).and_then(Attributes::check).is_ok();
        let is_sealed = attribute::verify_checksum(&bytes[..], block, &self.layout).is_ok();
        if is_sound && is_sealed {
            return true;
        }
        if is_sound {
            self.note(place, "the checksum of attributes is made anew");
        } else {
            // Attributes have at most one block.
            bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
            let Ok(attributes) = Attributes::in_block(&bytes[..], place) else { return false };
            let kept = sound(attributes, ListPlace::Block);
            if kept.is_empty() || !kept.write_in_block(&mut bytes) {
                return false;
            }
            self.note_loss(place, format!("{} attributes are kept, the rest dropped", kept.iter().count()));
        }
        attribute::set_checksum(&mut bytes, block, &self.layout);
        self.image.put(block, Page::new(bytes));
        true
    }

    /// Writes the reference count of each attribute block.
    pub(super) async fn count_attribute_blocks(&mut self) {
        for (block, users) in std::mem::take(&mut self.attribute_blocks) {
            let Some(page) = self.read(block).await else { continue };
            let mut bytes = *page.bytes();
            let stored = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            if stored != users {
                bytes[4..8].copy_from_slice(&users.to_le_bytes());
                attribute::set_checksum(&mut bytes, block, &self.layout);
                self.image.put(block, Page::new(bytes));
                self.note(Place::Block(block), format!("attributes of {users} inodes"));
            }
        }
    }
}

/// The attributes with valid entries.
fn sound(attributes: Attributes<'_>, list_place: ListPlace) -> AttributeList {
    let in_block = list_place == ListPlace::Block;
    let mut kept = AttributeList::default();
    for attribute in attributes.map_while(Result::ok) {
        let hash_holds = attribute.hash_holds() || attribute.hash == 0 && !in_block;
        if hash_holds && (attribute.name_index != 0 || !in_block) {
            kept.set(attribute.name_index, attribute.name, attribute.value.to_vec());
        }
    }
    kept
}
