//! Paths: what lies at one, through symbolic links at its end, and what is made there.

use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::{FileKind, FileSystem, FileView, FsError, Ino, NewNode};

/// How often [`found_or_made`] looks again after another call was quicker. On a damaged image a name may be
/// absent for a lookup and taken for a creation for ever.
const FOUND_OR_MADE_TURNS: u32 = 100;

/// Makes `node` at `path`.
pub(super) async fn made<F: FileSystem>(fs: &F, path: &[u8], node: NewNode) -> Result<Ino, FsError> {
    let (directory, name) = split_path(path)?;
    fs.create(resolve(fs, directory).await?, name, node).await
}

/// Opens what lies at `path`, or makes `node` there and opens that.
pub(super) async fn found_or_made<F: FileSystem>(fs: &F, path: Vec<u8>, node: NewNode) -> Result<Ino, FsError> {
    let mut turns = 0..FOUND_OR_MADE_TURNS;
    loop {
        let target = followed(fs, path.clone()).await?;
        let opened = match resolve(fs, &target).await {
            Ok(ino) => fs.open(ino).await.map(|()| ino),
            Err(FsError::NotFound(_)) => match made(fs, &target, node).await {
                Ok(ino) => fs.open(ino).await.map(|()| ino),
                // A directory of the path is missing, too: no further turn would find it.
                Err(FsError::NotFound(what)) => return Err(FsError::NotFound(what)),
                refused => refused,
            },
            refused => refused,
        };
        match opened {
            // Another call made or removed it meanwhile.
            Err(FsError::Exists(_) | FsError::NotFound(_)) if turns.next().is_some() => (),
            opened => return opened,
        }
    }
}

/// The path with a symbolic link at its end replaced by where that leads, up to 40 times, or up to where nothing is.
pub(super) async fn followed<F: FileView>(fs: &F, mut path: Vec<u8>) -> Result<Vec<u8>, FsError> {
    for _ in 0..40 {
        let ino = match resolve(fs, &path).await {
            Err(FsError::NotFound(_)) => return Ok(path),
            found => found?,
        };
        if fs.attributes(ino).await?.kind != FileKind::Symlink {
            return Ok(path);
        }
        let target = fs.read_link(ino).await?;
        path = match target.first() {
            Some(b'/') => target,
            _ => [split_path(&path)?.0, b"/", &target].concat(),
        };
    }
    Err(FsError::Loop(String::from_utf8_lossy(&path).into_owned()))
}
