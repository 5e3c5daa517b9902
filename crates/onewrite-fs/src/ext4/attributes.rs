//! Extended attributes of mounted inodes: first in the inode, the rest in one block.
//!
//! A change reads all attributes of the inode, changes the list and writes it back. Attributes that fit go behind the
//! inode's fields; one separate block holds the rest. Linux lets several inodes share such a block. A change never
//! modifies the attributes in a shared block: the inode gets its own copy.

use std::borrow::Cow;
use std::rc::Rc;

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::balloc::ALLOCATION_CREDITS;
use super::format::attribute::{self, AttributeList, Attributes};
use super::format::inode::{attribute_area, attribute_area_mut};
use super::format::{Layout, Place};
use super::inodes::Node;
use super::views::ExtendedAttributes;
use super::volume::block_key;
use crate::acl;
use crate::api::{AttributeManner, FsError, FsResult};
use crate::block::BlockNo;
use crate::journal::Handle;

/// Blocks that a change of attributes may change: old and new block, their bitmaps, the inode.
const ATTRIBUTE_CREDITS: usize = 3 + 2 * ALLOCATION_CREDITS;

/// Prefixes of names, with their numbers.
const PREFIXES: [(u8, &[u8]); 4] = [(1, b"user."), (4, b"trusted."), (6, b"security."), (7, b"system.")];
/// Names that have a number of their own.
const WHOLE_NAMES: [(u8, &[u8]); 2] = [(2, b"system.posix_acl_access"), (3, b"system.posix_acl_default")];

fn is_acl(index: u8) -> bool {
    WHOLE_NAMES.iter().any(|(whole, _)| *whole == index)
}

/// Splits a name into the number of its prefix and the rest.
pub(super) fn split_name(name: &[u8]) -> FsResult<(u8, &[u8])> {
    if let Some((index, _)) = WHOLE_NAMES.iter().find(|(_, whole)| *whole == name) {
        return Ok((*index, b""));
    }
    let found = PREFIXES.iter().find_map(|(index, prefix)| Some((*index, name.strip_prefix(*prefix)?)));
    match found {
        Some((_, rest)) if rest.len() > 255 => Err(FsError::NameTooLong(name.len())),
        Some((_, rest)) if rest.contains(&0) => {
            Err(FsError::Invalid("the name of an extended attribute with a zero byte".into()))
        }
        Some((index, rest)) if !rest.is_empty() => Ok((index, rest)),
        _ => {
            let name = String::from_utf8_lossy(name);
            Err(FsError::Unsupported(format!(
                "extended attribute `{name}`; names begin with user., trusted., security. or system."
            )))
        }
    }
}

/// The reverse of [`split_name`]; `None` if the prefix number is unknown.
pub(super) fn full_name(index: u8, name: &[u8]) -> Option<Vec<u8>> {
    if let Some((_, whole)) = WHOLE_NAMES.iter().find(|(number, _)| *number == index) {
        return Some(whole.to_vec());
    }
    let (_, prefix) = PREFIXES.iter().find(|(number, _)| *number == index)?;
    Some([*prefix, name].concat())
}

impl ExtendedAttributes<'_> {
    /// All attributes of the inode.
    async fn attribute_list(&self, node: &Node) -> FsResult<AttributeList> {
        let mut list = AttributeList::default();
        self.load_inode_block(node.number()).await?;
        {
            let (block, offset) = self.inode_position(node.number());
            let page = self.pages().peek(block_key(block)).expect("just loaded");
            let bytes = page.bytes();
            let slot = &bytes[offset..offset + usize::from(self.layout().inode_size)];
            list.read(Attributes::in_inode(attribute_area(slot, &node.inode()), Place::Inode(node.number())))?;
        }
        let home = node.inode().file_acl;
        if home.is_some() {
            let page = self.attribute_block(home).await?;
            list.read(Attributes::in_block(&page.bytes()[..], Place::Block(home))?)?;
        }
        Ok(list)
    }

    async fn attribute_block(&self, home: BlockNo) -> FsResult<onewrite_block::Page> {
        self.check_content("block of attributes", home.alone())?;
        self.block(home, |bytes: &PageBytes| attribute::verify_checksum(&bytes[..], home, self.layout())).await
    }

    /// See `FileSystem::extended_attribute`.
    pub(super) async fn get_attribute(&self, node: &Node, name: &[u8]) -> FsResult<Vec<u8>> {
        let (index, rest) = split_name(name)?;
        let list = self.attribute_list(node).await?;
        let missing = || FsError::NoData(format!("extended attribute `{}`", String::from_utf8_lossy(name)));
        let value = list.value(index, rest).ok_or_else(missing)?;
        if !is_acl(index) {
            return Ok(value.to_vec());
        }
        let place = || format!("access control list of {}", node.ino());
        acl::from_disk(value).map_err(|problem| FsError::Damaged { place: place(), problem })
    }

    /// See `FileSystem::extended_attributes`.
    pub(super) async fn list_attributes(&self, node: &Node) -> FsResult<Vec<Vec<u8>>> {
        let list = self.attribute_list(node).await?;
        Ok(list.iter().filter_map(|(index, name, _)| full_name(index, name)).collect())
    }

    /// See `FileSystem::set_extended_attribute`. The caller holds the node's lock exclusively.
    pub(super) async fn set_attribute(
        &self,
        node: &Rc<Node>,
        name: &[u8],
        value: Option<&[u8]>,
        manner: AttributeManner,
    ) -> FsResult<()> {
        let (index, rest) = split_name(name)?;
        let stored = match value {
            Some(value) if is_acl(index) => Some(Cow::Owned(acl::to_disk(value).map_err(FsError::Invalid)?)),
            other => other.map(Cow::Borrowed),
        };
        let mut list = self.attribute_list(node).await?;
        let (is_there, shown) = (list.value(index, rest).is_some(), String::from_utf8_lossy(name).into_owned());
        match (is_there, manner, stored) {
            (true, AttributeManner::Create, _) => return Err(FsError::Exists(shown)),
            (false, AttributeManner::Replace, _) | (false, _, None) => return Err(FsError::NoData(shown)),
            (_, _, Some(value)) => list.set(index, rest, value.into_owned()),
            (_, _, None) => drop(list.remove(index, rest)),
        }
        self.write_attributes(node, &list).await
    }

    async fn write_attributes(&self, node: &Rc<Node>, list: &AttributeList) -> FsResult<()> {
        let mut slot = vec![0; usize::from(self.layout().inode_size)];
        let outside = list.write_in_inode(attribute_area_mut(&mut slot, &node.inode()));
        let mut bytes = [0; PAGE_SIZE];
        if !outside.is_empty() && !outside.write_in_block(&mut bytes) {
            let what = "bytes for extended attributes (the inode and one block hold them all)";
            return Err(FsError::NoSpace { what, needed: 1, free: 0 });
        }
        onewrite_block::reached!("attributes too large for their inode", !outside.is_empty());
        let mut handle = self.journal().start(ATTRIBUTE_CREDITS).await?;
        self.replace_attribute_block(&mut handle, node, (!outside.is_empty()).then_some(bytes)).await?;
        self.load_inode_block(node.number()).await?;
        let (block, offset) = self.inode_position(node.number());
        self.change(&mut handle, block, |bytes| {
            let inode = node.inode();
            let area = attribute_area_mut(&mut bytes[offset..offset + slot.len()], &inode);
            area.copy_from_slice(attribute_area(&slot, &inode));
        });
        node.inode_mut().ctime = self.timestamp();
        self.save(&mut handle, node);
        Ok(())
    }

    /// Replaces the inode's attribute block by `content`; `None` removes it. Changes the old block in place if no other
    /// inode refers to it; otherwise releases it.
    async fn replace_attribute_block(
        &self,
        handle: &mut Handle,
        node: &Node,
        content: Option<PageBytes>,
    ) -> FsResult<()> {
        let old = node.inode().file_acl;
        let is_own = old.is_some() && references(&self.attribute_block(old).await?.bytes()) == 1;
        let fill = |home: BlockNo, mut bytes: PageBytes| {
            attribute::set_checksum(&mut bytes[..], home, self.layout());
            debug_assert!(
                is_attribute_block(&bytes, home, self.layout()),
                "block {home} would be refused as attributes"
            );
            bytes
        };
        onewrite_block::reached!("shared xattr block replaced", old.is_some() && !is_own);
        match content {
            None if old.is_some() => self.release_attribute_block(handle, node).await,
            None => Ok(()),
            Some(bytes) if is_own => {
                onewrite_block::reached!("xattr block changed in place");
                self.change(handle, old, |block| *block = fill(old, bytes));
                Ok(())
            }
            Some(bytes) => {
                self.make_room().await?;
                let goal = self.layout().first_block_of_group(self.layout().group_of_inode(node.number()));
                let home = self.allocator().allocate_blocks(handle, goal, 1).await?.start;
                if old.is_some() {
                    self.release_attribute_block(handle, node).await?;
                }
                self.create_block(handle, home, |block| *block = fill(home, bytes));
                node.inode_mut().file_acl = home;
                node.add_blocks(1);
                Ok(())
            }
        }
    }

    /// Detaches the attribute block from the inode: decrements its reference count and frees it at the last reference.
    pub(super) async fn release_attribute_block(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        let home = node.inode().file_acl;
        if home.is_none() {
            return Ok(());
        }
        let count = references(&self.attribute_block(home).await?.bytes());
        onewrite_block::reached!("shared xattr block loses a user", count > 1);
        onewrite_block::reached!("xattr block freed", count <= 1);
        if count <= 1 {
            self.allocator().load_to_free(home.alone()).await?;
        }
        node.inode_mut().file_acl = BlockNo::default();
        node.drop_blocks(1);
        if count <= 1 {
            return self.allocator().free_blocks(handle, home.alone()).await;
        }
        self.change(handle, home, |bytes| {
            let was_whole = cfg!(debug_assertions) && is_attribute_block(bytes, home, self.layout());
            bytes[4..8].copy_from_slice(&(count - 1).to_le_bytes());
            attribute::set_checksum(&mut bytes[..], home, self.layout());
            debug_assert!(!was_whole || is_attribute_block(bytes, home, self.layout()), "a count breaks block {home}");
        });
        Ok(())
    }
}

/// Whether a reader would accept a block of attributes.
fn is_attribute_block(bytes: &PageBytes, home: BlockNo, layout: &Layout) -> bool {
    let list = Attributes::in_block(&bytes[..], Place::Block(home));
    attribute::verify_checksum(&bytes[..], home, layout).is_ok() && list.and_then(Attributes::check).is_ok()
}

/// How many inodes refer to a block of attributes.
fn references(bytes: &PageBytes) -> u32 {
    u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Choices, MIB};

    use super::*;
    use crate::ext4::mkfs::{MkfsOptions, plan};
    use crate::ext4::volume::take_superblock;

    #[test]
    fn a_block_with_a_broken_checksum_or_list_is_no_attribute_block() {
        let planned = plan(&MkfsOptions::new(32 * MIB, &mut Choices::new(1))).expect("plan");
        let layout = Layout::decode(&take_superblock(&planned[0].1).expect("superblock")).expect("layout");
        let mut list = AttributeList::default();
        list.set(1, b"name", b"value".to_vec());
        let mut bytes = [0; PAGE_SIZE];
        assert!(list.write_in_block(&mut bytes));
        attribute::set_checksum(&mut bytes, BlockNo(7), &layout);
        assert!(is_attribute_block(&bytes, BlockNo(7), &layout));
        assert!(!is_attribute_block(&bytes, BlockNo(8), &layout), "the checksum holds for one place only");
        // The value is padded to eight bytes at the end of the block.
        bytes[PAGE_SIZE - 8] ^= 1;
        attribute::set_checksum(&mut bytes, BlockNo(7), &layout);
        assert!(!is_attribute_block(&bytes, BlockNo(7), &layout), "the value's hash is another");
    }
}
