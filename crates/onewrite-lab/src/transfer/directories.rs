//! Directories: positions in a tree of the host, reached only by descriptors and single names.
//!
//! One directory is open at a time. The way to another one goes through `..` or down from the top. No link is followed,
//! and each directory must be the same as before, by device and inode. So nobody can redirect the way out of the tree,
//! the tree may be deeper than a path may be long, and one descriptor is enough.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::paths::Paths;
use super::source::Identity;

/// Flags to open a directory only to pass through it.
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The directories seen so far, and the open one.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) paths: Paths,
    identities: Vec<Identity>,
    top: File,
    at: usize,
    open: File,
}

pub(super) fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Opens `name` in `directory` itself, without following a link and without waking a pipe or device.
pub(super) fn handle(directory: &File, name: &[u8]) -> io::Result<File> {
    open(directory, name, OFlags::PATH | OFlags::NOFOLLOW)
}

/// Opens `name` in `directory` without following a link.
pub(super) fn open(directory: &File, name: &[u8], flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, name, flags, Mode::empty())?))
}

impl Directories {
    /// The tree whose top is `path`; links in that path are followed.
    pub(super) fn new(path: &Path, shown: Vec<u8>) -> io::Result<Directories> {
        let top = File::from(openat(CWD, path, PASS, Mode::empty())?);
        let identities = vec![identity(&top.metadata()?)];
        Ok(Directories { paths: Paths::new(shown), identities, at: 0, open: top.try_clone()?, top })
    }

    /// Enters a directory in another one, which is open afterwards; returns its index.
    pub(super) fn enter(&mut self, parent: usize, name: &[u8]) -> io::Result<usize> {
        let found = open(self.go(parent)?, name, PASS)?;
        self.identities.push(identity(&found.metadata()?));
        self.at = self.paths.add(parent, name);
        self.open = found;
        Ok(self.at)
    }

    /// Opens the directory to pass through it.
    pub(super) fn go(&mut self, to: usize) -> io::Result<&File> {
        let common = self.paths.common(self.at, to);
        if self.climb_to(common).is_err() {
            (self.at, self.open) = (0, self.top.try_clone()?);
        }
        let mut way = vec![to];
        while let Some(&last) = way.last().filter(|last| **last != self.at) {
            way.push(self.paths.parent(last));
        }
        for index in way.into_iter().rev().skip(1) {
            let next = open(&self.open, self.paths.name(index), PASS)?;
            self.arrive(next, index)?;
        }
        Ok(&self.open)
    }

    /// Opens the directory for reading and for changes of its own attributes.
    pub(super) fn readable(&mut self, index: usize) -> io::Result<File> {
        open(self.go(index)?, b".", OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn climb_to(&mut self, ancestor: usize) -> io::Result<()> {
        while self.at != ancestor {
            let parent = self.paths.parent(self.at);
            let next = open(&self.open, b"..", PASS)?;
            self.arrive(next, parent)?;
        }
        Ok(())
    }

    fn arrive(&mut self, found: File, index: usize) -> io::Result<()> {
        if identity(&found.metadata()?) != self.identities[index] {
            return Err(io::Error::other("somebody moved the directory meanwhile; copy again"));
        }
        (self.at, self.open) = (index, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_leads_through_a_tree_and_never_over_links() {
        let top = std::env::temp_dir().join(format!("onewrite-directories-{}", std::process::id()));
        std::fs::create_dir_all(top.join("a/b/c")).unwrap();
        std::fs::create_dir_all(top.join("d")).unwrap();
        std::os::unix::fs::symlink("d", top.join("link")).unwrap();
        let mut tree = Directories::new(&top, Vec::new()).unwrap();
        let a = tree.enter(0, b"a").unwrap();
        let b = tree.enter(a, b"b").unwrap();
        let c = tree.enter(b, b"c").unwrap();
        let d = tree.enter(0, b"d").unwrap();
        for index in [c, d, a, c, b, 0, c] {
            let found = identity(&tree.go(index).unwrap().metadata().unwrap());
            assert_eq!(found, tree.identities[index]);
        }
        assert!(tree.enter(0, b"link").is_err());
        std::fs::rename(top.join("a/b"), top.join("d/b")).unwrap();
        std::fs::create_dir_all(top.join("a/b/c")).unwrap();
        tree.go(d).unwrap();
        assert!(tree.go(c).unwrap_err().to_string().contains("moved"));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
