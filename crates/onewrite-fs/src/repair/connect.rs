//! Pass 5: connects every file to the root and corrects link counts.

use std::collections::BTreeSet;

use onewrite_block::{PAGE_SIZE, Page};

use super::directories::DirectoryBlock;
use super::views::DirectoryPass;
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::ext4::format::directory::block::{self, Dots};
use crate::ext4::format::features::RoCompat;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{InodeNo, Place, RESIZE_INODE, ROOT_INODE};

const LOST_AND_FOUND: &[u8] = b"lost+found";
/// A directory with more links than this has link count 1.
const NAMES_MAX: u32 = 65_000;

impl<R: ReadBlocks> DirectoryPass<'_, '_, R> {
    /// Makes a root directory if there is none.
    pub(super) async fn mend_root(&mut self) {
        if self.look(ROOT_INODE).kind == Some(FileKind::Directory) {
            return;
        }
        if self.widened.insert(0) {
            self.to_widen.insert(0);
            return;
        }
        self.note_loss(Place::Inode(ROOT_INODE), "a root directory is made");
        self.rebuilds.retain(|rebuild| rebuild.number != ROOT_INODE);
        if let Some(mut old) = self.inode(ROOT_INODE).await {
            let content = self.map_pass().content(ROOT_INODE, &mut old).await;
            if self.look(ROOT_INODE).kind == Some(FileKind::Regular) {
                self.map_pass().give_up(&content);
            }
        }
        // Its blocks may hold content of other files.
        self.map_pass().reclaim();
        self.make_directory(ROOT_INODE, ROOT_INODE, 0o755).await;
    }

    /// Makes an empty directory in an allocated inode.
    async fn make_directory(&mut self, number: InodeNo, parent: InodeNo, permissions: u16) -> bool {
        let mut inode = self.new_inode(FileKind::Directory.mode_bits() | permissions);
        let slot = vec![0; usize::from(self.layout.inode_size)];
        let Some(physical) = self.allocate() else { return false };
        let mut bytes = [0; PAGE_SIZE];
        block::init_first(&mut bytes, Dots { own: number, parent }, &self.layout);
        block::set_checksum(&mut bytes, self.layout.inode_seed(number, 0), &self.layout);
        self.image.put(physical, Page::new(bytes));
        (inode.size, inode.links) = (PAGE_SIZE as u64, 2);
        self.put_slot(number, &slot).await;
        self.lay_out(number, &mut inode, &[physical], Vec::new()).await;
        if let Some(file) = self.file(number) {
            (file.used, file.kind) = (true, Some(FileKind::Directory));
        }
        true
    }

    /// Connects inodes without a name to `lost+found`, and sets every `..`.
    pub(super) async fn connect(&mut self) {
        self.break_circles().await;
        let is_lost = |own: &Self, number: InodeNo| {
            let file = own.look(number);
            !own.layout.is_reserved(number) && file.names == 0 && !own.serves_itself(number)
        };
        if self.used_inodes().into_iter().any(|number| is_lost(self, number))
            && let Some(home) = self.lost_and_found().await
        {
            for number in self.used_inodes().into_iter().filter(|&number| is_lost(self, number)).collect::<Vec<_>>() {
                self.add_entry(home, number, format!("#{number}").as_bytes()).await;
                self.note_loss(Place::Inode(number), format!("is now lost+found/#{number}"));
            }
        }
        for number in self.used_inodes() {
            if self.look(number).kind == Some(FileKind::Directory) {
                self.set_parent(number).await;
            }
        }
    }

    fn serves_itself(&self, number: InodeNo) -> bool {
        number == self.layout.journal_inode || number == RESIZE_INODE
    }

    /// Removes one name from each circle of directories.
    async fn break_circles(&mut self) {
        let mut reached = BTreeSet::from([ROOT_INODE]);
        for number in self.used_inodes() {
            if self.look(number).kind != Some(FileKind::Directory) {
                continue;
            }
            let (mut walk, mut at) = (BTreeSet::new(), number);
            while at.is_some() && !reached.contains(&at) && walk.insert(at) {
                at = self.look(at).parent;
            }
            if at.is_some() && !reached.contains(&at) {
                let parent = self.look(at).parent;
                self.remove_entry(parent, |entry| entry.inode == at).await;
                self.note_loss(Place::Inode(at), "a directory below itself is taken out of the circle");
            }
            reached.extend(walk);
        }
    }

    /// Removes the first entry of a directory for which `is_it` is true; skips `.` and `..`.
    pub(super) async fn remove_entry(&mut self, directory: InodeNo, is_it: impl Fn(&block::Entry<'_>) -> bool) {
        let Some(mut own) = self.inode(directory).await else { return };
        let seed = self.layout.inode_seed(directory, own.generation);
        for DirectoryBlock { logical, physical, .. } in self.directory_blocks(directory, &mut own).await {
            let place = Place::FileBlock { inode: directory, logical };
            let Some(page) = self.read(physical).await else { continue };
            let mut bytes = *page.bytes();
            let stored = bytes;
            let mut entries = block::Entries::new(&stored[..], place).flatten();
            let found =
                entries.find(|entry| entry.is_used() && entry.name != b"." && entry.name != b".." && is_it(entry));
            let Some((offset, inode)) = found.map(|entry| (entry.offset, entry.inode)) else { continue };
            if block::remove(&mut bytes, offset, place).is_ok() {
                block::set_checksum(&mut bytes, seed, &self.layout);
                self.image.put(physical, Page::new(bytes));
                return self.forget_name(directory, inode);
            }
        }
    }

    fn forget_name(&mut self, directory: InodeNo, inode: InodeNo) {
        let is_directory = self.look(inode).kind == Some(FileKind::Directory);
        if let Some(file) = self.file(inode) {
            (file.names, file.parent) = (file.names.saturating_sub(1), InodeNo::NONE);
        }
        if is_directory && let Some(file) = self.file(directory) {
            file.children = file.children.saturating_sub(1);
        }
    }

    /// The inode of `lost+found`; makes the directory if it is missing.
    async fn lost_and_found(&mut self) -> Option<InodeNo> {
        let mut root = self.inode(ROOT_INODE).await?;
        for DirectoryBlock { logical, physical, .. } in self.directory_blocks(ROOT_INODE, &mut root).await {
            let page = self.read(physical).await?;
            let place = Place::FileBlock { inode: ROOT_INODE, logical };
            let bytes = page.bytes();
            let Ok(found) = block::find(&bytes[..], LOST_AND_FOUND, place) else { continue };
            let Some(number) = found.map(|entry| entry.inode) else { continue };
            if self.look(number).kind == Some(FileKind::Directory) {
                return Some(number);
            }
            self.remove_entry(ROOT_INODE, |entry| entry.name == LOST_AND_FOUND).await;
            self.note_loss(Place::Inode(number), "gives up the name lost+found, which only a directory can have");
            break;
        }
        let number = self.allocate_inode()?;
        if !self.make_directory(number, ROOT_INODE, 0o700).await {
            return None;
        }
        self.add_entry(ROOT_INODE, number, LOST_AND_FOUND).await;
        self.note_loss(Place::Inode(number), "a directory lost+found is made");
        Some(number)
    }

    /// Adds an entry to a directory; adds a block if the others are full.
    async fn add_entry(&mut self, directory: InodeNo, inode: InodeNo, name: &[u8]) {
        let Some(mut own) = self.inode(directory).await else { return };
        let Some(kind) = self.look(inode).kind else { return };
        let seed = self.layout.inode_seed(directory, own.generation);
        let stored = block::entry_kind(kind, &self.layout);
        let blocks = self.directory_blocks(directory, &mut own).await;
        let mut is_put = false;
        if !own.has(flags::INDEX) {
            for &DirectoryBlock { logical, physical, .. } in &blocks {
                let Some(page) = self.read(physical).await else { continue };
                let mut bytes = *page.bytes();
                let place = Place::FileBlock { inode: directory, logical };
                if let Ok(Some(_)) = block::insert(&mut bytes, name, inode, stored, place) {
                    block::set_checksum(&mut bytes, seed, &self.layout);
                    self.image.put(physical, Page::new(bytes));
                    is_put = true;
                    break;
                }
            }
        }
        if !is_put {
            // An index stays as it is: the checker then finds the fault and the next round rewrites the directory.
            let Some(physical) = self.allocate() else { return };
            let mut bytes = [0; PAGE_SIZE];
            block::init(&mut bytes, &self.layout);
            let _ = block::insert(&mut bytes, name, inode, stored, Place::Inode(directory));
            block::set_checksum(&mut bytes, seed, &self.layout);
            self.image.put(physical, Page::new(bytes));
            let content = self.map_pass().content(directory, &mut own).await;
            let mut all: Vec<BlockNo> = blocks.iter().map(|block| block.physical).collect();
            all.push(physical);
            own.size = (all.len() * PAGE_SIZE) as u64;
            self.lay_out(directory, &mut own, &all, content.nodes).await;
        }
        if let Some(file) = self.file(inode) {
            file.names += 1;
            file.parent = directory;
        }
        if kind == FileKind::Directory
            && let Some(file) = self.file(directory)
        {
            file.children += 1;
        }
    }

    async fn set_parent(&mut self, number: InodeNo) {
        let parent = if number == ROOT_INODE { ROOT_INODE } else { self.look(number).parent };
        let Some(mut own) = self.inode(number).await else { return };
        let seed = self.layout.inode_seed(number, own.generation);
        let blocks = self.directory_blocks(number, &mut own).await;
        let Some(&DirectoryBlock { physical, .. }) = blocks.first() else { return };
        let Some(page) = self.read(physical).await else { return };
        let mut bytes = *page.bytes();
        let stored = bytes;
        let place = Place::FileBlock { inode: number, logical: 0 };
        let Some(Ok(above)) = block::Entries::new(&stored[..], place).nth(1) else { return };
        if parent.is_none() || above.inode == parent || above.name != b".." {
            return;
        }
        block::replace(&mut bytes, above.offset, parent, block::entry_kind(FileKind::Directory, &self.layout));
        if own.has(flags::INDEX) {
            self.seal_index(&mut bytes, seed, 0);
        } else {
            block::set_checksum(&mut bytes, seed, &self.layout);
        }
        self.image.put(physical, Page::new(bytes));
        self.note_loss(place, format!("`..` is inode {parent}"));
    }

    /// Writes the link count of each inode.
    pub(super) async fn mend_links(&mut self) {
        for number in self.used_inodes() {
            let is_reserved = self.layout.is_reserved(number) && number != ROOT_INODE;
            if is_reserved || self.serves_itself(number) {
                continue;
            }
            let file = self.look(number);
            let Some(mut inode) = self.inode(number).await else { continue };
            let is_directory = file.kind == Some(FileKind::Directory);
            let names = if is_directory { 2 + file.children } else { file.names };
            let many = is_directory && names > NAMES_MAX;
            let links = if many { 1 } else { names.min(u32::from(u16::MAX)) as u16 };
            if inode.links != links && names > 0 {
                self.note(Place::Inode(number), format!("counts {links} names instead of {}", inode.links));
                inode.links = links;
                self.put_inode(number, &inode).await;
            }
            if many && !self.layout.features.ro_compat.contains(RoCompat::DIR_NLINK) {
                self.note_loss(Place::Inode(number), "has more directories than it may");
            }
        }
    }
}
