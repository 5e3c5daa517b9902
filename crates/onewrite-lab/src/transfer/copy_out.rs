//! From a file system to the host.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use onewrite_fs::{Attributes, FileKind, FileSystem, Ino, Manner, Timestamp};

use super::{CHUNK, Transferred, entries};
use crate::error::LabError;
use crate::partial::Partial;

/// Copies `ino` and all below it to `target` on the host; existing directories are merged, existing files replaced.
/// Owners are left to whoever copies, as `cp` without `-a` does.
///
/// # Errors
/// A host file that cannot be made, by its path; whatever the file system says; pipes, sockets and device nodes.
pub async fn copy_out<F: FileSystem>(fs: &F, ino: Ino, target: &Path) -> Result<Transferred, LabError> {
    let mut copy = CopyOut { fs, links: BTreeMap::new(), made: Vec::new(), transferred: Transferred::default() };
    let mut pending = vec![(ino, target.to_owned())];
    while let Some((ino, path)) = pending.pop() {
        copy.entry(ino, path, &mut pending).await?;
    }
    for (path, attributes) in copy.made.iter().rev() {
        finish(path, attributes)?;
    }
    Ok(copy.transferred)
}

struct CopyOut<'a, F> {
    fs: &'a F,
    /// Files with several names: where the first one went.
    links: BTreeMap<Ino, PathBuf>,
    /// Directories made; permissions and times are set last.
    made: Vec<(PathBuf, Attributes)>,
    transferred: Transferred,
}

fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> LabError + '_ {
    move |error| LabError::WriteFile { path: path.display().to_string(), message: error.to_string() }
}

impl<F: FileSystem> CopyOut<'_, F> {
    async fn entry(&mut self, ino: Ino, path: PathBuf, pending: &mut Vec<(Ino, PathBuf)>) -> Result<(), LabError> {
        let attributes = self.fs.attributes(ino).await?;
        match attributes.kind {
            FileKind::Directory => self.directory(&path, attributes, pending).await,
            FileKind::Regular => self.file(&path, attributes).await,
            FileKind::Symlink => self.symlink(ino, &path).await,
            kind => {
                let message =
                    format!("it is a {kind:?}, which only files, directories and symbolic links can be copied out as");
                Err(LabError::WriteFile { path: path.display().to_string(), message })
            }
        }
    }

    async fn directory(
        &mut self,
        path: &Path,
        attributes: Attributes,
        pending: &mut Vec<(Ino, PathBuf)>,
    ) -> Result<(), LabError> {
        if !path.is_dir() {
            std::fs::create_dir(path).map_err(unwritable(path))?;
        }
        for entry in entries(self.fs, attributes.ino).await? {
            pending.push((entry.ino, path.join(OsStr::from_bytes(&entry.name))));
        }
        self.transferred.directories += 1;
        self.made.push((path.to_owned(), attributes));
        Ok(())
    }

    async fn file(&mut self, path: &Path, attributes: Attributes) -> Result<(), LabError> {
        let failed = unwritable(path);
        if attributes.links > 1 {
            if let Some(first) = self.links.get(&attributes.ino) {
                self.transferred.others += 1;
                return std::fs::hard_link(first, path).map_err(failed);
            }
            self.links.insert(attributes.ino, path.to_owned());
        }
        let (mut file, partial) = Partial::create(path).map_err(&failed)?;
        self.content(&mut file, path, attributes).await?;
        file.set_len(attributes.size).map_err(&failed)?;
        drop(file);
        partial.keep();
        self.transferred.files += 1;
        self.transferred.bytes += attributes.size;
        finish(path, &attributes)
    }

    async fn content(&self, file: &mut File, path: &Path, attributes: Attributes) -> Result<(), LabError> {
        for offset in (0..attributes.size).step_by(CHUNK) {
            let bytes = self.fs.read(attributes.ino, offset, CHUNK as u64, Manner::default()).await?.to_vec();
            if bytes.iter().any(|byte| *byte != 0) {
                file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(&bytes)).map_err(unwritable(path))?;
            }
        }
        Ok(())
    }

    async fn symlink(&mut self, ino: Ino, path: &Path) -> Result<(), LabError> {
        let target = self.fs.read_link(ino).await?;
        if path.is_symlink() {
            std::fs::remove_file(path).map_err(unwritable(path))?;
        }
        self.transferred.others += 1;
        std::os::unix::fs::symlink(OsStr::from_bytes(&target), path).map_err(unwritable(path))
    }
}

/// Sets permissions and times.
fn finish(path: &Path, attributes: &Attributes) -> Result<(), LabError> {
    let times = FileTimes::new().set_accessed(time(attributes.accessed)).set_modified(time(attributes.modified));
    let file = File::open(path).map_err(unwritable(path))?;
    file.set_times(times).map_err(unwritable(path))?;
    file.set_permissions(Permissions::from_mode(u32::from(attributes.permissions))).map_err(unwritable(path))
}

fn time(timestamp: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(timestamp.seconds.unsigned_abs());
    let start = SystemTime::UNIX_EPOCH;
    let second = if timestamp.seconds >= 0 { start + whole } else { start - whole };
    second + Duration::from_nanos(u64::from(timestamp.nanoseconds))
}
