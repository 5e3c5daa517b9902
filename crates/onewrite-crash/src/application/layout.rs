//! Layout: writes a recovered tree to a directory of the host, for a program that judges it.
//!
//! Names, links, content, holes, permissions of files and, as root, their owners are those of the tree. Permissions and
//! owners of directories, pipes, sockets, device nodes, times and extended attributes are not laid out. Names that are
//! not UTF-8 show replacement characters.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use onewrite_block::PAGE_SIZE;

use super::RecoveredTree;
use crate::model::{FileContent, ItemKind};

impl RecoveredTree {
    /// Writes the tree into the empty directory `room`, without the names `leaves_out` of its root: those that every
    /// new file system has.
    ///
    /// # Errors
    /// The host's error, with the path.
    pub fn lay_out(&self, room: &Path, leaves_out: &[&str]) -> io::Result<()> {
        let mut first_names: BTreeMap<u64, PathBuf> = BTreeMap::new();
        let is_wanted = |path: &str| !leaves_out.iter().any(|name| path.trim_start_matches('/') == *name);
        for (path, item) in self.0.items().filter(|(path, _)| is_wanted(path)) {
            let place = room.join(path.trim_start_matches('/'));
            let laid = match &item.kind {
                ItemKind::Directory(_) => fs::create_dir(&place),
                ItemKind::Symlink(target, _) => symlink(target, &place),
                ItemKind::File(content) => match first_names.get(&item.group) {
                    Some(first) => fs::hard_link(first, &place),
                    None => {
                        first_names.insert(item.group, place.clone());
                        lay_file(&place, content)
                    }
                },
                ItemKind::Other(_) => Ok(()),
            };
            laid.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place.display())))?;
        }
        Ok(())
    }
}

fn lay_file(place: &Path, content: &FileContent) -> io::Result<()> {
    let file = File::create_new(place)?;
    file.set_len(content.size)?;
    for (index, page) in content.pages.filled() {
        let start = index * PAGE_SIZE as u64;
        let length = (content.size.saturating_sub(start)).min(PAGE_SIZE as u64) as usize;
        file.write_all_at(&page.bytes()[..length], start)?;
    }
    let attributes = &content.attributes;
    // Only root may give files away; for others the owner is who runs the check.
    let _ = chown(place, Some(attributes.uid), Some(attributes.gid));
    file.set_permissions(Permissions::from_mode(u32::from(attributes.permissions & 0o7777)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::rc::Rc;

    use onewrite_block::Page;
    use onewrite_fs::NewNode;

    use super::*;
    use crate::model::{FileAttributes, Item, Listing};

    #[test]
    fn a_tree_comes_out_with_holes_links_and_permissions() {
        let mut listing = Listing::default();
        let mut content = FileContent { size: 5000, ..FileContent::default() };
        content.pages.insert(1, Page::from_slice(b"tail"));
        content.attributes.permissions = 0o640;
        for (path, owner, kind) in [
            ("/d", 2, ItemKind::Directory(FileAttributes::of(NewNode::DIRECTORY))),
            ("/d/f", 3, ItemKind::File(content.clone())),
            ("/g", 3, ItemKind::File(content)),
            ("/l", 4, ItemKind::Symlink("d/f".into(), FileAttributes::of_link())),
            ("/lost+found", 5, ItemKind::Directory(FileAttributes::of(NewNode::DIRECTORY))),
        ] {
            listing.insert(path.into(), owner, Item::new(kind));
        }
        listing.number_groups();
        let room = std::env::temp_dir().join(format!("onewrite-layout-{}", std::process::id()));
        fs::create_dir(&room).unwrap();
        RecoveredTree(Rc::new(listing)).lay_out(&room, &["lost+found"]).unwrap();
        let bytes = fs::read(room.join("l")).unwrap();
        assert_eq!(
            (bytes.len(), &bytes[4096..4100], bytes[..4096].iter().all(|byte| *byte == 0)),
            (5000, &b"tail"[..], true)
        );
        let metadata = fs::metadata(room.join("g")).unwrap();
        assert_eq!((metadata.nlink(), metadata.mode() & 0o7777), (2, 0o640));
        assert!(!room.join("lost+found").exists());
        fs::remove_dir_all(room).unwrap();
    }
}
