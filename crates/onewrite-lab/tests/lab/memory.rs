//! A file system in memory: the simplest one that keeps the contract. Reads and writes take 10 µs, a sync 100 µs. It
//! logs every access. It can be made to spoil writes, to fail, to be full, and to serve one access at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use onewrite_block::sync::RwLock;
use onewrite_block::{DeviceError, Nanos, PAGE_SIZE, Page, Runtime};
use onewrite_fs::{
    Allocation, AttributeChanges, Attributes, Content, Data, DeviceNumber, DirectoryEntry, FileKind, FileSystem,
    FileView, FsCounters, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner, Space, Timestamp,
};

enum Node {
    Directory(BTreeMap<Vec<u8>, Ino>),
    File(Vec<u8>),
}

pub struct MemoryFs {
    runtime: Runtime,
    nodes: RefCell<Vec<Node>>,
    /// Whether every write loses its first byte.
    pub spoils_writes: Cell<bool>,
    /// Number of accesses between two failures; zero is no failure.
    pub fails_every: Cell<u64>,
    /// Most bytes of each file.
    pub room: Cell<u64>,
    /// Whether accesses wait for one another.
    pub is_serial: Cell<bool>,
    line: RwLock,
    accesses: RefCell<Vec<Access>>,
}

/// A logged access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub at: Nanos,
    pub writes: bool,
    pub offset: u64,
    pub length: u64,
}

impl MemoryFs {
    pub fn new(runtime: &Runtime) -> MemoryFs {
        let nodes = RefCell::new(vec![Node::Directory(BTreeMap::new())]);
        MemoryFs {
            runtime: runtime.clone(),
            nodes,
            spoils_writes: Cell::new(false),
            fails_every: Cell::new(0),
            room: Cell::new(u64::MAX),
            is_serial: Cell::new(false),
            line: RwLock::new(runtime),
            accesses: RefCell::default(),
        }
    }

    /// Every read and write, in the order of their beginnings.
    pub fn accesses(&self) -> Vec<Access> {
        self.accesses.borrow().clone()
    }

    /// Logs an access and waits for its duration.
    async fn access(&self, writes: bool, offset: u64, length: u64) -> FsResult<()> {
        let number = {
            let mut accesses = self.accesses.borrow_mut();
            accesses.push(Access { at: self.runtime.now(), writes, offset, length });
            accesses.len() as u64
        };
        let _turn = if self.is_serial.get() { Some(self.line.write().await) } else { None };
        self.runtime.sleep(Nanos::from_micros(10)).await;
        if self.fails_every.get() > 0 && number.is_multiple_of(self.fails_every.get()) {
            return Err(DeviceError::Unsupported { device: "memory".to_owned(), operation: "access" }.into());
        }
        if writes && offset + length > self.room.get() {
            return Err(FsError::NoSpace { what: "blocks", needed: 1, free: 0 });
        }
        Ok(())
    }

    /// Paths and sizes of all files.
    pub fn files(&self) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        self.walk(Ino(0), "", &mut found);
        found
    }

    fn walk(&self, ino: Ino, path: &str, found: &mut Vec<(String, usize)>) {
        match &self.nodes.borrow()[ino.0 as usize] {
            Node::File(bytes) => found.push((path.to_owned(), bytes.len())),
            Node::Directory(names) => {
                for (name, child) in names {
                    self.walk(*child, &format!("{path}/{}", String::from_utf8_lossy(name)), found);
                }
            }
        }
    }

    fn directory<T>(&self, ino: Ino, work: impl FnOnce(&mut BTreeMap<Vec<u8>, Ino>) -> FsResult<T>) -> FsResult<T> {
        match &mut self.nodes.borrow_mut()[ino.0 as usize] {
            Node::Directory(names) => work(names),
            Node::File(_) => Err(FsError::NotDirectory(ino.to_string())),
        }
    }

    fn file<T>(&self, ino: Ino, work: impl FnOnce(&mut Vec<u8>) -> T) -> FsResult<T> {
        match &mut self.nodes.borrow_mut()[ino.0 as usize] {
            Node::File(bytes) => Ok(work(bytes)),
            Node::Directory(_) => Err(FsError::IsDirectory(ino.to_string())),
        }
    }
}

fn not_found(name: &[u8]) -> FsError {
    FsError::NotFound(String::from_utf8_lossy(name).into_owned())
}

impl FileView for MemoryFs {
    fn root(&self) -> Ino {
        Ino(0)
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        self.directory(directory, |names| names.get(name).copied().ok_or_else(|| not_found(name)))
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        let (kind, size) = match &self.nodes.borrow()[ino.0 as usize] {
            Node::Directory(_) => (FileKind::Directory, 0),
            Node::File(bytes) => (FileKind::Regular, bytes.len() as u64),
        };
        let time = Timestamp::default();
        Ok(Attributes {
            ino,
            kind,
            size,
            permissions: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            sectors: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: Some(time),
            device: DeviceNumber::NONE,
            generation: 0,
        })
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        Err(FsError::Invalid(format!("{ino} is no symlink")))
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, _: Manner) -> FsResult<Data> {
        self.access(false, offset, length).await?;
        self.file(ino, |bytes| {
            let start = bytes.len().min(offset as usize);
            let found = &bytes[start..bytes.len().min((offset + length) as usize)];
            let pages = found.chunks(PAGE_SIZE).map(Page::from_slice).collect();
            Data { pages, skip: 0, length: found.len() }
        })
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        self.directory(directory, |names| {
            let rest = names.iter().enumerate().skip(cursor as usize);
            let entry = |(index, (name, ino)): (usize, (&Vec<u8>, &Ino))| DirectoryEntry {
                name: name.clone(),
                ino: *ino,
                kind: FileKind::Regular,
                next: index as u64 + 1,
            };
            Ok(rest.map(entry).collect())
        })
    }

    async fn extended_attribute(&self, _: Ino, _: &[u8]) -> FsResult<Vec<u8>> {
        Err(FsError::Unsupported("extended attributes in memory".into()))
    }

    async fn extended_attributes(&self, _: Ino) -> FsResult<Vec<Vec<u8>>> {
        Err(FsError::Unsupported("extended attributes in memory".into()))
    }

    async fn seek(&self, _: Ino, _: u64, _: onewrite_fs::SeekTarget) -> FsResult<u64> {
        Err(FsError::Unsupported("seeking in memory".into()))
    }

    async fn space(&self) -> FsResult<Space> {
        Ok(Space { blocks: 0, blocks_free: 0, inodes: 0, inodes_free: 0 })
    }
}

impl FileSystem for MemoryFs {
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()> {
        let Some(size) = changes.size else { return Ok(()) };
        self.file(ino, |bytes| bytes.resize(size as usize, 0))
    }

    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        let ino = Ino(self.nodes.borrow().len() as u64);
        self.directory(directory, |names| match names.contains_key(name) {
            true => Err(FsError::Exists(String::from_utf8_lossy(name).into_owned())),
            false => Ok(names.insert(name.to_vec(), ino)),
        })?;
        let is_directory = node.kind == FileKind::Directory;
        self.nodes.borrow_mut().push(if is_directory {
            Node::Directory(BTreeMap::new())
        } else {
            Node::File(Vec::new())
        });
        Ok(ino)
    }

    async fn symlink(&self, _: Ino, _: &[u8], _: &[u8]) -> FsResult<Ino> {
        Err(FsError::Unsupported("symlinks".to_owned()))
    }

    async fn link(&self, _: Ino, _: Ino, _: &[u8]) -> FsResult<()> {
        Err(FsError::Unsupported("links".to_owned()))
    }

    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        self.directory(directory, |names| names.remove(name).map(drop).ok_or_else(|| not_found(name)))
    }

    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        self.unlink(directory, name).await
    }

    async fn rename(&self, _: (Ino, &[u8]), _: (Ino, &[u8]), _: RenameManner) -> FsResult<()> {
        Err(FsError::Unsupported("renames".to_owned()))
    }

    async fn open(&self, _: Ino) -> FsResult<()> {
        Ok(())
    }

    async fn release(&self, _: Ino) -> FsResult<()> {
        Ok(())
    }

    async fn write(&self, ino: Ino, position: Position, content: Content<'_>, _: Manner) -> FsResult<u64> {
        let offset = match position {
            Position::At(offset) => offset,
            Position::End => self.file(ino, |file| file.len() as u64)?,
        };
        self.access(true, offset, content.length()).await?;
        let spoils = self.spoils_writes.get();
        self.file(ino, |file| {
            let end = offset + content.length();
            file.resize(file.len().max(end as usize), 0);
            for page in offset / PAGE_SIZE as u64..end.div_ceil(PAGE_SIZE as u64) {
                let (place, part) = content.part_of_page(offset, page);
                let start = page as usize * PAGE_SIZE + place;
                file[start..start + part.len()].copy_from_slice(&part);
            }
            if spoils {
                file[offset as usize] ^= 1;
            }
            offset
        })
    }

    async fn allocate(&self, ino: Ino, offset: u64, length: u64, allocation: Allocation) -> FsResult<()> {
        let end = (offset + length) as usize;
        let extends = matches!(allocation, Allocation::Extend | Allocation::ZeroRange);
        self.file(ino, |bytes| {
            if extends && bytes.len() < end {
                bytes.resize(end, 0)
            }
        })
    }

    async fn set_extended_attribute(
        &self,
        _: Ino,
        _: &[u8],
        _: Option<&[u8]>,
        _: onewrite_fs::AttributeManner,
    ) -> FsResult<()> {
        Err(FsError::Unsupported("extended attributes in memory".into()))
    }

    fn drop_cached(&self, _: Ino) {}

    fn drop_caches(&self) {}

    async fn fsync(&self, _: Ino) -> FsResult<()> {
        self.sync().await
    }

    async fn fdatasync(&self, _: Ino) -> FsResult<()> {
        self.sync().await
    }

    async fn sync(&self) -> FsResult<()> {
        self.runtime.sleep(Nanos::from_micros(100)).await;
        Ok(())
    }

    fn counters(&self) -> FsCounters {
        FsCounters::default()
    }

    fn reset_counters(&self) {}

    async fn unmount(&self) -> FsResult<()> {
        Ok(())
    }
}
