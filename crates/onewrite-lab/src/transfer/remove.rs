//! Removes trees of any depth, crafted ones too.

use std::collections::BTreeSet;

use onewrite_fs::{FileKind, FileSystem, FsError, Ino};

use super::{Watcher, entries};
use crate::error::LabError;

enum Removal {
    /// A name to remove, with everything below it.
    Remove(Ino, Vec<u8>),
    /// A directory whose content is removed.
    Leave(Ino, Vec<u8>),
}

/// Removes `name` from `directory`; for a directory, with everything below it.
///
/// # Errors
/// The first error of the file system or of the watcher; names removed before stay removed. A directory with two names
/// is damage.
pub async fn remove<F: FileSystem>(
    fs: &F,
    directory: Ino,
    name: &[u8],
    watcher: &mut dyn Watcher,
) -> Result<(), LabError> {
    let mut seen = BTreeSet::new();
    let mut steps = vec![Removal::Remove(directory, name.to_vec())];
    while let Some(step) = steps.pop() {
        watcher.moved(0)?;
        match step {
            Removal::Leave(parent, name) => fs.remove_directory(parent, &name).await?,
            Removal::Remove(parent, name) => {
                let ino = fs.lookup(parent, &name).await?;
                if fs.attributes(ino).await?.kind != FileKind::Directory {
                    fs.unlink(parent, &name).await?;
                    continue;
                }
                if !seen.insert(ino) {
                    let place = format!("directory {:?}", String::from_utf8_lossy(&name));
                    return Err(FsError::Damaged { place, problem: format!("{ino} has a second name") }.into());
                }
                steps.push(Removal::Leave(parent, name));
                for entry in entries(fs, ino).await? {
                    steps.push(Removal::Remove(ino, entry.name));
                }
            }
        }
    }
    Ok(())
}
