//! A file system's tree as a list to compare.

use std::rc::Rc;

use onewrite_fs::{Attributes, FileKind, FileSystem, FsResult, Ino, Manner};

/// One path: attributes without the inode's own number, and content (link target, CRC of bytes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub attributes: Attributes,
    pub content: Vec<u8>,
}

/// Everything below the root, depth first, names sorted, without `lost+found`. Access times are zero.
pub async fn tree<F: FileSystem>(fs: &Rc<F>) -> FsResult<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut pending = vec![(String::new(), fs.root())];
    while let Some((path, ino)) = pending.pop() {
        let mut attributes = fs.attributes(ino).await?;
        attributes.accessed = Default::default();
        let content = content(fs, ino, &attributes).await?;
        if attributes.kind == FileKind::Directory {
            let mut names = names(fs, ino).await?;
            names.sort_by(|one, other| other.0.cmp(&one.0));
            pending.extend(names.into_iter().map(|(name, ino)| (format!("{path}/{name}"), ino)));
        }
        entries.push(Entry { path, attributes, content });
    }
    Ok(entries)
}

async fn names<F: FileSystem>(fs: &Rc<F>, directory: Ino) -> FsResult<Vec<(String, Ino)>> {
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        let entries = fs.read_directory(directory, cursor).await?;
        let Some(last) = entries.last() else { return Ok(names) };
        cursor = last.next;
        for entry in entries {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if !matches!(name.as_str(), "." | ".." | "lost+found") {
                names.push((name, entry.ino));
            }
        }
    }
}

async fn content<F: FileSystem>(fs: &Rc<F>, ino: Ino, attributes: &Attributes) -> FsResult<Vec<u8>> {
    match attributes.kind {
        FileKind::Regular => {
            let mut sum = !0;
            for offset in (0..attributes.size).step_by(1 << 20) {
                let data = fs.read(ino, offset, 1 << 20, Manner::default()).await?;
                sum = onewrite_block::crc32c(sum, &data.to_vec());
            }
            Ok(sum.to_le_bytes().to_vec())
        }
        FileKind::Symlink => fs.read_link(ino).await,
        _ => Ok(Vec::new()),
    }
}
