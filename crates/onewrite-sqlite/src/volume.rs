//! Storage on one [`Volume`].

use std::sync::atomic::{AtomicU64, Ordering};

use onewrite_fs::{FileKind, NewNode};
use onewrite_host::{Draft, DraftFile, File, Volume, VolumeError};

use crate::names::{above, normal};
use crate::storage::{Failure, Identity, Opening, Promise, Removal, Result, Storage, StoredDraft, StoredFile, Synced};

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Failure {
        Failure::new(error.errno(), error.to_string())
    }
}

/// The files of one volume.
#[derive(Clone)]
pub struct VolumeStorage {
    volume: Volume,
    number: u64,
    promise: Promise,
}

/// An open file of a volume.
pub struct VolumeFile {
    storage: VolumeStorage,
    file: File,
    identity: Identity,
}

/// Changes of a file of a volume.
pub struct VolumeDraft {
    draft: Draft,
    changed: DraftFile,
}

impl VolumeStorage {
    /// All files of `volume`.
    pub fn new(volume: Volume) -> VolumeStorage {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let promise = Promise::of(volume.atomic().is_ok(), volume.keeps_order());
        VolumeStorage { volume, number: COUNT.fetch_add(1, Ordering::Relaxed), promise }
    }

    /// Unmounts. An error has nobody to go to; the next mount meets what it left.
    pub(crate) fn close(&self) {
        let _ = self.volume.clone().close();
    }

    /// Refuses a path through a symbolic link: the file would have two names, and two journals.
    fn check_path(&self, path: &[u8]) -> Result<()> {
        for part in above(path) {
            match self.volume.metadata(part) {
                Ok(found) if found.kind == FileKind::Symlink => {
                    let link = String::from_utf8_lossy(part);
                    let text = format!("{link} is a symbolic link: name the database by the path that it leads to");
                    return Err(Failure::new(Failure::INVALID, text));
                }
                Ok(_) => (),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Storage for VolumeStorage {
    type File = VolumeFile;
    type Draft = VolumeDraft;

    fn full_path(&self, name: &[u8]) -> Result<Vec<u8>> {
        Ok(normal(name))
    }

    fn open(&self, path: &[u8], opening: Opening, _: &dyn Fn(&str) -> Option<String>) -> Result<VolumeFile> {
        self.check_path(path)?;
        let opened = match opening {
            Opening::Existing => self.volume.open_file(path),
            Opening::OrNew => self.volume.open_or_create(path, NewNode::FILE),
            Opening::New => self.volume.create(path),
        };
        let file = opened.map_err(|error| Failure::from(error).at(path))?;
        let found = file.metadata()?;
        if found.kind != FileKind::Regular {
            let text = format!("{} is no file", String::from_utf8_lossy(path));
            return Err(Failure::new(Failure::IS_A_DIRECTORY, text));
        }
        let identity = Identity { volume: self.number, file: found.ino.0 };
        Ok(VolumeFile { storage: self.clone(), file, identity })
    }

    fn remove(&self, path: &[u8], removal: Removal) -> Result<()> {
        self.volume.remove(path).map_err(|error| Failure::from(error).at(path))?;
        if removal == Removal::Durable {
            self.volume.sync()?;
        }
        Ok(())
    }

    fn size_at(&self, path: &[u8]) -> Result<Option<u64>> {
        match self.volume.metadata_followed(path) {
            Ok(found) => Ok(Some(found.size)),
            Err(error) if matches!(error.errno(), Failure::NO_ENTRY | Failure::NOT_A_DIRECTORY) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn commit(&self, drafts: &[&VolumeDraft]) -> Result<()> {
        let drafts: Vec<&Draft> = drafts.iter().map(|draft| &draft.draft).collect();
        Ok(self.volume.commit_together(&drafts)?)
    }
}

impl StoredFile for VolumeFile {
    type Draft = VolumeDraft;

    fn identity(&self) -> Identity {
        self.identity
    }

    fn promise(&self) -> Promise {
        self.storage.promise
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        Ok(self.file.read_at(offset, length)?)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.file.write_at(offset, bytes)?)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        Ok(self.file.set_size(size)?)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata()?.size)
    }

    fn sync(&self, what: Synced) -> Result<()> {
        match what {
            Synced::Data => self.file.sync_data()?,
            Synced::Everything => self.file.sync()?,
        }
        Ok(())
    }

    fn draft(&self) -> Result<VolumeDraft> {
        let draft = self.storage.volume.atomic()?;
        let changed = draft.claim_open(&self.file)?;
        Ok(VolumeDraft { draft, changed })
    }
}

impl StoredDraft for VolumeDraft {
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        Ok(self.changed.read_at(offset, length)?)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.changed.write_at(offset, bytes)?)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        Ok(self.changed.set_size(size)?)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.changed.size()?)
    }

    fn abort(&self) -> Result<()> {
        Ok(self.draft.abort()?)
    }
}
