//! Copies to the host, from a file system that may be crafted.
//!
//! # Invariants
//! - Nothing is written outside the target: every step uses a single name in an open directory (see `directories`).
//!   `source` has already refused names that are paths.
//! - Links, pipes and devices of the host are neither followed nor opened. A rename replaces a file or link. Nothing
//!   replaces a pipe, socket, device or directory, and no directory replaces a link.
//! - A file gets its name only when it is complete. Until then it has none (`O_TMPFILE`), or, if the file system cannot
//!   do that, the name `.onewrite-….part`.
//! - A directory is copied once, even if it has several names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use onewrite_fs::{Attributes, DeviceNumber, FileKind};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, linkat, makedev, mkdirat, mknodat, openat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::directories::{Directories, handle, identity};
use super::metadata::{Copied, ExtendedAttributes, Keep, is_root, take_back};
use super::source::{Identity, Source};
use super::{Left, Transferred, Watcher};
use crate::error::LabError;

/// Most temporary names to try.
const PARTIALS_MAX: u32 = 1000;

/// A transfer of one or more trees into one directory of the host.
pub struct CopyOut<'a, S> {
    source: &'a S,
    keep: Keep,
    watcher: &'a mut dyn Watcher,
    left: &'a mut Left,
    directories: Directories,
    /// Files with several names: directory and name of the first copy, and its identity.
    links: BTreeMap<Identity, (usize, Vec<u8>, Identity)>,
    /// Directories of the tree seen so far.
    seen: BTreeSet<Identity>,
    /// Directories whose attributes are set last, because new entries change them.
    made: Vec<(usize, Attributes, ExtendedAttributes)>,
    transferred: Transferred,
}

struct Pending<N> {
    node: N,
    directory: usize,
    name: Vec<u8>,
}

impl<'a, S: Source> CopyOut<'a, S> {
    /// A transfer from `source` into the directory `target`; links in its path are followed.
    ///
    /// # Errors
    /// If `target` is no directory or cannot be entered.
    pub fn new(
        source: &'a S,
        target: &Path,
        keep: Keep,
        watcher: &'a mut dyn Watcher,
        left: &'a mut Left,
    ) -> Result<CopyOut<'a, S>, LabError> {
        let shown = target.as_os_str().as_encoded_bytes().to_vec();
        let directories = Directories::new(target, shown)
            .map_err(|error| LabError::WriteFile { path: target.display().to_string(), message: error.to_string() })?;
        Ok(CopyOut {
            source,
            keep,
            watcher,
            left,
            directories,
            links: BTreeMap::new(),
            seen: BTreeSet::new(),
            made: Vec::new(),
            transferred: Transferred::default(),
        })
    }

    /// Copies `node` and everything below it under `name`. Merges existing directories and replaces existing files.
    /// With no `name`, the content of the directory `node` goes into the target itself.
    ///
    /// # Errors
    /// If the host's disk is full, or the watcher stops the transfer. Entries copied before are complete.
    pub async fn tree(&mut self, node: &S::Node, name: Option<&[u8]>) -> Result<Transferred, LabError> {
        (self.seen, self.transferred) = (BTreeSet::new(), Transferred::default());
        let copied = self.walk(node, name).await;
        self.finish_directories();
        copied.map(|()| self.transferred)
    }

    async fn walk(&mut self, node: &S::Node, name: Option<&[u8]>) -> Result<(), LabError> {
        let mut pending = Vec::new();
        match name {
            Some(name) => pending.push(Pending { node: node.clone(), directory: 0, name: name.to_vec() }),
            None => {
                let (attributes, identity) = self.source.attributes(node).await?;
                self.seen.insert(identity);
                self.merge(node, attributes, (0, false), &mut pending).await?;
            }
        }
        while let Some(entry) = pending.pop() {
            self.watcher.moved(0)?;
            match self.entry(&entry, &mut pending).await {
                Err(error @ (LabError::Full { .. } | LabError::Stopped)) => return Err(error),
                Err(error) => self.leave(entry.directory, &entry.name, error.to_string()),
                Ok(()) => (),
            }
        }
        Ok(())
    }

    fn leave(&mut self, directory: usize, name: &[u8], problem: String) {
        self.left.add(self.directories.paths.shown(directory, name), problem);
    }

    async fn entry(&mut self, entry: &Pending<S::Node>, pending: &mut Vec<Pending<S::Node>>) -> Result<(), LabError> {
        let (attributes, identity) = self.source.attributes(&entry.node).await?;
        if attributes.kind == FileKind::Directory {
            return self.directory(entry, (attributes, identity), pending).await;
        }
        let directory = self.open(entry.directory)?;
        let existing = replaceable(&directory, &entry.name)?;
        if let Some(first) = self.links.get(&identity).cloned() {
            self.link(&first, (&directory, &entry.name))?;
            self.transferred.others += 1;
            return Ok(());
        }
        match attributes.kind {
            FileKind::Regular => self.file(entry, &attributes, (&directory, existing)).await?,
            _ => self.node(entry, &attributes, &directory).await?,
        }
        if attributes.links > 1 {
            let made = handle(&directory, &entry.name).and_then(|made| made.metadata()).map_err(refused)?;
            self.links.insert(identity, (entry.directory, entry.name.clone(), super::directories::identity(&made)));
        }
        Ok(())
    }

    fn open(&mut self, directory: usize) -> Result<File, LabError> {
        self.directories.go(directory).and_then(File::try_clone).map_err(refused)
    }

    async fn directory(
        &mut self,
        entry: &Pending<S::Node>,
        (attributes, identity): (Attributes, Identity),
        pending: &mut Vec<Pending<S::Node>>,
    ) -> Result<(), LabError> {
        if !self.seen.insert(identity) {
            return refuse("damaged: this directory has two names; it was copied under the first; run `onewrite fsck`");
        }
        let parent = self.open(entry.directory)?;
        let permissions = attributes.permissions & 0o777;
        // With -p, nobody else may look in before the owner is set.
        let mode = if self.keep == Keep::All { 0o700 } else { permissions | 0o700 };
        let is_new = match mkdirat(&parent, &entry.name[..], Mode::from_raw_mode(mode.into())) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(refused(error.into())),
        };
        let index = self.directories.enter(entry.directory, &entry.name).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => LabError::Option(
                "on the host there is something of that name that is no directory; remove it first".into(),
            ),
            _ => refused(error),
        })?;
        self.merge(&entry.node, attributes, (index, is_new), pending).await
    }

    /// Queues the content of `node` for the directory `index`.
    async fn merge(
        &mut self,
        node: &S::Node,
        attributes: Attributes,
        (index, is_new): (usize, bool),
        pending: &mut Vec<Pending<S::Node>>,
    ) -> Result<(), LabError> {
        self.transferred.directories += 1;
        if is_new || self.keep == Keep::All {
            let extended = self.extended_attributes(node, index, b".").await;
            self.made.push((index, attributes, extended));
        }
        let entries = self.source.entries(node).await?;
        for (name, problem) in entries.wrong {
            self.leave(index, &name, problem);
        }
        for (name, node) in entries.children.into_iter().rev() {
            pending.push(Pending { node, directory: index, name });
        }
        Ok(())
    }

    async fn file(
        &mut self,
        entry: &Pending<S::Node>,
        attributes: &Attributes,
        (directory, existing): (&File, Option<Metadata>),
    ) -> Result<(), LabError> {
        let mode = match self.keep {
            Keep::Content => attributes.permissions & 0o777,
            Keep::All => 0o600,
        };
        let partial = Partial::create(directory, mode)?;
        self.content(&entry.node, &partial.file, attributes.size).await?;
        if let (Keep::Content, Some(existing)) = (self.keep, existing.filter(Metadata::is_file)) {
            // A replaced file keeps its permissions.
            let mode = (existing.mode() & 0o777) as u16;
            Copied::Open(&partial.file).set_permissions(mode).map_err(refused)?;
        }
        self.set_metadata(&Copied::Open(&partial.file), entry, attributes).await;
        partial.rename(&entry.name)?;
        self.transferred.files += 1;
        self.transferred.bytes += attributes.size;
        Ok(())
    }

    async fn content(&mut self, node: &S::Node, file: &File, size: u64) -> Result<(), LabError> {
        let mut offset = 0;
        while offset < size
            && let Some(range) = self.source.data(node, offset).await?
        {
            let (start, end) = (range.start.max(offset), range.end.min(size));
            offset = start;
            while offset < end {
                let bytes = self.source.read(node, offset..end).await?;
                if bytes.is_empty() {
                    return refuse("it ends before its size says; damaged, or changed meanwhile");
                }
                if bytes.iter().any(|byte| *byte != 0) {
                    file.write_all_at(&bytes, offset).map_err(refused)?;
                }
                offset += bytes.len() as u64;
                self.watcher.moved(bytes.len() as u64)?;
            }
            offset = offset.max(range.end);
        }
        file.set_len(size).map_err(refused)
    }

    /// Makes symbolic links, pipes, sockets and device nodes.
    async fn node(
        &mut self,
        entry: &Pending<S::Node>,
        attributes: &Attributes,
        directory: &File,
    ) -> Result<(), LabError> {
        let mode = Mode::from_raw_mode(match self.keep {
            Keep::Content => (attributes.permissions & 0o777).into(),
            Keep::All => 0o600,
        });
        let make = |name: &[u8], kind| {
            let DeviceNumber { major, minor } = attributes.device;
            mknodat(directory, name, kind, mode, makedev(major, minor))
        };
        let may_make_devices = self.keep == Keep::All && is_root();
        let partial = match attributes.kind {
            FileKind::Symlink => {
                let target = self.source.read_link(&entry.node).await?;
                partial(|name| symlinkat(&target[..], directory, name))?.0
            }
            FileKind::Fifo => partial(|name| make(name, FileType::Fifo))?.0,
            FileKind::Socket => partial(|name| make(name, FileType::Socket))?.0,
            _ if !may_make_devices => return refuse("device nodes are only made by root with -p; not copied"),
            FileKind::CharacterDevice => partial(|name| make(name, FileType::CharacterDevice))?.0,
            _ => partial(|name| make(name, FileType::BlockDevice))?.0,
        };
        self.set_metadata(&Copied::Named(directory, &partial), entry, attributes).await;
        rename(directory, &partial, &entry.name)?;
        self.transferred.others += 1;
        Ok(())
    }

    /// Makes another name of a file: finds the file by its first name, and links it by its descriptor.
    fn link(
        &mut self,
        (first_directory, first_name, first): &(usize, Vec<u8>, Identity),
        (directory, name): (&File, &[u8]),
    ) -> Result<(), LabError> {
        let home = self.open(*first_directory)?;
        let found = handle(&home, first_name).map_err(refused)?;
        if identity(&found.metadata().map_err(refused)?) != *first {
            return refuse("its first name was taken by something else meanwhile; copy again");
        }
        let (partial, ()) = partial(|name| give_name(&found, directory, name))?;
        rename(directory, &partial, name)?;
        // A rename onto another name of the same file does nothing, so the temporary name must be removed.
        let _ = unlinkat(directory, &partial[..], AtFlags::empty());
        Ok(())
    }

    async fn extended_attributes(&mut self, node: &S::Node, directory: usize, name: &[u8]) -> ExtendedAttributes {
        match self.source.extended_attributes(node).await {
            Ok(attributes) => attributes,
            Err(error) => {
                self.leave(directory, name, format!("extended attributes not kept: {error}"));
                Vec::new()
            }
        }
    }

    async fn set_metadata(&mut self, copied: &Copied<'_>, entry: &Pending<S::Node>, attributes: &Attributes) {
        let extended = self.extended_attributes(&entry.node, entry.directory, &entry.name).await;
        for problem in copied.set_metadata(self.keep, attributes, &extended) {
            self.leave(entry.directory, &entry.name, problem);
        }
    }

    fn finish_directories(&mut self) {
        for (index, attributes, extended) in std::mem::take(&mut self.made).into_iter().rev() {
            let problems = match self.directories.readable(index) {
                Err(error) => vec![format!("permissions and times not kept: {error}")],
                Ok(directory) => {
                    let problems = Copied::Open(&directory).set_metadata(self.keep, &attributes, &extended);
                    let taken = match self.keep {
                        Keep::Content => take_back(&directory, attributes.permissions),
                        Keep::All => Ok(()),
                    };
                    let lost = taken.err().map(|error| format!("permissions not kept: {error}"));
                    problems.into_iter().chain(lost).collect()
                }
            };
            for problem in problems {
                self.leave(index, b"", problem);
            }
        }
    }
}

fn refuse<T>(problem: &str) -> Result<T, LabError> {
    Err(LabError::Option(problem.to_owned()))
}

fn refused(error: io::Error) -> LabError {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | ReadOnlyFilesystem => LabError::Full {
            place: "the host's disk".into(),
            problem: format!("{error}; make room and copy again; what was copied by then is whole"),
        },
        _ => LabError::Option(format!("cannot be written: {error}")),
    }
}

/// The entry that a copy named `name` would replace; an error if it must not.
fn replaceable(directory: &File, name: &[u8]) -> Result<Option<Metadata>, LabError> {
    let metadata = match handle(directory, name).and_then(|found| found.metadata()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(refused)?,
    };
    let kind = metadata.file_type();
    if kind.is_dir() {
        return refuse("on the host there is a directory of that name");
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
        return refuse("on the host there is a pipe, socket or device of that name; remove it first");
    }
    Ok(Some(metadata))
}

/// Makes an entry under a free temporary name.
fn partial<T>(make: impl Fn(&[u8]) -> Result<T, Errno>) -> Result<(Vec<u8>, T), LabError> {
    for number in 0..PARTIALS_MAX {
        let name = format!(".onewrite-{}-{number}.part", std::process::id()).into_bytes();
        match make(&name) {
            Err(Errno::EXIST) => (),
            Err(error) => return Err(refused(error.into())),
            Ok(made) => return Ok((name, made)),
        }
    }
    refuse("the target is full of files named .onewrite-….part; remove them")
}

fn rename(directory: &File, from: &[u8], to: &[u8]) -> Result<(), LabError> {
    renameat(directory, from, directory, to).map_err(|error| {
        let _ = unlinkat(directory, from, AtFlags::empty());
        refused(error.into())
    })
}

/// Gives an open file one more name.
fn give_name(file: &File, directory: &File, name: &[u8]) -> Result<(), Errno> {
    linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), directory, name, AtFlags::SYMLINK_FOLLOW)
}

/// A file that is not complete yet; it is removed unless it gets a name.
struct Partial {
    directory: File,
    /// Its temporary name; `None` if it has none.
    name: Option<Vec<u8>>,
    file: File,
}

impl Partial {
    fn create(directory: &File, mode: u16) -> Result<Partial, LabError> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode.into());
        let (name, file) = match openat(directory, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => (None, file),
            // The file system or an old kernel has no files without a name. For any other error the second attempt
            // fails too.
            Err(_) => {
                let (name, file) =
                    partial(|name| openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode))?;
                (Some(name), file)
            }
        };
        Ok(Partial { directory: directory.try_clone().map_err(refused)?, name, file: File::from(file) })
    }

    fn rename(mut self, name: &[u8]) -> Result<(), LabError> {
        let partial = match self.name.take() {
            Some(partial) => partial,
            None => match give_name(&self.file, &self.directory, name) {
                Err(Errno::EXIST) => partial(|name| give_name(&self.file, &self.directory, name))?.0,
                named => return named.map_err(|error| refused(error.into())),
            },
        };
        rename(&self.directory, &partial, name)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // It may be gone already; the caller reports the first error.
            let _ = unlinkat(&self.directory, &name[..], AtFlags::empty());
        }
    }
}
