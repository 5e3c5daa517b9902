//! Operations on a file system of ours, through the file-system API.

use std::rc::Rc;

use onewrite_fs::ext4::Ext4;
use onewrite_fs::f2fs::F2fs;
use onewrite_fs::{
    AttributeChanges, AttributeManner, Content, FileKind, FileSystem, FsError, FsResult, Ino, Manner, NewNode,
    Position, Timestamp,
};

use super::entry::{Entry, Tree};
use super::model::{device_of, takes_attribute};
use super::operation::{Answer, NOT_ASKED, OpenManner, Operation, Outcome, SLOTS, Target, filled_name, link_target};

/// A file system that can verify its state in memory.
pub trait Checked: FileSystem + 'static {
    fn check_state(&self) -> Result<(), String>;
}

impl Checked for Ext4 {
    fn check_state(&self) -> Result<(), String> {
        self.check()
    }
}

impl Checked for F2fs {
    fn check_state(&self) -> Result<(), String> {
        self.check()
    }
}

/// A task on a mounted file system, with its open handles.
pub struct Ours<F> {
    pub fs: Rc<F>,
    slots: [Option<Ino>; SLOTS],
}

/// The directory of a path's last name, and that name.
async fn parent<'a>(fs: &impl FileSystem, path: &'a str) -> FsResult<(Ino, &'a [u8])> {
    let (mut directory, mut names) = (fs.root(), path.split('/').peekable());
    loop {
        let name = names.next().expect("a path has a name");
        match fs.attributes(directory).await?.kind {
            FileKind::Directory => (),
            FileKind::Symlink => return Err(FsError::NotFound("where a link leads".into())),
            _ => return Err(FsError::NotDirectory(path.into())),
        }
        if names.peek().is_none() {
            return Ok((directory, name.as_bytes()));
        }
        directory = fs.lookup(directory, name.as_bytes()).await?;
    }
}

async fn find(fs: &impl FileSystem, path: &str) -> FsResult<Ino> {
    let (directory, name) = parent(fs, path).await?;
    fs.lookup(directory, name).await
}

fn number(error: FsError) -> i32 {
    error.errno()
}

impl<F: FileSystem> Ours<F> {
    pub fn new(fs: &Rc<F>) -> Ours<F> {
        Ours { fs: Rc::clone(fs), slots: [None; SLOTS] }
    }

    async fn kind(&self, ino: Ino) -> Result<FileKind, i32> {
        Ok(self.fs.attributes(ino).await.map_err(number)?.kind)
    }

    pub async fn apply(&mut self, operation: &Operation) -> Outcome {
        if let Some(target) = operation.target() {
            let ino = match target {
                Target::Path(path) => find(&*self.fs, path).await.map_err(number)?,
                Target::Slot(slot) => self.slots[*slot].ok_or(NOT_ASKED)?,
            };
            return self.apply_to(ino, operation).await;
        }
        match operation {
            Operation::Open(path, slot, manner) => {
                self.close(*slot).await?;
                let ino = self.open(path, *manner).await?;
                self.fs.open(ino).await.map_err(number)?;
                self.slots[*slot] = Some(ino);
                Ok(Answer::Done)
            }
            Operation::Close(slot) => self.close(*slot).await,
            Operation::Permissions(path, permissions) => self.change_permissions(path, *permissions).await,
            Operation::Fill(path, first, count) => self.fill(path, *first..first + count).await,
            Operation::Clear(path, first, count) => self.clear(path, *first..first + count).await,
            Operation::List(path) => self.list(path).await,
            _ => self.apply_names(operation).await.map_err(number),
        }
    }

    pub async fn close(&mut self, slot: usize) -> Outcome {
        if let Some(ino) = self.slots[slot].take() {
            self.fs.release(ino).await.map_err(number)?;
        }
        Ok(Answer::Done)
    }

    async fn open(&self, path: &str, manner: OpenManner) -> Result<Ino, i32> {
        let found = find(&*self.fs, path).await;
        match found {
            Ok(_) if manner.exclusive => Err(FsError::Exists(path.into()).errno()),
            Ok(ino) if self.kind(ino).await? != FileKind::Regular => Err(NOT_ASKED),
            Ok(ino) => {
                if manner.truncate {
                    self.truncate(ino, 0).await.map_err(number)?;
                }
                Ok(ino)
            }
            Err(FsError::NotFound(_)) if manner.create => {
                let (directory, name) = parent(&*self.fs, path).await.map_err(number)?;
                self.fs.create(directory, name, NewNode::FILE).await.map_err(number)
            }
            Err(error) => Err(number(error)),
        }
    }

    async fn truncate(&self, ino: Ino, size: u64) -> FsResult<()> {
        self.fs.set_attributes(ino, AttributeChanges { size: Some(size), ..Default::default() }).await
    }

    async fn change_permissions(&self, path: &str, permissions: u16) -> Outcome {
        let ino = find(&*self.fs, path).await.map_err(number)?;
        if self.kind(ino).await? == FileKind::Symlink {
            return Err(NOT_ASKED);
        }
        let changes = AttributeChanges { permissions: Some(permissions), ..Default::default() };
        self.fs.set_attributes(ino, changes).await.map(|()| Answer::Done).map_err(number)
    }

    async fn directory(&self, path: &str) -> Result<Ino, i32> {
        let ino = find(&*self.fs, path).await.map_err(number)?;
        if self.kind(ino).await? == FileKind::Directory { Ok(ino) } else { Err(NOT_ASKED) }
    }

    async fn fill(&self, path: &str, numbers: std::ops::Range<u32>) -> Outcome {
        let directory = self.directory(path).await?;
        for one in numbers {
            let node = NewNode { permissions: 0o600, ..NewNode::FILE };
            match self.fs.create(directory, filled_name(one).as_bytes(), node).await {
                Ok(_) | Err(FsError::Exists(_)) => (),
                Err(error) => return Err(number(error)),
            }
        }
        Ok(Answer::Done)
    }

    async fn clear(&self, path: &str, numbers: std::ops::Range<u32>) -> Outcome {
        let directory = self.directory(path).await?;
        for one in numbers {
            match self.fs.unlink(directory, filled_name(one).as_bytes()).await {
                Ok(()) | Err(FsError::NotFound(_)) => (),
                Err(error) => return Err(number(error)),
            }
        }
        Ok(Answer::Done)
    }

    async fn list(&self, path: &str) -> Outcome {
        let directory = self.directory(path).await?;
        let mut names: Vec<Vec<u8>> = self.names(directory).await.map_err(number)?;
        names.sort();
        Ok(Answer::Names(names))
    }

    async fn names(&self, directory: Ino) -> FsResult<Vec<Vec<u8>>> {
        let (mut names, mut cursor) = (Vec::new(), 0);
        loop {
            let entries = self.fs.read_directory(directory, cursor).await?;
            let Some(last) = entries.last() else { return Ok(names) };
            cursor = last.next;
            let is_own = |name: &Vec<u8>| ![&b"."[..], b"..", b"lost+found"].contains(&&name[..]);
            names.extend(entries.into_iter().map(|entry| entry.name).filter(is_own));
        }
    }

    async fn apply_names(&self, operation: &Operation) -> FsResult<Answer> {
        let fs = &*self.fs;
        match operation {
            Operation::Make(path, kind, permissions) => {
                let (directory, name) = parent(fs, path).await?;
                let node =
                    NewNode { kind: *kind, permissions: *permissions, device: device_of(*kind), ..NewNode::FILE };
                fs.create(directory, name, node).await?;
            }
            Operation::Symlink(path, length) => {
                let (directory, name) = parent(fs, path).await?;
                fs.symlink(directory, name, link_target(*length).as_bytes()).await?;
            }
            Operation::Link(old, new) => {
                let ino = find(fs, old).await?;
                let (directory, name) = parent(fs, new).await?;
                fs.link(ino, directory, name).await?;
            }
            Operation::Unlink(path) => {
                let (directory, name) = parent(fs, path).await?;
                fs.unlink(directory, name).await?;
            }
            Operation::RemoveDirectory(path) => {
                let (directory, name) = parent(fs, path).await?;
                fs.remove_directory(directory, name).await?;
            }
            Operation::Rename(from, to, manner) => {
                let (from, to) = (parent(fs, from).await?, parent(fs, to).await?);
                fs.rename(from, to, *manner).await?;
            }
            Operation::ReadLink(path) => return fs.read_link(find(fs, path).await?).await.map(Answer::Bytes),
            Operation::Owner(path, user, group) => {
                let changes = AttributeChanges { uid: Some(*user), gid: Some(*group), ..Default::default() };
                fs.set_attributes(find(fs, path).await?, changes).await?;
            }
            Operation::Times(path, accessed, modified) => {
                let (accessed, modified) = (Some(*accessed), Some(*modified));
                let (ino, changes) = (find(fs, path).await?, AttributeChanges::default());
                fs.set_attributes(ino, AttributeChanges { accessed, modified, ..changes }).await?;
                let now = fs.attributes(ino).await?;
                return Ok(Answer::Times(now.accessed, now.modified));
            }
            _ => unreachable!("not about names: {operation:?}"),
        }
        Ok(Answer::Done)
    }

    async fn apply_to(&self, ino: Ino, operation: &Operation) -> Outcome {
        let kind = self.kind(ino).await?;
        let is_asked = match operation {
            Operation::SetAttribute(_, name, ..)
            | Operation::RemoveAttribute(_, name)
            | Operation::GetAttribute(_, name) => takes_attribute(kind, name),
            _ => kind == FileKind::Regular,
        };
        if is_asked { self.apply_to_file(ino, operation).await.map_err(number) } else { Err(NOT_ASKED) }
    }

    async fn apply_to_file(&self, ino: Ino, operation: &Operation) -> FsResult<Answer> {
        let (fs, buffered) = (&*self.fs, Manner::default());
        match operation {
            Operation::Write(_, offset, bytes) => {
                fs.write(ino, Position::At(*offset), Content::Bytes(bytes), buffered).await?;
            }
            Operation::Append(_, bytes) => {
                fs.write(ino, Position::End, Content::Bytes(bytes), buffered).await?;
            }
            Operation::Read(_, offset, length) => {
                let manner = Manner { once: (offset ^ length) & 1 == 1, ..buffered };
                return Ok(Answer::Bytes(fs.read(ino, *offset, *length, manner).await?.to_vec()));
            }
            Operation::Truncate(_, size) => self.truncate(ino, *size).await?,
            Operation::Allocate(_, offset, length, allocation) => {
                fs.allocate(ino, *offset, *length, *allocation).await?
            }
            Operation::Seek(_, offset, target) => return fs.seek(ino, *offset, *target).await.map(Answer::Number),
            Operation::SetAttribute(_, name, value, manner) => {
                fs.set_extended_attribute(ino, name.as_bytes(), Some(value), *manner).await?;
            }
            Operation::RemoveAttribute(_, name) => {
                fs.set_extended_attribute(ino, name.as_bytes(), None, AttributeManner::Either).await?;
            }
            Operation::GetAttribute(_, name) => {
                return fs.extended_attribute(ino, name.as_bytes()).await.map(Answer::Bytes);
            }
            Operation::Sync(_, true) => fs.fdatasync(ino).await?,
            Operation::Sync(_, false) => fs.fsync(ino).await?,
            _ => unreachable!("not about a file: {operation:?}"),
        }
        Ok(Answer::Done)
    }

    /// The compared properties of a path.
    pub async fn entry_at(&self, path: &str) -> Result<Entry, i32> {
        let ino = find(&*self.fs, path).await.map_err(number)?;
        self.entry(ino).await.map_err(number)
    }

    /// The compared properties of an open handle's file.
    pub async fn entry_of_slot(&self, slot: usize) -> Result<Entry, i32> {
        self.entry(self.slots[slot].ok_or(NOT_ASKED)?).await.map_err(number)
    }

    async fn entry(&self, ino: Ino) -> FsResult<Entry> {
        let fs = &*self.fs;
        let found = fs.attributes(ino).await?;
        let content = match found.kind {
            FileKind::Regular => fs.read(ino, 0, found.size, Manner::default()).await?.to_vec(),
            FileKind::Symlink => fs.read_link(ino).await?,
            _ => Vec::new(),
        };
        let mut attributes = Vec::new();
        for name in fs.extended_attributes(ino).await? {
            let value = fs.extended_attribute(ino, &name).await?;
            attributes.push((name, value));
        }
        attributes.sort();
        Ok(Entry {
            kind: found.kind,
            permissions: found.permissions,
            owner: (found.uid, found.gid),
            links: found.links,
            size: found.size,
            device: found.device,
            content,
            attributes,
        })
    }

    /// Inode number, modification time and change time of a path.
    pub async fn stamps(&self, path: &str) -> Option<(u64, Timestamp, Timestamp)> {
        let ino = if path.is_empty() { self.fs.root() } else { find(&*self.fs, path).await.ok()? };
        let found = self.fs.attributes(ino).await.ok()?;
        Some((ino.0, found.modified, found.changed))
    }

    /// Everything below the root but `lost+found`.
    pub async fn tree(&self) -> FsResult<Tree> {
        let (mut tree, mut pending) = (Tree::new(), vec![(String::new(), self.fs.root())]);
        while let Some((path, ino)) = pending.pop() {
            let entry = self.entry(ino).await?;
            if entry.kind == FileKind::Directory {
                for name in self.names(ino).await? {
                    let child = self.fs.lookup(ino, &name).await?;
                    let name = String::from_utf8(name).expect("UTF-8");
                    pending.push((if path.is_empty() { name } else { format!("{path}/{name}") }, child));
                }
            }
            if !path.is_empty() {
                tree.push((path, entry));
            }
        }
        tree.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(tree)
    }
}
