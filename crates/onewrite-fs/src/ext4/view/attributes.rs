//! Extended attributes of a view: in the inode, in its block of attributes, and values in inodes of their own.

use std::ops::Deref;

use onewrite_block::crc32c;

use super::ImageView;
use super::files::{File, INLINE_REST};
use crate::acl;
use crate::api::{FsError, FsResult};
use crate::ext4::attributes::{full_name, split_name};
use crate::ext4::format::Place;
use crate::ext4::format::attribute::{self, Attribute, Attributes, ValueInode};
use crate::ext4::format::inode::flags;

/// Largest value in bytes: the limit of Linux for a value in an inode.
const VALUE_MAX: u32 = 1 << 24;
/// Prefix numbers of access control lists.
const ACCESS_CONTROL: [u8; 2] = [2, 3];

/// An attribute of an inode.
struct Found {
    name_index: u8,
    name: Vec<u8>,
    value: Vec<u8>,
    value_inode: Option<ValueInode>,
}

impl From<Attribute<'_>> for Found {
    fn from(from: Attribute<'_>) -> Found {
        let Attribute { name_index, name, value, value_inode, .. } = from;
        Found { name_index, name: name.to_vec(), value: value.to_vec(), value_inode }
    }
}

/// A view's operations on extended attributes. It borrows the view and owns nothing.
pub(super) struct ExtendedAttributes<'v>(&'v ImageView);

impl Deref for ExtendedAttributes<'_> {
    type Target = ImageView;

    fn deref(&self) -> &ImageView {
        self.0
    }
}

impl ImageView {
    /// Extended attributes.
    pub(super) fn extended_attributes(&self) -> ExtendedAttributes<'_> {
        ExtendedAttributes(self)
    }
}

impl ExtendedAttributes<'_> {
    /// The full names of all attributes that Linux would show.
    pub(super) async fn attribute_names(&self, file: &File) -> FsResult<Vec<Vec<u8>>> {
        let is_shown = |found: &&Found| !file.is_inline() || (found.name_index, &found.name[..]) != INLINE_REST;
        let all = self.all_attributes(file).await?;
        Ok(all.iter().filter(is_shown).filter_map(|found| full_name(found.name_index, &found.name)).collect())
    }

    /// The value of an attribute by its full name. Access control lists have the form that Linux shows.
    pub(super) async fn attribute_value(&self, file: &File, full_name: &[u8]) -> FsResult<Vec<u8>> {
        let shown = String::from_utf8_lossy(full_name);
        let (name_index, name) = split_name(full_name)?;
        let all = self.all_attributes(file).await?;
        let found = all.into_iter().find(|found| found.name_index == name_index && found.name == name);
        let Some(found) = found else { return Err(FsError::NoData(format!("extended attribute `{shown}`"))) };
        let value = match found.value_inode {
            None => found.value,
            Some(value) => self.value_in_inode(file, value).await?,
        };
        if !ACCESS_CONTROL.contains(&name_index) {
            return Ok(value);
        }
        acl::from_disk(&value).map_err(|problem| FsError::Damaged {
            place: format!("access control list of inode {}", file.number),
            problem,
        })
    }

    async fn all_attributes(&self, file: &File) -> FsResult<Vec<Found>> {
        let mut all = Vec::new();
        self.collect(file, self.attributes_in_inode(file), &mut all)?;
        let home = file.inode.file_acl;
        if home.is_none() {
            return Ok(all);
        }
        let in_block = async {
            let block = self.blocks.block(home).await?;
            if !self.options.is_rescue {
                attribute::verify_checksum(&block, home, &self.layout)?;
            }
            self.collect(file, self.with_value_inodes(Attributes::in_block(&block, Place::Block(home))?), &mut all)
        };
        match in_block.await {
            Err(error) if self.is_lost(&error, || format!("inode {}: attributes in block {home}", file.number)) => (),
            other => other?,
        }
        Ok(all)
    }

    fn collect(&self, file: &File, attributes: Attributes<'_>, all: &mut Vec<Found>) -> FsResult<()> {
        for attribute in attributes {
            match attribute.map_err(FsError::from) {
                Ok(attribute) => all.push(attribute.into()),
                Err(error) if self.is_lost(&error, || format!("inode {}: an attribute", file.number)) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the value in another inode and verifies its hash. The inode holds the hash in its access time field.
    async fn value_in_inode(&self, owner: &File, value: ValueInode) -> FsResult<Vec<u8>> {
        let ValueInode { number, size } = value;
        let wrong = |problem: String| {
            let place = format!("inode {number}, which holds an attribute of inode {}", owner.number);
            Err(FsError::Damaged { place, problem })
        };
        let holder = self.any_file(number).await?;
        if !holder.inode.has(flags::EA_INODE) || holder.size != u64::from(size) || size > VALUE_MAX {
            return wrong(format!(
                "it has {} bytes and flags {:#x}, {size} were expected",
                holder.size, holder.inode.flags
            ));
        }
        let value = self.content(&holder, 0, holder.size).await?;
        let expected = crc32c(self.layout.checksum_seed, &value);
        // Lustre stores the owner's number instead of a hash.
        let is_of_owner =
            holder.inode.mtime.low_word() == owner.number.0 && holder.inode.generation == owner.inode.generation;
        match holder.inode.atime.low_word() {
            found if found == expected || is_of_owner || self.options.is_rescue => Ok(value),
            found => wrong(format!("checksum {found:#010x} where the content gives {expected:#010x}")),
        }
    }
}
