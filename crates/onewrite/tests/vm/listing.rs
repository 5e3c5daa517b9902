//! Listing: a tree as lines to compare, the same from a mount of the kernel, from one of ours and from a copy.
//!
//! A line has path, kind, permissions, owner, links, size, time of change, attributes, and the content: the target of
//! a link, or a checksum over the pages that are not zeros with their positions, so that a hole equals zeros.

use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use onewrite_block::crc32c;
use rustix::fs::SeekFrom;

const PAGE: u64 = 4096;

/// The lines of everything below `root`, sorted.
pub fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for path in names(&directory) {
            let metadata = fs::symlink_metadata(&path).unwrap();
            lines.push(line(root, &path, &metadata));
            if metadata.is_dir() {
                pending.push(path);
            }
        }
    }
    lines.sort();
    lines
}

/// The paths in a directory.
pub fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().is_none_or(|name| name != "lost+found")).collect()
}

fn line(root: &Path, path: &Path, metadata: &Metadata) -> String {
    let shown = path.strip_prefix(root).unwrap().display();
    let kind = kind(metadata);
    let size = if metadata.is_dir() { 0 } else { metadata.size() };
    let (mode, uid, gid, links) = (metadata.mode() & 0o7777, metadata.uid(), metadata.gid(), metadata.nlink());
    let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
    let content = match kind {
        'f' => format!("{:08x}", checksum(path)),
        'l' => String::from_utf8_lossy(fs::read_link(path).unwrap().as_os_str().as_bytes()).into_owned(),
        'b' | 'c' => format!("{:x}", metadata.rdev()),
        _ => String::new(),
    };
    let attributes = if kind == 'l' { String::new() } else { attributes(path) };
    format!("{shown} {kind} {mode:o} {uid}:{gid} {links} {size} {seconds}.{nanos:09} [{attributes}] {content}")
}

fn kind(metadata: &Metadata) -> char {
    let kind = metadata.file_type();
    let kinds = [
        ('f', kind.is_file()),
        ('d', kind.is_dir()),
        ('l', kind.is_symlink()),
        ('p', kind.is_fifo()),
        ('b', kind.is_block_device()),
        ('c', kind.is_char_device()),
    ];
    kinds.into_iter().find(|(_, is_it)| *is_it).map_or('s', |(letter, _)| letter)
}

fn attributes(path: &Path) -> String {
    let mut names = vec![0; 65_536];
    let length = rustix::fs::listxattr(path, &mut names).unwrap_or(0);
    let mut shown: Vec<String> = names[..length].split(|byte| *byte == 0).filter_map(|name| user(path, name)).collect();
    shown.sort();
    shown.join(",")
}

fn user(path: &Path, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.starts_with("user."))?;
    Some(format!("{name}={:08x}", crc32c(!0, &attribute(path, name).unwrap_or_default())))
}

/// The value of an extended attribute.
pub fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 65_536];
    let length = rustix::fs::getxattr(path, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn checksum(path: &Path) -> u32 {
    let mut sum = !0;
    each_page(path, |index, page| {
        sum = crc32c(crc32c(sum, &index.to_le_bytes()), page);
    });
    sum
}

/// Calls `visit` with every page that is not all zeros; holes are passed by.
pub fn each_page(path: &Path, mut visit: impl FnMut(u64, &[u8])) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut page, mut at) = ([0; PAGE as usize], 0);
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
        for index in start / PAGE..end.div_ceil(PAGE) {
            page.fill(0);
            let _ = read_up_to(&file, &mut page, index * PAGE);
            if page.iter().any(|byte| *byte != 0) {
                visit(index, &page);
            }
        }
        at = end.next_multiple_of(PAGE);
    }
}

/// Reads until the buffer is full or the file ends.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(())
}
