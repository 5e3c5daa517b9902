//! Host tree: a tree of the host as a source, read by descriptors and single names. Links are never followed, pipes and
//! devices never opened, and the tree may have any depth.

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use onewrite_fs::{Attributes, DeviceNumber, FileKind, Ino, Timestamp};
use rustix::fs::{Dir, OFlags, SeekFrom, fgetxattr, flistxattr, getxattr, listxattr, readlinkat, seek};
use rustix::io::Errno;

use super::CHUNK;
use super::directories::{Directories, handle, identity, open};
use super::source::{Entries, Identity, Source};
use crate::error::LabError;

/// Longest list of names and longest value of extended attributes that Linux returns.
const ATTRIBUTE_MAX: usize = 1 << 16;

/// The host's files.
#[derive(Debug)]
pub struct HostTree(RefCell<Inner>);

/// Files of at most this size are one block or none: they are read without asking where their data lies.
const SMALL_BYTES: u64 = 4096;

#[derive(Debug)]
struct Inner {
    directories: Directories,
    /// The file that is copied into, which is no source of its own.
    target: Option<Identity>,
    /// The entry whose attributes were asked for last.
    last: Option<Looked>,
    /// The file read last, kept open.
    reading: Option<(HostNode, File)>,
    /// Room for names of extended attributes.
    names: Vec<u8>,
}

/// What was found out about an entry.
#[derive(Debug)]
struct Looked {
    node: HostNode,
    /// The entry, open but not for reading; `None` if it is open for reading.
    handle: Option<File>,
    is_regular: bool,
    /// Its size if it is small and has no hole. Not of a file of size 0: in /proc such files have content.
    small_bytes: Option<u64>,
}

impl Looked {
    fn new(node: &HostNode, handle: Option<File>, metadata: &Metadata) -> Looked {
        let size = metadata.len();
        let has_no_hole = metadata.is_file() && (1..=SMALL_BYTES).contains(&size) && metadata.blocks() * 512 >= size;
        let small_bytes = has_no_hole.then_some(size);
        Looked { node: node.clone(), handle, is_regular: metadata.is_file(), small_bytes }
    }
}

/// An open entry that is asked for extended attributes.
enum AttributeOwner<'a> {
    Readable(&'a File),
    /// Opened by its place alone. Such a descriptor is asked by its own path, so that no name is looked up again.
    Handle(File),
}

/// Name and value of an extended attribute.
type Attribute = (Vec<u8>, Vec<u8>);

/// Which attribute could not be read, if it was one, and why.
type Unread = (Option<Vec<u8>>, Errno);

impl AttributeOwner<'_> {
    /// All attributes; `names` is room for their names.
    fn attributes(&self, names: &mut Vec<u8>) -> Result<Vec<Attribute>, Unread> {
        names.clear();
        names.reserve(ATTRIBUTE_MAX);
        match self.names(names) {
            Err(Errno::NOTSUP | Errno::NOENT) => return Ok(Vec::new()),
            other => other.map_err(|error| (None, error))?,
        };
        let mut attributes = Vec::new();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let mut value = Vec::with_capacity(ATTRIBUTE_MAX);
            match self.value(name, &mut value) {
                // The attribute is gone, or only its name may be read.
                Err(Errno::NODATA) => continue,
                other => other.map_err(|error| (Some(name.to_vec()), error))?,
            };
            value.shrink_to_fit();
            attributes.push((name.to_vec(), value));
        }
        Ok(attributes)
    }

    fn names(&self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        let room = rustix::buffer::spare_capacity(buffer);
        match self {
            AttributeOwner::Readable(file) => flistxattr(file, room),
            AttributeOwner::Handle(file) => listxattr(own_path(file), room),
        }
    }

    fn value(&self, name: &[u8], buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        let room = rustix::buffer::spare_capacity(buffer);
        match self {
            AttributeOwner::Readable(file) => fgetxattr(file, name, room),
            AttributeOwner::Handle(file) => getxattr(own_path(file), name, room),
        }
    }
}

fn own_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNode {
    directory: usize,
    name: Vec<u8>,
    /// Whether its directory called it a regular file.
    seems_regular: bool,
}

impl HostTree {
    /// A source with all of the host's files.
    ///
    /// # Errors
    /// If not even the root directory can be opened.
    pub fn new() -> Result<HostTree, LabError> {
        let root = Path::new("/");
        let failed = |error: std::io::Error| LabError::ReadFile { path: "/".into(), message: error.to_string() };
        let directories = Directories::new(root, Vec::new()).map_err(failed)?;
        let inner = Inner { directories, target: None, last: None, reading: None, names: Vec::new() };
        Ok(HostTree(RefCell::new(inner)))
    }

    /// The same without the content of `image`, if it is a file: what is copied goes into it.
    pub fn without(self, image: &Path) -> HostTree {
        let file = std::fs::metadata(image).ok().filter(Metadata::is_file);
        self.0.borrow_mut().target = file.map(|metadata| identity(&metadata));
        self
    }

    /// The entry at `path`, which is absolute and contains no links (see `Path::canonicalize`).
    ///
    /// # Errors
    /// If a directory on the way cannot be entered.
    pub fn at(&self, path: &Path) -> Result<HostNode, LabError> {
        let directories = &mut self.0.borrow_mut().directories;
        let mut names: Vec<&[u8]> = path.iter().map(OsStrExt::as_bytes).filter(|name| *name != b"/").collect();
        let name = names.pop().unwrap_or(b".").to_vec();
        let mut directory = 0;
        for name in names {
            directory = directories
                .enter(directory, name)
                .map_err(|error| LabError::ReadFile { path: path.display().to_string(), message: error.to_string() })?;
        }
        Ok(HostNode { directory, name, seems_regular: false })
    }
}

impl Inner {
    fn handle(&mut self, node: &HostNode) -> Result<File, LabError> {
        let found = self.directories.go(node.directory).and_then(|directory| handle(directory, &node.name));
        found.map_err(|error| self.unreadable(node, &error))
    }

    /// # Errors
    /// If it is the file that is copied into.
    fn expect_source(&self, metadata: &Metadata) -> Result<Identity, LabError> {
        let identity = identity(metadata);
        match self.target == Some(identity) {
            true => Err(LabError::Option("it is the image that is copied into".into())),
            false => Ok(identity),
        }
    }

    /// Where extended attributes are asked for: the open file if it is regular, which costs least; else a handle.
    fn attribute_owner(&mut self, node: &HostNode) -> Result<AttributeOwner<'_>, LabError> {
        let found = match self.looked_at(node) {
            Some(looked) if looked.is_regular => return Ok(AttributeOwner::Readable(self.file(node)?)),
            Some(Looked { handle: Some(handle), .. }) => handle.try_clone(),
            _ => return Ok(AttributeOwner::Handle(self.handle(node)?)),
        };
        found.map(AttributeOwner::Handle).map_err(|error| self.unreadable(node, &error))
    }

    /// Opens what seems to be a regular file for reading at once, which saves a descriptor. `None` if it is none, or
    /// cannot be read: then a handle tells what it is.
    fn open_regular(&mut self, node: &HostNode) -> Option<Metadata> {
        let metadata = node.seems_regular.then(|| self.file(node).ok()?.metadata().ok()).flatten();
        let found = metadata.filter(Metadata::is_file);
        if found.is_none() {
            self.reading = None;
        }
        found
    }

    /// What was found out about `node`, if it is the last entry that was looked at.
    fn looked_at(&self, node: &HostNode) -> Option<&Looked> {
        self.last.as_ref().filter(|last| last.node == *node)
    }

    fn unreadable(&self, node: &HostNode, error: &dyn std::fmt::Display) -> LabError {
        let path = self.directories.paths.shown(node.directory, &node.name);
        LabError::ReadFile { path: format!("/{}", String::from_utf8_lossy(&path)), message: error.to_string() }
    }

    /// Opens the file for reading. If it is no regular file, the open does not wait.
    fn file(&mut self, node: &HostNode) -> Result<&File, LabError> {
        if self.reading.as_ref().is_none_or(|(read, _)| read != node) {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            let opened = self.directories.go(node.directory).and_then(|directory| open(directory, &node.name, flags));
            let opened = opened.map_err(|error| self.unreadable(node, &error))?;
            self.reading = Some((node.clone(), opened));
        }
        Ok(&self.reading.as_ref().expect("just opened").1)
    }
}

impl Source for HostTree {
    type Node = HostNode;

    async fn attributes(&self, node: &HostNode) -> Result<(Attributes, Identity), LabError> {
        let mut inner = self.0.borrow_mut();
        (inner.reading, inner.last) = (None, None);
        if let Some(metadata) = inner.open_regular(node) {
            let identity = inner.expect_source(&metadata)?;
            inner.last = Some(Looked::new(node, None, &metadata));
            return Ok((attributes(&metadata), identity));
        }
        let handle = inner.handle(node)?;
        let metadata = handle.metadata().map_err(|error| inner.unreadable(node, &error))?;
        let identity = inner.expect_source(&metadata)?;
        inner.last = Some(Looked::new(node, Some(handle), &metadata));
        Ok((attributes(&metadata), identity))
    }

    async fn entries(&self, node: &HostNode) -> Result<Entries<HostNode>, LabError> {
        let mut inner = self.0.borrow_mut();
        let failed = |inner: &Inner, error: std::io::Error| inner.unreadable(node, &error);
        let directory = match &node.name[..] {
            b"." => node.directory,
            name => inner.directories.enter(node.directory, name).map_err(|error| failed(&inner, error))?,
        };
        let opened = inner.directories.readable(directory).map_err(|error| failed(&inner, error))?;
        let mut children = Vec::new();
        for entry in Dir::new(opened).map_err(|error| failed(&inner, error.into()))? {
            let entry = entry.map_err(|error| failed(&inner, error.into()))?;
            let (name, seems_regular) = (entry.file_name().to_bytes().to_vec(), entry.file_type().is_file());
            if name != b"." && name != b".." {
                children.push((name.clone(), HostNode { directory, name, seems_regular }));
            }
        }
        children.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(Entries { children, wrong: Vec::new() })
    }

    async fn read_link(&self, node: &HostNode) -> Result<Vec<u8>, LabError> {
        let mut inner = self.0.borrow_mut();
        let link = inner.handle(node)?;
        let target = readlinkat(&link, "", Vec::new()).map_err(|error| inner.unreadable(node, &error))?;
        Ok(target.into_bytes())
    }

    async fn extended_attributes(&self, node: &HostNode) -> Result<Vec<(Vec<u8>, Vec<u8>)>, LabError> {
        let mut inner = self.0.borrow_mut();
        let mut names = std::mem::take(&mut inner.names);
        let found = inner.attribute_owner(node)?.attributes(&mut names);
        inner.names = names;
        found.map_err(|(name, error)| match name {
            Some(name) => {
                let name = String::from_utf8_lossy(&name);
                inner.unreadable(node, &format!("extended attribute `{name}`: {error}"))
            }
            None => inner.unreadable(node, &error),
        })
    }

    async fn data(&self, node: &HostNode, offset: u64) -> Result<Option<Range<u64>>, LabError> {
        let mut inner = self.0.borrow_mut();
        if let Some(size) = inner.looked_at(node).and_then(|looked| looked.small_bytes) {
            return Ok((offset < size).then_some(offset..size));
        }
        let file = inner.file(node)?;
        let range = seek(file, SeekFrom::Data(offset)).and_then(|start| Ok(start..seek(file, SeekFrom::Hole(start))?));
        match range {
            Ok(range) if range.start >= offset && !range.is_empty() => Ok(Some(range)),
            Err(Errno::NXIO) => Ok(None),
            // The file system has no holes, or perhaps (/proc) no sizes; some files there do not seek at all and give
            // their position. Everything is data, up to the end of reading.
            Ok(_) | Err(Errno::INVAL) => Ok(Some(offset..u64::MAX)),
            Err(error) => Err(inner.unreadable(node, &error)),
        }
    }

    async fn read(&self, node: &HostNode, range: Range<u64>) -> Result<Vec<u8>, LabError> {
        let mut inner = self.0.borrow_mut();
        let file = inner.file(node)?;
        let mut bytes = vec![0; (range.end - range.start).min(CHUNK as u64) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], range.start + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(inner.unreadable(node, &error)),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

fn attributes(metadata: &Metadata) -> Attributes {
    let stamp = |seconds, nanoseconds: i64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
    Attributes {
        ino: Ino(metadata.ino()),
        kind: kind_of(metadata),
        permissions: (metadata.mode() & 0o7777) as u16,
        links: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.len(),
        sectors: metadata.blocks(),
        accessed: stamp(metadata.atime(), metadata.atime_nsec()),
        modified: stamp(metadata.mtime(), metadata.mtime_nsec()),
        changed: stamp(metadata.ctime(), metadata.ctime_nsec()),
        created: None,
        device: device_number(metadata.rdev()),
        generation: 0,
    }
}

fn kind_of(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharacterDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
    }
}

/// Unpacks major and minor number from Linux's 64-bit form.
const fn device_number(packed: u64) -> DeviceNumber {
    let major = (packed >> 8 & 0xfff) | (packed >> 32 & !0xfff);
    let minor = (packed & 0xff) | (packed >> 12 & !0xff);
    DeviceNumber::new(major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_unpacked_as_linux_packs_them() {
        assert_eq!(device_number(0x0801), DeviceNumber::new(8, 1));
        assert_eq!(device_number(0x0010_3005), DeviceNumber::new(0x030, 0x105));
    }
}
