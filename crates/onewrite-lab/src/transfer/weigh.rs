//! Weigh: how much a transfer has before it, so that it can tell how long it takes yet.

use std::collections::BTreeSet;

use onewrite_fs::FileKind;

use super::Watcher;
use super::source::Source;
use crate::error::LabError;

/// Bytes of one sector, the unit of the space that a file takes.
const SECTOR: u64 = 512;

/// Bytes of content of `nodes` and of all below them: holes count for nothing, and a file or directory counts once. Nor does
/// what cannot be read; it is told when it is copied.
///
/// # Errors
/// If `watcher` ends it.
pub async fn weigh<S: Source>(source: &S, nodes: Vec<S::Node>, watcher: &mut dyn Watcher) -> Result<u64, LabError> {
    let (mut pending, mut seen, mut bytes) = (nodes, BTreeSet::new(), 0);
    while let Some(node) = pending.pop() {
        watcher.moved(0)?;
        let Ok((attributes, identity)) = source.attributes(&node).await else { continue };
        let is_directory = attributes.kind == FileKind::Directory;
        if (is_directory || attributes.links > 1) && !seen.insert(identity) {
            continue;
        }
        match attributes.kind {
            FileKind::Directory => {
                let entries = source.entries(&node).await;
                pending.extend(entries.into_iter().flat_map(|entries| entries.children).map(|(_, node)| node));
            }
            FileKind::Regular => bytes += attributes.size.min(attributes.sectors * SECTOR),
            _ => (),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use onewrite_block::{Executor, HostProfile, Time};

    use super::*;
    use crate::transfer::HostTree;

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
        assert_eq!(weight.unwrap().unwrap(), 8192 + 4096);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
