//! Source: where a transfer copies from: a tree of the host or of a file system.
//!
//! A source may be crafted, so nothing that it says of itself is trusted. Names that no file can have are sorted out
//! here, before anybody uses them as paths.

use std::ops::Range;

use onewrite_fs::{Attributes, FileView, FsError, Ino, Manner, SeekTarget};

use super::CHUNK;
use crate::error::LabError;

/// Device and inode; equal for two names of one file.
pub type Identity = (u64, u64);

/// A tree that can be copied.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Source {
    /// Refers to an entry.
    type Node: Clone;

    /// Attributes and identity of an entry.
    async fn attributes(&self, node: &Self::Node) -> Result<(Attributes, Identity), LabError>;

    /// Entries of a directory.
    async fn entries(&self, directory: &Self::Node) -> Result<Entries<Self::Node>, LabError>;

    /// Target of a symbolic link.
    async fn read_link(&self, node: &Self::Node) -> Result<Vec<u8>, LabError>;

    /// Names and values of the extended attributes.
    async fn extended_attributes(&self, node: &Self::Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>, LabError>;

    /// The first range of data at or after `offset`; `None` if only holes follow.
    async fn data(&self, node: &Self::Node, offset: u64) -> Result<Option<Range<u64>>, LabError>;

    /// Up to [`CHUNK`] bytes of `range`; empty at the end of the file.
    async fn read(&self, node: &Self::Node, range: Range<u64>) -> Result<Vec<u8>, LabError>;
}

/// The content of a directory.
#[derive(Debug)]
pub struct Entries<N> {
    /// Entries by name, each name once.
    pub children: Vec<(Vec<u8>, N)>,
    /// Entries that cannot be copied, and why.
    pub wrong: Vec<(Vec<u8>, String)>,
}

/// Why `name` cannot be the name of a file; `None` if it can.
pub(crate) fn name_problem(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("it has no name"),
        b"." | b".." => Some("a second entry `.` or `..`"),
        _ if name.contains(&b'/') => Some("its name holds a slash"),
        _ if name.contains(&0) => Some("its name holds a zero byte"),
        _ => None,
    }
}

/// The tree of a file system.
#[derive(Debug)]
pub struct Tree<'a, F>(pub &'a F);

fn unreadable(ino: Ino) -> impl Fn(FsError) -> LabError {
    move |error| LabError::ReadFile { path: ino.to_string(), message: error.to_string() }
}

impl<F: FileView> Source for Tree<'_, F> {
    type Node = Ino;

    async fn attributes(&self, node: &Ino) -> Result<(Attributes, Identity), LabError> {
        let attributes = self.0.attributes(*node).await.map_err(unreadable(*node))?;
        Ok((attributes, (0, node.0)))
    }

    async fn entries(&self, directory: &Ino) -> Result<Entries<Ino>, LabError> {
        let (mut children, mut wrong): (Vec<(Vec<u8>, Ino)>, Vec<_>) = (Vec::new(), Vec::new());
        let (mut cursor, mut dots) = (0, 0);
        loop {
            let part = match self.0.read_directory(*directory, cursor).await {
                Ok(part) => part,
                Err(error) => {
                    wrong.push((Vec::new(), format!("the directory is not readable to its end: {error}")));
                    break;
                }
            };
            let Some(last) = part.last() else { break };
            cursor = last.next;
            for entry in part {
                match name_problem(&entry.name) {
                    // The directory's own `.` and `..`.
                    Some(_) if dots < 2 && matches!(&entry.name[..], b"." | b"..") => dots += 1,
                    Some(problem) => wrong.push((entry.name, damage(problem))),
                    None => children.push((entry.name, entry.ino)),
                }
            }
        }
        children.sort();
        children.dedup_by(|next, kept| {
            let is_double = next.0 == kept.0;
            if is_double {
                wrong.push((next.0.clone(), damage("a second entry of that name")));
            }
            is_double
        });
        Ok(Entries { children, wrong })
    }

    async fn read_link(&self, node: &Ino) -> Result<Vec<u8>, LabError> {
        self.0.read_link(*node).await.map_err(unreadable(*node))
    }

    async fn extended_attributes(&self, node: &Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>, LabError> {
        let mut attributes = Vec::new();
        for name in self.0.extended_attributes(*node).await.map_err(unreadable(*node))? {
            let value = self.0.extended_attribute(*node, &name).await.map_err(unreadable(*node))?;
            attributes.push((name, value));
        }
        Ok(attributes)
    }

    async fn data(&self, node: &Ino, offset: u64) -> Result<Option<Range<u64>>, LabError> {
        let start = match self.0.seek(*node, offset, SeekTarget::Data).await {
            Err(FsError::BeyondEnd(_)) => return Ok(None),
            other => other.map_err(unreadable(*node))?,
        };
        let end = self.0.seek(*node, start, SeekTarget::Hole).await.map_err(unreadable(*node))?;
        Ok(Some(start..end))
    }

    async fn read(&self, node: &Ino, range: Range<u64>) -> Result<Vec<u8>, LabError> {
        let length = (range.end - range.start).min(CHUNK as u64);
        let data = self.0.read(*node, range.start, length, Manner::default()).await;
        Ok(data.map_err(unreadable(*node))?.to_vec())
    }
}

fn damage(problem: &str) -> String {
    format!("damaged directory: {problem}; not copied; run `onewrite fsck`")
}
