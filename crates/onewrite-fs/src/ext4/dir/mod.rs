//! Directories: look up, add and remove names in one block, in a row of blocks or in a hash tree.
//!
//! A directory starts as one block. When that is full and the image has `dir_index`, its entries move to a second block
//! and the first becomes the root of a hash tree. Callers hold the directory's lock.
//!
//! A change first brings every block that it touches into memory, then changes them without waiting.
//!
//! This file reads. `change` adds and removes entries, `list` lists them in order, `tree` searches and splits hash
//! trees.

mod change;
mod list;
mod tree;

use onewrite_block::{PAGE_SIZE, PageBytes};

use crate::api::{FsError, FsResult, Ino};
use crate::block::BlockNo;
use crate::ext4::balloc::ALLOCATION_CREDITS;
use crate::ext4::format::directory::block::{self, Room};
use crate::ext4::format::directory::htree::Index;
use crate::ext4::format::directory::{Entries, NAME_LENGTH_MAX};
use crate::ext4::format::features::Compat;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{FormatError, InodeNo, Place, ROOT_INODE};
use crate::ext4::inodes::{Node, Verified};
use crate::ext4::map::{MAP_CREDITS, Mapping};
use crate::ext4::views::Directories;
use crate::ext4::volume::block_key;

/// Blocks that adding an entry may change: two leaves, two index blocks and their bitmaps, the map, the inode.
pub(in crate::ext4) const ENTRY_CREDITS: usize = 5 + 2 * ALLOCATION_CREDITS + 2 * MAP_CREDITS;
/// Blocks that removing or replacing an entry may change.
pub(in crate::ext4) const REMOVE_CREDITS: usize = 2;

/// A block of a directory: its number in the directory and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryBlock {
    pub(super) logical: u32,
    pub(super) home: BlockNo,
}

/// An entry that was found.
#[derive(Clone, Copy, Debug)]
pub(in crate::ext4) struct Found {
    pub(in crate::ext4) ino: Ino,
    pub(super) block: DirectoryBlock,
    pub(super) offset: usize,
}

/// Room for an entry in a block. Holds until the directory changes.
#[derive(Clone, Copy, Debug)]
pub(in crate::ext4) struct Vacancy {
    pub(super) block: DirectoryBlock,
    pub(super) room: Room,
}

/// What a search for a name found.
#[derive(Clone, Copy, Debug)]
pub(in crate::ext4) enum Search {
    /// The name.
    Found(Found),
    /// No such name, and where it has room, if that is without a new block.
    Absent(Option<Vacancy>),
}

impl Directories<'_> {
    pub(super) fn block_count(&self, directory: &Node) -> u32 {
        directory.size().div_ceil(PAGE_SIZE as u64) as u32
    }

    pub(super) fn is_indexed(&self, directory: &Node) -> bool {
        directory.inode().has(flags::INDEX) && self.layout().features.compat.contains(Compat::DIR_INDEX)
    }

    /// Brings block `logical` of the directory into memory.
    pub(super) async fn load_directory_block(&self, directory: &Node, logical: u32) -> FsResult<DirectoryBlock> {
        let home = match self.extents().map(directory, logical).await? {
            Mapping::Mapped(extent) if !extent.unwritten => extent.physical,
            _ => {
                let place = format!("directory {}, block {logical}", directory.ino());
                return Err(FsError::Damaged { place, problem: "is a hole".into() });
            }
        };
        self.load(home, |bytes| self.verify_directory_block(directory, logical, bytes)).await?;
        Ok(DirectoryBlock { logical, home })
    }

    /// Brings several blocks into memory, all at the same time.
    pub(super) async fn load_directory_blocks(&self, directory: &Node, blocks: &[DirectoryBlock]) -> FsResult<()> {
        while !blocks.iter().all(|block| self.allocator().is_loaded(block.home)) {
            onewrite_block::reached!("directory block left memory before its change");
            for block in blocks {
                let verify = |bytes: &PageBytes| self.verify_directory_block(directory, block.logical, bytes);
                self.load(block.home, verify).await?;
            }
        }
        Ok(())
    }

    pub(super) fn verify_directory_block(&self, directory: &Node, logical: u32, bytes: &PageBytes) -> Verified {
        let (seed, place) = (self.node_seed(directory), place(directory, logical));
        let index = match logical {
            0 if self.is_indexed(directory) => Some(Index::root(&bytes[..], self.layout(), place)),
            _ if self.is_indexed(directory) => Index::node(&bytes[..], self.layout(), place).ok().map(Ok),
            _ => None,
        };
        match index {
            Some(index) => index?.verify_checksum(seed, self.layout(), place),
            None => block::verify_checksum(&bytes[..], seed, self.layout(), place),
        }
    }

    /// Reads a block that is in memory.
    pub(super) fn with_block<R>(&self, block: DirectoryBlock, read: impl FnOnce(&PageBytes) -> R) -> R {
        let read = self.pages().read_in_place(block_key(block.home), |page| read(&page.bytes()));
        read.expect("the block was just loaded")
    }

    /// The entry of `name`.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn find_entry(&self, directory: &Node, name: &[u8]) -> FsResult<Option<Found>> {
        match self.search(directory, name).await? {
            Search::Found(found) => Ok(Some(found)),
            Search::Absent(_) => Ok(None),
        }
    }

    /// The entry of `name`, or the first room for one.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn search(&self, directory: &Node, name: &[u8]) -> FsResult<Search> {
        if name.len() > NAME_LENGTH_MAX {
            return Err(FsError::NameTooLong(name.len()));
        }
        if self.is_indexed(directory) && name != b"." && name != b".." {
            return self.search_tree(directory, name).await;
        }
        let mut vacancy = None;
        for logical in 0..self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            match self.search_block(directory, block, name)? {
                Search::Absent(here) => vacancy = vacancy.or(here),
                found => return Ok(found),
            }
        }
        Ok(Search::Absent(vacancy))
    }

    /// Searches a block that is in memory.
    pub(super) fn search_block(&self, directory: &Node, block: DirectoryBlock, name: &[u8]) -> FsResult<Search> {
        let place = place(directory, block.logical);
        let (found, room) = self.with_block(block, |bytes| {
            let (entry, room) = block::find_or_room(&bytes[..], name, place)?;
            Ok::<_, FormatError>((entry.map(|entry| (entry.inode, entry.offset)), room))
        })?;
        let is_loop = |inode: InodeNo| inode == directory.number() || inode == ROOT_INODE;
        match found {
            Some((inode, _)) if is_loop(inode) && name != b"." && name != b".." => {
                let problem = format!("an entry names inode {inode}, the directory itself or the root");
                Err(FsError::Damaged { place: place.to_string(), problem })
            }
            Some((inode, offset)) => Ok(Search::Found(Found { ino: inode.into(), block, offset })),
            None => Ok(Search::Absent(room.map(|room| Vacancy { block, room }))),
        }
    }

    /// Whether the directory holds nothing but `.` and `..`.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(in crate::ext4) async fn is_empty_directory(&self, directory: &Node) -> FsResult<bool> {
        for logical in 0..self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            let is_empty = self.with_block(block, |bytes| {
                for entry in Entries::new(&bytes[..], place(directory, logical)) {
                    let entry = entry?;
                    if entry.is_used() && entry.name != b"." && entry.name != b".." {
                        return Ok::<bool, FormatError>(false);
                    }
                }
                Ok(true)
            })?;
            if !is_empty {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(super) fn place(directory: &Node, logical: u32) -> Place {
    Place::FileBlock { inode: directory.number(), logical }
}
