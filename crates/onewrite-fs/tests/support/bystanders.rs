//! Files and names that damage did not touch, and whether a repair kept them.
//!
//! A census of the sound image records the bytes of each file: its slot in the inode table and the blocks of its map,
//! content and attributes. It also records the block of each name. Damage shows only in changed bytes. If no byte of a
//! file changed, a repair must keep the file as it is. If the block of a name did not change, the name must still name
//! its file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use onewrite_fs::BlockNo;
use onewrite_fs::FileKind;
use onewrite_fs::api::Timestamp;
use onewrite_fs::ext4::format::attribute::Attributes;
use onewrite_fs::ext4::format::directory::block::Entries;
use onewrite_fs::ext4::format::extent::Node;
use onewrite_fs::ext4::format::inode::{attribute_area, flags};
use onewrite_fs::ext4::format::{Extent, Inode, InodeNo, Layout, Place, ROOT_INODE, RawGroupDescriptor, RawSuperblock};

const BLOCK: usize = 4096;
const FAST_LINK_MAX: u64 = 60;

/// Bytes of an image.
type Bytes = Range<usize>;

/// What a user sees of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    mode: u16,
    owner: (u32, u32),
    /// Ignored for directories.
    size: u64,
    flags: u32,
    times: [Timestamp; 4],
    attributes: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    /// Bytes of a file, target of a link, number of a device.
    content: Vec<u8>,
}

#[derive(Debug)]
struct File {
    facts: Facts,
    is_directory: bool,
    /// Bytes of slot, map and attributes.
    structure: Vec<Bytes>,
    content: Vec<Bytes>,
}

/// A name: the directory that holds it, and the file that it names.
type Name = (InodeNo, Vec<u8>, InodeNo);

/// All files with a path from the root of an image.
#[derive(Debug)]
pub struct Census {
    files: BTreeMap<InodeNo, File>,
    /// Each name with the block in which it lies.
    names: BTreeMap<Name, Bytes>,
}

/// Files and names that some damage did not touch.
pub struct Bystanders {
    files: BTreeSet<InodeNo>,
    names: BTreeSet<Name>,
}

impl Census {
    /// Takes a census of an image without damage.
    ///
    /// # Errors
    /// The first structure that cannot be followed.
    pub fn take(image: &[u8]) -> Result<Census, String> {
        let raw = RawSuperblock::in_first_block(image).map_err(|error| error.to_string())?;
        let layout = Layout::decode(raw).map_err(|error| error.to_string())?;
        let mut census = Census { files: BTreeMap::new(), names: BTreeMap::new() };
        let mut pending = vec![ROOT_INODE];
        while let Some(number) = pending.pop() {
            if census.files.contains_key(&number) {
                continue;
            }
            let file = Reader { image, layout: &layout, number }.file()?;
            if file.is_directory {
                let names = names_in(image, number, &file)?;
                pending.extend(names.iter().map(|(name, _)| name.2));
                census.names.extend(names);
            }
            census.files.insert(number, file);
        }
        Ok(census)
    }

    /// The files and names of this census whose bytes are equal in `sound` and `damaged`.
    pub fn bystanders(&self, sound: &[u8], damaged: &[u8]) -> Bystanders {
        let is_same = |range: &Bytes| sound[range.clone()] == damaged[range.clone()];
        let is_whole =
            |file: &File| file.structure.iter().all(is_same) && (file.is_directory || file.content.iter().all(is_same));
        let files: BTreeSet<InodeNo> =
            self.files.iter().filter(|(_, file)| is_whole(file)).map(|(&number, _)| number).collect();
        let is_kept = |name: &Name, block: &Bytes| files.contains(&name.0) && files.contains(&name.2) && is_same(block);
        let names =
            self.names.iter().filter(|(name, block)| is_kept(name, block)).map(|(name, _)| name.clone()).collect();
        Bystanders { files, names }
    }

    /// The bystanders that differ between this census and `repaired`, in words.
    pub fn faults(&self, bystanders: &Bystanders, repaired: &Census) -> Vec<String> {
        let mut faults = Vec::new();
        for number in &bystanders.files {
            let before = &self.files[number];
            match repaired.files.get(number) {
                None => faults.push(format!("inode {number} is gone: {}", self.name_of(*number))),
                Some(after) => faults.extend(difference(before, after).map(|what| {
                    let name = self.name_of(*number);
                    format!("inode {number}, {name}: another {what}")
                })),
            }
        }
        // If damage gives two files the same name, the repair cannot tell which is right.
        let is_named = |name: &Name| repaired.names.keys().any(|other| other.0 == name.0 && other.1 == name.1);
        let lost = bystanders.names.iter().filter(|name| !repaired.names.contains_key(name) && !is_named(name));
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        faults.extend(lost.map(|(own, name, file)| format!("inode {own} no longer names {file} `{}`", shown(name))));
        let strays = bystanders.files.iter().filter(|&&number| number != ROOT_INODE && self.is_stray(number, repaired));
        faults.extend(strays.map(|number| format!("inode {number} is in lost+found under another name")));
        faults
    }

    /// Whether a file has lost all its names, and its new names are neither its number nor made by the damage.
    fn is_stray(&self, number: InodeNo, repaired: &Census) -> bool {
        let mut names = repaired.names.keys().filter(|name| name.2 == number).peekable();
        let own = format!("#{number}");
        let is_lost = |name: &Name| name.1 == own.as_bytes();
        let was_there = |name: &Name| self.names.contains_key(name);
        let is_elsewhere = |name: &Name| self.files.contains_key(&name.0) && !name.1.starts_with(b"#");
        names.peek().is_some() && !names.any(|name| is_lost(name) || was_there(name) || is_elsewhere(name))
    }

    fn name_of(&self, number: InodeNo) -> String {
        let name = self.names.keys().find(|name| name.2 == number);
        name.map_or_else(String::new, |name| String::from_utf8_lossy(&name.1).into_owned())
    }
}

/// The property in which a file differs from before, if any.
fn difference(before: &File, after: &File) -> Option<&'static str> {
    let (old, new) = (&before.facts, &after.facts);
    let rules = [
        ("mode", old.mode == new.mode),
        ("owner", old.owner == new.owner),
        ("size", old.size == new.size || before.is_directory),
        ("set of flags", old.flags == new.flags),
        ("time", old.times == new.times),
        ("set of attributes", old.attributes == new.attributes),
        ("content", old.content == new.content),
    ];
    rules.into_iter().find(|(_, holds)| !holds).map(|(what, _)| what)
}

fn names_in(image: &[u8], number: InodeNo, file: &File) -> Result<Vec<(Name, Bytes)>, String> {
    let mut names = Vec::new();
    for block in &file.content {
        for entry in Entries::new(&image[block.clone()], Place::Inode(number)) {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry.is_used() && entry.name != b"." && entry.name != b".." {
                names.push(((number, entry.name.to_vec(), entry.inode), block.clone()));
            }
        }
    }
    Ok(names)
}

/// Reads one file.
struct Reader<'a> {
    image: &'a [u8],
    layout: &'a Layout,
    number: InodeNo,
}

impl Reader<'_> {
    fn file(&self) -> Result<File, String> {
        let told = |error: &dyn std::fmt::Display| format!("inode {}: {error}", self.number);
        let slot = self.slot().ok_or_else(|| told(&"lies beyond the image"))?;
        let bytes = &self.image[slot.clone()];
        let inode = Inode::decode_unverified(bytes, self.number, self.layout).map_err(|error| told(&error))?;
        let kind = inode.kind().ok_or_else(|| told(&"has no kind"))?;
        let mut structure = vec![slot.clone()];
        let mut extents = Vec::new();
        let is_fast = kind == FileKind::Symlink && inode.size < FAST_LINK_MAX;
        if matches!(kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink) && !is_fast {
            self.map(&inode, &mut structure, &mut extents).ok_or_else(|| told(&"maps what is not there"))?;
        }
        let content: Vec<Bytes> = extents.iter().flat_map(|extent| extent.blocks().blocks()).map(range_of).collect();
        let mut attributes = BTreeMap::new();
        let mut keep = |list: Attributes<'_>| {
            list.flatten()
                .for_each(|one| drop(attributes.insert((one.name_index, one.name.to_vec()), one.value.to_vec())));
        };
        keep(Attributes::in_inode(attribute_area(bytes, &inode), Place::Inode(self.number)));
        if inode.file_acl.is_some() {
            let block = range_of(inode.file_acl);
            let list = self.image.get(block.clone()).ok_or_else(|| told(&"attributes beyond the image"))?;
            keep(Attributes::in_block(list, Place::Inode(self.number)).map_err(|error| told(&error))?);
            structure.push(block);
        }
        let is_directory = kind == FileKind::Directory;
        let facts = Facts {
            mode: inode.mode,
            owner: (inode.uid, inode.gid),
            size: inode.size,
            flags: inode.flags & !(flags::EXTENTS | flags::INDEX),
            times: [inode.atime, inode.mtime, inode.ctime, inode.crtime],
            attributes,
            content: match kind {
                FileKind::Directory => Vec::new(),
                FileKind::Regular => self.content(inode.size, &extents),
                FileKind::Symlink if !is_fast => self.content(inode.size, &extents),
                _ => inode.block.to_vec(),
            },
        };
        Ok(File { facts, is_directory, structure, content })
    }

    fn slot(&self) -> Option<Bytes> {
        if !self.layout.contains_inode(self.number) {
            return None;
        }
        let position = self.layout.position_of_inode(self.number);
        let (block, offset) = self.layout.position_of_descriptor(position.group);
        let table = self.image.get(range_of(block))?;
        let descriptor = RawGroupDescriptor::read(&table[offset..], position.group, self.layout).ok()?;
        let start = range_of(descriptor.inode_table() + u64::from(position.table_block)).start + position.offset;
        let slot = start..start + usize::from(self.layout.inode_size);
        (slot.end <= self.image.len()).then_some(slot)
    }

    /// The extents of a file, and the blocks of its map.
    fn map(&self, inode: &Inode, nodes: &mut Vec<Bytes>, extents: &mut Vec<Extent>) -> Option<()> {
        if inode.has(flags::EXTENTS) {
            return self.node(&inode.block, nodes, extents);
        }
        let mut logical = 0;
        for (index, pointer) in inode.block.chunks_exact(4).enumerate() {
            let below = (index + 1).saturating_sub(12) as u32;
            self.pointer(pointer, (below, logical), nodes, extents)?;
            logical += 1024_u64.pow(below);
        }
        Some(())
    }

    fn node(&self, bytes: &[u8], nodes: &mut Vec<Bytes>, extents: &mut Vec<Extent>) -> Option<()> {
        let node = Node::parse(bytes, Place::Inode(self.number)).ok()?;
        extents.extend(node.extents());
        for index in node.indexes() {
            nodes.push(range_of(index.node));
            self.node(self.image.get(range_of(index.node))?, nodes, extents)?;
        }
        Some(())
    }

    fn pointer(
        &self,
        pointer: &[u8],
        (below, logical): (u32, u64),
        nodes: &mut Vec<Bytes>,
        extents: &mut Vec<Extent>,
    ) -> Option<()> {
        let block = BlockNo(u32::from_le_bytes(pointer.try_into().ok()?).into());
        if block.is_none() {
            return Some(());
        }
        if below == 0 {
            extents.push(Extent { logical: logical as u32, physical: block, length: 1, unwritten: false });
            return Some(());
        }
        nodes.push(range_of(block));
        for (at, pointer) in (0..).zip(self.image.get(range_of(block))?.chunks_exact(4)) {
            self.pointer(pointer, (below - 1, logical + at * 1024_u64.pow(below - 1)), nodes, extents)?;
        }
        Some(())
    }

    /// The first `size` bytes, holes as zeros.
    fn content(&self, size: u64, extents: &[Extent]) -> Vec<u8> {
        // A repair may give a damaged file any size. A file much larger than the image is no bystander, so a shorter
        // copy will do.
        let mut content = vec![0; (size as usize).min(self.image.len() * 2)];
        for extent in extents.iter().filter(|extent| !extent.unwritten) {
            for at in 0..extent.length as usize {
                let start = (extent.logical as usize + at) * BLOCK;
                let source = range_of(extent.physical + at as u64);
                let length = content.len().saturating_sub(start).min(BLOCK);
                if let (Some(target), Some(source)) = (content.get_mut(start..start + length), self.image.get(source)) {
                    target.copy_from_slice(&source[..length]);
                }
            }
        }
        content
    }
}

fn range_of(block: BlockNo) -> Bytes {
    let start = (block.0 as usize).saturating_mul(BLOCK);
    start..start.saturating_add(BLOCK)
}
