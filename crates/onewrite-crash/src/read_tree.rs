//! Read tree: everything that is visible in a file system or a view of an image.

use std::collections::BTreeMap;

use onewrite_fs::{Attributes, FileKind, FileView, FsError, FsResult, Ino, Manner};

use crate::action::{Action, Workload};
use crate::hash::bytes_hash;
use crate::model::{FileAttributes, FileContent, Item, ItemKind, Listing};
use crate::reading::pages_of;

/// Whether a workload sets extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extended {
    None,
    Some,
}

impl Extended {
    pub(crate) fn of(workload: &Workload) -> Extended {
        let all = workload.setup.iter().chain(&workload.warm_up).chain(workload.tasks.iter().flatten());
        let mut sets = all.filter(|action| matches!(action, Action::SetExtended { .. }));
        if sets.next().is_some() { Extended::Some } else { Extended::None }
    }
}

/// Everything that is visible from the root. Each name that a directory lists must be found there, too.
pub(crate) async fn read_tree<F: FileView>(fs: &F, extended: Extended) -> FsResult<Listing> {
    let mut listing = Listing::default();
    let mut pending = vec![(String::new(), fs.root())];
    while let Some((path, directory)) = pending.pop() {
        let mut cursor = 0;
        loop {
            let entries = fs.read_directory(directory, cursor).await?;
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            for entry in entries.iter().filter(|entry| entry.name != b"." && entry.name != b"..") {
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                let item = match fs.lookup(directory, &entry.name).await {
                    Ok(ino) if ino == entry.ino => read_item(fs, ino, extended).await?,
                    Ok(_) | Err(FsError::NotFound(_)) => Item::new(ItemKind::Other("listed, but not found".into())),
                    Err(error) => return Err(error),
                };
                if matches!(item.kind, ItemKind::Directory(_)) {
                    pending.push((path.clone(), entry.ino));
                }
                listing.insert(path, entry.ino.0, item);
            }
        }
    }
    listing.number_groups();
    Ok(listing)
}

async fn read_item<F: FileView>(fs: &F, ino: Ino, extended: Extended) -> FsResult<Item> {
    let attributes = fs.attributes(ino).await?;
    Ok(Item::new(match attributes.kind {
        FileKind::Directory => ItemKind::Directory(read_attributes(fs, &attributes, extended).await?),
        FileKind::Symlink => {
            let target = String::from_utf8_lossy(&fs.read_link(ino).await?).into_owned();
            ItemKind::Symlink(target, read_attributes(fs, &attributes, extended).await?)
        }
        FileKind::Regular if fs.read(ino, attributes.size, 1, Manner::default()).await?.length > 0 => {
            ItemKind::Other("a file that gives bytes behind its end".into())
        }
        FileKind::Regular => ItemKind::File(read_content(fs, &attributes, extended).await?),
        other => ItemKind::Other(format!("{other:?}")),
    }))
}

/// Seconds since 1970: later times come from the run's clock; workloads set earlier times.
const CLOCK_MIN: i64 = 1_000_000_000;

async fn read_attributes<F: FileView>(fs: &F, attributes: &Attributes, extended: Extended) -> FsResult<FileAttributes> {
    let Attributes { ino, permissions, uid, gid, .. } = *attributes;
    let names = if extended == Extended::Some { fs.extended_attributes(ino).await? } else { Vec::new() };
    let mut extended = BTreeMap::new();
    for name in names {
        let value = fs.extended_attribute(ino, &name).await?;
        extended.insert(String::from_utf8_lossy(&name).into_owned(), bytes_hash(&value));
    }
    let by_hand = Some(attributes.accessed.seconds).filter(|seconds| *seconds < CLOCK_MIN);
    Ok(FileAttributes { permissions, uid, gid, accessed: by_hand.map(|seconds| seconds as u32), extended })
}

async fn read_content<F: FileView>(fs: &F, attributes: &Attributes, extended: Extended) -> FsResult<FileContent> {
    let (ino, size) = (attributes.ino, attributes.size);
    let pages = pages_of(fs, (ino, size), Manner::default()).await?;
    let pages = pages.into_iter().filter(|(_, page)| !page.is_zeros()).collect();
    Ok(FileContent { size, pages, attributes: read_attributes(fs, attributes, extended).await? })
}
