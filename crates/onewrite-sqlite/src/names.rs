//! Names: paths of databases. Each file has one name for SQLite, for the names of journals are made from it.

use crate::storage::{Failure, Result};

/// The absolute path that `name` means: from the root, without `.`, `..` and empty parts.
pub fn normal(name: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => (),
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut path = Vec::new();
    for part in &parts {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// Splits `IMAGE:/PATH`.
pub(crate) fn split(name: &[u8]) -> Result<(&[u8], &[u8])> {
    match name.windows(2).position(|pair| pair == b":/") {
        Some(colon) if colon > 0 => Ok((&name[..colon], &name[colon + 1..])),
        _ => {
            let name = String::from_utf8_lossy(name);
            let text = format!("`{name}` is in no image: write file:IMAGE:/PATH?vfs=onewrite");
            Err(Failure::new(Failure::INVALID, text))
        }
    }
}

/// The paths of `path` and of all directories above it, from the top, without the root.
pub(crate) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (1..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/'));
    ends.map(|end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_name() {
        for name in ["/a/b", "a/b", "//a/./b/", "/a/x/../b", "/../a/b"] {
            assert_eq!(normal(name.as_bytes()), b"/a/b", "{name}");
        }
        assert_eq!(normal(b""), b"/");
        assert_eq!(above(b"/a/bc/d").collect::<Vec<_>>(), [&b"/a"[..], b"/a/bc", b"/a/bc/d"]);
    }

    #[test]
    fn an_image_stands_before_its_path() {
        assert_eq!(split(b"dir/disk.img:/a:/b").unwrap(), (&b"dir/disk.img"[..], &b"/a:/b"[..]));
        assert!(split(b"/a/b").unwrap_err().text.contains("file:IMAGE:/PATH"));
        assert!(split(b":/a").is_err());
    }
}
