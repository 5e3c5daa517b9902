//! Stage 4: the entries of every directory, and the inodes that they name.

use super::ReadBlocks;
use super::directory::{Directory, DirectoryBlock};
use super::htree::{Role, hash_in_range};
use super::views::DirectoryStage;
use crate::api::FileKind;
use crate::ext4::format::directory::{Entries, Entry, HashVersion, HashedBytes, block};
use crate::ext4::format::features::Incompat;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, Place, ROOT_INODE};

const CURE: &str = "e2fsck -f";

/// Where a name lies, with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NameSpot {
    hash: u64,
    block: u32,
    offset: u32,
}

impl<R: ReadBlocks> DirectoryStage<'_, '_, R> {
    /// Records a directory. Its blocks are those from index `first` of `directory_blocks` on.
    pub(super) fn add_directory(&mut self, number: InodeNo, inode: &Inode, first: usize) {
        let seed = self.layout.inode_seed(number, inode.generation);
        let blocks = first..self.directory_blocks.len();
        self.directories.push(Directory {
            inode: number,
            seed,
            indexed: inode.has(flags::INDEX),
            blocks,
            dotdot: InodeNo::NONE,
        });
    }

    /// Checks all directories.
    pub(super) async fn check_directories(&mut self) {
        let mut directories = std::mem::take(&mut self.directories);
        let blocks = std::mem::take(&mut self.directory_blocks);
        let mut names = Vec::new();
        for directory in &mut directories {
            let blocks = &blocks[directory.blocks.clone()];
            let roles = match directory.indexed {
                true => self.check_index(directory, blocks).await,
                false => None,
            };
            names.clear();
            for (number, &block) in (0..).zip(blocks) {
                let role = roles.as_ref().map_or(Role::Plain, |roles| roles[number as usize]);
                self.check_directory_block(directory, number, block, role, &mut names).await;
            }
            self.check_duplicates(directory, blocks, &mut names).await;
        }
        self.directories = directories;
    }

    async fn check_directory_block(
        &mut self,
        directory: &mut Directory,
        number: u32,
        at: DirectoryBlock,
        role: Role,
        names: &mut Vec<NameSpot>,
    ) {
        let place = Place::FileBlock { inode: directory.inode, logical: at.logical };
        let Some(page) = self.read(at.physical, place).await else { return };
        let bytes = page.bytes();
        let indexes = matches!(role, Role::Index);
        if !indexes && let Err(error) = block::verify_checksum(&bytes[..], directory.seed, &self.layout, place) {
            self.report.add(place, error, CURE);
        }
        let mut position = 0;
        for entry in Entries::new(&bytes[..], place) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.report.add(place, error, CURE),
            };
            if at.logical == 0 && position < 2 {
                self.check_dots(directory, &entry, position, place);
                let end = entry.offset + block::RECORD_HEADER + entry.name.len();
                if bytes.get(end).is_some_and(|&byte| byte != 0) {
                    self.report.add(place, "the name of `.` or `..` does not end in a zero byte", CURE);
                }
            } else if entry.is_used() {
                names.push(NameSpot { hash: spot_hash(entry.name), block: number, offset: entry.offset as u32 });
                self.check_entry(directory, &entry, place);
                self.check_hash(&entry, role, place);
            }
            position += 1;
        }
        if at.logical == 0 && position < 2 {
            self.report.add(place, "`.` or `..` is missing", CURE);
        }
    }

    /// Checks the first two entries of a directory.
    fn check_dots(&mut self, directory: &mut Directory, entry: &Entry<'_>, position: u32, place: Place) {
        let expected: &[u8] = if position == 0 { b"." } else { b".." };
        if entry.name != expected || !entry.is_used() {
            let name = if position == 0 { "." } else { ".." };
            self.report.add(place, format!("entry {position} must be `{name}`"), CURE);
            if entry.is_used() {
                self.check_entry(directory, entry, place);
            }
            return;
        }
        if position == 0 && entry.inode != directory.inode {
            self.report.add(place, format!("`.` names inode {}", entry.inode), CURE);
        }
        if position == 0 && entry.record_length != 12 {
            self.report.add(place, format!("`.` takes {} bytes", entry.record_length), CURE);
        }
        if position == 1 {
            directory.dotdot = entry.inode;
        }
        if let Some(record) = self.inodes.find(entry.inode) {
            record.names += 1;
        }
        self.check_kind_byte(entry, Some(FileKind::Directory), place);
    }

    fn check_entry(&mut self, directory: &Directory, entry: &Entry<'_>, place: Place) {
        let inode = entry.inode;
        let name = || String::from_utf8_lossy(entry.name).into_owned();
        if entry.name.is_empty() {
            self.report.add(place, format!("an entry without a name for inode {inode}"), CURE);
        } else if entry.name == b"." || entry.name == b".." {
            self.report.add(place, format!("`{}` is not where it belongs", name()), CURE);
        } else if entry.name.iter().any(|&byte| byte == b'/' || byte == 0) {
            self.report.add(place, format!("the name {:?} holds a slash or zero byte", name()), CURE);
        }
        let reserved = self.layout.is_reserved(inode) && inode != ROOT_INODE;
        if reserved || !self.layout.contains_inode(inode) {
            return self.report.add(place, format!("`{}` names inode {inode}, which no file has", name()), CURE);
        }
        let record = self.inodes.look(inode);
        if !record.used {
            return self.report.add(place, format!("`{}` names inode {inode}, which is free", name()), CURE);
        }
        if record.kind == Some(FileKind::Directory) {
            let again = inode == directory.inode || inode == ROOT_INODE || record.parent.is_some();
            if again {
                self.report.add(place, format!("`{}` is one more name of directory {inode}", name()), CURE);
            }
        }
        if let Some(record) = self.inodes.find(inode) {
            record.names += 1;
            if record.parent.is_none() && inode != directory.inode {
                record.parent = directory.inode;
            }
        }
        self.check_kind_byte(entry, record.kind, place);
    }

    fn check_kind_byte(&mut self, entry: &Entry<'_>, kind: Option<FileKind>, place: Place) {
        let expected = match kind {
            Some(kind) if self.layout.features.incompat.contains(Incompat::FILETYPE) => kind.entry_byte(),
            _ => 0,
        };
        // Kind 0 means unknown and is always valid.
        if entry.kind != expected && entry.kind != 0 {
            let name = String::from_utf8_lossy(entry.name);
            self.report.add(place, format!("`{name}` has kind {} instead of {expected}", entry.kind), CURE);
        }
    }

    fn check_hash(&mut self, entry: &Entry<'_>, role: Role, place: Place) {
        let Role::Leaf { low, high, version } = role else { return };
        let hash = version.hash(entry.name, self.layout.hash_seed).major;
        if !hash_in_range(hash, low, high) {
            let name = String::from_utf8_lossy(entry.name);
            let problem = format!("`{name}` with hash {hash:#x} lies where the index has {low:#x} to {high:#x}");
            self.report.add(place, problem, super::INDEX_CURE);
        }
    }

    /// The hash of a tree, with the signedness from the superblock.
    pub(super) fn tree_hash(&self, number: u8) -> Option<HashVersion> {
        HashVersion::from_disk(number, HashedBytes::of_flags(self.superblock.flags.get()))
    }

    async fn check_duplicates(&mut self, directory: &Directory, blocks: &[DirectoryBlock], names: &mut [NameSpot]) {
        names.sort_unstable();
        for pair in names.windows(2).filter(|pair| pair[0].hash == pair[1].hash) {
            let (first, second) = (pair[0], pair[1]);
            let (a, b) = (blocks[first.block as usize], blocks[second.block as usize]);
            let place = Place::FileBlock { inode: directory.inode, logical: b.logical };
            let (Some(a), Some(b)) = (self.read(a.physical, place).await, self.read(b.physical, place).await) else {
                return;
            };
            let (a, b) = (a.bytes(), b.bytes());
            let name = name_at(&b[..], second.offset);
            if name_at(&a[..], first.offset) == name {
                let problem = format!("`{}` is there twice", String::from_utf8_lossy(name));
                self.report.add(place, problem, "e2fsck -f renames one of them");
            }
        }
    }
}

/// The name of an entry that has passed its check.
fn name_at(block: &[u8], offset: u32) -> &[u8] {
    let start = offset as usize + block::RECORD_HEADER;
    let length = block.get(offset as usize + 6).copied().map_or(0, usize::from);
    block.get(start..start + length).unwrap_or_default()
}

/// A hash to find equal names; takes eight bytes at a time.
fn spot_hash(name: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut chunks = name.chunks_exact(8);
    let words = chunks.by_ref().map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
    let hash = words.fold(name.len() as u64, mix);
    let rest = chunks.remainder().iter().fold(1, |word, &byte| word << 8 | u64::from(byte));
    mix(hash, rest).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
