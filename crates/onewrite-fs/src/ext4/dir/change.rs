//! Entries added, removed and replaced.

use onewrite_block::PAGE_SIZE;

use super::{DirectoryBlock, Found, place};
use crate::api::{FileKind, FsResult, Ino};
use crate::ext4::format::directory::Entries;
use crate::ext4::format::directory::block::{self, record_length};
use crate::ext4::format::directory::htree::IndexMut;
use crate::ext4::format::features::Compat;
use crate::ext4::format::{Extent, InodeNo, Place};
use crate::ext4::inodes::Node;
use crate::ext4::views::Directories;
use crate::journal::Handle;

impl Directories<'_> {
    /// Changes a block of entries in memory and updates its checksum.
    pub(super) fn change_entries<R>(
        &self,
        handle: &mut Handle,
        directory: &Node,
        block: DirectoryBlock,
        change: impl FnOnce(&mut [u8], Place) -> R,
    ) -> R {
        let seed = self.node_seed(directory);
        let place = place(directory, block.logical);
        let is_root = block.logical == 0 && self.is_indexed(directory);
        self.change(handle, block.home, |bytes| {
            let is_whole = |bytes: &[u8]| Entries::new(bytes, place).all(|entry| entry.is_ok());
            let was_whole = cfg!(debug_assertions) && !is_root && is_whole(&bytes[..]);
            let result = change(&mut bytes[..], place);
            debug_assert!(!was_whole || is_whole(&bytes[..]), "a change breaks block {} of a directory", block.home);
            if is_root {
                if let Ok(mut root) = IndexMut::root(&mut bytes[..], self.layout(), place) {
                    root.set_checksum(seed, self.layout());
                }
            } else {
                block::set_checksum(&mut bytes[..], seed, self.layout());
            }
            result
        })
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn remove_entry_of(
        &self,
        handle: &mut Handle,
        directory: &Node,
        found: Found,
    ) -> FsResult<()> {
        self.load_directory_blocks(directory, &[found.block]).await?;
        self.change_entries(handle, directory, found.block, |bytes, place| block::remove(bytes, found.offset, place))?;
        Ok(())
    }

    /// Changes the inode that an entry names.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn replace_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        found: Found,
        (ino, kind): (Ino, FileKind),
    ) -> FsResult<()> {
        self.load_directory_blocks(directory, &[found.block]).await?;
        let kind = block::entry_kind(kind, self.layout());
        self.change_entries(handle, directory, found.block, |bytes, _| {
            block::replace(bytes, found.offset, InodeNo::from_ino(ino), kind);
        });
        Ok(())
    }

    /// Adds an entry; the name must not exist yet. Saves the directory's inode if the directory grew.
    ///
    /// # Errors
    /// [`FsError::NoSpace`](crate::FsError::NoSpace) if the directory needs a block and none is free, or if its tree is
    /// full.
    pub(in crate::ext4) async fn add_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        name: &[u8],
        (ino, kind): (Ino, FileKind),
    ) -> FsResult<()> {
        let kind = block::entry_kind(kind, self.layout());
        let entry = (name, InodeNo::from_ino(ino), kind);
        if self.is_indexed(directory) {
            return self.add_to_tree(handle, directory, entry).await;
        }
        for logical in 0..self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            if self.has_room(directory, block, name)? {
                return self.put_entry(handle, directory, block, entry);
            }
        }
        if self.layout().features.compat.contains(Compat::DIR_INDEX) && self.block_count(directory) == 1 {
            self.make_tree(handle, directory).await?;
            return self.add_to_tree(handle, directory, entry).await;
        }
        let block = self.append_block(handle, directory).await?;
        self.create_block(handle, block.home, |bytes| block::init(&mut bytes[..], self.layout()));
        self.put_entry(handle, directory, block, entry)
    }

    pub(super) fn has_room(&self, directory: &Node, block: DirectoryBlock, name: &[u8]) -> FsResult<bool> {
        let (needed, place) = (record_length(name.len()), place(directory, block.logical));
        self.with_block(block, |bytes| {
            for entry in Entries::new(&bytes[..], place) {
                let entry = entry?;
                let used = if entry.is_used() { record_length(entry.name.len()) } else { 0 };
                if entry.record_length >= used + needed && !entry.is_tail() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    pub(super) fn put_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        block: DirectoryBlock,
        (name, inode, kind): (&[u8], InodeNo, Option<FileKind>),
    ) -> FsResult<()> {
        let put = |bytes: &mut [u8], place| block::insert(bytes, name, inode, kind, place);
        let place = self.change_entries(handle, directory, block, put)?;
        assert!(place.is_some(), "the block had room for {:?}", String::from_utf8_lossy(name));
        Ok(())
    }

    /// Appends one block to the directory and saves its inode. The caller fills the block.
    pub(super) async fn append_block(&self, handle: &mut Handle, directory: &Node) -> FsResult<DirectoryBlock> {
        self.make_room().await?;
        let logical = self.block_count(directory);
        let goal = self.extents().goal(directory, logical).await?;
        let home = self.allocator().allocate_blocks(handle, goal, 1).await?.start;
        let extent = Extent { logical, physical: home, length: 1, unwritten: false };
        if let Err(error) = self.extents().insert_extent(handle, directory, extent).await {
            onewrite_block::reached!("new directory block given back");
            self.allocator().free_blocks(handle, home.alone()).await?;
            return Err(error);
        }
        directory.inode_mut().size += PAGE_SIZE as u64;
        directory.add_blocks(1);
        self.load_inode_block(directory.number()).await?;
        self.save(handle, directory);
        Ok(DirectoryBlock { logical, home })
    }
}
