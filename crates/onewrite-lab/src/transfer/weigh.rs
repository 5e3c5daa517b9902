//! Weigh: computes the size of a transfer beforehand, to estimate its remaining time.

use std::collections::BTreeSet;

use onewrite_fs::FileKind;

use super::Watcher;
use super::source::Source;
use crate::error::LabError;

/// Bytes of one sector, the unit of the space that a file takes.
const SECTOR: u64 = 512;
/// Bytes of a block of an image, and bytes of an image for which mkfs makes one inode.
const BLOCK: u64 = 4096;
const BYTES_PER_INODE: u64 = 16 << 10;

/// Size of a set of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes of content, without holes.
    pub bytes: u64,
    /// Files, directories and other entries.
    pub entries: u64,
    /// Bytes of the whole blocks that they occupy.
    pub space: u64,
}

impl Weight {
    /// Bytes of an image with room for the entries, metadata and journal: a quarter more than they occupy.
    pub fn image_bytes(&self) -> u64 {
        let inodes = (self.entries + self.entries / 8) * BYTES_PER_INODE;
        (self.space + self.space / 4).max(inodes).saturating_add(64 << 20).next_multiple_of(64 << 20)
    }
}

/// Size of `nodes` and everything below them. Holes do not count, and each file or directory counts once. Unreadable
/// entries do not count; the copy reports them.
///
/// # Errors
/// If `watcher` stops it.
pub async fn weigh<S: Source>(source: &S, nodes: Vec<S::Node>, watcher: &mut dyn Watcher) -> Result<Weight, LabError> {
    let (mut pending, mut seen, mut weight) = (nodes, BTreeSet::new(), Weight::default());
    while let Some(node) = pending.pop() {
        watcher.moved(0)?;
        let Ok((attributes, identity)) = source.attributes(&node).await else { continue };
        let is_directory = attributes.kind == FileKind::Directory;
        if (is_directory || attributes.links > 1) && !seen.insert(identity) {
            continue;
        }
        weight.entries += 1;
        match attributes.kind {
            FileKind::Directory => {
                weight.space += attributes.size.next_multiple_of(BLOCK);
                let entries = source.entries(&node).await;
                pending.extend(entries.into_iter().flat_map(|entries| entries.children).map(|(_, node)| node));
            }
            FileKind::Regular => {
                let bytes = content_bytes(attributes.size, attributes.sectors);
                weight.bytes += bytes;
                weight.space += bytes.next_multiple_of(BLOCK);
            }
            _ => (),
        }
    }
    Ok(weight)
}

/// Bytes to copy of a file of `size` bytes that takes `sectors`: not its holes. The content of a small file may lie in
/// its inode and take no sectors.
fn content_bytes(size: u64, sectors: u64) -> u64 {
    match sectors {
        0 if size <= BLOCK => size,
        sectors => size.min(sectors * SECTOR),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use onewrite_block::{Executor, HostProfile, Time};

    use super::*;
    use crate::transfer::HostTree;

    #[test]
    fn a_file_weighs_its_content_without_holes_in_blocks_or_in_its_inode() {
        assert_eq!((content_bytes(4, 0), content_bytes(3_000, 0), content_bytes(1 << 40, 0)), (4, 3_000, 0));
        assert_eq!((content_bytes(5_000, 16), content_bytes(1 << 40, 8)), (5_000, 4_096));
    }

    #[test]
    fn a_tree_weighs_what_its_files_hold_once() {
        let directory = std::env::temp_dir().join(format!("onewrite-weigh-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("deep")).unwrap();
        std::fs::write(directory.join("a"), [1; 8192]).unwrap();
        std::fs::write(directory.join("deep/b"), [1; 4096]).unwrap();
        std::fs::hard_link(directory.join("a"), directory.join("deep/again")).unwrap();
        std::fs::File::create(directory.join("holes")).unwrap().set_len(1 << 40).unwrap();
        symlink("a", directory.join("link")).unwrap();
        let root = directory.canonicalize().unwrap();
        let weight = Executor::new(Time::Virtual, HostProfile::default()).block_on(async move {
            let tree = HostTree::new().unwrap();
            let (root, nothing) = (tree.at(&root).unwrap(), tree.at(&root.join("nothing")).unwrap());
            weigh(&tree, vec![root, nothing], &mut ()).await
        });
        let weight = weight.unwrap().unwrap();
        assert_eq!((weight.bytes, weight.entries), (8192 + 4096, 6));
        assert!(weight.space >= weight.bytes && weight.image_bytes() == 128 << 20, "{weight:?}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
