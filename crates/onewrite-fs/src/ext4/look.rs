//! Looks: the read operations of the file-system API on a mounted ext4. Each takes a shared lock on the inode whose
//! content or entries it reads.

use super::format::InodeNo;
use super::format::inode::flags;
use super::map::Mapping;
use super::mount::Ext4;
use crate::api::{Attributes, DirectoryEntry, FileKind, FileView, FsError, FsResult, Ino, Manner, SeekTarget, Space};
use crate::content::Data;
use crate::pages::PAGE_BYTES;

impl FileView for Ext4 {
    fn root(&self) -> Ino {
        super::format::ROOT_INODE.into()
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        let volume = self.volume();
        volume.syscall(0).await;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().read().await;
        Ok(volume.directories().expect_entry(&directory, name).await?.ino)
    }

    async fn lookup_attributes(&self, directory: Ino, name: &[u8]) -> FsResult<Attributes> {
        let volume = self.volume();
        volume.syscall(0).await;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().read().await;
        let found = volume.directories().expect_entry(&directory, name).await?;
        Ok(volume.node(found.ino).await?.attributes())
    }

    async fn attributes_by_number(&self, ino: Ino) -> FsResult<Attributes> {
        let gone = || FsError::NotFound(ino.to_string());
        self.volume().check_number(InodeNo::from_ino(ino)).map_err(|_| gone())?;
        let found = self.attributes(ino).await?;
        if found.links > 0 { Ok(found) } else { Err(gone()) }
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        self.volume().syscall(0).await;
        Ok(self.volume().node(ino).await?.attributes())
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        let volume = self.volume();
        volume.syscall(0).await;
        let node = volume.node(ino).await?;
        if node.kind() != FileKind::Symlink {
            return Err(FsError::Invalid(format!("{ino} is no symbolic link")));
        }
        let _held = node.lock().read().await;
        node.expect_undeleted()?;
        let size = node.size() as usize;
        if node.inode().sectors == 0 || !node.inode().has(flags::EXTENTS) {
            let inode = node.inode();
            return Ok(inode.block[..size.min(inode.block.len())].to_vec());
        }
        match volume.extents().map(&node, 0).await? {
            Mapping::Mapped(extent) => {
                let page = volume.block(extent.physical, |_| Ok(())).await?;
                Ok(page.bytes()[..size.min(PAGE_BYTES as usize)].to_vec())
            }
            Mapping::Hole(_) => {
                Err(FsError::Damaged { place: ino.to_string(), problem: "the link's target is a hole".into() })
            }
        }
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, manner: Manner) -> FsResult<Data> {
        let volume = self.volume();
        let node = volume.node(ino).await?;
        node.expect_file()?;
        let held = node.lock().read().await;
        let data = volume.pages().read(&**volume, &node, offset..offset.saturating_add(length), manner).await?;
        drop(held);
        // A read costs what it gives, however much was asked for.
        volume.syscall(data.length as u64).await;
        Ok(data)
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let volume = self.volume();
        volume.syscall(0).await;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().read().await;
        volume.directories().entries_from(&directory, cursor).await
    }

    async fn read_directory_attributes(
        &self,
        directory: Ino,
        cursor: u64,
    ) -> FsResult<Vec<(DirectoryEntry, Option<Attributes>)>> {
        let volume = self.volume();
        volume.syscall(0).await;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().read().await;
        let mut entries = Vec::new();
        for entry in volume.directories().entries_from(&directory, cursor).await? {
            let node = volume.node(entry.ino).await;
            entries.push((entry, node.ok().map(|node| node.attributes())));
        }
        Ok(entries)
    }

    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.volume().syscall(0).await;
        let node = self.volume().node(ino).await?;
        let _held = node.lock().read().await;
        node.expect_undeleted()?;
        self.volume().extended_attributes().get_attribute(&node, name).await
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.volume().syscall(0).await;
        let node = self.volume().node(ino).await?;
        let _held = node.lock().read().await;
        node.expect_undeleted()?;
        self.volume().extended_attributes().list_attributes(&node).await
    }

    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64> {
        self.volume().syscall(0).await;
        let node = self.volume().node(ino).await?;
        node.expect_file()?;
        let _held = node.lock().read().await;
        if self.volume().contents().delays() && node.is_dirty() {
            // Write dirty pages first, so that the map shows them. Unwritten blocks count as holes.
            self.volume().pages().write_newest(&**self.volume(), &node, 0..u64::MAX).await?;
        }
        self.volume().pages().seek(&**self.volume(), &node, offset, target).await
    }

    async fn space(&self) -> FsResult<Space> {
        let volume = self.volume();
        let layout = volume.layout();
        Ok(Space {
            blocks: layout.block_count.saturating_sub(volume.overhead_blocks()),
            blocks_free: volume.groups().free_blocks().saturating_sub(volume.contents().kept_blocks()),
            inodes: u64::from(layout.inode_count),
            inodes_free: volume.groups().free_inodes(),
        })
    }
}
