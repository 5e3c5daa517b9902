//! The toy itself: a tree in memory, written out as a whole.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use onewrite_block::sync::RwLock;
use onewrite_block::{Cause, DevicePort, Lpn, PAGE_SIZE, Page, Request, crc32c};
use onewrite_fs::{
    Allocation, AttributeChanges, AttributeManner, Attributes, Content, Data, DeviceNumber, DirectoryEntry, FileKind,
    FileSystem, FileView, FsCounters, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner, SeekTarget,
    Space, Timestamp,
};

/// Pages of each half.
const HALF: u64 = 512;
const MAGIC: u32 = 0x0070_4f59;
const HEAD: usize = 20;
const ROOT: Ino = Ino(1);

/// The pages of snapshot number `number` with `content`.
pub fn snapshot(number: u64, content: &[u8]) -> Vec<Page> {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(sum(number, content).to_le_bytes());
    bytes.extend(content);
    bytes.chunks(PAGE_SIZE).map(Page::from_slice).collect()
}

fn sum(number: u64, content: &[u8]) -> u32 {
    crc32c(crc32c(!0, &number.to_le_bytes()), content)
}

/// Number and content of the snapshot in these pages; `None` if it is not valid.
fn content(pages: &[Page]) -> Option<(u64, Vec<u8>)> {
    let bytes: Vec<u8> = pages.iter().flat_map(|page| page.bytes().to_vec()).collect();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let number = u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes"));
    let content = bytes.get(HEAD..HEAD + word(12) as usize)?;
    (word(0) == MAGIC && word(16) == sum(number, content)).then(|| (number, content.to_vec()))
}

#[derive(Clone, PartialEq)]
enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Ino>),
}

type Nodes = BTreeMap<Ino, Node>;

/// See the module's head.
pub struct Toy {
    port: DevicePort,
    nodes: RefCell<Nodes>,
    number: Cell<u64>,
    next: Cell<u64>,
    flushes: bool,
    /// Allows one sync at a time.
    writing: RwLock,
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend((part.len() as u32).to_le_bytes());
    bytes.extend(part);
}

fn encoded(nodes: &Nodes) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (ino, node) in nodes {
        bytes.extend(ino.0.to_le_bytes());
        let mut part = Vec::new();
        match node {
            Node::File(content) => part.extend(content),
            Node::Directory(names) => names.iter().for_each(|(name, ino)| {
                part.extend(ino.0.to_le_bytes());
                put(&mut part, name);
            }),
        }
        bytes.push(u8::from(matches!(node, Node::Directory(_))));
        put(&mut bytes, &part);
    }
    bytes
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (part, rest) = bytes.split_at(length);
    *bytes = rest;
    part
}

fn number(bytes: &mut &[u8]) -> u64 {
    u64::from_le_bytes(taken(bytes, 8).try_into().expect("eight bytes"))
}

fn part<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = u32::from_le_bytes(taken(bytes, 4).try_into().expect("four bytes"));
    taken(bytes, length as usize)
}

fn decoded(mut bytes: &[u8]) -> Nodes {
    let mut nodes = BTreeMap::from([(ROOT, Node::Directory(BTreeMap::new()))]);
    while !bytes.is_empty() {
        let (ino, is_directory) = (Ino(number(&mut bytes)), taken(&mut bytes, 1)[0] == 1);
        let mut content = part(&mut bytes);
        let mut names = BTreeMap::new();
        while is_directory && !content.is_empty() {
            let ino = Ino(number(&mut content));
            names.insert(part(&mut content).to_vec(), ino);
        }
        nodes.insert(ino, if is_directory { Node::Directory(names) } else { Node::File(content.to_vec()) });
    }
    nodes
}

fn missing(name: &[u8]) -> FsError {
    FsError::NotFound(String::from_utf8_lossy(name).into_owned())
}

fn lacking<T>() -> FsResult<T> {
    Err(FsError::Unsupported("a toy lacks it".into()))
}

impl Toy {
    pub async fn mount(port: DevicePort, flushes: bool) -> FsResult<Toy> {
        let mut newest = None;
        for half in 0..2 {
            let mut pages = Vec::new();
            for start in (0..HALF).step_by(64) {
                pages.extend(port.request(Request::read(Lpn(half * HALF + start), 64, Cause::Recovery)).await?);
            }
            newest = newest.max(content(&pages));
        }
        let (number, content) = newest.ok_or(FsError::NoFileSystem)?;
        let nodes = decoded(&content);
        let next = nodes.keys().map(|ino| ino.0).max().unwrap_or(1) + 1;
        let writing = RwLock::new(port.runtime());
        let (number, next) = (Cell::new(number), Cell::new(next));
        Ok(Toy { port, nodes: RefCell::new(nodes), number, next, flushes, writing })
    }

    /// Checks that every name refers to a node, and that decoding inverts encoding.
    pub fn check(&self) -> Result<(), String> {
        let nodes = self.nodes.borrow();
        let is_there = |node: &Node| match node {
            Node::Directory(names) => names.values().all(|ino| nodes.contains_key(ino)),
            Node::File(_) => true,
        };
        match nodes.values().all(is_there) && decoded(&encoded(&nodes)) == *nodes {
            true => Ok(()),
            false => Err("a name refers to nothing, or nodes change when they are written".into()),
        }
    }

    async fn write_snapshot(&self) -> FsResult<()> {
        let _alone = self.writing.write().await;
        let number = self.number.get() + 1;
        let pages = snapshot(number, &encoded(&self.nodes.borrow()));
        assert!(pages.len() as u64 <= HALF, "more than a toy holds");
        let start = number % 2 * HALF;
        for (at, part) in (start..).step_by(16).zip(pages.chunks(16)) {
            self.port.request(Request::write(Lpn(at), part.to_vec(), Cause::Data)).await?;
        }
        if self.flushes {
            self.port.request(Request::flush(Cause::Data)).await?;
        }
        self.number.set(number);
        Ok(())
    }

    fn names<T>(&self, directory: Ino, change: impl FnOnce(&mut BTreeMap<Vec<u8>, Ino>) -> FsResult<T>) -> FsResult<T> {
        match self.nodes.borrow_mut().get_mut(&directory) {
            Some(Node::Directory(names)) => change(names),
            _ => Err(FsError::NotDirectory(directory.to_string())),
        }
    }

    fn file<T>(&self, ino: Ino, change: impl FnOnce(&mut Vec<u8>) -> T) -> FsResult<T> {
        match self.nodes.borrow_mut().get_mut(&ino) {
            Some(Node::File(content)) => Ok(change(content)),
            _ => Err(FsError::IsDirectory(ino.to_string())),
        }
    }

    fn is_directory(&self, ino: Ino) -> bool {
        matches!(self.nodes.borrow().get(&ino), Some(Node::Directory(_)))
    }

    fn remove(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        let ino = self.names(directory, |names| names.remove(name).ok_or_else(|| missing(name)))?;
        self.nodes.borrow_mut().remove(&ino);
        Ok(())
    }
}

impl FileView for Toy {
    fn root(&self) -> Ino {
        ROOT
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        self.names(directory, |names| names.get(name).copied().ok_or_else(|| missing(name)))
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        let is_directory = self.is_directory(ino);
        let (kind, permissions, size) = match is_directory {
            true => (FileKind::Directory, NewNode::DIRECTORY.permissions, 0),
            false => (FileKind::Regular, NewNode::FILE.permissions, self.file(ino, |content| content.len() as u64)?),
        };
        // It keeps no times: every time counts as one of the run's clock.
        let time = Timestamp { seconds: 2_000_000_000, nanoseconds: 0 };
        Ok(Attributes {
            ino,
            kind,
            permissions,
            links: 1,
            uid: 0,
            gid: 0,
            size,
            sectors: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: Some(time),
            device: DeviceNumber::NONE,
            generation: 0,
        })
    }

    async fn read_link(&self, _: Ino) -> FsResult<Vec<u8>> {
        lacking()
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, _: Manner) -> FsResult<Data> {
        let pages = self.file(ino, |content| content.chunks(PAGE_SIZE).map(Page::from_slice).collect::<Vec<_>>())?;
        if offset > 0 {
            assert_eq!(length, 1, "the explorer reads whole files, and one byte behind their ends");
            return Ok(Data::default());
        }
        Ok(Data { pages, skip: 0, length: length as usize })
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let names = self.names(directory, |names| Ok(names.clone()))?;
        let entry = |((name, ino), next)| {
            let kind = if self.is_directory(ino) { FileKind::Directory } else { FileKind::Regular };
            DirectoryEntry { name, ino, kind, next }
        };
        Ok(names.into_iter().zip(1..).skip(cursor as usize).map(entry).collect())
    }

    async fn extended_attribute(&self, _: Ino, _: &[u8]) -> FsResult<Vec<u8>> {
        lacking()
    }

    async fn extended_attributes(&self, _: Ino) -> FsResult<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    async fn seek(&self, _: Ino, _: u64, _: SeekTarget) -> FsResult<u64> {
        lacking()
    }

    async fn space(&self) -> FsResult<Space> {
        Ok(Space { blocks: 0, blocks_free: 0, inodes: 0, inodes_free: 0 })
    }
}

impl FileSystem for Toy {
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()> {
        let Some(size) = changes.size else { return lacking() };
        self.file(ino, |content| content.resize(size as usize, 0))
    }

    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        let ino = Ino(self.next.replace(self.next.get() + 1));
        self.names(directory, |names| match names.contains_key(name) {
            true => Err(FsError::Exists(String::from_utf8_lossy(name).into_owned())),
            false => Ok(names.insert(name.to_vec(), ino)),
        })?;
        let made = match node.kind {
            FileKind::Directory => Node::Directory(BTreeMap::new()),
            _ => Node::File(Vec::new()),
        };
        self.nodes.borrow_mut().insert(ino, made);
        Ok(ino)
    }

    async fn symlink(&self, _: Ino, _: &[u8], _: &[u8]) -> FsResult<Ino> {
        lacking()
    }

    async fn link(&self, _: Ino, _: Ino, _: &[u8]) -> FsResult<()> {
        lacking()
    }

    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        self.remove(directory, name)
    }

    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        let ino = self.lookup(directory, name).await?;
        match self.names(ino, |names| Ok(names.is_empty()))? {
            true => self.remove(directory, name),
            false => Err(FsError::NotEmpty(ino.to_string())),
        }
    }

    async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), _: RenameManner) -> FsResult<()> {
        let ino = self.names(from.0, |names| names.remove(from.1).ok_or_else(|| missing(from.1)))?;
        self.names(to.0, |names| Ok(names.insert(to.1.to_vec(), ino)))?;
        Ok(())
    }

    async fn open(&self, _: Ino) -> FsResult<()> {
        Ok(())
    }

    async fn release(&self, _: Ino) -> FsResult<()> {
        Ok(())
    }

    async fn write(&self, ino: Ino, position: Position, content: Content<'_>, _: Manner) -> FsResult<u64> {
        self.file(ino, |file| {
            let start = match position {
                Position::At(start) => start,
                Position::End => file.len() as u64,
            };
            let end = start + content.length();
            file.resize(file.len().max(end as usize), 0);
            for index in start / PAGE_SIZE as u64..end.div_ceil(PAGE_SIZE as u64) {
                let (place, bytes) = content.part_of_page(start, index);
                let at = index as usize * PAGE_SIZE + place;
                file[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            start
        })
    }

    async fn allocate(&self, _: Ino, _: u64, _: u64, _: Allocation) -> FsResult<()> {
        lacking()
    }

    async fn set_extended_attribute(&self, _: Ino, _: &[u8], _: Option<&[u8]>, _: AttributeManner) -> FsResult<()> {
        lacking()
    }

    fn drop_cached(&self, _: Ino) {}

    fn drop_caches(&self) {}

    async fn fsync(&self, _: Ino) -> FsResult<()> {
        self.write_snapshot().await
    }

    async fn fdatasync(&self, _: Ino) -> FsResult<()> {
        self.write_snapshot().await
    }

    async fn sync(&self) -> FsResult<()> {
        self.write_snapshot().await
    }

    fn counters(&self) -> FsCounters {
        FsCounters::default()
    }

    fn reset_counters(&self) {}

    async fn unmount(&self) -> FsResult<()> {
        self.write_snapshot().await
    }
}
