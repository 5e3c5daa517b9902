//! Extended attributes, in inodes and in blocks that several inodes may share.

use super::ReadBlocks;
use super::views::InodeStage;
use crate::block::BlockNo;
use crate::ext4::format::attribute::{self, Attributes};
use crate::ext4::format::features::Compat;
use crate::ext4::format::{Inode, InodeNo, Place};

const CURE: &str = "e2fsck -f; the attributes may be lost";

impl<R: ReadBlocks> InodeStage<'_, '_, R> {
    /// Checks the attributes behind an inode's fields.
    pub(super) fn check_inode_attributes(&mut self, number: InodeNo, area: &[u8]) {
        let place = Place::Inode(number);
        if let Err(error) = Attributes::in_inode(area, place).check() {
            self.report.add(place, error, CURE);
        }
    }

    /// Counts a reference to an inode's attribute block. The first reference also checks the block. Returns the number
    /// of blocks that the inode's sector count includes for it.
    pub(super) async fn claim_attributes(&mut self, number: InodeNo, inode: &Inode) -> u64 {
        let block = inode.file_acl;
        if block.is_none() {
            return 0;
        }
        if !self.layout.features.compat.contains(Compat::EXT_ATTR) {
            self.report.add(Place::Inode(number), "it has a block of attributes without the feature ext_attr", CURE);
        }
        match self.attribute_blocks.binary_search_by_key(&block, |&(block, _)| block) {
            Ok(at) => self.attribute_blocks[at].1 += 1,
            Err(at) => {
                if self.claim(block.alone(), Place::Inode(number)) {
                    self.attribute_blocks.insert(at, (block, 1));
                    self.check_attribute_block(block).await;
                }
            }
        }
        1
    }

    async fn check_attribute_block(&mut self, block: BlockNo) {
        let place = Place::Block(block);
        let Some(page) = self.read(block, place).await else { return };
        let bytes = page.bytes();
        let checked = attribute::verify_checksum(&bytes[..], block, &self.layout)
            .and_then(|()| Attributes::in_block(&bytes[..], place)?.check());
        if let Err(error) = checked {
            self.report.add(place, error, CURE);
        }
    }

    /// Compares each block's count of references with the inodes that name it.
    pub(super) async fn check_attribute_references(&mut self) {
        for (block, found) in std::mem::take(&mut self.attribute_blocks) {
            let place = Place::Block(block);
            let Some(page) = self.read(block, place).await else { continue };
            let bytes = page.bytes();
            let Ok(header) = attribute::header(&bytes[..], place) else { continue };
            let stored = header.refcount.get();
            if stored != found {
                self.report.add(place, format!("attributes of {found} inodes that count {stored}"), "e2fsck -f");
            }
        }
    }
}
