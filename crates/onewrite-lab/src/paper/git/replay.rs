//! Replay: writes recorded clones into a file system, one behind the other, each into a directory of its own.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use onewrite_fs::{Content, FileSystem, FsResult, Ino, Manner, NewNode, Position, RenameManner};

use super::recording::{Recording, Way, Written};

/// Replays `count` clones.
pub(super) async fn clones<F: FileSystem>(fs: &F, recording: &Recording, count: u64) -> FsResult<()> {
    for number in 0..count {
        let name = format!("clone{number}");
        let root = fs.create(fs.root(), name.as_bytes(), NewNode::DIRECTORY).await?;
        let mut directories = BTreeMap::from([(PathBuf::new(), root)]);
        for file in &recording.files {
            let directory = directory(fs, &mut directories, file.path.parent().unwrap_or(Path::new(""))).await?;
            write(fs, directory, file).await?;
        }
    }
    Ok(())
}

/// The directory `path` of a clone; makes it and those above it where they are missing.
async fn directory<F: FileSystem>(fs: &F, known: &mut BTreeMap<PathBuf, Ino>, path: &Path) -> FsResult<Ino> {
    let (mut ino, mut reached) = (known[Path::new("")], PathBuf::new());
    for name in path {
        reached.push(name);
        ino = match known.get(&reached) {
            Some(ino) => *ino,
            None => {
                let made = fs.create(ino, name.as_bytes(), NewNode::DIRECTORY).await?;
                known.insert(reached.clone(), made);
                made
            }
        };
    }
    Ok(ino)
}

async fn write<F: FileSystem>(fs: &F, directory: Ino, file: &Written) -> FsResult<()> {
    let name = file.path.file_name().expect("a file has a name").as_bytes();
    let first_name = match file.way {
        Way::Plain => name.to_vec(),
        Way::Renamed | Way::Synced => [name, b".lock"].concat(),
    };
    let ino = fs.create(directory, &first_name, NewNode::FILE).await?;
    fs.open(ino).await?;
    for (number, piece) in file.bytes.chunks(file.piece).enumerate() {
        let position = Position::At((number * file.piece) as u64);
        fs.write(ino, position, Content::Bytes(piece), Manner::default()).await?;
    }
    if file.way == Way::Synced {
        fs.fsync(ino).await?;
    }
    fs.release(ino).await?;
    if file.way != Way::Plain {
        fs.rename((directory, &first_name), (directory, name), RenameManner::default()).await?;
    }
    Ok(())
}
