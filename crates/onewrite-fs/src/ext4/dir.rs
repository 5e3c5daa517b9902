//! Directories: names looked up, added and removed, in one block, in a row of blocks, or in a hash tree.
//!
//! A directory starts as one block. When that is full and the image has `dir_index`, its entries move to a second block
//! and the first becomes the root of a hash tree. Callers hold the directory's lock.
//!
//! As everywhere, what a change touches is brought into memory first and then changed without waiting.

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::balloc::ALLOCATION_CREDITS;
use super::format::directory::block::{self, record_length};
use super::format::directory::htree::{self, Index, IndexMut, LEVELS_MAX, Pair};
use super::format::directory::{Entries, HashVersion, NAME_LENGTH_MAX};
use super::format::features::Compat;
use super::format::inode::flags;
use super::format::superblock::FLAG_UNSIGNED_HASH;
use super::format::{Extent, FormatError, Place};
use super::inodes::{Node, Verified};
use super::map::{MAP_CREDITS, Mapping, SECTORS_PER_BLOCK};
use super::volume::{Volume, block_key};
use crate::api::{DirectoryEntry, FileKind, FsError, FsResult, Ino};
use crate::journal::Handle;

/// Blocks that adding an entry may change: two leaves, two index blocks and their bitmaps, the map, the inode.
pub(super) const ENTRY_CREDITS: usize = 5 + 2 * ALLOCATION_CREDITS + 2 * MAP_CREDITS;
/// Blocks that removing or replacing an entry may change.
pub(super) const REMOVE_CREDITS: usize = 2;

/// A block of a directory: its number in the directory and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirectoryBlock {
    logical: u32,
    home: u64,
}

/// An entry that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) ino: Ino,
    block: DirectoryBlock,
    offset: usize,
}

/// The way to a leaf of a hash tree.
struct TreePath {
    hash: HashVersion,
    /// Index blocks from the root on, each with the number of the pair that the way goes through.
    indexes: Vec<(DirectoryBlock, usize)>,
    leaf: DirectoryBlock,
    major: u32,
}

impl Volume {
    /// # Errors
    /// If it cannot be the name of an entry.
    pub(super) fn check_name(&self, name: &[u8]) -> FsResult<()> {
        match name {
            name if name.len() > NAME_LENGTH_MAX => Err(FsError::NameTooLong(name.len())),
            b"" => Err(FsError::Invalid("an empty name".into())),
            name if name.contains(&b'/') || name.contains(&0) => {
                Err(FsError::Invalid(format!("name {:?} holds a slash or zero byte", String::from_utf8_lossy(name))))
            }
            _ => Ok(()),
        }
    }

    fn block_count(&self, directory: &Node) -> u32 {
        directory.size().div_ceil(PAGE_SIZE as u64) as u32
    }

    fn is_indexed(&self, directory: &Node) -> bool {
        directory.inode.borrow().has(flags::INDEX) && self.layout.features.compat.contains(Compat::DIR_INDEX)
    }

    /// Sees to it that block `logical` of the directory is in memory.
    async fn load_directory_block(&self, directory: &Node, logical: u32) -> FsResult<DirectoryBlock> {
        let home = match self.map(directory, logical).await? {
            Mapping::Mapped(extent) if !extent.unwritten => extent.physical,
            _ => {
                let place = format!("directory {}, block {logical}", directory.ino());
                return Err(FsError::Damaged { place, problem: "is a hole".into() });
            }
        };
        self.load(home, |bytes| self.verify_directory_block(directory, logical, bytes)).await?;
        Ok(DirectoryBlock { logical, home })
    }

    /// Sees to it that several blocks are in memory at once.
    async fn load_directory_blocks(&self, directory: &Node, blocks: &[DirectoryBlock]) -> FsResult<()> {
        while !blocks.iter().all(|block| self.is_loaded(block.home)) {
            for block in blocks {
                let verify = |bytes: &PageBytes| self.verify_directory_block(directory, block.logical, bytes);
                self.load(block.home, verify).await?;
            }
        }
        Ok(())
    }

    fn verify_directory_block(&self, directory: &Node, logical: u32, bytes: &PageBytes) -> Verified {
        let (seed, place) = (self.node_seed(directory), place(directory, logical));
        let index = match logical {
            0 if self.is_indexed(directory) => Some(Index::root(&bytes[..], &self.layout, place)),
            _ if self.is_indexed(directory) => Index::node(&bytes[..], &self.layout, place).ok().map(Ok),
            _ => None,
        };
        match index {
            Some(index) => index?.verify_checksum(seed, &self.layout, place),
            None => block::verify_checksum(&bytes[..], seed, &self.layout, place),
        }
    }

    /// Reads a block that is in memory.
    fn with_block<R>(&self, block: DirectoryBlock, read: impl FnOnce(&PageBytes) -> R) -> R {
        let mut cache = self.cache.borrow_mut();
        let page = cache.page(block_key(block.home)).expect("the block was just loaded");
        read(&page.bytes())
    }

    /// The entry of `name`.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn find_entry(&self, directory: &Node, name: &[u8]) -> FsResult<Option<Found>> {
        if self.is_indexed(directory) && name != b"." && name != b".." {
            return self.find_in_tree(directory, name).await;
        }
        for logical in 0..self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            if let Some(found) = self.find_in_block(directory, block, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_in_block(&self, directory: &Node, block: DirectoryBlock, name: &[u8]) -> FsResult<Option<Found>> {
        let place = place(directory, block.logical);
        let found = self.with_block(block, |bytes| {
            let entry = block::find(&bytes[..], name, place)?;
            Ok::<_, FormatError>(entry.map(|entry| (entry.inode, entry.offset)))
        })?;
        Ok(found.map(|(inode, offset)| Found { ino: Ino(u64::from(inode)), block, offset }))
    }

    async fn find_in_tree(&self, directory: &Node, name: &[u8]) -> FsResult<Option<Found>> {
        let mut path = self.tree_path(directory, name).await?;
        loop {
            let leaf = self.load_directory_block(directory, path.leaf.logical).await?;
            if let Some(found) = self.find_in_block(directory, leaf, name)? {
                return Ok(Some(found));
            }
            if !self.next_leaf(directory, &mut path).await? {
                return Ok(None);
            }
        }
    }

    /// The way to the leaf that takes `name`; the index blocks are in memory, the leaf need not be.
    async fn tree_path(&self, directory: &Node, name: &[u8]) -> FsResult<TreePath> {
        let root = self.load_directory_block(directory, 0).await?;
        let info = self.with_block(root, |bytes| htree::root_info(&bytes[..], place(directory, 0)))?;
        let unsigned = self.superblock.borrow().flags.get() & FLAG_UNSIGNED_HASH != 0;
        let Some(hash) = HashVersion::from_disk(info.hash_version, unsigned) else {
            let place = format!("directory {}", directory.ino());
            return Err(FsError::Damaged { place, problem: format!("hash version {}", info.hash_version) });
        };
        let major = hash.hash(name, self.layout.hash_seed).major;
        let mut path = TreePath { hash, indexes: Vec::new(), leaf: root, major };
        let mut next = root;
        for level in 0..=info.levels {
            let (position, child) = self.with_block(next, |bytes| {
                let index = self.parse_index(directory, next, bytes)?;
                let position = index.position(major);
                Ok::<_, FormatError>((position, index.pair(position).block))
            })?;
            path.indexes.push((next, position));
            if level == info.levels {
                path.leaf = self.directory_block_place(directory, child).await?;
            } else {
                next = self.load_directory_block(directory, child).await?;
            }
        }
        let indexes: Vec<DirectoryBlock> = path.indexes.iter().map(|(block, _)| *block).collect();
        self.load_directory_blocks(directory, &indexes).await?;
        Ok(path)
    }

    async fn directory_block_place(&self, directory: &Node, logical: u32) -> FsResult<DirectoryBlock> {
        match self.map(directory, logical).await? {
            Mapping::Mapped(extent) if logical < self.block_count(directory) => {
                Ok(DirectoryBlock { logical, home: extent.physical })
            }
            _ => {
                let place = format!("hash tree of directory {}", directory.ino());
                Err(FsError::Damaged { place, problem: format!("names block {logical}, which does not exist") })
            }
        }
    }

    fn parse_index<'a>(
        &self,
        directory: &Node,
        block: DirectoryBlock,
        bytes: &'a PageBytes,
    ) -> Result<Index<'a>, FormatError> {
        let place = place(directory, block.logical);
        match block.logical {
            0 => Index::root(&bytes[..], &self.layout, place),
            _ => Index::node(&bytes[..], &self.layout, place),
        }
    }

    /// Goes on to the leaf behind, if names of the same hash may go on there.
    async fn next_leaf(&self, directory: &Node, path: &mut TreePath) -> FsResult<bool> {
        let mut level = path.indexes.len() - 1;
        let child = loop {
            let (block, position) = path.indexes[level];
            self.load_directory_blocks(directory, &[block]).await?;
            let next = self.with_block(block, |bytes| {
                let index = self.parse_index(directory, block, bytes)?;
                let next = position + 1;
                Ok::<_, FormatError>(
                    (next < index.len()).then(|| (index.continues(next, path.major), index.pair(next))),
                )
            })?;
            match (next, level) {
                (Some((true, pair)), _) => {
                    path.indexes[level].1 += 1;
                    break pair.block;
                }
                (None, 1) => level = 0,
                _ => return Ok(false),
            }
        };
        if level == 0 && path.indexes.len() == 2 {
            let node = self.load_directory_block(directory, child).await?;
            let first =
                self.with_block(node, |bytes| self.parse_index(directory, node, bytes).map(|index| index.pair(0)))?;
            path.indexes[1] = (node, 0);
            path.leaf = self.directory_block_place(directory, first.block).await?;
        } else {
            path.leaf = self.directory_block_place(directory, child).await?;
        }
        Ok(true)
    }

    /// Changes a block of entries that is in memory, and its checksum.
    fn change_entries<R>(
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
            let result = change(&mut bytes[..], place);
            if is_root {
                if let Ok(mut root) = IndexMut::root(&mut bytes[..], &self.layout, place) {
                    root.set_checksum(seed, &self.layout);
                }
            } else {
                block::set_checksum(&mut bytes[..], seed, &self.layout);
            }
            result
        })
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn remove_entry_of(&self, handle: &mut Handle, directory: &Node, found: Found) -> FsResult<()> {
        self.load_directory_blocks(directory, &[found.block]).await?;
        self.change_entries(handle, directory, found.block, |bytes, place| block::remove(bytes, found.offset, place))?;
        Ok(())
    }

    /// Makes an entry name another inode.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn replace_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        found: Found,
        (ino, kind): (Ino, FileKind),
    ) -> FsResult<()> {
        self.load_directory_blocks(directory, &[found.block]).await?;
        let kind = block::entry_kind(kind, &self.layout);
        self.change_entries(handle, directory, found.block, |bytes, _| {
            block::replace(bytes, found.offset, ino.0 as u32, kind);
        });
        Ok(())
    }

    /// Adds an entry; the name must not be there. The directory's inode is saved if it grew.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the directory needs a block and there is none, or its tree is full.
    pub(super) async fn add_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        name: &[u8],
        (ino, kind): (Ino, FileKind),
    ) -> FsResult<()> {
        let kind = block::entry_kind(kind, &self.layout);
        let entry = (name, ino.0 as u32, kind);
        if self.is_indexed(directory) {
            return self.add_to_tree(handle, directory, entry).await;
        }
        for logical in 0..self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            if self.has_room(directory, block, name)? {
                return self.put_entry(handle, directory, block, entry);
            }
        }
        if self.layout.features.compat.contains(Compat::DIR_INDEX) && self.block_count(directory) == 1 {
            self.make_tree(handle, directory).await?;
            return self.add_to_tree(handle, directory, entry).await;
        }
        let block = self.append_block(handle, directory).await?;
        self.create_block(handle, block.home, |bytes| block::init(&mut bytes[..], &self.layout));
        self.put_entry(handle, directory, block, entry)
    }

    fn has_room(&self, directory: &Node, block: DirectoryBlock, name: &[u8]) -> FsResult<bool> {
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

    fn put_entry(
        &self,
        handle: &mut Handle,
        directory: &Node,
        block: DirectoryBlock,
        (name, inode, kind): (&[u8], u32, Option<FileKind>),
    ) -> FsResult<()> {
        let put = |bytes: &mut [u8], place| block::insert(bytes, name, inode, kind, place);
        let place = self.change_entries(handle, directory, block, put)?;
        assert!(place.is_some(), "the block had room for {:?}", String::from_utf8_lossy(name));
        Ok(())
    }

    /// Gives the directory one more block; its content is the caller's to make. The inode is saved.
    async fn append_block(&self, handle: &mut Handle, directory: &Node) -> FsResult<DirectoryBlock> {
        let logical = self.block_count(directory);
        let goal = self.goal(directory, logical).await?;
        let home = self.allocate_blocks(handle, goal, 1).await?.start;
        let extent = Extent { logical, physical: home, length: 1, unwritten: false };
        self.insert_extent(handle, directory, extent).await?;
        {
            let mut inode = directory.inode.borrow_mut();
            inode.size += PAGE_SIZE as u64;
            inode.sectors += SECTORS_PER_BLOCK;
        }
        self.load_inode_block(directory.number).await?;
        self.save(handle, directory);
        Ok(DirectoryBlock { logical, home })
    }

    /// Turns a directory of one block into a hash tree of a root and a leaf.
    async fn make_tree(&self, handle: &mut Handle, directory: &Node) -> FsResult<()> {
        let leaf = self.append_block(handle, directory).await?;
        directory.inode.borrow_mut().flags |= flags::INDEX;
        self.load_inode_block(directory.number).await?;
        self.save(handle, directory);
        let root = DirectoryBlock { logical: 0, home: self.directory_block_place(directory, 0).await?.home };
        let linear = |bytes: &PageBytes| {
            block::verify_checksum(&bytes[..], self.node_seed(directory), &self.layout, place(directory, 0))
        };
        self.load(root.home, linear).await?;
        let old = self.with_block(root, |bytes| *bytes);
        let mut parent = 0;
        let mut entries = Vec::new();
        for entry in Entries::new(&old[..], place(directory, 0)) {
            let entry = entry?;
            match entry.name {
                b"." => (),
                b".." => parent = entry.inode,
                _ if entry.is_used() => entries.push((entry.name, entry.inode, FileKind::from_entry_byte(entry.kind))),
                _ => (),
            }
        }
        let seed = self.node_seed(directory);
        self.create_block(handle, leaf.home, |bytes| {
            fill_leaf(&mut bytes[..], &entries, &self.layout);
            block::set_checksum(&mut bytes[..], seed, &self.layout);
        });
        let version = self.layout.hash_version.root_number();
        self.change(handle, root.home, |bytes| {
            let numbers = (directory.number, parent);
            IndexMut::init_root(&mut bytes[..], numbers, version, leaf.logical, &self.layout)
                .set_checksum(seed, &self.layout);
        });
        Ok(())
    }

    async fn add_to_tree(
        &self,
        handle: &mut Handle,
        directory: &Node,
        entry: (&[u8], u32, Option<FileKind>),
    ) -> FsResult<()> {
        loop {
            let path = self.tree_path(directory, entry.0).await?;
            let leaf = self.load_directory_block(directory, path.leaf.logical).await?;
            if self.has_room(directory, leaf, entry.0)? {
                return self.put_entry(handle, directory, leaf, entry);
            }
            let (parent, _) = *path.indexes.last().expect("a tree has a root");
            self.load_directory_blocks(directory, &[parent, leaf]).await?;
            let is_full = self.with_block(parent, |bytes| {
                self.parse_index(directory, parent, bytes).map(|index| index.len() == index.limit())
            })?;
            match is_full {
                true => self.split_index(handle, directory, &path).await?,
                false => self.split_leaf(handle, directory, &path).await?,
            }
        }
    }

    /// Moves the upper half of a full leaf, by hash, to a new one behind it.
    async fn split_leaf(&self, handle: &mut Handle, directory: &Node, path: &TreePath) -> FsResult<()> {
        let (parent, position) = *path.indexes.last().expect("a tree has a root");
        let new = self.append_block(handle, directory).await?;
        self.load_directory_blocks(directory, &[parent, path.leaf]).await?;
        let old = self.with_block(path.leaf, |bytes| *bytes);
        let mut entries = Vec::new();
        for entry in Entries::new(&old[..], place(directory, path.leaf.logical)) {
            let entry = entry?;
            if entry.is_used() {
                let hash = path.hash.hash(entry.name, self.layout.hash_seed);
                entries.push((hash, (entry.name, entry.inode, FileKind::from_entry_byte(entry.kind))));
            }
        }
        entries.sort_by_key(|entry| entry.0);
        let at = half_by_size(&entries);
        let (lower, upper) = entries.split_at(at);
        let first = upper[0].0.major;
        let goes_on = lower.last().is_some_and(|(hash, _)| hash.major == first);
        let pair = Pair { hash: first | u32::from(goes_on), block: new.logical };
        let (lower, upper): (Vec<_>, Vec<_>) =
            (lower.iter().map(|e| e.1).collect(), upper.iter().map(|e| e.1).collect());
        self.create_block(handle, new.home, |bytes| fill_leaf(&mut bytes[..], &upper, &self.layout));
        self.change_entries(handle, directory, new, |_, _| ());
        self.change_entries(handle, directory, path.leaf, |bytes, _| fill_leaf(bytes, &lower, &self.layout));
        self.change_index(handle, directory, parent, |index| {
            let inserted = index.insert(position + 1, pair);
            assert!(inserted, "the index had room");
        })
    }

    fn change_index<R>(
        &self,
        handle: &mut Handle,
        directory: &Node,
        block: DirectoryBlock,
        change: impl FnOnce(&mut IndexMut<'_>) -> R,
    ) -> FsResult<R> {
        let (seed, place) = (self.node_seed(directory), place(directory, block.logical));
        self.change(handle, block.home, |bytes| {
            let mut index = match block.logical {
                0 => IndexMut::root(&mut bytes[..], &self.layout, place)?,
                _ => IndexMut::node(&mut bytes[..], &self.layout, place)?,
            };
            let result = change(&mut index);
            index.set_checksum(seed, &self.layout);
            Ok(result)
        })
    }

    /// Makes room in a full index block: a full root gets a level below it, a full node is split in two.
    async fn split_index(&self, handle: &mut Handle, directory: &Node, path: &TreePath) -> FsResult<()> {
        let seed = self.node_seed(directory);
        let mut bytes = [0; PAGE_SIZE];
        let (root, root_position) = path.indexes[0];
        if path.indexes.len() == 1 {
            let new = self.append_block(handle, directory).await?;
            self.load_directory_blocks(directory, &[root]).await?;
            self.change_index(handle, directory, root, |index| {
                index.grow(new.logical, &mut bytes, &self.layout).set_checksum(seed, &self.layout);
            })?;
            self.create_block(handle, new.home, |block| *block = bytes);
            return Ok(());
        }
        let root_is_full = self.with_block(root, |bytes| {
            self.parse_index(directory, root, bytes).map(|index| index.len() == index.limit())
        })?;
        if root_is_full {
            debug_assert_eq!(LEVELS_MAX, 1);
            return Err(FsError::NoSpace { what: "places in the directory's hash tree", needed: 1, free: 0 });
        }
        let (node, _) = path.indexes[1];
        let new = self.append_block(handle, directory).await?;
        self.load_directory_blocks(directory, &[root, node]).await?;
        let hash = self.change_index(handle, directory, node, |index| {
            let half = index.index().len() / 2;
            let (hash, mut right) = index.split_into(half, &mut bytes, &self.layout);
            right.set_checksum(seed, &self.layout);
            hash
        })?;
        self.create_block(handle, new.home, |block| *block = bytes);
        self.change_index(handle, directory, root, |index| {
            let inserted = index.insert(root_position + 1, Pair { hash, block: new.logical });
            assert!(inserted, "the root had room");
        })
    }

    /// Whether the directory holds nothing but `.` and `..`.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn is_empty_directory(&self, directory: &Node) -> FsResult<bool> {
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

    /// Entries from byte `cursor` of the directory on: those of one block.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn entries_from(&self, directory: &Node, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let mut logical = (cursor / PAGE_SIZE as u64) as u32;
        let mut skip = (cursor % PAGE_SIZE as u64) as usize;
        while logical < self.block_count(directory) {
            let block = self.load_directory_block(directory, logical).await?;
            let entries = self.with_block(block, |bytes| entries_of(&bytes[..], directory, logical, skip))?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            (logical, skip) = (logical + 1, 0);
        }
        Ok(Vec::new())
    }
}

fn place(directory: &Node, logical: u32) -> Place {
    Place::FileBlock { inode: directory.number, logical }
}

fn entries_of(bytes: &[u8], directory: &Node, logical: u32, skip: usize) -> FsResult<Vec<DirectoryEntry>> {
    let start = u64::from(logical) * PAGE_SIZE as u64;
    let mut entries = Vec::new();
    for entry in Entries::new(bytes, place(directory, logical)) {
        let entry = entry?;
        if entry.is_used() && entry.offset >= skip {
            entries.push(DirectoryEntry {
                name: entry.name.to_vec(),
                ino: Ino(u64::from(entry.inode)),
                kind: FileKind::from_entry_byte(entry.kind).unwrap_or(FileKind::Regular),
                next: start + (entry.offset + entry.record_length) as u64,
            });
        }
    }
    Ok(entries)
}

type RawEntry<'a> = (&'a [u8], u32, Option<FileKind>);

/// Makes `bytes` a block with these entries, packed.
fn fill_leaf(bytes: &mut [u8], entries: &[RawEntry<'_>], layout: &super::format::Layout) {
    block::init(bytes, layout);
    for (name, inode, kind) in entries {
        let put = block::insert(bytes, name, *inode, *kind, Place::Block(0));
        assert!(matches!(put, Ok(Some(_))), "entries of one block fit one block");
    }
}

/// Where the second half of the bytes begins; at least one entry on either side.
fn half_by_size(entries: &[(super::format::directory::NameHash, RawEntry<'_>)]) -> usize {
    let length = |entry: &(_, RawEntry<'_>)| record_length(entry.1.0.len());
    let whole: usize = entries.iter().map(length).sum();
    let mut sum = 0;
    let half = entries.iter().position(|entry| {
        sum += length(entry);
        sum * 2 > whole
    });
    half.unwrap_or(1).clamp(1, entries.len() - 1)
}
