//! The file-system API: what every file system of Onewrite offers. Workloads and the FUSE mount use only
//! this API.
//!
//! Its one idea: operations name inodes, like those of a kernel's virtual file system. So FUSE, workloads and the crash
//! explorer drive the same code. Paths are a convenience on top ([`resolve`]).
//!
//! All code is single-threaded `async`. Operations of several tasks interleave at each point where one waits. Each file
//! system states at its head which operations are one atomic step and which take several.

mod error;

use onewrite_block::Nanos;

use crate::content::{Content, Data};
pub use error::{FsError, FsResult};

/// Maximum number of bytes that `write()` writes as one step: after a power loss, the file holds all of them or none.
pub const WRITE_STEP_BYTES: u64 = 64 * 1024;

/// Inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl std::fmt::Display for Ino {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inode {}", self.0)
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
}

impl FileKind {
    /// The bits of the type in `st_mode` (inode(7)).
    pub const fn type_bits(self) -> u32 {
        match self {
            FileKind::Fifo => 0o010_000,
            FileKind::CharacterDevice => 0o020_000,
            FileKind::Directory => 0o040_000,
            FileKind::BlockDevice => 0o060_000,
            FileKind::Regular => 0o100_000,
            FileKind::Symlink => 0o120_000,
            FileKind::Socket => 0o140_000,
        }
    }
}

/// A point in civil time: seconds since 1970 and nanoseconds within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// The point `span` after the start of 1970.
    pub const fn from_nanos(span: Nanos) -> Timestamp {
        Timestamp { seconds: (span.0 / 1_000_000_000) as i64, nanoseconds: (span.0 % 1_000_000_000) as u32 }
    }
}

/// Attributes of an inode, as `stat` gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// The lower 12 bits of `st_mode`.
    pub permissions: u16,
    /// Number of names that refer to it.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub sectors: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of content.
    pub modified: Timestamp,
    /// Last change of anything.
    pub changed: Timestamp,
    /// Creation; `None` where the format or the inode has no room for it.
    pub created: Option<Timestamp>,
    /// The device that a device node names.
    pub device: DeviceNumber,
    /// Generation, for file handles.
    pub generation: u32,
}

/// Changes to attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// New permission bits (12).
    pub permissions: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size: truncates or extends with zeros.
    pub size: Option<u64>,
    /// New time of last read.
    pub accessed: Option<Timestamp>,
    /// New time of last change of content.
    pub modified: Option<Timestamp>,
}

/// Number of the device that a device node names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device among those of the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// The number that nodes of other kinds have.
    pub const NONE: DeviceNumber = DeviceNumber::new(0, 0);

    /// Device `minor` of driver `major`.
    pub const fn new(major: u32, minor: u32) -> DeviceNumber {
        DeviceNumber { major, minor }
    }
}

/// A node to be made by [`FileSystem::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// What to make; not a symlink, which has [`FileSystem::symlink`].
    pub kind: FileKind,
    /// Permission bits (12).
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device, for device nodes.
    pub device: DeviceNumber,
}

impl NewNode {
    /// A regular file of root with permissions 0644.
    pub const FILE: NewNode =
        NewNode { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: DeviceNumber::NONE };
    /// A directory of root with permissions 0755.
    pub const DIRECTORY: NewNode =
        NewNode { kind: FileKind::Directory, permissions: 0o755, uid: 0, gid: 0, device: DeviceNumber::NONE };
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name: no slash, no zero byte, 1 to 255 bytes.
    pub name: Vec<u8>,
    /// What it names.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// Cursor of the next entry; stable while the directory exists.
    pub next: u64,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At this byte.
    At(u64),
    /// At the end of the file, decided atomically (`O_APPEND`).
    End,
}

/// How a read or write is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Bypasses the page cache if the mode allows it (`O_DIRECT`). Offset and length must be multiples of 4 KiB.
    pub direct: bool,
    /// A read whose caller keeps what it gets, as the kernel does above a mount: pages that are not in memory are read
    /// for this caller alone.
    pub once: bool,
}

/// How a rename treats its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameManner {
    /// Replaces the target if there is one.
    #[default]
    Replace,
    /// Fails if the target exists.
    NoReplace,
    /// Swaps the two.
    Exchange,
}

/// How to set an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeManner {
    /// Creates or replaces it.
    #[default]
    Either,
    /// It must not exist (`XATTR_CREATE`).
    Create,
    /// It must exist (`XATTR_REPLACE`).
    Replace,
}

/// What [`FileView::seek`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Reserves blocks that read as zeros and extends the size.
    Extend,
    /// Reserves blocks and keeps the size.
    KeepSize,
    /// Frees the blocks of the range; it then reads as zeros.
    PunchHole,
    /// Makes the range read as zeros and keeps blocks for it; extends the size if needed.
    ZeroRange,
    /// Removes the range: the content behind it moves to where it began. Offset and length are multiples of 4 KiB, and
    /// the range ends before the end of the file.
    CollapseRange,
    /// Inserts a hole: the content behind the offset moves back by the length. Offset and length are multiples of 4
    /// KiB, and the offset lies before the end of the file.
    InsertRange,
}

/// Space of a file system, as `statfs` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Total number of blocks of 4 KiB, without those for metadata.
    pub blocks: u64,
    /// Number of free blocks.
    pub blocks_free: u64,
    /// Total number of inodes.
    pub inodes: u64,
    /// Number of free inodes.
    pub inodes_free: u64,
}

/// Counters of a file system since its mount or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FsCounters {
    /// Transactions committed.
    pub commits: u64,
    /// Bytes written to the log by commits.
    pub journal_bytes: u64,
    /// Checkpoint rounds that brought blocks home.
    pub checkpoints: u64,
    /// Checkpoint rounds that a task had to wait for.
    pub forced_checkpoints: u64,
    /// Bytes that checkpoints wrote or shared home.
    pub checkpoint_bytes: u64,
    /// Checkpoint bytes that were shared instead of written.
    pub shared_bytes: u64,
    /// Bytes of committed blocks read from the log because they had left memory.
    pub read_back_bytes: u64,
    /// Bytes of blocks before compression, for transactions compressed into the log.
    pub packed_raw_bytes: u64,
    /// Bytes that these took in the log, with heads and indexes, without the padding of the last block.
    pub packed_bytes: u64,
    /// Time that commits spent on compression, in nanoseconds.
    pub packing_ns: u64,
    /// Bytes of files read with [`Manner::direct`].
    pub direct_read_bytes: u64,
    /// Directly read bytes that came from the page cache. A mode that keeps content in its log buffers direct reads.
    pub direct_cached_bytes: u64,
    /// Cleaning of segments, by file systems that write logs.
    pub cleaning: CleaningCounters,
}

/// What cleaning did since the mount or the last reset of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CleaningCounters {
    /// Segments emptied, or left to the next checkpoint with nodes to move only.
    pub segments: u64,
    /// Blocks of content read and written elsewhere.
    pub copied_blocks: u64,
    /// Blocks of content that SHARE gave another address.
    pub shared_blocks: u64,
    /// Nodes that the next checkpoint writes elsewhere.
    pub moved_nodes: u64,
}

/// Read access to a mounted file system or a view of an image: all that `ls`, `cat` and a copy out of it need.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait FileView {
    /// The root directory.
    fn root(&self) -> Ino;

    /// The inode that `name` refers to in `directory`.
    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino>;

    /// Attributes of `ino`.
    async fn attributes(&self, ino: Ino) -> FsResult<Attributes>;

    /// Attributes of an inode that a file handle names; [`FsError::NotFound`] if it has no name or is reserved.
    async fn attributes_by_number(&self, ino: Ino) -> FsResult<Attributes> {
        let found = self.attributes(ino).await?;
        if found.links > 0 { Ok(found) } else { Err(FsError::NotFound(ino.to_string())) }
    }

    /// [`FileView::lookup`] and [`FileView::attributes`] in one call, for FUSE's lookup.
    async fn lookup_attributes(&self, directory: Ino, name: &[u8]) -> FsResult<Attributes> {
        self.attributes(self.lookup(directory, name).await?).await
    }

    /// The content of a symbolic link.
    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>>;

    /// Up to `length` bytes from `offset`; fewer only at the end of the file.
    async fn read(&self, ino: Ino, offset: u64, length: u64, manner: Manner) -> FsResult<Data>;

    /// Entries of `directory` from `cursor` on (0: the beginning), with `.` and `..`; empty at the end.
    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>>;

    /// [`FileView::read_directory`] with the attributes of each entry, for FUSE's readdirplus. `None` for an entry
    /// whose inode cannot be read.
    async fn read_directory_attributes(
        &self,
        directory: Ino,
        cursor: u64,
    ) -> FsResult<Vec<(DirectoryEntry, Option<Attributes>)>> {
        let mut entries = Vec::new();
        for entry in self.read_directory(directory, cursor).await? {
            let attributes = self.attributes(entry.ino).await.ok();
            entries.push((entry, attributes));
        }
        Ok(entries)
    }

    /// The value of an extended attribute, by its full name (`user.colour`).
    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>>;

    /// The full names of all extended attributes.
    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>>;

    /// Offset of the first byte at or behind `offset` that is data or in a hole. The end of the file counts as a hole.
    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64>;

    /// Total and free space.
    async fn space(&self) -> FsResult<Space>;
}

/// A mounted file system.
///
/// After [`FileSystem::fsync`] returns, the file's content, size and original name survive a power loss. The mode's
/// promise says what else survives.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait FileSystem: FileView {
    /// Changes attributes. A new size truncates or extends the file.
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()>;

    /// Makes `node` under `name` in `directory`. One step.
    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino>;

    /// [`FileSystem::create`] and [`FileView::attributes`] in one call, for FUSE's create.
    async fn create_attributes(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Attributes> {
        self.attributes(self.create(directory, name, node).await?).await
    }

    /// Makes a symbolic link with the content `target`. One step.
    async fn symlink(&self, directory: Ino, name: &[u8], target: &[u8]) -> FsResult<Ino>;

    /// Gives `ino` another name. One step.
    async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Removes a name of any inode except a directory. The inode is deleted when it has no name and no
    /// [`FileSystem::open`].
    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Removes an empty directory.
    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Moves a name. One step.
    async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()>;

    /// Keeps `ino` alive until [`FileSystem::release`], even without a name. Each call needs its own release.
    ///
    /// Fails if the inode does not exist (any more) or cannot be read.
    async fn open(&self, ino: Ino) -> FsResult<()>;

    /// Ends one [`FileSystem::open`]. Deletes the inode if it has no other open and no name.
    async fn release(&self, ino: Ino) -> FsResult<()>;

    /// Writes `content` and returns the offset of its first byte. If the mode keeps content in its log, up to
    /// [`WRITE_STEP_BYTES`] are one step at any offset.
    async fn write(&self, ino: Ino, position: Position, content: Content<'_>, manner: Manner) -> FsResult<u64>;

    /// Reserves, frees or zeroes a range.
    async fn allocate(&self, ino: Ino, offset: u64, length: u64, allocation: Allocation) -> FsResult<()>;

    /// Sets or (`None`) removes an extended attribute. One step.
    async fn set_extended_attribute(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        manner: AttributeManner,
    ) -> FsResult<()>;

    /// Drops the clean pages of a file from the page cache, except those that a transaction keeps
    /// (`POSIX_FADV_DONTNEED`).
    fn drop_cached(&self, ino: Ino);

    /// Drops all clean pages from the page cache, metadata included, except those that a transaction keeps
    /// (`/proc/sys/vm/drop_caches`).
    fn drop_caches(&self);

    /// Makes content and attributes of `ino` durable.
    async fn fsync(&self, ino: Ino) -> FsResult<()>;

    /// Makes the content of `ino` durable, and the attributes that reading it needs.
    async fn fdatasync(&self, ino: Ino) -> FsResult<()>;

    /// Makes everything durable.
    async fn sync(&self) -> FsResult<()>;

    /// Counters since the mount or the last reset.
    fn counters(&self) -> FsCounters;

    /// Sets all counters to zero.
    fn reset_counters(&self);

    /// Writes everything home and marks the file system clean. Deletes files without a name, though they are open. The
    /// caller must not use the file system afterwards.
    async fn unmount(&self) -> FsResult<()>;
}

/// The inode at `path`, from the root. Follows symbolic links inside the path, but not one at its end.
///
/// # Errors
/// [`FsError::NotFound`] with the part of the path that does not exist; [`FsError::Loop`] after more than 40 links.
pub async fn resolve<F: FileView>(fs: &F, path: &[u8]) -> FsResult<Ino> {
    let mut pending: Vec<Vec<u8>> = components(path).rev().map(<[u8]>::to_vec).collect();
    let mut ino = fs.root();
    let mut links = 0;
    while let Some(name) = pending.pop() {
        let parent = ino;
        ino = fs.lookup(parent, &name).await?;
        let is_last = pending.is_empty();
        if !is_last && fs.attributes(ino).await?.kind == FileKind::Symlink {
            links += 1;
            if links > 40 {
                return Err(FsError::Loop(String::from_utf8_lossy(path).into_owned()));
            }
            let target = fs.read_link(ino).await?;
            pending.extend(components(&target).rev().map(<[u8]>::to_vec));
            ino = if target.starts_with(b"/") { fs.root() } else { parent };
        }
    }
    Ok(ino)
}

/// Splits `path` into the path of its directory and its last name.
///
/// # Errors
/// [`FsError::Invalid`] if it has no last name (`/`, empty).
pub fn split_path(path: &[u8]) -> FsResult<(&[u8], &[u8])> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    if start == end {
        return Err(FsError::Invalid(format!("{:?} names no file", String::from_utf8_lossy(path))));
    }
    Ok((&path[..start], &path[start..end]))
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_splits_into_directory_and_name() {
        assert_eq!(split_path(b"/a/b/c").unwrap(), (&b"/a/b/"[..], &b"c"[..]));
        assert_eq!(split_path(b"c/").unwrap(), (&b""[..], &b"c"[..]));
        assert!(split_path(b"//").is_err());
    }
}
