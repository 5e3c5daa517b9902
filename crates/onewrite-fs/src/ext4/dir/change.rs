//! Entries added, removed and replaced.

use onewrite_block::PAGE_SIZE;

use super::{DirectoryBlock, Found, Vacancy, place};
use crate::api::{FileKind, FsResult, Ino};
use crate::ext4::format::directory::Entries;
use crate::ext4::format::directory::block;
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

    /// Adds an entry where a search for its name, since which the directory has not changed, found room, if it did.
    ///
    /// # Errors
    /// See [`Directories::add_entry`].
    pub(in crate::ext4) async fn add_entry_at(
        &self,
        handle: &mut Handle,
        directory: &Node,
        (name, vacancy): (&[u8], Option<Vacancy>),
        (ino, kind): (Ino, FileKind),
    ) -> FsResult<()> {
        let Some(vacancy) = vacancy else { return self.add_entry(handle, directory, name, (ino, kind)).await };
        self.load_directory_blocks(directory, &[vacancy.block]).await?;
        let kind = block::entry_kind(kind, self.layout());
        self.put_entry(handle, directory, vacancy, (name, InodeNo::from_ino(ino), kind));
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
            if let Some(vacancy) = self.room_for(directory, block, name)? {
                self.put_entry(handle, directory, vacancy, entry);
                return Ok(());
            }
        }
        if self.layout().features.compat.contains(Compat::DIR_INDEX) && self.block_count(directory) == 1 {
            self.make_tree(handle, directory).await?;
            return self.add_to_tree(handle, directory, entry).await;
        }
        let block = self.append_block(handle, directory).await?;
        self.create_block(handle, block.home, |bytes| block::init(&mut bytes[..], self.layout()));
        let vacancy = self.room_for(directory, block, name)?.expect("an empty block has room for any name");
        self.put_entry(handle, directory, vacancy, entry);
        Ok(())
    }

    /// Where an entry of this name fits into a block that is in memory.
    pub(super) fn room_for(&self, directory: &Node, block: DirectoryBlock, name: &[u8]) -> FsResult<Option<Vacancy>> {
        let place = place(directory, block.logical);
        let room = self.with_block(block, |bytes| block::room_for(&bytes[..], name, place))?;
        Ok(room.map(|room| Vacancy { block, room }))
    }

    /// Puts an entry where there is room; the block is in memory.
    pub(super) fn put_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        Vacancy { block, room }: Vacancy,
        entry: (&[u8], InodeNo, Option<FileKind>),
    ) {
        self.change_entries(handle, directory, block, |bytes, _| block::insert_into(bytes, room, entry));
    }

    /// Appends one block to the directory and saves its inode. The caller fills the block.
    pub(super) async fn append_block(&self, handle: &mut Handle, directory: &Node) -> FsResult<DirectoryBlock> {
        self.make_room().await?;
        // A device that cannot read it refuses before anything has changed.
        self.load_inode_block(directory.number()).await?;
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
