//! Looks: the operations of the file-system API that read. Each takes a shared lock on the inode whose content or names
//! it reads.

use std::ops::Range;

use onewrite_block::Page;

use super::mount::F2fs;
use crate::api::{Attributes, DirectoryEntry, FileKind, FileView, FsError, FsResult, Ino, Manner, SeekTarget, Space};
use crate::content::Data;
use crate::f2fs::format::layout::ROOT_INODE;
use crate::pages::{PAGE_BYTES, PagedFile};

impl FileView for F2fs {
    fn root(&self) -> Ino {
        ROOT_INODE.into()
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        let volume = self.volume();
        volume.syscall(0).await;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().read().await;
        Ok(volume.directories().expect_name(&directory, name).await?.ino())
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        self.volume().syscall(0).await;
        Ok(self.volume().nodes().file(ino).await?.attributes())
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        let volume = self.volume();
        volume.syscall(0).await;
        let link = volume.nodes().file(ino).await?;
        if link.kind() != FileKind::Symlink {
            return Err(FsError::Invalid(format!("{ino} is no symbolic link")));
        }
        let _held = link.lock().read().await;
        let size = link.size().min(PAGE_BYTES) as usize;
        let mut target = match link.is_inline_data() {
            true => volume.contents().inline_bytes(&link).await?,
            false if !volume.contents().is_named(&link, 0).await? => {
                return Err(FsError::Damaged { place: ino.to_string(), problem: "the link's target is a hole".into() });
            }
            false => volume.pages.file_page(&**volume, &link, 0, 1).await?.bytes().to_vec(),
        };
        target.truncate(size);
        Ok(target)
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, manner: Manner) -> FsResult<Data> {
        let volume = self.volume();
        let file = volume.nodes().file(ino).await?;
        file.expect_regular()?;
        let held = file.lock().read().await;
        let bytes = offset..offset.saturating_add(length);
        let data = match file.is_inline_data() {
            true => {
                part_of_inline(&volume.contents().inline_bytes(&file).await?, bytes.start..bytes.end.min(file.size()))
            }
            false => volume.pages.read(&**volume, &file, bytes, manner).await?,
        };
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
        volume.directories().names_from(&directory, cursor).await
    }

    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        let volume = self.volume();
        volume.syscall(0).await;
        let file = volume.nodes().file(ino).await?;
        let _held = file.lock().read().await;
        volume.extended_attributes().attribute_value(&file, name).await
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        let volume = self.volume();
        volume.syscall(0).await;
        let file = volume.nodes().file(ino).await?;
        let _held = file.lock().read().await;
        volume.extended_attributes().attribute_names(&file).await
    }

    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64> {
        let volume = self.volume();
        volume.syscall(0).await;
        let file = volume.nodes().file(ino).await?;
        file.expect_regular()?;
        let _held = file.lock().read().await;
        if file.is_inline_data() {
            let beyond = || FsError::BeyondEnd(format!("{ino} from byte {offset} on"));
            return match target {
                _ if offset >= file.size() => Err(beyond()),
                SeekTarget::Data => Ok(offset),
                SeekTarget::Hole => Ok(file.size()),
            };
        }
        // Write dirty pages first, so that the map shows them. Reserved blocks count as holes. What recovery made dirty
        // on a read-only mount stays so, and is found as it is.
        if !volume.options.read_only {
            volume.pages.write_newest(&**volume, &file, 0..u64::MAX).await?;
        }
        volume.pages.seek(&**volume, &file, offset, target).await
    }

    async fn space(&self) -> FsResult<Space> {
        let volume = self.volume();
        let (counts, blocks_free) = (volume.space.borrow().counts(), volume.space.borrow().available_blocks());
        let blocks = counts.user_blocks;
        // Numbers 0 to 2 are never given. Each node takes a block, too.
        let inodes = u64::from(volume.layout.nid_end() - ROOT_INODE.0).min(blocks);
        let inodes_free = inodes.saturating_sub(counts.nodes.into()).min(blocks_free);
        Ok(Space { blocks, blocks_free, inodes, inodes_free })
    }
}

/// The bytes `range` of content that lies in its inode.
fn part_of_inline(content: &[u8], range: Range<u64>) -> Data {
    let end = range.end.min(content.len() as u64);
    if range.start >= end {
        return Data::default();
    }
    let page = Page::from_slice(&content[..end as usize]);
    Data { pages: vec![page], skip: range.start as usize, length: (end - range.start) as usize }
}
