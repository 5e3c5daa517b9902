//! Directories of a view. Reads each directory from start to end without its hash tree, so a damaged tree hides
//! nothing.
//!
//! A cursor is the byte behind the last returned record. In a directory inside its inode it is the number of returned
//! entries.

use super::ImageView;
use super::files::File;
use super::run::Run;
use crate::api::{DirectoryEntry, FileKind, FsError, FsResult};
use crate::ext4::format::directory::{Entries, block};
use crate::ext4::format::inode::flags;
use crate::ext4::format::{InodeNo, Place, ROOT_INODE};

/// Bytes of the parent's number in a directory inside its inode.
const PARENT: usize = 4;
/// Bytes of the first part of such a directory.
const FIRST_PART: usize = 60;

impl ImageView {
    /// Some entries of `directory` from `cursor` on; none at the end.
    pub(super) async fn entries_from(&self, directory: &File, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        directory.expect_directory()?;
        directory.expect_plain()?;
        if let Some(made_up) = self.made_up_root.as_ref().filter(|_| directory.number == ROOT_INODE) {
            return Ok(made_up.iter().skip(usize::try_from(cursor).unwrap_or(usize::MAX)).cloned().collect());
        }
        let mut entries = match directory.is_inline() {
            true => self.inline_entries(directory, cursor)?,
            false => self.entries_in_blocks(directory, cursor).await?,
        };
        for entry in &mut entries {
            self.find_kind(entry).await?;
        }
        Ok(entries)
    }

    /// As [`ImageView::entries_from`]. A rescue leaves out names of unusable inodes and notes the losses.
    pub(super) async fn usable_entries(&self, directory: &File, mut cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        loop {
            let entries = self.entries_from(directory, cursor).await?;
            let Some(last) = entries.last() else { return Ok(entries) };
            cursor = last.next;
            if !self.options.is_rescue {
                return Ok(entries);
            }
            let mut usable = Vec::with_capacity(entries.len());
            for entry in entries {
                if self.is_usable(directory, &entry).await? {
                    usable.push(entry);
                }
            }
            if !usable.is_empty() {
                return Ok(usable);
            }
        }
    }

    async fn is_usable(&self, directory: &File, entry: &DirectoryEntry) -> FsResult<bool> {
        let what = || {
            let name = String::from_utf8_lossy(&entry.name).escape_debug().to_string();
            format!("`{name}` in directory inode {}", directory.number)
        };
        let usable = match self.file(entry.ino).await {
            Ok(file) => file.expect_plain(),
            Err(error) => Err(error),
        };
        match usable {
            Err(error) if self.is_lost(&error, what) => Ok(false),
            other => other.map(|()| true),
        }
    }

    async fn find_kind(&self, entry: &mut DirectoryEntry) -> FsResult<()> {
        if entry.kind == FileKind::Regular && !self.keeps_kinds() {
            entry.kind = self.file(entry.ino).await.map_or(FileKind::Regular, |file| file.kind);
        }
        Ok(())
    }

    async fn entries_in_blocks(&self, directory: &File, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let size = self.block_size();
        let mut blocks = directory.size.div_ceil(size);
        if blocks > self.layout.block_count {
            let problem = format!("a directory of {blocks} blocks, more than the image has");
            let error = FsError::Damaged { place: format!("inode {}", directory.number), problem };
            if !self.is_lost(&error, || format!("inode {}: its end", directory.number)) {
                return Err(error);
            }
            blocks = self.layout.block_count;
        }
        let (mut logical, mut skip) = (cursor / size, (cursor % size) as usize);
        while logical < blocks {
            let what = || format!("directory inode {}, block {logical}", directory.number);
            match self.entries_in_block(directory, logical, skip).await {
                Ok(Ok(entries)) if entries.is_empty() => logical += 1,
                Ok(Ok(entries)) => return Ok(entries),
                Ok(Err(hole)) => {
                    let place = format!("directory inode {}, block {logical}", directory.number);
                    let error = FsError::Damaged { place, problem: "is a hole".into() };
                    if !self.is_lost(&error, what) {
                        return Err(error);
                    }
                    logical = logical.saturating_add(hole);
                }
                Err(error) if self.is_lost(&error, what) => logical += 1,
                Err(error) => return Err(error),
            }
            skip = 0;
        }
        Ok(Vec::new())
    }

    /// The used records of one block from byte `skip` on; or the length of the hole in its place, in blocks.
    async fn entries_in_block(
        &self,
        directory: &File,
        logical: u64,
        skip: usize,
    ) -> FsResult<Result<Vec<DirectoryEntry>, u64>> {
        let home = match self.map(directory, logical).await? {
            Run::Data { block, .. } => block,
            Run::Zeros { count } => return Ok(Err(count)),
        };
        let bytes = self.blocks.block(home).await?;
        let place = Place::FileBlock { inode: directory.number, logical: logical as u32 };
        if !self.options.is_rescue && !is_index(directory, logical, &bytes) {
            let seed = self.layout.inode_seed(directory.number, directory.inode.generation);
            block::verify_checksum(&bytes, seed, &self.layout, place)?;
        }
        let start = logical * self.block_size();
        self.used_records(directory, &bytes, place, |offset| start + offset as u64).map(|mut entries| {
            entries.retain(|entry| entry.next > start + skip as u64);
            Ok(entries)
        })
    }

    /// The used records of `bytes`; `next` turns the end of each into a cursor.
    fn used_records(
        &self,
        directory: &File,
        bytes: &[u8],
        place: Place,
        next: impl Fn(usize) -> u64,
    ) -> FsResult<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in Entries::new(bytes, place) {
            let entry = match entry.map_err(FsError::from) {
                Err(error) if self.is_lost(&error, || format!("directory inode {}: names", directory.number)) => break,
                other => other?,
            };
            if !entry.is_used() {
                continue;
            }
            if entry.name.is_empty() {
                let problem = format!("the record at offset {} names inode {} by nothing", entry.offset, entry.inode);
                let error = FsError::Damaged { place: place.to_string(), problem };
                match self.is_lost(&error, || format!("directory inode {}: a name", directory.number)) {
                    true => continue,
                    false => return Err(error),
                }
            }
            entries.push(DirectoryEntry {
                name: entry.name.to_vec(),
                ino: entry.inode.into(),
                kind: FileKind::from_entry_byte(entry.kind).unwrap_or(FileKind::Regular),
                next: next(entry.offset + entry.record_length),
            });
        }
        Ok(entries)
    }

    /// Entries of a directory inside its inode: the parent's number, records, and more records in an attribute.
    fn inline_entries(&self, directory: &File, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let bytes = self.inline_content(directory)?;
        let place = Place::Inode(directory.number);
        let first_end = FIRST_PART.min(bytes.len());
        let Some((parent, records)) = bytes[..first_end].split_first_chunk::<PARENT>() else {
            let problem = "a directory too short to name its parent".into();
            return Err(FsError::Damaged { place: place.to_string(), problem });
        };
        let kind = FileKind::Directory;
        let dot = |name: &[u8], ino: InodeNo| DirectoryEntry { name: name.to_vec(), ino: ino.into(), kind, next: 0 };
        let mut entries = vec![dot(b".", directory.number), dot(b"..", InodeNo(u32::from_le_bytes(*parent)))];
        entries.extend(self.used_records(directory, records, place, |_| 0)?);
        entries.extend(self.used_records(directory, &bytes[first_end..], place, |_| 0)?);
        (1..).zip(&mut entries).for_each(|(number, entry)| entry.next = number);
        Ok(entries.split_off(entries.len().min(usize::try_from(cursor).unwrap_or(usize::MAX))))
    }
}

/// Whether a block belongs to the directory's hash tree. Such a block holds no names except `.` and `..`.
fn is_index(directory: &File, logical: u64, bytes: &[u8]) -> bool {
    let over_all = (bytes.len() & 0xffff) as u16;
    let is_node = |length: u16| length == over_all || (bytes.len() == 1 << 16 && length == u16::MAX);
    let first = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    directory.inode.has(flags::INDEX)
        && (logical == 0 || (first == 0 && is_node(u16::from_le_bytes([bytes[4], bytes[5]]))))
}
