//! Hash trees of directories: finds the path to a name's leaf and splits full blocks on it.

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::{DirectoryBlock, Search, place};
use crate::api::{FileKind, FsError, FsResult};
use crate::block::BlockNo;
use crate::ext4::format::directory::block::{self, Dots, record_length};
use crate::ext4::format::directory::htree::{self, Index, IndexMut, LEVELS_MAX, Pair};
use crate::ext4::format::directory::{Entries, HashVersion, HashedBytes, NameHash};
use crate::ext4::format::inode::flags;
use crate::ext4::format::{FormatError, InodeNo, Layout, Place};
use crate::ext4::inodes::Node;
use crate::ext4::map::Mapping;
use crate::ext4::views::Directories;
use crate::journal::Handle;

/// The path from the root to a leaf of a hash tree.
pub(super) struct TreePath {
    hash: HashVersion,
    /// Index blocks from the root on, each with the number of the pair on the path.
    indexes: Vec<(DirectoryBlock, usize)>,
    pub(super) leaf: DirectoryBlock,
    major: u32,
}

/// Which leaves come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only leaves that may hold more names with the same hash.
    SameHash,
    /// All leaves.
    AnyHash,
}

impl Directories<'_> {
    /// A new name goes into the first leaf of its hash, so only that one's room counts.
    pub(super) async fn search_tree(&self, directory: &Node, name: &[u8]) -> FsResult<Search> {
        let mut path = self.tree_path(directory, name).await?;
        let leaf = self.load_directory_block(directory, path.leaf.logical).await?;
        let in_first = self.search_block(directory, leaf, name)?;
        let mut last = in_first;
        while matches!(last, Search::Absent(_)) && self.next_leaf(directory, &mut path, Reach::SameHash).await? {
            let leaf = self.load_directory_block(directory, path.leaf.logical).await?;
            last = self.search_block(directory, leaf, name)?;
        }
        Ok(if matches!(last, Search::Found(_)) { last } else { in_first })
    }

    /// The hash version of a tree and its number of index levels below the root.
    pub(super) async fn tree_shape(&self, directory: &Node) -> FsResult<(HashVersion, u8)> {
        let root = self.load_directory_block(directory, 0).await?;
        self.shape_of_root(directory, root)
    }

    fn shape_of_root(&self, directory: &Node, root: DirectoryBlock) -> FsResult<(HashVersion, u8)> {
        let info = self.with_block(root, |bytes| htree::root_info(&bytes[..], place(directory, 0)))?;
        let bytes = HashedBytes::of_flags(self.superblock().flags.get());
        let Some(hash) = HashVersion::from_disk(info.hash_version, bytes) else {
            let place = format!("directory {}", directory.ino());
            return Err(FsError::Damaged { place, problem: format!("hash version {}", info.hash_version) });
        };
        Ok((hash, info.levels))
    }

    async fn tree_path(&self, directory: &Node, name: &[u8]) -> FsResult<TreePath> {
        let (hash, levels) = self.tree_shape(directory).await?;
        let major = hash.hash(name, self.layout().hash_seed).major;
        self.tree_path_to(directory, (hash, levels), major).await
    }

    /// The path to the leaf for names with hash `major`. Afterwards the index blocks are in memory; the leaf may not
    /// be.
    pub(super) async fn tree_path_to(
        &self,
        directory: &Node,
        (hash, levels): (HashVersion, u8),
        major: u32,
    ) -> FsResult<TreePath> {
        let root = self.load_directory_block(directory, 0).await?;
        let mut path = TreePath { hash, indexes: Vec::new(), leaf: root, major };
        let mut next = root;
        for level in 0..=levels {
            let (position, child) = self.with_block(next, |bytes| {
                let index = self.parse_index(directory, next, bytes)?;
                let position = index.position(major);
                Ok::<_, FormatError>((position, index.pair(position).block))
            })?;
            path.indexes.push((next, position));
            if level == levels {
                path.leaf = self.directory_block_place(directory, child).await?;
            } else {
                next = self.load_directory_block(directory, child).await?;
            }
        }
        if !path.indexes.iter().all(|(block, _)| self.allocator().is_loaded(block.home)) {
            let indexes: Vec<DirectoryBlock> = path.indexes.iter().map(|(block, _)| *block).collect();
            self.load_directory_blocks(directory, &indexes).await?;
        }
        Ok(path)
    }

    pub(super) async fn directory_block_place(&self, directory: &Node, logical: u32) -> FsResult<DirectoryBlock> {
        match self.extents().map(directory, logical).await? {
            Mapping::Mapped(extent) if logical < self.block_count(directory) => {
                Ok(DirectoryBlock { logical, home: extent.physical })
            }
            _ => {
                let place = format!("hash tree of directory {}", directory.ino());
                Err(FsError::Damaged { place, problem: format!("names block {logical}, which does not exist") })
            }
        }
    }

    pub(super) fn parse_index<'a>(
        &self,
        directory: &Node,
        block: DirectoryBlock,
        bytes: &'a PageBytes,
    ) -> Result<Index<'a>, FormatError> {
        let place = place(directory, block.logical);
        match block.logical {
            0 => Index::root(&bytes[..], self.layout(), place),
            _ => Index::node(&bytes[..], self.layout(), place),
        }
    }

    /// Moves the path to the next leaf; returns whether there is one. With [`Reach::SameHash`], moves only if the next
    /// leaf may hold more names with the same hash.
    pub(super) async fn next_leaf(&self, directory: &Node, path: &mut TreePath, reach: Reach) -> FsResult<bool> {
        let mut level = path.indexes.len() - 1;
        let child = loop {
            let (block, position) = path.indexes[level];
            self.load_directory_blocks(directory, &[block]).await?;
            let next = self.with_block(block, |bytes| {
                let index = self.parse_index(directory, block, bytes)?;
                let next = position + 1;
                Ok::<_, FormatError>(
                    (next < index.len())
                        .then(|| (reach == Reach::AnyHash || index.continues(next, path.major), index.pair(next))),
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
        onewrite_block::reached!("names of one hash in two leaves", reach == Reach::SameHash);
        if level == 0 && path.indexes.len() == 2 {
            onewrite_block::reached!("next leaf is below another index node");
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

    /// Turns a directory of one block into a hash tree of a root and a leaf.
    pub(super) async fn make_tree(&self, handle: &mut Handle, directory: &Node) -> FsResult<()> {
        let leaf = self.append_block(handle, directory).await?;
        directory.inode_mut().flags |= flags::INDEX;
        self.load_inode_block(directory.number()).await?;
        self.save(handle, directory);
        let root = DirectoryBlock { logical: 0, home: self.directory_block_place(directory, 0).await?.home };
        let linear = |bytes: &PageBytes| {
            block::verify_checksum(&bytes[..], self.node_seed(directory), self.layout(), place(directory, 0))
        };
        self.load(root.home, linear).await?;
        let old = self.with_block(root, |bytes| *bytes);
        let mut parent = InodeNo::NONE;
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
            fill_leaf(&mut bytes[..], &entries, self.layout());
            block::set_checksum(&mut bytes[..], seed, self.layout());
        });
        onewrite_block::reached!("directory gets a hash tree");
        let version = self.layout().hash_version.root_number();
        self.change(handle, root.home, |bytes| {
            let dots = Dots { own: directory.number(), parent };
            IndexMut::init_root(&mut bytes[..], dots, version, leaf.logical, self.layout())
                .set_checksum(seed, self.layout());
            debug_assert!(self.is_whole_index(directory, root, bytes), "a new root of {} is none", directory.ino());
        });
        Ok(())
    }

    pub(super) async fn add_to_tree(&self, handle: &mut Handle, directory: &Node, entry: RawEntry<'_>) -> FsResult<()> {
        // At most three splits make room: a new level, an index split, a leaf split.
        for _ in 0..=3 {
            let path = self.tree_path(directory, entry.0).await?;
            let leaf = self.load_directory_block(directory, path.leaf.logical).await?;
            if let Some(vacancy) = self.room_for(directory, leaf, entry.0)? {
                self.put_entry(handle, directory, vacancy, entry);
                return Ok(());
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
        Err(wrong_tree(directory, "its hashes are out of order"))
    }

    /// Moves the entries with the higher hashes, half of a full leaf, to a new leaf behind it.
    async fn split_leaf(&self, handle: &mut Handle, directory: &Node, path: &TreePath) -> FsResult<()> {
        let (parent, position) = *path.indexes.last().expect("a tree has a root");
        let new = self.append_block(handle, directory).await?;
        self.load_directory_blocks(directory, &[parent, path.leaf]).await?;
        let old = self.with_block(path.leaf, |bytes| *bytes);
        let mut entries = Vec::new();
        for entry in Entries::new(&old[..], place(directory, path.leaf.logical)) {
            let entry = entry?;
            if entry.is_used() {
                let hash = path.hash.hash(entry.name, self.layout().hash_seed);
                entries.push((hash, (entry.name, entry.inode, FileKind::from_entry_byte(entry.kind))));
            }
        }
        if entries.len() < 2 {
            return Err(wrong_tree(directory, "a leaf is full with one name"));
        }
        entries.sort_by_key(|entry| entry.0);
        let at = half_by_size(&entries);
        let (lower, upper) = entries.split_at(at);
        let first = upper[0].0.major;
        let goes_on = lower.last().is_some_and(|(hash, _)| hash.major == first);
        onewrite_block::reached!("htree leaf split", !goes_on);
        onewrite_block::reached!("htree leaf split between names of one hash", goes_on);
        let pair = Pair { hash: first | u32::from(goes_on), block: new.logical };
        let (lower, upper): (Vec<_>, Vec<_>) =
            (lower.iter().map(|e| e.1).collect(), upper.iter().map(|e| e.1).collect());
        self.create_block(handle, new.home, |bytes| fill_leaf(&mut bytes[..], &upper, self.layout()));
        self.change_entries(handle, directory, new, |_, _| ());
        self.change_entries(handle, directory, path.leaf, |bytes, _| fill_leaf(bytes, &lower, self.layout()));
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
            let was_whole = cfg!(debug_assertions) && self.is_whole_index(directory, block, bytes);
            let mut index = match block.logical {
                0 => IndexMut::root(&mut bytes[..], self.layout(), place)?,
                _ => IndexMut::node(&mut bytes[..], self.layout(), place)?,
            };
            let result = change(&mut index);
            index.set_checksum(seed, self.layout());
            debug_assert!(
                !was_whole || self.is_whole_index(directory, block, bytes),
                "a change breaks index block {} of {}",
                block.logical,
                directory.ino()
            );
            Ok(result)
        })
    }

    /// Whether a later read would accept the block as an index. Does not check the order of its hashes, because leaves
    /// of a damaged image may contradict it.
    fn is_whole_index(&self, directory: &Node, block: DirectoryBlock, bytes: &PageBytes) -> bool {
        let (seed, place) = (self.node_seed(directory), place(directory, block.logical));
        let index = self.parse_index(directory, block, bytes);
        index.is_ok_and(|index| index.verify_checksum(seed, self.layout(), place).is_ok())
    }

    /// Makes room in a full index block: a full root gets a level below it, a full node is split in two.
    async fn split_index(&self, handle: &mut Handle, directory: &Node, path: &TreePath) -> FsResult<()> {
        let seed = self.node_seed(directory);
        let mut bytes = [0; PAGE_SIZE];
        let (root, root_position) = path.indexes[0];
        if path.indexes.len() == 1 {
            onewrite_block::reached!("htree grows a level");
            let new = self.append_block(handle, directory).await?;
            self.load_directory_blocks(directory, &[root]).await?;
            self.change_index(handle, directory, root, |index| {
                index.grow(new.logical, &mut bytes, self.layout()).set_checksum(seed, self.layout());
            })?;
            self.create_block(handle, new.home, |block| *block = bytes);
            return Ok(());
        }
        self.load_directory_blocks(directory, &[root]).await?;
        let root_is_full = self.with_block(root, |bytes| {
            self.parse_index(directory, root, bytes).map(|index| index.len() == index.limit())
        })?;
        if root_is_full {
            onewrite_block::reached!("htree full");
            debug_assert_eq!(LEVELS_MAX, 1);
            return Err(FsError::NoSpace {
                what: "places in the hash tree of this directory; others have room",
                needed: 1,
                free: 0,
            });
        }
        onewrite_block::reached!("htree index node split");
        let (node, _) = path.indexes[1];
        let new = self.append_block(handle, directory).await?;
        self.load_directory_blocks(directory, &[root, node]).await?;
        let hash = self.change_index(handle, directory, node, |index| {
            let half = index.index().len() / 2;
            let (hash, mut right) = index.split_into(half, &mut bytes, self.layout());
            right.set_checksum(seed, self.layout());
            hash
        })?;
        self.create_block(handle, new.home, |block| *block = bytes);
        self.change_index(handle, directory, root, |index| {
            let inserted = index.insert(root_position + 1, Pair { hash, block: new.logical });
            assert!(inserted, "the root had room");
        })
    }
}

fn wrong_tree(directory: &Node, problem: &str) -> FsError {
    FsError::Damaged { place: format!("hash tree of directory {}", directory.ino()), problem: problem.into() }
}

/// An entry to store: its name, inode, and kind if the image keeps kinds.
pub(super) type RawEntry<'a> = (&'a [u8], InodeNo, Option<FileKind>);

/// Fills the block `bytes` with these entries, packed.
fn fill_leaf(bytes: &mut [u8], entries: &[RawEntry<'_>], layout: &Layout) {
    block::init(bytes, layout);
    for (name, inode, kind) in entries {
        let put = block::insert(bytes, name, *inode, *kind, Place::Block(BlockNo::FIRST));
        assert!(matches!(put, Ok(Some(_))), "entries of one block fit one block");
    }
}

/// Number of the entry at which the second half of the bytes begins; each half has at least one entry.
fn half_by_size(entries: &[(NameHash, RawEntry<'_>)]) -> usize {
    let length = |entry: &(_, RawEntry<'_>)| record_length(entry.1.0.len());
    let whole: usize = entries.iter().map(length).sum();
    let mut sum = 0;
    let half = entries.iter().position(|entry| {
        sum += length(entry);
        sum * 2 > whole
    });
    half.unwrap_or(1).clamp(1, entries.len() - 1)
}
