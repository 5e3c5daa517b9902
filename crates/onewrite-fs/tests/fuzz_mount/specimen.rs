//! Images to mutate: populated once, with a map of the kind of each block, so that a mutation can correct checksums.

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use onewrite_block::{Choices, Executor, Halt, Image, Lpn, Nanos, PageBytes, PowerCut, RamDisk};
use onewrite_fs::ext4::format::directory::htree::Index;
use onewrite_fs::ext4::format::extent::Node;
use onewrite_fs::ext4::format::{Inode, InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AttributeManner, Content, FileKind, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position,
};

use crate::log::LogItem;
use crate::support::volume::{image, load, new_disk, with_mount};
use crate::support::{Scratch, text, tool};

pub const BLOCK: usize = 4096;
const SIZE: u64 = 16 * 1024 * 1024;
const LOG_BLOCKS: u32 = 1024;

/// Kind of a metadata block, with the seed of its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Superblock,
    Descriptors,
    BlockBitmap(u32),
    InodeBitmap(u32),
    /// The number of its first inode.
    InodeTable(InodeNo),
    ExtentNode(u32),
    Entries(u32),
    TreeRoot(u32),
    TreeNode(u32),
    Attributes,
}

/// An image that is sound, at least after replay, and a map of its blocks.
pub struct Specimen {
    pub name: String,
    pub image: Image,
    pub layout: Layout,
    /// Kind of each metadata block, as after replay.
    pub kinds: BTreeMap<u64, Kind>,
    /// Inodes in use.
    pub inodes: Vec<InodeNo>,
    /// Blocks of the log, in order.
    pub log_blocks: Vec<u64>,
    /// Items of the log; empty after a clean unmount.
    pub log: Vec<LogItem>,
}

/// A block of an image as bytes.
pub fn bytes(image: &Image, block: u64) -> PageBytes {
    image.page(Lpn(block)).bytes().into_owned()
}

/// All specimens: clean ones, and logs of three modes after power cuts at several points.
pub fn specimens(scratch: &Scratch) -> Vec<Specimen> {
    let mut all = vec![clean("ours", new_disk(SIZE, LOG_BLOCKS).image().clone())];
    let groups = made(scratch, "groups", "^resize_inode");
    let plain = made(scratch, "plain", "^resize_inode,^metadata_csum,uninit_bg,^64bit,^flex_bg");
    for mode in [Mode::Ordered, Mode::Data, Mode::DataAsync] {
        for events in [120, 260, 500] {
            all.push(cut(mode, events, &groups));
        }
    }
    all.push(cut(Mode::Data, 300, &plain));
    all.push(clean("groups", groups));
    all.push(clean("plain", plain));
    all
}

/// An image of several small groups, made by mke2fs. Each call gives the same image, so seed and number identify a
/// case.
fn made(scratch: &Scratch, name: &str, features: &str) -> Image {
    let (path, id) = (scratch.path(name), "11111111-1111-1111-1111-111111111111");
    let seed = format!("hash_seed={id}");
    let mut command = tool("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-g", "1024", "-J", "size=4", "-O", features]);
    command.args(["-U", id, "-E", &seed, text(&path), "16M"]).env("E2FSPROGS_FAKE_TIME", "1600000000");
    assert!(command.output().expect("mke2fs").status.success(), "mke2fs");
    load(&path)
}

fn clean(name: &str, empty: Image) -> Specimen {
    let (outcome, device) = on(empty, MountOptions::new(Mode::Ordered), |fs| async move { populate(&fs).await });
    outcome.expect("populated");
    let populated = image(device);
    Specimen::new(name.into(), populated.clone(), &populated)
}

fn on<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    image: Image,
    options: MountOptions,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> (FsResult<T>, Box<dyn onewrite_block::Device>) {
    let geometry = onewrite_block::Geometry::plain("ram", image.pages());
    with_mount(Box::new(RamDisk::with_image(image, geometry)), options, |fs, _| work(fs))
}

/// Populates an image, then changes it until the power cut.
fn cut(mode: Mode, events: u64, empty: &Image) -> Specimen {
    let sound = clean("", empty.clone());
    let geometry = onewrite_block::Geometry::plain("ram", empty.pages());
    let mut disk = RamDisk::with_image(sound.image, geometry);
    disk.arm(events);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let door = port.clone();
    let outcome = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(door, MountOptions::new(mode)).await.expect("mount"));
        change_for_ever(&fs, events).await.expect("changes");
    });
    assert_eq!(outcome, Err(Halt::PowerLost));
    drop(executor);
    let mut device = port.unplug();
    let switch = device.as_power_cut().expect("a RAM disk can be cut");
    switch.recover(Nanos::ZERO).expect("a RAM disk recovers");
    let crashed = image(device);
    let (outcome, device) = on(crashed.clone(), MountOptions::new(Mode::Ordered), |fs| async move {
        Ok(fs.recovered().map_or(0, |recovered| recovered.transactions))
    });
    assert!(outcome.expect("it mounts") > 0, "{mode}, {events} events: the log is empty");
    Specimen::new(format!("{mode}-{events}"), crashed, &image(device))
}

fn pattern(seed: u64, length: u64) -> Content<'static> {
    Content::Pattern { seed, compressible_percent: 0, length }
}

/// Makes a tree with every kind of structure.
async fn populate(fs: &Rc<Ext4>) -> FsResult<()> {
    let root = fs.root();
    let sub = fs.create(root, b"sub", NewNode::DIRECTORY).await?;
    let deep = fs.create(sub, b"deep", NewNode::DIRECTORY).await?;
    fs.create(deep, b"deeper", NewNode::DIRECTORY).await?;
    let hello = fs.create(root, b"hello", NewNode::FILE).await?;
    fs.write(hello, Position::At(0), Content::Bytes(b"hello, world\n"), Manner::default()).await?;
    fs.link(hello, sub, b"again").await?;
    let large = fs.create(sub, b"large", NewNode::FILE).await?;
    fs.write(large, Position::At(0), pattern(1, 100_000), Manner::default()).await?;
    fs.allocate(large, 200_000, 50_000, Allocation::KeepSize).await?;
    let either = AttributeManner::Either;
    fs.set_extended_attribute(hello, b"user.large", Some(&[b'v'; 2000]), either).await?;
    fs.set_extended_attribute(large, b"user.small", Some(b"value"), either).await?;
    fs.symlink(root, b"short-link", b"hello").await?;
    fs.symlink(root, b"long-link", &[b'x'; 400]).await?;
    fs.create(root, b"fifo", NewNode { kind: FileKind::Fifo, ..NewNode::FILE }).await?;
    let pieces = fs.create(root, b"pieces", NewNode::FILE).await?;
    for piece in 0..500 {
        fs.write(pieces, Position::At(piece * 8192), pattern(piece, 100), Manner::default()).await?;
    }
    let many = fs.create(root, b"many", NewNode::DIRECTORY).await?;
    for number in 0..90 {
        fs.create(many, format!("{number:0150}").as_bytes(), NewNode::FILE).await?;
    }
    Ok(())
}

/// Changes the populated tree so that the log holds revokes, orphans, escaped blocks and every kind of structure.
async fn change_for_ever(fs: &Rc<Ext4>, seed: u64) -> FsResult<()> {
    let (root, mut choices) = (fs.root(), Choices::new(seed));
    let many = fs.lookup(root, b"many").await?;
    let pieces = fs.lookup(root, b"pieces").await?;
    let open = fs.lookup(many, format!("{:0150}", 5).as_bytes()).await?;
    fs.write(open, Position::At(0), pattern(5, 20_000), Manner::default()).await?;
    fs.open(open).await?;
    fs.unlink(many, format!("{:0150}", 5).as_bytes()).await?;
    for round in 0_u64.. {
        let name = format!("new-{round:0100}");
        let file = fs.create(many, name.as_bytes(), NewNode::FILE).await?;
        let magic = [&[0xc0, 0x3b, 0x39, 0x98][..], &[1; 5000]].concat();
        fs.write(file, Position::At(choices.below(3) * 4096), Content::Bytes(&magic), Manner::default()).await?;
        fs.allocate(pieces, choices.below(400) * 8192, 8192, Allocation::PunchHole).await?;
        if round % 3 == 2 {
            fs.unlink(many, format!("{:0150}", 10 + round % 80).as_bytes()).await.ok();
            let directory = fs.create(root, format!("directory-{round}").as_bytes(), NewNode::DIRECTORY).await?;
            fs.set_extended_attribute(directory, b"user.large", Some(&[7; 1500]), AttributeManner::Either).await?;
            fs.unlink(many, name.as_bytes()).await?;
        }
        fs.fsync(Ino(if round % 2 == 0 { file.0 } else { pieces.0 })).await.ok();
    }
    Ok(())
}

impl Specimen {
    /// Maps the metadata blocks of `replayed` and the log of `image`.
    fn new(name: String, image: Image, replayed: &Image) -> Specimen {
        let first = bytes(replayed, 0);
        let layout = Layout::decode(RawSuperblock::in_first_block(&first).expect("superblock")).expect("layout");
        let (kinds, inodes) = (BTreeMap::new(), Vec::new());
        let (log_blocks, log) = (Vec::new(), Vec::new());
        let mut specimen = Specimen { name, image, layout, kinds, inodes, log_blocks, log };
        specimen.map_groups(replayed);
        specimen.log = crate::log::items(&specimen.image, &specimen.log_blocks);
        specimen
    }

    fn map_groups(&mut self, image: &Image) {
        let layout = self.layout.clone();
        self.kinds.insert(0, Kind::Superblock);
        for group in 0..layout.group_count {
            let (block, offset) = layout.position_of_descriptor(group);
            self.kinds.insert(block.0, Kind::Descriptors);
            let descriptor =
                RawGroupDescriptor::read(&bytes(image, block.0)[offset..], group, &layout).expect("64 bytes");
            self.kinds.insert(descriptor.block_bitmap().0, Kind::BlockBitmap(group));
            self.kinds.insert(descriptor.inode_bitmap().0, Kind::InodeBitmap(group));
            let scanned = descriptor.scanned_inodes(&layout).div_ceil(layout.inodes_per_block());
            for table_block in 0..scanned {
                let first = layout.inode_at(group, table_block * layout.inodes_per_block());
                let block = descriptor.inode_table().0 + u64::from(table_block);
                self.kinds.insert(block, Kind::InodeTable(first));
                self.map_inodes(image, block, first);
            }
        }
    }

    fn map_inodes(&mut self, image: &Image, block: u64, first: InodeNo) {
        let (table, size) = (bytes(image, block), usize::from(self.layout.inode_size));
        for (number, slot) in (first.0..).map(InodeNo).zip(table.chunks(size)) {
            let Ok(inode) = Inode::decode_unverified(slot, number, &self.layout) else { continue };
            if inode.links > 0 {
                self.inodes.push(number);
                self.map_inode(image, number, &inode);
            }
        }
    }

    fn map_inode(&mut self, image: &Image, number: InodeNo, inode: &Inode) {
        let seed = self.layout.inode_seed(number, inode.generation);
        if inode.file_acl.is_some() {
            self.kinds.insert(inode.file_acl.0, Kind::Attributes);
        }
        if !matches!(inode.kind(), Some(FileKind::Regular | FileKind::Directory)) {
            return;
        }
        let mut pending = vec![inode.block.to_vec()];
        while let Some(node) = pending.pop() {
            let node = Node::parse(&node, Place::Inode(number)).expect("a sound tree");
            for index in node.indexes() {
                self.kinds.insert(index.node.0, Kind::ExtentNode(seed));
                pending.push(bytes(image, index.node.0).to_vec());
            }
            for extent in node.extents() {
                for step in 0..extent.length {
                    self.map_content(
                        image,
                        (number, inode),
                        extent.logical + step,
                        extent.physical.0 + u64::from(step),
                    );
                }
            }
        }
    }

    fn map_content(&mut self, image: &Image, (number, inode): (InodeNo, &Inode), logical: u32, block: u64) {
        if number == self.layout.journal_inode {
            self.log_blocks.push(block);
        }
        if inode.kind() != Some(FileKind::Directory) {
            return;
        }
        let seed = self.layout.inode_seed(number, inode.generation);
        let is_indexed = inode.has(onewrite_fs::ext4::format::inode::flags::INDEX);
        let content = bytes(image, block);
        let kind = match logical {
            0 if is_indexed => Kind::TreeRoot(seed),
            _ if is_indexed && Index::node(&content, &self.layout, Place::Inode(number)).is_ok() => {
                Kind::TreeNode(seed)
            }
            _ => Kind::Entries(seed),
        };
        self.kinds.insert(block, kind);
    }

    /// Block and offset of an inode's slot.
    pub fn slot(&self, inode: InodeNo) -> (u64, usize) {
        let position = self.layout.position_of_inode(inode);
        let first = self.layout.inode_at(position.group, position.table_block * self.layout.inodes_per_block());
        let found = self.kinds.iter().find(|(_, kind)| **kind == Kind::InodeTable(first));
        (*found.expect("its table block is known").0, position.offset)
    }
}
