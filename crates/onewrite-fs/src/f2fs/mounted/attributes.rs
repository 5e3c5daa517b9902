//! Extended attributes: a list in the inode that goes on in a node of its own.

use std::borrow::Cow;
use std::rc::Rc;

use onewrite_block::Page;

use super::file::File;
use super::views::ExtendedAttributes;
use crate::acl;
use crate::api::{AttributeManner, FsError, FsResult};
use crate::f2fs::format::inode::inline;
use crate::f2fs::format::node::{FOOTER_OFFSET, NodeRole, XATTR_OFFSET};
use crate::f2fs::format::xattr::{self, ACCESS_CONTROL, Attribute};
use crate::f2fs::format::{Nid, Place};

/// Most bytes of a name behind its prefix.
const NAME_MAX: usize = 255;

impl ExtendedAttributes<'_> {
    /// Bytes of the list that the inode has room for.
    fn inline_room(&self, file: &File) -> std::ops::Range<usize> {
        let range = file.shape().xattr_range();
        if file.has_inline(inline::XATTR) { range } else { range.end..range.end }
    }

    /// The list: the inode's part, then that of its node.
    pub(super) async fn attribute_list(&self, file: &File) -> FsResult<Vec<u8>> {
        let (owner, range) = (file.number(), self.inline_room(file));
        self.nodes().load_node(owner, owner, 0).await?;
        let mut list = self.nodes().read_node(owner, |bytes| FsResult::Ok(bytes[range].to_vec()))?;
        let more = Nid(file.raw().i_xattr_nid.get());
        if more.is_some() {
            self.nodes().load_node(more, owner, XATTR_OFFSET).await?;
            list.extend(self.nodes().read_node(more, |bytes| FsResult::Ok(bytes[..FOOTER_OFFSET].to_vec()))?);
        }
        Ok(list)
    }

    pub(super) async fn attribute_names(&self, file: &File) -> FsResult<Vec<Vec<u8>>> {
        let list = self.attribute_list(file).await?;
        let found = xattr::attributes(&list, Place::Inode(file.number()))?;
        Ok(found.iter().filter_map(Attribute::full_name).collect())
    }

    pub(super) async fn attribute_value(&self, file: &File, full_name: &[u8]) -> FsResult<Vec<u8>> {
        let (prefix, name) = split_name(full_name)?;
        let list = self.attribute_list(file).await?;
        let attributes = xattr::attributes(&list, Place::Inode(file.number()))?;
        let found = attributes.iter().find(|found| (found.prefix, found.name) == (prefix, name));
        let missing = || FsError::NoData(format!("extended attribute `{}`", String::from_utf8_lossy(full_name)));
        let value = found.ok_or_else(missing)?.value;
        if !ACCESS_CONTROL.contains(&prefix) {
            return Ok(value.to_vec());
        }
        let place = format!("access control list of {}", file.ino());
        acl::from_disk(value).map_err(|problem| FsError::Damaged { place, problem })
    }

    /// See `FileSystem::set_extended_attribute`. The caller holds the file's lock alone, and `changes`.
    pub(super) async fn set_attribute(
        &self,
        file: &Rc<File>,
        full_name: &[u8],
        value: Option<&[u8]>,
        manner: AttributeManner,
    ) -> FsResult<()> {
        let (prefix, name) = split_name(full_name)?;
        let stored = match value {
            Some(value) if ACCESS_CONTROL.contains(&prefix) => {
                Some(Cow::Owned(acl::to_disk(value).map_err(FsError::Invalid)?))
            }
            other => other.map(Cow::Borrowed),
        };
        let list = self.attribute_list(file).await?;
        let before = xattr::attributes(&list, Place::Inode(file.number()))?;
        let is_it = |found: &Attribute<'_>| (found.prefix, found.name) == (prefix, name);
        let shown = String::from_utf8_lossy(full_name).into_owned();
        match (before.iter().any(is_it), manner) {
            (true, AttributeManner::Create) => return Err(FsError::Exists(shown)),
            (false, AttributeManner::Replace) => return Err(FsError::NoData(shown)),
            (false, _) if stored.is_none() => return Err(FsError::NoData(shown)),
            _ => (),
        }
        if stored.as_ref().is_some_and(|value| value.len() > FOOTER_OFFSET) {
            return Err(too_many_bytes());
        }
        let kept = before.iter().copied().filter(|found| !is_it(found));
        let new = stored.as_deref().map(|value| Attribute { prefix, name, value });
        let list = xattr::list_of(kept.chain(new));
        self.put_list(file, &list).await?;
        self.stamp_changed(file);
        Ok(())
    }

    /// Stores a list: in the inode as much as fits, the rest in a node.
    pub(super) async fn put_list(&self, file: &Rc<File>, list: &[u8]) -> FsResult<()> {
        let (owner, room) = (file.number(), self.inline_room(file));
        let (here, there) = list.split_at(list.len().min(room.len()));
        if there.len() > FOOTER_OFFSET {
            return Err(too_many_bytes());
        }
        self.put_rest(file, there).await?;
        self.nodes().load_node(owner, owner, 0).await?;
        self.nodes().change_node(owner, owner, |bytes| {
            bytes[room.clone()].fill(0);
            bytes[room.start..room.start + here.len()].copy_from_slice(here);
        });
        Ok(())
    }

    /// Stores the part of a list that the inode has no room for. Zeros need no node.
    pub(super) async fn put_rest(&self, file: &Rc<File>, rest: &[u8]) -> FsResult<()> {
        let owner = file.number();
        let mut nid = Nid(file.raw().i_xattr_nid.get());
        let is_needed = rest.iter().any(|byte| *byte != 0);
        if nid.is_none() && !is_needed {
            return Ok(());
        }
        // An fsync does not say that this node is new, changed or gone.
        file.bind_to(self.version());
        self.note_attributes(owner);
        if !is_needed {
            self.nodes().load_node(nid, owner, XATTR_OFFSET).await?;
            self.nodes().drop_node(nid, owner);
            file.change_raw(|raw| raw.i_xattr_nid.set(0));
            self.maps().drop_blocks(file, 1);
            return Ok(());
        }
        let mut content = [0; 4096];
        content[..rest.len()].copy_from_slice(rest);
        if nid.is_none() {
            self.space.borrow_mut().reserve(1)?;
            let taken = async {
                self.pages.make_room(self.volume()).await?;
                self.nodes().take_number(Some(owner)).await
            };
            nid = taken.await.inspect_err(|_| self.space.borrow_mut().unreserve(1))?;
            self.space.borrow_mut().add_node(NodeRole::Other);
            self.nodes().put_new_node(nid, owner, XATTR_OFFSET, Page::new(content));
            file.change_raw(|raw| raw.i_xattr_nid.set(nid.0));
            self.maps().add_blocks(file, 1);
            return Ok(());
        }
        self.nodes().load_node(nid, owner, XATTR_OFFSET).await?;
        self.nodes().change_node(nid, owner, |bytes| bytes[..FOOTER_OFFSET].copy_from_slice(&content[..FOOTER_OFFSET]));
        Ok(())
    }
}

fn too_many_bytes() -> FsError {
    let what = "bytes for extended attributes (the inode and one block hold them all)";
    FsError::NoSpace { what, needed: 1, free: 0 }
}

fn split_name(name: &[u8]) -> FsResult<(u8, &[u8])> {
    match xattr::split_name(name) {
        Some((_, rest)) if rest.len() > NAME_MAX => Err(FsError::NameTooLong(name.len())),
        Some((_, rest)) if rest.contains(&0) => {
            Err(FsError::Invalid("the name of an extended attribute with a zero byte".into()))
        }
        Some(split) => Ok(split),
        None => Err(FsError::Unsupported(format!(
            "extended attribute `{}`; names begin with user., trusted. or security.",
            String::from_utf8_lossy(name)
        ))),
    }
}
