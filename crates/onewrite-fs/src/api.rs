//! The file-system API: what every file system of Onewrite offers, and the only thing that workloads and doors see.
//!
//! Its one idea: operations name inodes, as a kernel's file-system switch does, so that FUSE, a workload and a crash
//! explorer all drive the same code. Paths are a convenience on top ([`resolve`]).
//!
//! Everything is single-threaded `async`; operations of many tasks interleave wherever one waits. A file system states
//! which of its operations are one atomic step and which take several (see the implementation's head).

use onewrite_block::{DeviceError, Nanos};
use thiserror::Error;

use crate::content::{Content, Data};

/// Bytes that one `write()` puts into a file as one step: after a power cut all of them are there, or none is.
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

/// What `stat` tells of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// The lower 12 bits of `st_mode`.
    pub permissions: u16,
    /// Names that refer to it.
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
    /// Creation.
    pub created: Timestamp,
    /// Major and minor number of a device node.
    pub device: (u32, u32),
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
    /// Major and minor number, for device nodes.
    pub device: (u32, u32),
}

impl NewNode {
    /// A regular file of root with permissions 0644.
    pub const FILE: NewNode = NewNode { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: (0, 0) };
    /// A directory of root with permissions 0755.
    pub const DIRECTORY: NewNode =
        NewNode { kind: FileKind::Directory, permissions: 0o755, uid: 0, gid: 0, device: (0, 0) };
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
    /// Where to go on reading after this entry; stable while the directory lives.
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
    /// Past the page cache where the mode allows it (`O_DIRECT`); offset and length must be multiples of 4 KiB.
    pub direct: bool,
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

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttributeManner {
    /// Whether it is there or not.
    #[default]
    Either,
    /// It must not be there (`XATTR_CREATE`).
    Create,
    /// It must be there (`XATTR_REPLACE`).
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
    /// Reserves blocks and leaves the size.
    KeepSize,
    /// Frees the blocks of the range; it then reads as zeros.
    PunchHole,
    /// Makes the range read as zeros and keeps blocks for it; extends the size if needed.
    ZeroRange,
    /// Takes the range out: what lies behind it moves to where it began. Offset and length are multiples of 4 KiB, and
    /// the range ends before the end of the file.
    CollapseRange,
    /// Puts a hole in: what lies behind the offset moves by the length. Offset and length are multiples of 4 KiB, and
    /// the offset lies before the end of the file.
    InsertRange,
}

/// What `statfs` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Blocks of 4 KiB, those for metadata not counted.
    pub blocks: u64,
    /// Blocks free.
    pub blocks_free: u64,
    /// Inodes in all.
    pub inodes: u64,
    /// Inodes free.
    pub inodes_free: u64,
}

/// What a file system has counted since it was mounted or its counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FsCounters {
    /// Transactions committed.
    pub commits: u64,
    /// Bytes written to the log, by all causes.
    pub journal_bytes: u64,
    /// Rounds of checkpointing that wrote something.
    pub checkpoints: u64,
    /// Those of them that somebody had to wait for.
    pub forced_checkpoints: u64,
    /// Bytes written or shared home by checkpoints.
    pub checkpoint_bytes: u64,
    /// Those of them that were shared.
    pub shared_bytes: u64,
    /// Bytes of committed blocks that had left memory and were read from the log.
    pub read_back_bytes: u64,
    /// Bytes of blocks that went compressed into the log, before compression.
    pub packed_raw_bytes: u64,
    /// What they took in the log, with heads and indexes, without the padding of the last block.
    pub packed_bytes: u64,
    /// Time that commits spent on compression, in nanoseconds.
    pub packing_ns: u64,
    /// Bytes of files that were read with [`Manner::direct`].
    pub direct_read_bytes: u64,
    /// Those of them that came from pages in memory: a mode that keeps content in its log makes direct reads buffered.
    pub direct_cached_bytes: u64,
}

/// Why an operation failed. [`FsError::errno`] gives the number that Linux uses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FsError {
    /// No such name or inode.
    #[error("no such file or directory: {0}")]
    NotFound(String),
    /// The operation is possible for nobody on such a thing: a second name for a directory.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// The name is taken.
    #[error("{0} exists already")]
    Exists(String),
    /// A directory was needed.
    #[error("{0} is not a directory")]
    NotDirectory(String),
    /// A directory was not allowed.
    #[error("{0} is a directory")]
    IsDirectory(String),
    /// The directory still holds names.
    #[error("directory {0} is not empty")]
    NotEmpty(String),
    /// No block or inode is left.
    #[error("no space: {needed} needed, {free} free ({what}); delete something or make a larger image")]
    NoSpace {
        /// Blocks or inodes.
        what: &'static str,
        /// How many were needed.
        needed: u64,
        /// How many were free.
        free: u64,
    },
    /// No such extended attribute.
    #[error("no data: {0}")]
    NoData(String),
    /// Nothing to seek to.
    #[error("no data or hole: {0}")]
    BeyondEnd(String),
    /// The file would be larger than the format allows.
    #[error("{ino} would grow to {size} bytes; at most {size_max} are possible")]
    TooLarge {
        /// The file.
        ino: Ino,
        /// Size asked for.
        size: u64,
        /// Largest size.
        size_max: u64,
    },
    /// Too many names for one inode.
    #[error("{0} has as many links as the format allows")]
    TooManyLinks(Ino),
    /// A name longer than 255 bytes.
    #[error("name of {0} bytes; at most 255 are possible")]
    NameTooLong(usize),
    /// An argument that makes no sense; the text says which and why.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The file system takes no more changes.
    #[error("the file system is read-only: {0}")]
    ReadOnly(String),
    /// Neither a superblock nor a backup of one is there.
    #[error("it holds no ext2, ext3 or ext4 file system: there is no superblock, and no backup of one")]
    NoFileSystem,
    /// A structure on disk is wrong.
    #[error("damaged file system: {place}: {problem}; run `onewrite fsck`")]
    Damaged {
        /// Structure, block and inode.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The image uses something that this version lacks.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// Too many levels of symbolic links.
    #[error("too many levels of symbolic links: {0}")]
    Loop(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl FsError {
    /// The number that Linux gives this error (asm-generic/errno).
    pub const fn errno(&self) -> i32 {
        match self {
            FsError::NotPermitted(_) => 1,
            FsError::NotFound(_) => 2,
            FsError::Device(_) => 5,
            FsError::BeyondEnd(_) => 6,
            FsError::Exists(_) => 17,
            FsError::NotDirectory(_) => 20,
            FsError::IsDirectory(_) => 21,
            FsError::Invalid(_) | FsError::NoFileSystem => 22,
            FsError::TooLarge { .. } => 27,
            FsError::NoSpace { .. } => 28,
            FsError::ReadOnly(_) => 30,
            FsError::NoData(_) => 61,
            FsError::TooManyLinks(_) => 31,
            FsError::NameTooLong(_) => 36,
            FsError::NotEmpty(_) => 39,
            FsError::Loop(_) => 40,
            FsError::Unsupported(_) => 95,
            FsError::Damaged { .. } => 117,
        }
    }
}

/// The result of an operation.
pub type FsResult<T> = Result<T, FsError>;

/// What can be read of a file system: all that `ls`, `cat` and a copy out of an image need.
///
/// A mounted file system is one; a view of an image that nothing may change is another.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait FileView {
    /// The root directory.
    fn root(&self) -> Ino;

    /// The inode that `name` refers to in `directory`.
    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino>;

    /// What is known of `ino`.
    async fn attributes(&self, ino: Ino) -> FsResult<Attributes>;

    /// [`FileView::lookup`] and [`FileView::attributes`] in one call, as FUSE's lookup wants them.
    async fn lookup_attributes(&self, directory: Ino, name: &[u8]) -> FsResult<Attributes> {
        self.attributes(self.lookup(directory, name).await?).await
    }

    /// The content of a symbolic link.
    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>>;

    /// Up to `length` bytes from `offset`; fewer only at the end of the file.
    async fn read(&self, ino: Ino, offset: u64, length: u64, manner: Manner) -> FsResult<Data>;

    /// Entries of `directory` from `cursor` on (0 is the beginning), `.` and `..` among them; empty at the end.
    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>>;

    /// [`FileView::read_directory`] with the attributes of each entry, as FUSE's readdirplus wants them; `None` for an
    /// entry whose inode cannot be read.
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

    /// The next byte from `offset` on that is data or a hole; the end of the file is a hole.
    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64>;

    /// How much room there is.
    async fn space(&self) -> FsResult<Space>;
}

/// A mounted file system.
///
/// After [`FileSystem::fsync`] returns, the file's content and size, and the name it was created under, survive a power
/// cut; what else does is the promise of the mode.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait FileSystem: FileView {
    /// Changes attributes; a new size truncates or extends.
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()>;

    /// Makes `node` under `name` in `directory`. One step.
    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino>;

    /// [`FileSystem::create`] and [`FileView::attributes`] in one call, as FUSE's create wants them.
    async fn create_attributes(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Attributes> {
        self.attributes(self.create(directory, name, node).await?).await
    }

    /// Makes a symbolic link with the content `target`. One step.
    async fn symlink(&self, directory: Ino, name: &[u8], target: &[u8]) -> FsResult<Ino>;

    /// Gives `ino` a further name. One step.
    async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Removes a name of anything but a directory. The inode goes when no name and no [`FileSystem::open`] is left.
    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Removes an empty directory.
    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()>;

    /// Moves a name. One step.
    async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()>;

    /// Keeps `ino` alive until [`FileSystem::release`], even without a name; as often as it is called.
    ///
    /// Fails if there is no such inode (any more), or it cannot be read.
    async fn open(&self, ino: Ino) -> FsResult<()>;

    /// Ends one [`FileSystem::open`]; removes the inode if that was the last thing that kept it.
    async fn release(&self, ino: Ino) -> FsResult<()>;

    /// Writes `content` and returns the byte where it began. Up to [`WRITE_STEP_BYTES`] are one step, wherever they
    /// begin, if the mode keeps content in its log.
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

    /// Drops what the page cache holds of a file, as far as nothing needs it (`POSIX_FADV_DONTNEED`): clean pages that
    /// no transaction keeps.
    fn drop_cached(&self, ino: Ino);

    /// Drops all of the page cache that nothing needs, metadata included (`/proc/sys/vm/drop_caches`): clean pages
    /// that no transaction keeps.
    fn drop_caches(&self);

    /// Makes content and attributes of `ino` durable.
    async fn fsync(&self, ino: Ino) -> FsResult<()>;

    /// Makes the content of `ino`, and of its attributes what is needed to read it, durable.
    async fn fdatasync(&self, ino: Ino) -> FsResult<()>;

    /// Makes everything durable.
    async fn sync(&self) -> FsResult<()>;

    /// What was counted.
    fn counters(&self) -> FsCounters;

    /// Starts counting anew.
    fn reset_counters(&self);

    /// Writes everything home and marks the file system clean. Nothing may be called afterwards.
    async fn unmount(&self) -> FsResult<()>;
}

/// The inode at `path`, from the root; symbolic links inside it are followed, one at its end is not.
///
/// # Errors
/// [`FsError::NotFound`] with the part of the path that does not exist; [`FsError::Loop`] past 40 links.
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
