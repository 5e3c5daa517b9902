//! Files: carries out operations on a file system. The file system itself charges the host for its system calls.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::PAGE_SIZE;
use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::{
    Allocation, AttributeChanges, Content, FileSystem, FsError, FsResult, Ino, Manner, NewNode, Position,
};

use super::contents::Filling;
use super::layout::LayoutWatch;
use super::ledger::Ledger;
use super::target::{Failure, Target};
use crate::error::LabError;
use crate::job::{Fallocate, SyncMode};
use crate::workload::{FileId, Layout, Operation, ReadBefore, Reservation, TaskDescriptor, Workload, WriteManner};

/// A mounted file system as a target.
pub struct Files<F> {
    fs: Rc<F>,
    names: RefCell<Vec<Name>>,
    ledger: RefCell<Rc<Ledger>>,
    follows_all: bool,
}

struct Name {
    directory: Ino,
    name: Vec<u8>,
}

/// Open files of one task, by slot.
#[derive(Default)]
pub struct Opened(Vec<Option<(FileId, Ino)>>);

impl Opened {
    fn at(&self, slot: TaskDescriptor) -> FsResult<(FileId, Ino)> {
        let opened = self.0.get(slot.0 as usize).copied().flatten();
        opened.ok_or_else(|| FsError::Invalid(format!("descriptor {} is not open", slot.0)))
    }

    fn put(&mut self, slot: TaskDescriptor, opened: Option<(FileId, Ino)>) {
        let index = slot.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        self.0[index] = opened;
    }
}

/// What a sync makes durable.
#[derive(Clone, Copy)]
enum SyncOf {
    /// Content and metadata: fsync.
    File,
    /// Content and what is needed to read it: fdatasync.
    Data,
}

impl<F: FileSystem> Files<F> {
    /// Makes a target of `fs`.
    pub fn new(fs: Rc<F>) -> Files<F> {
        Files { fs, names: RefCell::default(), ledger: RefCell::default(), follows_all: false }
    }

    /// Makes a target of `fs` that follows the content of every file, to check it after a power cut.
    pub fn followed(fs: Rc<F>) -> Files<F> {
        Files { follows_all: true, ..Files::new(fs) }
    }

    /// What the files hold; empty before the layout.
    pub fn ledger(&self) -> Rc<Ledger> {
        Rc::clone(&self.ledger.borrow())
    }

    /// Carries out a change of `file`. From its beginning on the file counts as changing.
    async fn change<T>(&self, file: FileId, change: impl Future<Output = FsResult<T>>) -> FsResult<T> {
        self.ledger().begin(file);
        let done = change.await;
        self.ledger().end(file);
        done
    }

    async fn directory(&self, path: &str) -> FsResult<()> {
        let (parent, name) = split_path(path.as_bytes())?;
        let parent = resolve(&*self.fs, parent).await?;
        match self.fs.create(parent, name, NewNode::DIRECTORY).await {
            Err(FsError::Exists(_)) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn lay_out_file(&self, file: FileId, layout: Layout, watch: &LayoutWatch<'_>) -> FsResult<()> {
        let (size, fallocate) = match layout {
            Layout::None => return Ok(()),
            Layout::Reserved { size, fallocate } | Layout::Filled { size, fallocate, .. } => (size, fallocate),
        };
        let ino = self.create_or_lookup(file).await?;
        self.change(file, self.reserve(file, ino, size, fallocate)).await?;
        if let Layout::Filled { chunk, seed, compressible_percent, synced, .. } = layout {
            self.fill((file, ino), size, chunk, Filling { seed, compressible_percent }, watch).await?;
            if synced {
                self.sync((file, ino), SyncOf::File).await?;
            }
        }
        watch.made();
        Ok(())
    }

    async fn reserve(&self, file: FileId, ino: Ino, size: u64, fallocate: Fallocate) -> FsResult<()> {
        if matches!(fallocate, Fallocate::Extend | Fallocate::Truncate) {
            self.ledger().extended(file, size);
        }
        match fallocate {
            Fallocate::None => Ok(()),
            Fallocate::Extend => self.fs.allocate(ino, 0, size, Allocation::Extend).await,
            Fallocate::KeepSize => self.fs.allocate(ino, 0, size, Allocation::KeepSize).await,
            Fallocate::Truncate => {
                self.fs.set_attributes(ino, AttributeChanges { size: Some(size), ..Default::default() }).await
            }
        }
    }

    async fn fill(
        &self,
        (file, ino): (FileId, Ino),
        size: u64,
        chunk: u64,
        filling: Filling,
        watch: &LayoutWatch<'_>,
    ) -> FsResult<()> {
        let mut offset = 0;
        while offset < size {
            let length = chunk.min(size - offset);
            self.put((file, ino), (Position::At(offset), length), filling, Manner::default()).await?;
            offset += length;
            watch.wrote(length);
        }
        Ok(())
    }

    async fn make(&self, file: FileId) -> FsResult<Ino> {
        let (directory, name) = self.place(file);
        let ino = self.change(file, self.fs.create(directory, &name, NewNode::FILE)).await?;
        self.ledger().emptied(file);
        Ok(ino)
    }

    async fn create_or_lookup(&self, file: FileId) -> FsResult<Ino> {
        match self.make(file).await {
            Err(FsError::Exists(_)) => self.lookup(file).await,
            other => other,
        }
    }

    async fn lookup(&self, file: FileId) -> FsResult<Ino> {
        let (directory, name) = self.place(file);
        self.fs.lookup(directory, &name).await
    }

    fn place(&self, file: FileId) -> (Ino, Vec<u8>) {
        let names = self.names.borrow();
        let name = &names[file.0 as usize];
        (name.directory, name.name.clone())
    }

    /// Writes, and notes the new content in the ledger.
    async fn put(
        &self,
        (file, ino): (FileId, Ino),
        (position, length): (Position, u64),
        filling: Filling,
        how: Manner,
    ) -> FsResult<()> {
        let write = self.fs.write(ino, position, filling.content(length), how);
        let begin = self.change(file, write).await?;
        self.ledger().written(file, begin, length, filling);
        Ok(())
    }

    async fn open(&self, opened: &RefCell<Opened>, file: FileId, slot: TaskDescriptor, create: bool) -> FsResult<u64> {
        let ino = match create {
            true => self.create_or_lookup(file).await?,
            false => self.lookup(file).await?,
        };
        self.fs.open(ino).await?;
        opened.borrow_mut().put(slot, Some((file, ino)));
        Ok(0)
    }

    async fn create(&self, opened: &RefCell<Opened>, file: FileId, slot: TaskDescriptor) -> FsResult<u64> {
        let ino = self.make(file).await?;
        self.fs.open(ino).await?;
        opened.borrow_mut().put(slot, Some((file, ino)));
        Ok(0)
    }

    async fn close(&self, opened: &RefCell<Opened>, slot: TaskDescriptor) -> FsResult<u64> {
        let (_, ino) = opened.borrow().at(slot)?;
        opened.borrow_mut().put(slot, None);
        self.fs.release(ino).await?;
        Ok(0)
    }

    async fn unlink(&self, file: FileId) -> FsResult<u64> {
        let (directory, name) = self.place(file);
        self.change(file, self.fs.unlink(directory, &name)).await?;
        self.ledger().emptied(file);
        Ok(0)
    }

    async fn stat(&self, file: FileId) -> FsResult<u64> {
        let ino = self.lookup(file).await?;
        self.fs.attributes(ino).await.map(|_| 0)
    }

    async fn read(&self, (file, ino): (FileId, Ino), offset: u64, length: u64, manner: Manner) -> Result<u64, Failure> {
        if manner.direct && !is_aligned(offset, length) {
            return self.read_inside_pages(ino, offset, length).await;
        }
        let data = self.fs.read(ino, offset, length, manner).await?;
        let checked = self.ledger().check(file, offset, || data.to_vec());
        checked.map_err(|(file, offset, problem)| Failure::Content { file, offset, problem })?;
        Ok(data.length as u64)
    }

    /// A direct read of parts of pages. Reads the whole pages, as a disk with 512-byte sectors does inside.
    async fn read_inside_pages(&self, ino: Ino, offset: u64, length: u64) -> Result<u64, Failure> {
        let (begin, bytes) = whole_pages(offset, length);
        self.fs.read(ino, begin, bytes, Manner { direct: true, once: false }).await?;
        Ok(length)
    }

    /// A direct write of parts of pages. Reads the whole pages and writes them again, as a disk with 512-byte sectors
    /// does inside. The other bytes of these pages are lost, so nobody may check such a file.
    async fn write_inside_pages(
        &self,
        (file, ino): (FileId, Ino),
        offset: u64,
        length: u64,
        filling: Filling,
    ) -> FsResult<()> {
        let (begin, bytes) = whole_pages(offset, length);
        let direct = Manner { direct: true, once: false };
        self.fs.read(ino, begin, bytes, direct).await?;
        self.put((file, ino), (Position::At(begin), bytes), filling, direct).await
    }

    async fn read_whole(&self, opened: (FileId, Ino), chunk: u64) -> Result<u64, Failure> {
        let mut offset = 0;
        loop {
            match self.read(opened, offset, chunk, Manner::default()).await? {
                0 => return Ok(offset),
                length => offset += length,
            }
        }
    }

    async fn write(
        &self,
        opened: (FileId, Ino),
        (position, length): (Position, u64),
        filling: Filling,
        manner: WriteManner,
    ) -> FsResult<u64> {
        match position {
            Position::At(offset) if manner.direct && !is_aligned(offset, length) => {
                self.write_inside_pages(opened, offset, length, filling).await?;
            }
            _ => self.put(opened, (position, length), filling, Manner { direct: manner.direct, once: false }).await?,
        }
        if manner.sync != SyncMode::None {
            let what = if manner.sync == SyncMode::Dsync { SyncOf::Data } else { SyncOf::File };
            self.sync(opened, what).await?;
        }
        Ok(length)
    }

    async fn allocate(
        &self,
        (file, ino): (FileId, Ino),
        offset: u64,
        length: u64,
        reservation: Reservation,
    ) -> FsResult<u64> {
        let allocation = match reservation {
            Reservation::Extend => Allocation::Extend,
            Reservation::KeepSize => Allocation::KeepSize,
            Reservation::PunchHole => Allocation::PunchHole,
        };
        self.change(file, self.fs.allocate(ino, offset, length, allocation)).await?;
        match reservation {
            Reservation::Extend => self.ledger().extended(file, offset + length),
            Reservation::KeepSize => (),
            Reservation::PunchHole => self.ledger().forgotten(file, offset, offset + length),
        }
        Ok(length)
    }

    async fn set_size(&self, (file, ino): (FileId, Ino), size: u64) -> FsResult<()> {
        let changes = AttributeChanges { size: Some(size), ..Default::default() };
        self.change(file, self.fs.set_attributes(ino, changes)).await?;
        self.ledger().truncate(file, size);
        Ok(())
    }

    async fn sync(&self, (file, ino): (FileId, Ino), what: SyncOf) -> FsResult<u64> {
        let ticket = self.ledger().begin_sync(file);
        match what {
            SyncOf::Data => self.fs.fdatasync(ino).await?,
            SyncOf::File => self.fs.fsync(ino).await?,
        }
        self.ledger().synced(file, ticket);
        Ok(0)
    }
}

const PAGE: u64 = PAGE_SIZE as u64;

const fn is_aligned(offset: u64, length: u64) -> bool {
    offset.is_multiple_of(PAGE) && length.is_multiple_of(PAGE)
}

/// The pages that a range touches: first byte and length in bytes.
pub(super) const fn whole_pages(offset: u64, length: u64) -> (u64, u64) {
    let begin = offset - offset % PAGE;
    (begin, (offset + length).next_multiple_of(PAGE) - begin)
}

impl Filling {
    fn content(self, length: u64) -> Content<'static> {
        let Filling { seed, compressible_percent } = self;
        Content::Pattern { seed, compressible_percent, length }
    }
}

impl<F: FileSystem> Target for Files<F> {
    type Descriptors = Opened;

    async fn lay_out(&self, workload: &Workload, watch: &LayoutWatch<'_>) -> Result<(), LabError> {
        for path in &workload.directories {
            self.directory(path).await?;
        }
        for plan in &workload.files {
            let (parent, name) = split_path(plan.path.as_bytes())?;
            let directory = resolve(&*self.fs, parent).await?;
            self.names.borrow_mut().push(Name { directory, name: name.to_vec() });
        }
        let files = workload.files.iter().map(|plan| (plan.path.clone(), plan.verified || self.follows_all));
        self.ledger.replace(Rc::new(Ledger::new(files)));
        for (index, plan) in workload.files.iter().enumerate() {
            self.lay_out_file(FileId(index as u32), plan.layout, watch).await?;
            watch.check()?;
        }
        Ok(())
    }

    async fn drop_caches(&self) -> Result<(), LabError> {
        self.fs.sync().await?;
        self.fs.drop_caches();
        Ok(())
    }

    async fn read_before(&self, parts: &[ReadBefore]) -> Result<(), LabError> {
        for ReadBefore { file, range, chunk } in parts {
            let ino = match self.lookup(*file).await {
                // The job creates this file when it opens it.
                Err(FsError::NotFound(_)) => continue,
                found => found?,
            };
            for offset in range.clone().step_by(*chunk as usize) {
                self.fs.read(ino, offset, (*chunk).min(range.end - offset), Manner::default()).await?;
            }
        }
        Ok(())
    }

    async fn carry_out(&self, opened: &RefCell<Opened>, operation: &Operation) -> Result<u64, Failure> {
        let at = |slot| opened.borrow().at(slot);
        match *operation {
            Operation::Create { file, slot } => Ok(self.create(opened, file, slot).await?),
            Operation::Open { file, slot, create } => Ok(self.open(opened, file, slot, create).await?),
            Operation::Close { slot } => Ok(self.close(opened, slot).await?),
            Operation::Unlink { file } => Ok(self.unlink(file).await?),
            Operation::Stat { file } => Ok(self.stat(file).await?),
            Operation::Invalidate { slot } => {
                self.fs.drop_cached(at(slot)?.1);
                Ok(0)
            }
            Operation::Read { slot, offset, length, direct } => {
                self.read(at(slot)?, offset, length, Manner { direct, once: false }).await
            }
            Operation::ReadWhole { slot, chunk } => self.read_whole(at(slot)?, chunk).await,
            Operation::Write { slot, position, length, seed, compressible_percent, manner } => {
                let filling = Filling { seed, compressible_percent };
                Ok(self.write(at(slot)?, (position, length), filling, manner).await?)
            }
            Operation::Allocate { slot, offset, length, reservation, .. } => {
                Ok(self.allocate(at(slot)?, offset, length, reservation).await?)
            }
            Operation::SetSize { slot, size, length } => Ok(self.set_size(at(slot)?, size).await.map(|()| length)?),
            Operation::Trim { .. } => Err(FsError::Unsupported("trim of a file".to_owned()).into()),
            Operation::Fsync { slot } => Ok(self.sync(at(slot)?, SyncOf::File).await?),
            Operation::Fdatasync { slot } => Ok(self.sync(at(slot)?, SyncOf::Data).await?),
            // The driver waits, not the target.
            Operation::Think(_) => Ok(0),
        }
    }
}
