//! Table: the mounts that the host lists. Reading the table asks the mounts nothing, so a dead one cannot block it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The type of our mounts in the table.
pub(super) const KIND: &str = "fuse.onewrite";

/// One mount in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its number in the table.
    pub number: String,
    /// Numbers of its device, `major:minor`.
    pub device: String,
    /// The directory that it covers.
    pub directory: PathBuf,
    /// Type of the file system, as mount(8) shows it.
    pub kind: String,
    pub source: String,
}

impl Entry {
    /// The topmost mount on `directory`, an absolute path without links.
    pub(super) fn topmost(directory: &Path) -> Option<Entry> {
        entries().into_iter().rfind(|entry| entry.directory == directory)
    }

    /// Whether it is a mount of Onewrite.
    pub(super) fn is_ours(&self) -> bool {
        self.kind == KIND
    }
}

/// Whether a mount of Onewrite shows `source`: its image, by this name or another, or its profile.
pub fn is_mounted(source: &str) -> bool {
    let file = |path: &str| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let wanted = file(source);
    let is_source = |entry: &Entry| entry.source == source || (wanted.is_some() && file(&entry.source) == wanted);
    entries().iter().any(|entry| entry.is_ours() && is_source(entry))
}

fn entries() -> Vec<Entry> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(entry).collect()
}

/// Parses a line of mountinfo (proc(5)): `36 35 98:0 /root /directory rw,noatime master:1 - type source options`.
fn entry(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let rest = fields.iter().position(|field| *field == b"-")?;
    let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
    Some(Entry {
        number: text(fields.first()?),
        device: text(fields.get(2)?),
        directory: PathBuf::from(OsString::from_vec(unescaped(fields.get(4)?))),
        kind: text(fields.get(rest + 1)?),
        source: text(fields.get(rest + 2)?),
    })
}

/// Replaces `\040` and the like; the kernel escapes blanks, line ends and backslashes so.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let code = match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_understood() {
        let line = b"58 22 0:47 / /a\\040b\\134c rw,nosuid shared:1 - fuse.onewrite /disk\\011one.img rw,user_id=0";
        let found = entry(line).unwrap();
        assert_eq!((&*found.number, &*found.device, found.is_ours()), ("58", "0:47", true));
        assert_eq!((found.directory, &*found.source), (PathBuf::from("/a b\\c"), "/disk\tone.img"));
        assert_eq!(entry(b""), None);
        assert_eq!(unescaped(b"a\\99"), b"a\\99");
    }

    #[test]
    fn the_root_of_this_host_is_found() {
        assert_eq!(Entry::topmost(Path::new("/")).unwrap().directory, Path::new("/"));
        assert!(!is_mounted("no such image"));
    }
}
