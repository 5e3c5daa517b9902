//! The substitute for an unreadable root directory, in a rescue. It lists every inode that no directory names, as `#`
//! and its number, as in `lost+found`.

use std::collections::{BTreeMap, BTreeSet};

use super::ImageView;
use super::files::File;
use crate::api::{DirectoryEntry, FileKind, FsError, FsResult, Timestamp};
use crate::ext4::format::inode::verify_checksum;
use crate::ext4::format::{Inode, InodeNo, ROOT_INODE};

/// Permissions of the substitute.
const PERMISSIONS: u16 = 0o755;

impl ImageView {
    /// Makes a substitute if the root directory cannot be read and there are inodes to show.
    pub(super) async fn make_up_root(&mut self) {
        let root = self.any_file(ROOT_INODE).await;
        let Err(problem) = root.and_then(|root| root.expect_directory()) else { return };
        let adrift = self.adrift().await;
        if adrift.is_empty() {
            return;
        }
        let cause = match problem {
            FsError::Damaged { place, problem } => format!("{place}: {problem}"),
            other => other.to_string(),
        };
        self.lose(format!("the root directory ({cause}); what has no other name is shown as # and its number"));
        self.made_up_root = Some(adrift);
    }

    /// The substitute as a file.
    pub(super) fn made_up_file(&self) -> File {
        let kind = FileKind::Directory;
        let inode = Inode::new(kind.mode_bits() | PERMISSIONS, Timestamp::default(), &self.layout);
        let slot = vec![0; usize::from(self.layout.inode_size)];
        File { number: ROOT_INODE, inode: Inode { links: 2, ..inode }, slot, kind, size: 0 }
    }

    /// Inodes that no directory names, by number. Takes memory for each inode in use.
    async fn adrift(&self) -> Vec<DirectoryEntry> {
        let kinds = self.sound_inodes().await;
        let mut named = BTreeSet::new();
        for (&number, _) in kinds.iter().filter(|(_, kind)| **kind == FileKind::Directory) {
            // Ignores what cannot be read: a later look at it reports the loss.
            let _ = self.collect_names(number, &mut named).await;
        }
        let entry = |name: Vec<u8>, number: InodeNo, kind| DirectoryEntry { name, ino: number.into(), kind, next: 0 };
        let adrift = kinds.into_iter().filter(|(number, _)| !named.contains(number));
        let adrift = adrift.map(|(number, kind)| entry(format!("#{number}").into_bytes(), number, kind));
        let mut entries: Vec<DirectoryEntry> = adrift.collect();
        (1..).zip(&mut entries).for_each(|(position, entry)| entry.next = position);
        entries
    }

    /// Inodes in use whose checksums hold.
    async fn sound_inodes(&self) -> BTreeMap<InodeNo, FileKind> {
        let mut kinds = BTreeMap::new();
        for number in (self.layout.first_inode.0..=self.layout.inode_count).map(InodeNo) {
            let Ok(file) = self.any_file(number).await else { continue };
            if verify_checksum(&file.slot, number, &file.inode, &self.layout).is_ok() {
                kinds.insert(number, file.kind);
            }
        }
        kinds
    }

    async fn collect_names(&self, directory: InodeNo, named: &mut BTreeSet<InodeNo>) -> FsResult<()> {
        let file = self.any_file(directory).await?;
        let mut cursor = 0;
        loop {
            let entries = self.entries_from(&file, cursor).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            cursor = last.next;
            let names = entries.iter().filter(|entry| entry.name != b"." && entry.name != b"..");
            let numbers = names.map(|entry| InodeNo::from_ino(entry.ino));
            named.extend(numbers.filter(|&number| number != directory));
        }
    }
}
