//! Pass 4: the entries of every directory. Rewrites a damaged directory without an index.

use std::collections::BTreeSet;

use onewrite_block::{PAGE_SIZE, Page};

use super::content::push;
use super::views::DirectoryPass;
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::ext4::format::directory::block::{self, Dots, Entries, Entry};
use crate::ext4::format::extent::Extent;
use crate::ext4::format::features::Incompat;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, Place, ROOT_INODE};

/// An entry to keep.
struct Kept {
    inode: InodeNo,
    name: Vec<u8>,
}

/// An entry as stored.
struct Found {
    offset: usize,
    inode: InodeNo,
    kind: u8,
    name: Vec<u8>,
}

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryBlock {
    /// Its number in the directory.
    pub logical: u32,
    /// Its block of the image.
    pub physical: BlockNo,
    /// It holds entries; an unwritten block reads as zeros.
    pub is_written: bool,
}

/// An entry `.` or `..` as stored.
#[derive(Clone, Copy, Debug)]
struct Dot {
    offset: usize,
    inode: InodeNo,
    kind: u8,
    is_sound: bool,
}

/// What to do with an entry.
enum Verdict {
    Keep,
    Mark(Option<FileKind>),
    Drop(&'static str),
    /// The entry names a directory that already has a name in this directory.
    Again(InodeNo),
}

impl<R: ReadBlocks> DirectoryPass<'_, '_, R> {
    pub(super) async fn mend_directories(&mut self) {
        for number in self.used_inodes() {
            if self.look(number).kind == Some(FileKind::Directory) {
                self.mend_directory(number).await;
            }
        }
    }

    async fn mend_directory(&mut self, number: InodeNo) {
        let Some(mut inode) = self.inode(number).await else { return };
        let blocks = self.directory_blocks(number, &mut inode).await;
        let block_size = PAGE_SIZE as u64;
        let is_dense = blocks.iter().zip(0..).all(|(block, own)| block.logical == own && block.is_written);
        let is_whole = is_dense && !blocks.is_empty() && inode.size == blocks.len() as u64 * block_size;
        let mut anew = !is_whole || inode.has(flags::INDEX) && self.bad_indexes.contains(&number);
        let seed = self.layout.inode_seed(number, inode.generation);
        let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
        for (at, &DirectoryBlock { physical, is_written, .. }) in (0_u32..).zip(&blocks) {
            let Some(page) = self.read(physical).await else {
                anew = true;
                continue;
            };
            if !is_written {
                continue;
            }
            let place = Place::FileBlock { inode: number, logical: at };
            let mut bytes = *page.bytes();
            let is_index = inode.has(flags::INDEX) && (at == 0 || bytes[..4] == [0; 4] && bytes[4..6] == [0, 16]);
            let had_tail = block::verify_checksum(&bytes[..], seed, &self.layout, place).is_ok();
            let before = bytes;
            if at == 0 && !self.mend_dots(number, &mut bytes) {
                anew = true;
            }
            anew |= self.take_entries(number, at, &mut bytes, &mut entries, &mut names).await;
            let tail_fits = has_tail(&bytes) || !self.layout.features.metadata_csum();
            anew |= !is_index && !tail_fits;
            if bytes != before || !is_index && !had_tail {
                if !is_index && bytes == before {
                    self.note(place, "the checksum is made anew");
                }
                if !is_index {
                    block::set_checksum(&mut bytes, seed, &self.layout);
                } else {
                    self.seal_index(&mut bytes, seed, at);
                }
                self.image.put(physical, Page::new(bytes));
            }
        }
        if anew {
            self.note_loss(Place::Inode(number), format!("written anew with {} entries", entries.len()));
            self.write_anew(number, inode, &entries, &blocks).await;
        }
    }

    /// Sets the checksum of an index block, block `logical` of its directory; block 0 is the root.
    pub(super) fn seal_index(&self, bytes: &mut [u8; PAGE_SIZE], seed: u32, logical: u32) {
        use crate::ext4::format::directory::htree::IndexMut;
        let place = Place::Inode(InodeNo::NONE);
        let index = match logical {
            0 => IndexMut::root(&mut bytes[..], &self.layout, place),
            _ => IndexMut::node(&mut bytes[..], &self.layout, place),
        };
        if let Ok(mut index) = index {
            index.set_checksum(seed, &self.layout);
        }
    }

    /// The blocks of a directory, in order.
    pub(super) async fn directory_blocks(&mut self, number: InodeNo, inode: &mut Inode) -> Vec<DirectoryBlock> {
        let content = self.map_pass().content(number, inode).await;
        let blocks = content.pieces.iter().flat_map(|piece| {
            let extent = piece.extent;
            (0..extent.length).map(move |at| DirectoryBlock {
                logical: extent.logical + at,
                physical: extent.physical + u64::from(at),
                is_written: !extent.unwritten,
            })
        });
        blocks.collect()
    }

    /// Corrects `.` and `..` in place; false if they are missing.
    fn mend_dots(&mut self, number: InodeNo, bytes: &mut [u8; PAGE_SIZE]) -> bool {
        let place = Place::FileBlock { inode: number, logical: 0 };
        let found: Vec<Dot> = {
            let entries = Entries::new(&bytes[..], place).take(2).flatten();
            let dots: [&[u8]; 2] = [b".", b".."];
            let told = entries.zip(dots).map(|(entry, name)| {
                let end = entry.offset + block::RECORD_HEADER + entry.name.len();
                let is_ended = bytes.get(end).is_none_or(|&byte| byte == 0);
                let is_sound = entry.name == name && entry.is_used() && is_ended;
                let is_sound = is_sound && (entry.offset > 0 || entry.record_length == 12);
                Dot { offset: entry.offset, inode: entry.inode, kind: entry.kind, is_sound }
            });
            told.collect()
        };
        if found.len() < 2 || found.iter().any(|dot| !dot.is_sound) {
            return false;
        }
        let kind = block::entry_kind(FileKind::Directory, &self.layout);
        let byte = kind.map_or(0, FileKind::entry_byte);
        let [own, above] = [found[0], found[1]];
        if own.inode != number || ![0, byte].contains(&own.kind) {
            block::replace(bytes, own.offset, number, kind);
            self.note_loss(place, "`.` names its directory again");
        }
        if ![0, byte].contains(&above.kind) {
            block::replace(bytes, above.offset, above.inode, kind);
            self.note(place, "`..` is marked as a directory");
        }
        true
    }

    /// Collects the entries of a block and removes those that name nothing; true if the block is damaged.
    async fn take_entries(
        &mut self,
        number: InodeNo,
        logical: u32,
        bytes: &mut [u8; PAGE_SIZE],
        entries: &mut Vec<Kept>,
        names: &mut BTreeSet<Vec<u8>>,
    ) -> bool {
        let place = Place::FileBlock { inode: number, logical };
        let (found, is_damaged) = self.found_entries(bytes, place);
        let mut dropped = Vec::new();
        for (position, Found { offset, inode, kind, name }) in found.into_iter().enumerate() {
            let is_dot = logical == 0 && (name == b"." || name == b"..") && position < 2;
            if inode.is_none() || is_dot {
                continue;
            }
            let shown = String::from_utf8_lossy(&name).into_owned();
            let mut verdict = self.verdict(number, inode, kind, &name, names);
            if let Verdict::Again(parent) = verdict {
                verdict = match self.belongs_here(inode, number, parent).await {
                    true => {
                        self.remove_entry(parent, |entry| entry.inode == inode).await;
                        self.note_loss(Place::Inode(parent), format!("no longer names {inode}, which is in {number}"));
                        self.verdict(number, inode, kind, &name, names)
                    }
                    false => Verdict::Drop("its directory has a name already"),
                };
            }
            match verdict {
                Verdict::Drop(why) => {
                    self.note_loss(place, format!("entry `{shown}` is removed: {why}"));
                    dropped.push(offset);
                    continue;
                }
                Verdict::Mark(kind) => {
                    self.note(place, format!("`{shown}` is marked as what it is"));
                    block::replace(bytes, offset, inode, kind);
                }
                Verdict::Keep | Verdict::Again(_) => {}
            }
            let is_directory = self.look(inode).kind == Some(FileKind::Directory);
            if let Some(file) = self.file(inode) {
                file.names += 1;
                if is_directory {
                    file.parent = number;
                }
            }
            if is_directory && let Some(own) = self.file(number) {
                own.children += 1;
            }
            names.insert(name.clone());
            entries.push(Kept { inode, name });
        }
        for offset in dropped.into_iter().rev() {
            if block::remove(bytes, offset, place).is_err() {
                return true;
            }
        }
        is_damaged
    }

    /// Whether directory `inode`, which `other` also names, has a `..` that names `number`.
    async fn belongs_here(&mut self, inode: InodeNo, number: InodeNo, other: InodeNo) -> bool {
        if inode == number || inode == ROOT_INODE || other == number {
            return false;
        }
        let Some(mut own) = self.inode(inode).await else { return false };
        let blocks = self.directory_blocks(inode, &mut own).await;
        let Some(&DirectoryBlock { logical: 0, physical, is_written: true }) = blocks.first() else { return false };
        let Some(page) = self.read(physical).await else { return false };
        let bytes = page.bytes();
        let above = Entries::new(&bytes[..], Place::Inode(inode)).nth(1);
        matches!(above, Some(Ok(above)) if above.name == b".." && above.inode == number)
    }

    /// The entries of a block. After a damaged entry, only entries that are certain.
    fn found_entries(&self, bytes: &[u8; PAGE_SIZE], place: Place) -> (Vec<Found>, bool) {
        let (mut found, mut is_damaged, mut start) = (Vec::new(), false, 0);
        while start < PAGE_SIZE {
            let mut end = start;
            let mut broke = false;
            for entry in Entries::from_offset(&bytes[..], start, place) {
                let Ok(entry) = entry else {
                    broke = true;
                    break;
                };
                end = entry.offset + entry.record_length;
                if entry.is_used() {
                    let Entry { offset, inode, kind, name, .. } = entry;
                    found.push(Found { offset, inode, kind, name: name.to_vec() });
                }
            }
            if !broke {
                break;
            }
            is_damaged = true;
            let Some(next) = (end..PAGE_SIZE).step_by(4).skip(1).find(|&at| self.is_beyond_doubt(bytes, at, place))
            else {
                break;
            };
            start = next;
        }
        (found, is_damaged)
    }

    fn is_beyond_doubt(&self, bytes: &[u8; PAGE_SIZE], at: usize, place: Place) -> bool {
        let Some(Ok(entry)) = Entries::from_offset(&bytes[..], at, place).next() else { return false };
        let file = self.look(entry.inode);
        let kind = file.kind.map(FileKind::entry_byte);
        let is_name = !entry.name.is_empty() && !entry.name.iter().any(|&byte| byte == b'/' || byte == 0);
        file.used && is_name && kind == Some(entry.kind)
    }

    fn verdict(
        &mut self,
        number: InodeNo,
        inode: InodeNo,
        kind: u8,
        name: &[u8],
        names: &BTreeSet<Vec<u8>>,
    ) -> Verdict {
        let is_name = !name.is_empty() && name != b"." && name != b"..";
        if !is_name || name.iter().any(|&byte| byte == b'/' || byte == 0) {
            return Verdict::Drop("no file can have that name");
        }
        let reserved = self.layout.is_reserved(inode) && inode != ROOT_INODE;
        if reserved || !self.layout.contains_inode(inode) {
            return Verdict::Drop("no file has that number");
        }
        let group = self.layout.group_of_inode(inode);
        let known = self.descriptors[group as usize].scanned_inodes(&self.layout);
        let index = self.layout.position_of_inode(inode).index;
        if index >= known && !self.widened.contains(&group) {
            self.to_widen.insert(group);
        }
        let file = self.look(inode);
        if !file.used {
            return Verdict::Drop("its inode is free");
        }
        if names.contains(name) {
            return Verdict::Drop("the name is there twice");
        }
        let is_again = inode == number || inode == ROOT_INODE || file.parent.is_some();
        if file.kind == Some(FileKind::Directory) && is_again {
            return Verdict::Again(file.parent);
        }
        let expected = match file.kind {
            Some(kind) if self.layout.features.incompat.contains(Incompat::FILETYPE) => kind.entry_byte(),
            _ => 0,
        };
        if kind == expected || kind == 0 {
            return Verdict::Keep;
        }
        Verdict::Mark(file.kind.and_then(|kind| block::entry_kind(kind, &self.layout)))
    }

    /// Rewrites a directory without an index: its entries one after another, in as few of its blocks as possible.
    async fn write_anew(&mut self, number: InodeNo, mut inode: Inode, entries: &[Kept], blocks: &[DirectoryBlock]) {
        let seed = self.layout.inode_seed(number, inode.generation);
        let place = Place::Inode(number);
        let mut pages = Vec::new();
        let mut bytes = [0; PAGE_SIZE];
        block::init_first(&mut bytes, Dots { own: number, parent: ROOT_INODE }, &self.layout);
        for entry in entries {
            let kind = self.look(entry.inode).kind.and_then(|kind| block::entry_kind(kind, &self.layout));
            if let Ok(Some(_)) = block::insert(&mut bytes, &entry.name, entry.inode, kind, place) {
                continue;
            }
            pages.push(bytes);
            block::init(&mut bytes, &self.layout);
            let inserted = block::insert(&mut bytes, &entry.name, entry.inode, kind, place);
            assert!(matches!(inserted, Ok(Some(_))), "an empty block has room for a name");
        }
        pages.push(bytes);
        let mut own: Vec<BlockNo> = blocks.iter().map(|block| block.physical).collect();
        let rest = own.split_off(pages.len().min(own.len()));
        let content = self.map_pass().content(number, &mut inode).await;
        while own.len() < pages.len() {
            let Some(block) = self.allocate() else { return };
            own.push(block);
        }
        for (&block, mut bytes) in own.iter().zip(pages) {
            block::set_checksum(&mut bytes, seed, &self.layout);
            self.image.put(block, Page::new(bytes));
        }
        inode.flags &= !flags::INDEX;
        inode.size = (own.len() * PAGE_SIZE) as u64;
        let is_same =
            rest.is_empty() && blocks.iter().zip(0..).all(|(block, at)| block.logical == at && block.is_written);
        if is_same && own.len() == blocks.len() {
            return self.put_inode(number, &inode).await;
        }
        rest.into_iter().for_each(|block| self.release(block));
        self.lay_out(number, &mut inode, &own, content.nodes).await;
    }

    /// Gives a directory these blocks.
    pub(super) async fn lay_out(
        &mut self,
        number: InodeNo,
        inode: &mut Inode,
        blocks: &[BlockNo],
        nodes: Vec<BlockNo>,
    ) {
        let mut extents = Vec::new();
        for (&physical, logical) in blocks.iter().zip(0..) {
            push(&mut extents, Extent { logical, physical, length: 1, unwritten: false });
        }
        self.map_pass().replace_map(number, inode, extents, nodes).await;
    }
}

/// Whether a block ends in the record that holds a checksum.
fn has_tail(bytes: &[u8; PAGE_SIZE]) -> bool {
    let tail = &bytes[PAGE_SIZE - 12..];
    tail[..8] == [0, 0, 0, 0, 12, 0, 0, 0xde]
}
