//! Directories of a view. A name is looked up in its bucket of each level; a listing reads all blocks in order, and
//! leaves damaged names out.
//!
//! A cursor is 214 times the block plus the slot behind the last returned name; in a directory inside its inode the
//! slot alone.

use super::F2fsView;
use crate::api::{DirectoryEntry, FileKind, FsError, FsResult, Ino};
use crate::f2fs::format::dentry::{self, BLOCK_SLOTS, Entry, Shape};
use crate::f2fs::format::hash::name_hash;
use crate::f2fs::format::{FormatError, Inode, Place};

const SLOTS: u64 = BLOCK_SLOTS as u64;

fn expect_directory(inode: &Inode) -> FsResult<()> {
    match inode.kind {
        FileKind::Directory => Ok(()),
        _ => Err(FsError::NotDirectory(format!("inode {}", inode.number))),
    }
}

impl F2fsView {
    /// The inode that `name` refers to.
    pub(super) async fn name_in(&self, directory: &Inode, name: &[u8]) -> FsResult<Ino> {
        expect_directory(directory)?;
        let is_it = |entry: &Entry<'_>| entry.name == name;
        if directory.is_inline_dentry() {
            let bytes = directory.inline_bytes();
            let place = Place::Inode(directory.number);
            let found = dentry::entries(bytes, Shape::inline(bytes.len()), place, 0).flatten().find(is_it);
            return found.map(|entry| entry.ino.into()).ok_or_else(|| not_found(name));
        }
        let hash = name_hash(name);
        let blocks = directory.raw.i_size.get().div_ceil(4096);
        for level in 0..directory.raw.i_current_depth.get() {
            let bucket = dentry::bucket(level, directory.raw.i_dir_level, hash);
            if bucket.start >= blocks {
                break;
            }
            for logical in bucket {
                let Some(page) = self.file_block(directory, logical).await? else { continue };
                let place = Place::FileBlock { inode: directory.number, logical };
                if let Some(entry) = dentry::entries(&page.bytes()[..], Shape::BLOCK, place, 0).flatten().find(is_it) {
                    return Ok(entry.ino.into());
                }
            }
        }
        Err(not_found(name))
    }

    /// Some names from `cursor` on; none at the end.
    pub(super) async fn names(&self, directory: &Inode, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        expect_directory(directory)?;
        if directory.is_inline_dentry() {
            let bytes = directory.inline_bytes();
            let (shape, place) = (Shape::inline(bytes.len()), Place::Inode(directory.number));
            return Ok(self.sound(dentry::entries(bytes, shape, place, cursor.min(SLOTS) as usize), 0));
        }
        let blocks = directory.raw.i_size.get().div_ceil(4096);
        let (mut logical, mut from) = (cursor / SLOTS, (cursor % SLOTS) as usize);
        while logical < blocks {
            let run = self.map(directory, logical).await?;
            if !run.is_data() {
                (logical, from) = (logical + run.count, 0);
                continue;
            }
            let page = self.file_block(directory, logical).await?.expect("the map says so");
            let place = Place::FileBlock { inode: directory.number, logical };
            let bytes = page.bytes();
            let in_bucket = dentry::entries(&bytes[..], Shape::BLOCK, place, from)
                .map(|entry| entry?.in_its_bucket(place, directory.raw.i_dir_level, logical));
            let names = self.sound(in_bucket, logical * SLOTS);
            if !names.is_empty() {
                return Ok(names);
            }
            (logical, from) = (logical + 1, 0);
        }
        Ok(Vec::new())
    }

    /// The sound ones of one block's names; `start` is the cursor of its first slot. The others are one loss.
    fn sound<'a>(
        &self,
        entries: impl Iterator<Item = Result<Entry<'a>, FormatError>>,
        start: u64,
    ) -> Vec<DirectoryEntry> {
        let (mut names, mut bad) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Ok(entry) => names.push(entry.listed(start)),
                Err(error) => bad.push(error),
            }
        }
        match bad.as_slice() {
            [] => (),
            [one] => self.losses.borrow_mut().note(one.to_string()),
            [first, more @ ..] => self.losses.borrow_mut().note(format!("{first}; and {} more names", more.len())),
        }
        names
    }
}

fn not_found(name: &[u8]) -> FsError {
    FsError::NotFound(String::from_utf8_lossy(name).into_owned())
}
