//! Extended attributes of a view's inodes.

use super::F2fsView;
use crate::acl;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::node::{FOOTER_OFFSET, XATTR_OFFSET};
use crate::f2fs::format::xattr::{self, ACCESS_CONTROL};
use crate::f2fs::format::{Inode, Place};

impl F2fsView {
    /// The list of extended attributes: the inode's part, then that of its node.
    async fn attribute_list(&self, inode: &Inode) -> FsResult<Vec<u8>> {
        let mut list = inode.inline_xattr().to_vec();
        if inode.xattr_node().is_some() {
            let page = self.tables.node(inode.xattr_node(), inode.number, XATTR_OFFSET).await?;
            list.extend_from_slice(&page.bytes()[..FOOTER_OFFSET]);
        }
        Ok(list)
    }

    pub(super) async fn attribute_names(&self, inode: &Inode) -> FsResult<Vec<Vec<u8>>> {
        let list = self.attribute_list(inode).await?;
        let found = xattr::attributes(&list, Place::Inode(inode.number))?;
        Ok(found.iter().filter_map(xattr::Attribute::full_name).collect())
    }

    /// The value of an attribute by its full name. Access control lists have the form that Linux shows.
    pub(super) async fn attribute_value(&self, inode: &Inode, full_name: &[u8]) -> FsResult<Vec<u8>> {
        let list = self.attribute_list(inode).await?;
        let attributes = xattr::attributes(&list, Place::Inode(inode.number))?;
        let Some(found) = attributes.iter().find(|found| found.full_name().as_deref() == Some(full_name)) else {
            let name = String::from_utf8_lossy(full_name);
            return Err(FsError::NoData(format!("extended attribute `{name}`")));
        };
        if !ACCESS_CONTROL.contains(&found.prefix) {
            return Ok(found.value.to_vec());
        }
        let place = format!("access control list of inode {}", inode.number);
        acl::from_disk(found.value).map_err(|problem| FsError::Damaged { place, problem })
    }
}
