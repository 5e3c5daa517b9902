//! An image to damage. Edits are in memory and in a file; the test undoes them after each case.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use onewrite_block::Page;
use onewrite_fs::BlockNo;
use onewrite_fs::check::{CheckOptions, ReadBlocks, ReadError, Report, check};
use onewrite_fs::ext4::format::directory::{block, htree};
use onewrite_fs::ext4::format::extent::{self, Node};
use onewrite_fs::ext4::format::inode::flags;
use onewrite_fs::ext4::format::{Inode, InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock, attribute};
use onewrite_fs::repair::{Manner, RepairOptions, Repaired, repair};
use zerocopy::{FromBytes, IntoBytes};

use super::bystanders::Census;
use super::{e2fsck, run, text};

const BLOCK: usize = 4096;
/// Most faults of bystanders to report for one repair.
const FAULTS_MAX: usize = 3;

/// An image in memory, for the checker.
pub struct Memory {
    pages: Vec<Page>,
}

impl Memory {
    /// The pages of an image.
    pub fn new(bytes: &[u8]) -> Memory {
        Memory { pages: bytes.chunks(BLOCK).map(Page::from_slice).collect() }
    }
}

impl ReadBlocks for Memory {
    async fn read_block(&self, block: BlockNo) -> Result<Page, ReadError> {
        let page = usize::try_from(block.0).ok().and_then(|block| self.pages.get(block));
        page.cloned().ok_or_else(|| ReadError { reason: "beyond the end".into() })
    }
}

/// Checks an image in memory; its reads never wait.
pub fn check_memory(memory: &Memory) -> Report {
    let options = CheckOptions::default();
    let mut future = pin!(check(memory, &options));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(report) => report,
        Poll::Pending => panic!("a read waited"),
    }
}

/// A pointer of a table of block numbers.
fn pointer(table: &[u8], index: usize) -> BlockNo {
    BlockNo(u32::from_le_bytes(table[index * 4..index * 4 + 4].try_into().expect("four bytes")).into())
}

/// The image.
pub struct Patient {
    base: Vec<u8>,
    bytes: Vec<u8>,
    memory: Memory,
    touched: BTreeSet<BlockNo>,
    path: PathBuf,
    file: File,
    /// Its numbers.
    pub layout: Layout,
    inodes: BTreeMap<String, InodeNo>,
    census: Option<Census>,
}

impl Patient {
    /// Takes a sound image.
    pub fn new(path: &Path) -> Patient {
        let base = std::fs::read(path).expect("image");
        let raw = RawSuperblock::in_first_block(&base).expect("superblock");
        let layout = Layout::decode(raw).expect("layout");
        let file = File::options().write(true).open(path).expect("image");
        let (bytes, memory) = (base.clone(), Memory::new(&base));
        let (touched, inodes) = (BTreeSet::new(), BTreeMap::new());
        Patient { base, bytes, memory, touched, path: path.to_owned(), file, layout, inodes, census: None }
    }

    /// Writes the edits to the memory image and to the file, for our checker and e2fsck.
    pub fn write(&mut self) {
        self.write_to_memory();
        for &block in &self.touched {
            let bytes = &self.bytes[block.0 as usize * BLOCK..][..BLOCK];
            self.file.write_all_at(bytes, block.0 * BLOCK as u64).expect("write");
        }
    }

    /// Writes the edits to the memory image for our checker, but not to the file.
    pub fn write_to_memory(&mut self) {
        for &block in &self.touched {
            let bytes = &self.bytes[block.0 as usize * BLOCK..][..BLOCK];
            self.memory.pages[block.0 as usize] = Page::from_slice(bytes);
        }
    }

    /// The first bytes that differ from the sound image: block, offset, before, now.
    pub fn changes(&self) -> Vec<(BlockNo, usize, u8, u8)> {
        let differing = |&block: &BlockNo| {
            let start = block.0 as usize * BLOCK;
            let pairs = self.base[start..start + BLOCK].iter().zip(&self.bytes[start..start + BLOCK]).enumerate();
            pairs.filter(|(_, (before, now))| before != now).map(move |(at, (before, now))| (block, at, *before, *now))
        };
        self.touched.iter().flat_map(differing).take(12).collect()
    }

    /// Undoes all edits.
    pub fn heal(&mut self) {
        self.restore();
        self.write();
        self.touched.clear();
    }

    /// Undoes all edits in memory; call it if the file has none of them.
    pub fn heal_in_memory(&mut self) {
        self.restore();
        self.write_to_memory();
        self.touched.clear();
    }

    fn restore(&mut self) {
        for &block in &self.touched {
            let range = block.0 as usize * BLOCK..(block.0 as usize + 1) * BLOCK;
            self.bytes[range.clone()].copy_from_slice(&self.base[range]);
        }
    }

    /// The report of our checker.
    pub fn report(&self) -> Report {
        check_memory(&self.memory)
    }

    /// The plan of a repair.
    pub fn repair(&self, manner: Manner) -> Repaired {
        let options = RepairOptions { manner, unix_time: 1_700_000_000 };
        let mut future = pin!(repair(&self.memory, &options));
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(repaired) => repaired,
            Poll::Pending => panic!("a read waited"),
        }
    }

    /// Writes the blocks of a repair.
    pub fn apply(&mut self, repaired: &Repaired) {
        for (&target, &source) in &repaired.copies {
            let source = self.block(source).to_vec();
            self.block_mut(target).copy_from_slice(&source);
        }
        for (&block, page) in &repaired.blocks {
            self.block_mut(block).copy_from_slice(&page.bytes()[..]);
        }
        self.write();
    }

    /// Repairs the image in each manner; returns the faults of the repairs.
    pub fn faults_of_repair(&mut self) -> Vec<String> {
        let mut faults = Vec::new();
        let safe = self.repair(Manner::Safe);
        let all = self.repair(Manner::All);
        if safe.changes.iter().any(|change| !change.is_safe) && !safe.blocks.is_empty() {
            faults.push("an unsafe repair that was not allowed".to_owned());
        }
        let told: Vec<String> = all.changes.iter().map(ToString::to_string).collect();
        if !safe.blocks.is_empty() && safe.blocks != all.blocks {
            faults.push(format!("safe repairs differ: {told:?}"));
        }
        if all.before.has_unknown_features {
            let (status, said) = e2fsck(&self.path);
            let is_refused = status & 8 != 0 && all.blocks.is_empty();
            faults.extend((!is_refused).then(|| format!("refused, but e2fsck does not: {status}, {said}")));
            return faults;
        }
        if !all.after.is_clean() {
            faults.push(format!("left: {:?} after {told:?}", all.after.findings));
            return faults;
        }
        let told = &told;
        faults.extend(
            self.faults_of_bystanders(&all).into_iter().take(FAULTS_MAX).map(|fault| format!("{fault} after {told:?}")),
        );
        let (status, said) = e2fsck(&self.path);
        if status != 0 {
            faults.push(format!("e2fsck: {status}, {said} after {told:?}"));
        }
        let again = self.repair(Manner::All);
        if !again.changes.is_empty() || !again.before.is_clean() {
            faults.push(format!("again: {:?} after {told:?}", again.changes));
        }
        faults
    }

    /// Writes the blocks of a repair; returns its faults on files and names that the damage did not touch.
    fn faults_of_bystanders(&mut self, planned: &Repaired) -> Vec<String> {
        let census = self.census.take().unwrap_or_else(|| Census::take(&self.base).expect("a sound image"));
        let bystanders = census.bystanders(&self.base, &self.bytes);
        self.apply(planned);
        let faults = match Census::take(&self.bytes) {
            Ok(repaired) => census.faults(&bystanders, &repaired),
            Err(problem) => vec![format!("no census after the repair: {problem}")],
        };
        self.census = Some(census);
        faults
    }

    /// The image file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The inode of a path.
    pub fn inode_of(&mut self, path: &str) -> InodeNo {
        if let Some(&inode) = self.inodes.get(path) {
            return inode;
        }
        let said = run("debugfs", &["-R", &format!("stat \"{path}\""), text(&self.path)]);
        let number = said.split_whitespace().nth(1).and_then(|number| number.parse().ok()).map(InodeNo);
        let inode = number.unwrap_or_else(|| panic!("{path}: {said}"));
        self.inodes.insert(path.to_owned(), inode);
        inode
    }

    /// Records the inode of a path that no longer exists.
    pub fn remember(&mut self, path: &str, inode: InodeNo) {
        self.inodes.insert(path.to_owned(), inode);
    }

    /// A block to read.
    pub fn block(&self, number: BlockNo) -> &[u8] {
        &self.bytes[number.0 as usize * BLOCK..][..BLOCK]
    }

    /// A block as before any damage, to look up where structures lie.
    fn sound_block(&self, number: BlockNo) -> &[u8] {
        &self.base[number.0 as usize * BLOCK..][..BLOCK]
    }

    fn sound_descriptor(&self, group: u32) -> RawGroupDescriptor {
        let (block, offset) = self.layout.position_of_descriptor(group);
        RawGroupDescriptor::read(&self.sound_block(block)[offset..], group, &self.layout).expect("descriptor")
    }

    fn sound_inode(&self, inode: InodeNo) -> Inode {
        let (block, offset) = self.slot_position(inode);
        Inode::decode_unverified(&self.sound_block(block)[offset..], inode, &self.layout).expect("inode")
    }

    /// A block to change.
    pub fn block_mut(&mut self, number: BlockNo) -> &mut [u8] {
        self.touched.insert(number);
        &mut self.bytes[number.0 as usize * BLOCK..][..BLOCK]
    }

    /// Changes the superblock, its checksum too.
    pub fn superblock(&mut self, change: impl FnOnce(&mut RawSuperblock)) {
        let bytes = &mut self.block_mut(BlockNo::FIRST)[1024..2048];
        let raw = RawSuperblock::mut_from_bytes(bytes).expect("1024 bytes");
        change(raw);
        raw.checksum.set(raw.computed_checksum());
    }

    /// The descriptor of a group.
    pub fn descriptor(&self, group: u32) -> RawGroupDescriptor {
        let (block, offset) = self.layout.position_of_descriptor(group);
        RawGroupDescriptor::read(&self.block(block)[offset..], group, &self.layout).expect("descriptor")
    }

    /// Changes a descriptor, its checksum too.
    pub fn change_descriptor(&mut self, group: u32, change: impl FnOnce(&mut RawGroupDescriptor)) {
        let (block, offset) = self.layout.position_of_descriptor(group);
        let mut raw = self.descriptor(group);
        change(&mut raw);
        let layout = self.layout.clone();
        raw.write(&mut self.block_mut(block)[offset..], group, &layout);
    }

    /// Changes a block bitmap, its checksum too.
    pub fn block_bitmap(&mut self, group: u32, change: impl FnOnce(&mut [u8])) {
        let number = self.sound_descriptor(group).block_bitmap();
        change(self.block_mut(number));
        let (bitmap, layout) = (self.block(number).to_vec(), self.layout.clone());
        self.change_descriptor(group, |raw| raw.update_block_bitmap_checksum(&bitmap, &layout));
    }

    /// Changes an inode bitmap, its checksum too.
    pub fn inode_bitmap(&mut self, group: u32, change: impl FnOnce(&mut [u8])) {
        let number = self.sound_descriptor(group).inode_bitmap();
        change(self.block_mut(number));
        let (bitmap, layout) = (self.block(number).to_vec(), self.layout.clone());
        self.change_descriptor(group, |raw| raw.update_inode_bitmap_checksum(&bitmap, &layout));
    }

    fn slot_position(&self, inode: InodeNo) -> (BlockNo, usize) {
        let position = self.layout.position_of_inode(inode);
        let table = self.sound_descriptor(position.group).inode_table();
        (table + u64::from(position.table_block), position.offset)
    }

    /// Changes the bytes of an inode and nothing else.
    pub fn slot(&mut self, inode: InodeNo, change: impl FnOnce(&mut [u8])) {
        let ((block, offset), size) = (self.slot_position(inode), usize::from(self.layout.inode_size));
        change(&mut self.block_mut(block)[offset..offset + size]);
    }

    /// Changes the bytes of an inode, then its checksum.
    pub fn slot_sealed(&mut self, inode: InodeNo, change: impl FnOnce(&mut [u8])) {
        let layout = self.layout.clone();
        self.slot(inode, |slot| {
            change(slot);
            // Without a valid `extra_isize` there is no checksum to correct.
            if let Ok(decoded) = Inode::decode_unverified(slot, inode, &layout) {
                decoded.encode_into(slot, inode, &layout);
            }
        });
    }

    /// An inode.
    pub fn inode(&self, inode: InodeNo) -> Inode {
        let (block, offset) = self.slot_position(inode);
        Inode::decode_unverified(&self.block(block)[offset..], inode, &self.layout).expect("inode")
    }

    /// Changes an inode, its checksum too.
    pub fn change_inode(&mut self, inode: InodeNo, change: impl FnOnce(&mut Inode)) {
        let mut decoded = self.inode(inode);
        change(&mut decoded);
        let layout = self.layout.clone();
        self.slot(inode, |slot| decoded.encode_into(slot, inode, &layout));
    }

    fn seed(&self, inode: InodeNo) -> u32 {
        self.layout.inode_seed(inode, self.sound_inode(inode).generation)
    }

    /// The first block of a file's map: of its extents below their root, or of its pointers.
    pub fn node_of(&self, inode: InodeNo) -> BlockNo {
        let decoded = self.sound_inode(inode);
        if !decoded.has(flags::EXTENTS) {
            return pointer(&decoded.block, 12);
        }
        let root = Node::parse(&decoded.block, Place::Inode(inode)).expect("root");
        root.indexes().next().expect("a tree of two levels").node
    }

    /// Changes the first block of a file's map, its checksum too.
    pub fn change_node(&mut self, inode: InodeNo, change: impl FnOnce(&mut [u8])) {
        let (number, seed, layout) = (self.node_of(inode), self.seed(inode), self.layout.clone());
        let has_extents = self.sound_inode(inode).has(flags::EXTENTS);
        let node = self.block_mut(number);
        change(node);
        if has_extents {
            extent::set_checksum(node, seed, &layout);
        }
    }

    /// The image block of the file's block `logical`, as in the sound image.
    pub fn place_of(&self, inode: InodeNo, logical: u32) -> BlockNo {
        let decoded = self.sound_inode(inode);
        if !decoded.has(flags::EXTENTS) {
            let indirect = || pointer(self.sound_block(self.node_of(inode)), logical as usize - 12);
            return if logical < 12 { pointer(&decoded.block, logical as usize) } else { indirect() };
        }
        let root = Node::parse(&decoded.block, Place::Inode(inode)).expect("root");
        let mut node = root;
        while node.depth() > 0 {
            let child = node.child(logical).expect("mapped");
            node = Node::parse(self.sound_block(child.node), Place::Inode(inode)).expect("node");
        }
        node.find(logical).expect("mapped").physical_of(logical)
    }

    /// Changes a block of directory entries, its checksum too.
    pub fn entries(&mut self, inode: InodeNo, logical: u32, change: impl FnOnce(&mut [u8])) {
        let (number, seed, layout) = (self.place_of(inode, logical), self.seed(inode), self.layout.clone());
        let bytes = self.block_mut(number);
        change(bytes);
        block::set_checksum(bytes, seed, &layout);
    }

    /// Changes the root of a directory's tree, its checksum too if limit and count allow it.
    pub fn tree_root(&mut self, inode: InodeNo, change: impl FnOnce(&mut [u8])) {
        let (number, seed, layout) = (self.place_of(inode, 0), self.seed(inode), self.layout.clone());
        let bytes = self.block_mut(number);
        change(bytes);
        if let Ok(mut root) = htree::IndexMut::root(bytes, &layout, Place::Inode(inode)) {
            root.set_checksum(seed, &layout);
        }
    }

    /// Changes an index block below the root of a directory's tree, its checksum too if limit and count allow it.
    pub fn tree_node(&mut self, inode: InodeNo, logical: u32, change: impl FnOnce(&mut [u8])) {
        let (number, seed, layout) = (self.place_of(inode, logical), self.seed(inode), self.layout.clone());
        let bytes = self.block_mut(number);
        change(bytes);
        if let Ok(mut node) = htree::IndexMut::node(bytes, &layout, Place::Inode(inode)) {
            node.set_checksum(seed, &layout);
        }
    }

    /// Changes a block of attributes, its checksum too.
    pub fn attributes(&mut self, inode: InodeNo, change: impl FnOnce(&mut [u8])) {
        let (number, layout) = (self.sound_inode(inode).file_acl, self.layout.clone());
        let bytes = self.block_mut(number);
        change(bytes);
        attribute::set_checksum(bytes, number, &layout);
    }

    /// Where an entry of a directory lies: block of the directory and offset.
    pub fn entry(&self, directory: InodeNo, name: &str) -> (u32, usize) {
        let blocks = (self.sound_inode(directory).size / BLOCK as u64) as u32;
        let found = (0..blocks).find_map(|logical| {
            let bytes = self.sound_block(self.place_of(directory, logical));
            let entry = block::find(bytes, name.as_bytes(), Place::Inode(directory)).ok()??;
            Some((logical, entry.offset))
        });
        found.unwrap_or_else(|| panic!("{name} in inode {directory}"))
    }

    /// Changes the record of an entry from its start on, the block's checksum too.
    pub fn change_entry(&mut self, directory: InodeNo, name: &str, change: impl FnOnce(&mut [u8])) {
        let (logical, offset) = self.entry(directory, name);
        self.entries(directory, logical, |bytes| change(&mut bytes[offset..]));
    }

    /// The first free block of the image's last group.
    pub fn free_block(&self) -> BlockNo {
        let group = self.layout.group_count - 1;
        let bitmap = self.block(self.descriptor(group).block_bitmap());
        let index = (0..self.layout.blocks_in_group(group)).find(|&bit| bitmap[bit as usize / 8] >> (bit % 8) & 1 == 0);
        self.layout.first_block_of_group(group) + u64::from(index.expect("a free block"))
    }

    /// Bytes of the superblock as they are now.
    pub fn superblock_bytes(&self) -> Vec<u8> {
        RawSuperblock::in_first_block(&self.bytes).expect("superblock").as_bytes().to_vec()
    }
}
