//! Copies into a file system, from the host or another file system.
//!
//! Kept are kinds, all permission bits, owners, times, extended attributes, access control lists, holes and hard links,
//! also hard links between several trees of one transfer.
//!
//! # Invariants
//! - A file gets its name only when it is complete: it is written as `.onewrite.part` in its directory, then renamed.
//!   The file that it replaces stays until then. A target that nobody can mount before the transfer ends
//!   ([`CopyIn::unfinished`]) has no need of that.
//! - A directory is copied once, and never into itself.
//! - A problem with one entry does not stop the others; a problem with the target ends the transfer.

use std::collections::{BTreeMap, BTreeSet};

use onewrite_fs::{
    AttributeChanges, AttributeManner, Attributes, Content, FileKind, FileSystem, FsError, FsResult, Ino, Manner,
    NewNode, Position, RenameManner,
};

use super::paths::Paths;
use super::source::{Identity, Source};
use super::{Left, Transferred, Watcher};
use crate::error::LabError;

/// Temporary name of a file until it is complete; if it is taken, a number is added.
const PARTIAL: &[u8] = b".onewrite.part";
const PARTIALS_MAX: u32 = 1000;
const BLOCK: u64 = 4096;

/// Where the source of a transfer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file system that is copied into.
    Target,
    /// On the host or in another file system.
    Elsewhere,
}

/// A transfer of one or more trees into `fs`.
pub struct CopyIn<'a, F, S> {
    fs: &'a F,
    source: &'a S,
    origin: Origin,
    /// Whether nobody can mount the target before the transfer ends.
    is_unfinished: bool,
    watcher: &'a mut dyn Watcher,
    left: &'a mut Left,
    /// Inodes in `fs` of the files with several names.
    links: BTreeMap<Identity, Ino>,
    /// Directories of the tree seen so far.
    seen: BTreeSet<Identity>,
    /// Directories made in `fs`; they are not copied themselves.
    own: BTreeSet<Identity>,
    /// Directories made or merged into. Their times are set last, because new entries change them.
    made: Vec<(Ino, Attributes)>,
    paths: Paths,
    transferred: Transferred,
}

/// An entry still to be copied.
struct Pending<N> {
    /// Its source: directory in [`Paths`] and name.
    from: (usize, Vec<u8>),
    node: N,
    /// Its target: directory and name.
    to: (Ino, Vec<u8>),
}

impl<'a, F: FileSystem, S: Source> CopyIn<'a, F, S> {
    /// A transfer from `source` into `fs`.
    pub fn new(
        (fs, source, origin): (&'a F, &'a S, Origin),
        watcher: &'a mut dyn Watcher,
        left: &'a mut Left,
    ) -> CopyIn<'a, F, S> {
        CopyIn {
            fs,
            source,
            origin,
            is_unfinished: false,
            watcher,
            left,
            links: BTreeMap::new(),
            seen: BTreeSet::new(),
            own: BTreeSet::new(),
            made: Vec::new(),
            paths: Paths::new(Vec::new()),
            transferred: Transferred::default(),
        }
    }

    /// The same for a target that nobody can mount unless the transfer succeeds: files get their names at once.
    pub fn unfinished(self) -> CopyIn<'a, F, S> {
        CopyIn { is_unfinished: true, ..self }
    }

    /// Copies `node`, shown as `shown`, and everything below it into `directory` under `name`. Merges existing
    /// directories and replaces existing files. With no `name`, `node` is a directory; its content and attributes go to
    /// `directory` itself.
    ///
    /// # Errors
    /// If the target is full or fails, or the watcher stops the transfer. Entries copied before are complete.
    pub async fn tree(
        &mut self,
        node: &S::Node,
        shown: &[u8],
        directory: Ino,
        name: Option<&[u8]>,
    ) -> Result<Transferred, LabError> {
        self.paths = Paths::new(Vec::new());
        (self.seen, self.transferred) = (BTreeSet::new(), Transferred::default());
        let copied = self.walk(node, shown, directory, name).await;
        let finished = self.finish_directories().await;
        copied?;
        finished?;
        Ok(self.transferred)
    }

    async fn walk(
        &mut self,
        node: &S::Node,
        shown: &[u8],
        directory: Ino,
        name: Option<&[u8]>,
    ) -> Result<(), LabError> {
        let mut pending = Vec::new();
        let from = (0, shown.to_vec());
        match name {
            Some(name) => pending.push(Pending { from, node: node.clone(), to: (directory, name.to_vec()) }),
            None => {
                let (attributes, identity) = self.source.attributes(node).await?;
                self.seen.insert(identity);
                let whole = Pending { from, node: node.clone(), to: (directory, Vec::new()) };
                self.merge(&whole, attributes, directory, &mut pending).await?;
            }
        }
        while let Some(entry) = pending.pop() {
            self.watcher.moved(0)?;
            match self.entry(&entry, &mut pending).await {
                Err(LabError::Fs(FsError::NoSpace { what, .. })) => {
                    pending.push(entry);
                    return Err(self.full(what, pending).await);
                }
                Err(error) if ends_all(&error) => return Err(error),
                Err(error) => self.leave(&entry, error.to_string()),
                Ok(()) => (),
            }
        }
        Ok(())
    }

    fn leave(&mut self, entry: &Pending<S::Node>, problem: String) {
        self.left.add(self.paths.shown(entry.from.0, &entry.from.1), problem);
    }

    async fn entry(&mut self, entry: &Pending<S::Node>, pending: &mut Vec<Pending<S::Node>>) -> Result<(), LabError> {
        let (attributes, identity) = self.source.attributes(&entry.node).await?;
        let existing = self.existing(entry.to.0, &entry.to.1).await?;
        if attributes.kind == FileKind::Directory {
            return self.directory(entry, (attributes, identity), existing, pending).await;
        }
        match existing {
            Some((ino, _)) if self.origin == Origin::Target && (0, ino.0) == identity => {
                return refuse("it is the same file");
            }
            Some((_, FileKind::Directory)) => return refuse("there is a directory of that name in the target"),
            _ => (),
        }
        if let Some(&known) = self.links.get(&identity) {
            self.link(known, &entry.to, existing).await?;
            self.transferred.others += 1;
            return Ok(());
        }
        let ino = self.node(entry, &attributes).await?;
        match attributes.kind {
            FileKind::Regular => self.transferred.files += 1,
            _ => self.transferred.others += 1,
        }
        if attributes.links > 1 {
            self.links.insert(identity, ino);
        }
        Ok(())
    }

    /// Inode and kind of the entry with a name in the target. In a directory that this transfer made there is none, for
    /// no name comes twice.
    async fn existing(&self, directory: Ino, name: &[u8]) -> FsResult<Option<(Ino, FileKind)>> {
        if self.is_unfinished && self.own.contains(&(0, directory.0)) {
            return Ok(None);
        }
        match self.fs.lookup(directory, name).await {
            Ok(ino) => Ok(Some((ino, self.fs.attributes(ino).await?.kind))),
            Err(FsError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn directory(
        &mut self,
        entry: &Pending<S::Node>,
        (attributes, identity): (Attributes, Identity),
        existing: Option<(Ino, FileKind)>,
        pending: &mut Vec<Pending<S::Node>>,
    ) -> Result<(), LabError> {
        if !self.seen.insert(identity) {
            return refuse("damaged: this directory has two names; it was copied under the first; run `onewrite fsck`");
        }
        if self.origin == Origin::Target && self.own.contains(&identity) {
            return refuse("a directory is not copied into itself");
        }
        let ino = match existing {
            None => {
                let ino = self.fs.create(entry.to.0, &entry.to.1, node_of(&attributes)).await?;
                self.own.insert((0, ino.0));
                ino
            }
            Some((ino, FileKind::Directory)) if self.origin == Origin::Elsewhere || (0, ino.0) != identity => ino,
            Some((_, FileKind::Directory)) => return refuse("it is the same directory"),
            Some(_) => return refuse("in the target there is something of that name that is no directory"),
        };
        self.merge(entry, attributes, ino, pending).await
    }

    /// Queues the content of `entry` for the directory `ino`.
    async fn merge(
        &mut self,
        entry: &Pending<S::Node>,
        attributes: Attributes,
        ino: Ino,
        pending: &mut Vec<Pending<S::Node>>,
    ) -> Result<(), LabError> {
        self.transferred.directories += 1;
        self.made.push((ino, attributes));
        let from = self.paths.add(entry.from.0, &entry.from.1);
        self.extended_attributes(entry, ino).await?;
        let entries = self.source.entries(&entry.node).await?;
        for (name, problem) in entries.wrong {
            self.left.add(self.paths.shown(from, &name), problem);
        }
        for (name, node) in entries.children.into_iter().rev() {
            pending.push(Pending { from: (from, name.clone()), node, to: (ino, name) });
        }
        Ok(())
    }

    /// Makes a complete entry that is no directory, and then gives it its name.
    async fn node(&mut self, entry: &Pending<S::Node>, attributes: &Attributes) -> Result<Ino, LabError> {
        let (directory, name) = (entry.to.0, &entry.to.1[..]);
        let first = if self.is_unfinished { name } else { PARTIAL };
        let (partial, ino) = match attributes.kind {
            FileKind::Symlink => {
                let target = self.source.read_link(&entry.node).await?;
                partial(first, async |partial| self.fs.symlink(directory, partial, &target).await).await?
            }
            _ => {
                let new = node_of(attributes);
                partial(first, async |partial| self.fs.create(directory, partial, new).await).await?
            }
        };
        let filled = self.fill(entry, attributes, ino).await;
        let named = match filled {
            Ok(()) if partial == name => Ok(()),
            Ok(()) => Ok(self.fs.rename((directory, &partial), (directory, name), RenameManner::Replace).await?),
            Err(error) => Err(error),
        };
        if named.is_err() {
            self.fs.unlink(directory, &partial).await?;
        }
        named.map(|()| ino)
    }

    async fn fill(&mut self, entry: &Pending<S::Node>, attributes: &Attributes, ino: Ino) -> Result<(), LabError> {
        if attributes.kind == FileKind::Regular {
            self.content(&entry.node, attributes.size, ino).await?;
        }
        self.extended_attributes(entry, ino).await?;
        Ok(self.fs.set_attributes(ino, changes(attributes)).await?)
    }

    async fn content(&mut self, node: &S::Node, size: u64, ino: Ino) -> Result<(), LabError> {
        let (mut offset, mut size, mut written) = (0, size, 0);
        while let Some(range) = self.source.data(node, offset).await? {
            offset = range.start;
            while offset < range.end {
                let bytes = self.source.read(node, offset..range.end).await?;
                if bytes.is_empty() {
                    break;
                }
                if bytes.iter().any(|byte| *byte != 0) {
                    self.fs.write(ino, Position::At(offset), Content::Bytes(&bytes), Manner::default()).await?;
                    written = offset + bytes.len() as u64;
                }
                offset += bytes.len() as u64;
                self.watcher.moved(bytes.len() as u64)?;
            }
            if offset < range.end {
                // The file was truncated while it was read.
                size = offset;
                break;
            }
            size = size.max(offset);
        }
        if size != written {
            let size = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
            self.fs.set_attributes(ino, size).await?;
        }
        self.transferred.bytes += size;
        Ok(())
    }

    async fn extended_attributes(&mut self, entry: &Pending<S::Node>, ino: Ino) -> Result<(), LabError> {
        let attributes = match self.source.extended_attributes(&entry.node).await {
            Ok(attributes) => attributes,
            Err(error) => {
                self.leave(entry, format!("extended attributes not kept: {error}"));
                return Ok(());
            }
        };
        for (name, value) in attributes {
            match self.fs.set_extended_attribute(ino, &name, Some(&value), AttributeManner::Either).await {
                Err(error @ (FsError::Device(_) | FsError::ReadOnly(_) | FsError::Damaged { .. })) => {
                    return Err(error.into());
                }
                Err(error) => {
                    let name = String::from_utf8_lossy(&name);
                    self.leave(entry, format!("extended attribute `{name}` not kept: {error}"));
                }
                Ok(()) => (),
            }
        }
        Ok(())
    }

    async fn link(
        &mut self,
        known: Ino,
        (directory, name): &(Ino, Vec<u8>),
        existing: Option<(Ino, FileKind)>,
    ) -> Result<(), LabError> {
        match existing {
            None => Ok(self.fs.link(known, *directory, name).await?),
            Some((ino, _)) if ino == known => Ok(()),
            Some(_) => {
                let make = async |partial: &[u8]| self.fs.link(known, *directory, partial).await.map(|()| known);
                let (partial, _) = partial(PARTIAL, make).await?;
                Ok(self.fs.rename((*directory, &partial), (*directory, name), RenameManner::Replace).await?)
            }
        }
    }

    async fn finish_directories(&mut self) -> FsResult<()> {
        for (ino, attributes) in std::mem::take(&mut self.made).into_iter().rev() {
            self.fs.set_attributes(ino, changes(&attributes)).await?;
        }
        Ok(())
    }

    /// The target is full: computes how much is missing for all pending entries.
    async fn full(&mut self, what: &'static str, mut pending: Vec<Pending<S::Node>>) -> LabError {
        let (mut place, mut needed) = (String::new(), 0);
        while let Some(entry) = pending.pop() {
            if place.is_empty() {
                let path = self.paths.shown(entry.from.0, &entry.from.1);
                place = String::from_utf8_lossy(&path).into_owned();
            }
            let Ok((attributes, identity)) = self.source.attributes(&entry.node).await else { continue };
            needed += BLOCK * u64::from(attributes.kind == FileKind::Directory);
            match attributes.kind {
                FileKind::Regular => {
                    needed += attributes.size.min(attributes.sectors.saturating_mul(512)).next_multiple_of(BLOCK);
                }
                FileKind::Directory if self.seen.insert(identity) => {
                    let Ok(entries) = self.source.entries(&entry.node).await else { continue };
                    let children = entries.children.into_iter();
                    pending.extend(children.map(|(name, node)| Pending {
                        from: (0, name),
                        node,
                        to: entry.to.clone(),
                    }));
                }
                _ => (),
            }
        }
        // Syncs first, because removed blocks become free only with a commit.
        let free = match self.fs.sync().await {
            Ok(()) => self.fs.space().await.map_or(0, |space| space.blocks_free * BLOCK),
            Err(_) => 0,
        };
        let kib = |bytes: u64| bytes.div_ceil(1024);
        let missing = match what {
            "blocks" => format!("{} KiB are missing", kib(needed.saturating_sub(free).max(BLOCK))),
            _ => format!("no {what} are left"),
        };
        LabError::Full {
            place,
            problem: format!(
                "the image is full: {missing} ({} KiB still to copy, {} KiB free); remove something (`onewrite rm`) or \
                 make a larger image (`onewrite mkfs --size`), then copy again; what was copied by then is whole",
                kib(needed),
                kib(free)
            ),
        }
    }
}

/// Makes an entry under the name `first`, or a free temporary one.
async fn partial(first: &[u8], make: impl AsyncFn(&[u8]) -> FsResult<Ino>) -> FsResult<(Vec<u8>, Ino)> {
    let mut name = first.to_vec();
    for number in 1..PARTIALS_MAX {
        match make(&name).await {
            Err(FsError::Exists(_)) => name = [PARTIAL, number.to_string().as_bytes()].concat(),
            other => return other.map(|ino| (name, ino)),
        }
    }
    Err(FsError::Exists(String::from_utf8_lossy(&name).into_owned()))
}

fn refuse<T>(problem: &str) -> Result<T, LabError> {
    Err(LabError::Option(problem.to_owned()))
}

/// Whether the error also prevents all further copies.
fn ends_all(error: &LabError) -> bool {
    match error {
        LabError::Fs(FsError::Device(_) | FsError::ReadOnly(_) | FsError::Damaged { .. }) => true,
        LabError::Fs(_) | LabError::ReadFile { .. } | LabError::WriteFile { .. } | LabError::Option(_) => false,
        _ => true,
    }
}

fn node_of(attributes: &Attributes) -> NewNode {
    let &Attributes { kind, permissions, uid, gid, device, .. } = attributes;
    NewNode { kind, permissions, uid, gid, device }
}

fn changes(attributes: &Attributes) -> AttributeChanges {
    AttributeChanges {
        permissions: (attributes.kind != FileKind::Symlink).then_some(attributes.permissions),
        uid: Some(attributes.uid),
        gid: Some(attributes.gid),
        size: None,
        accessed: Some(attributes.accessed),
        modified: Some(attributes.modified),
    }
}
