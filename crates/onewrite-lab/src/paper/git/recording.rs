//! Recording: what git writes in a shallow clone of this project, in its order.
//!
//! Git itself clones one commit into a directory that goes again; its files are read back. The order is git's (seen
//! with strace, git 2.39): what `git init` makes, the pack, which it receives in pieces of 4 KiB, syncs and renames,
//! the pack's index likewise, names, then each file of the tree by path, at last the index. A clone of one commit, for
//! the paper's 20 GB are *source*. Git packs alike with one version and one thread, so figures depend on its version.
//! What it knows of this machine (times, inodes, users, the path of the source) is recorded as the same for all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::LabError;

/// The commit that is cloned.
const COMMIT: &str = "c9fd352fd9a4407857590bf9dcde6577581f1f79";
/// The path of the source, as recorded.
const SOURCE: &str = "file:///onewrite";
/// Bytes of one write to a pack and to anything else.
const PACK_PIECE: usize = 4096;
const PIECE: usize = 8192;

/// How a file comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Written under its name.
    Plain,
    /// Written under another name and renamed.
    Renamed,
    /// The same, and synced before.
    Synced,
}

/// A file of the clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Names from the clone down.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) piece: usize,
    pub(super) way: Way,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) files: Vec<Written>,
}

impl Recording {
    /// The recording of this project, made once in a process.
    ///
    /// # Errors
    /// If there is no git, or the present directory is not in a clone of this project.
    pub(super) fn this_project() -> Result<&'static Recording, LabError> {
        static RECORDING: OnceLock<Result<Recording, String>> = OnceLock::new();
        RECORDING.get_or_init(Recording::make).as_ref().map_err(|message| {
            let cure = "run it inside a whole clone of this project, with git installed";
            LabError::Option(format!("git cannot clone commit {COMMIT}: {message}; {cure}"))
        })
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    fn make() -> Result<Recording, String> {
        let home = git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
        let commit =
            git(Path::new(home.trim()), &["rev-parse", "--verify", "--quiet", &format!("{COMMIT}^{{commit}}")])?;
        let scratch = Scratch::new()?;
        let clone = &scratch.0;
        git(clone, &["init", "--quiet", "--template="])?;
        let server = "--upload-pack=git -c uploadpack.allowAnySHA1InWant=true -c pack.threads=1 upload-pack";
        let source = format!("file://{}", home.trim());
        let fetch = ["-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-tags", "--depth=1", server, &source];
        git(clone, &[&fetch[..], &[commit.trim()]].concat())?;
        git(clone, &["checkout", "--quiet", "FETCH_HEAD"])?;
        let mut recording = read_back(clone)?;
        for file in &mut recording.files {
            match file.path.to_str() {
                Some(".git/FETCH_HEAD") => {
                    file.bytes = String::from_utf8_lossy(&file.bytes).replace(&source, SOURCE).into_bytes();
                }
                Some(".git/index") => put_same_stat(&mut file.bytes).ok_or("its index is of another format")?,
                _ => (),
            }
        }
        Ok(recording)
    }

    /// A few files like git's, for tests without it.
    #[cfg(test)]
    pub(super) fn example() -> Recording {
        let text = "a line of source text, number 7\n".repeat(200).into_bytes();
        let noise = |length: usize| {
            let mut chance = onewrite_block::Choices::new(1);
            (0..length).map(|_| chance.below(256) as u8).collect()
        };
        let pack =
            Written { path: "objects/pack/one.pack".into(), bytes: noise(70_000), piece: PACK_PIECE, way: Way::Synced };
        let source = |number| Written {
            path: format!("src/{number}.rs").into(),
            bytes: text.clone(),
            piece: PIECE,
            way: Way::Plain,
        };
        Recording { files: [pack].into_iter().chain((0..40).map(source)).collect() }
    }
}

/// A directory that goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onewrite-clone-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind lies in the directory for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The output of a git command.
fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let committer = [("NAME", "onewrite"), ("EMAIL", "onewrite@localhost"), ("DATE", "2026-11-01T00:00:00Z")];
    let committer = committer.map(|(name, value)| (format!("GIT_COMMITTER_{name}"), value));
    let done = Command::new("git").envs(committer).arg("-C").arg(directory).args(arguments).output();
    let done = done.map_err(|error| error.to_string())?;
    let (output, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    if done.status.success() { Ok(output.into_owned()) } else { Err(format!("git {}: {errors}", arguments.join(" "))) }
}

/// Puts times and numbers into an index that are the same for each clone; `None` if it is not of version 2. They vary
/// from entry to entry, as real ones do: an index hardly compresses. Its sum is left out.
fn put_same_stat(index: &mut [u8]) -> Option<()> {
    const HEAD: usize = 12;
    const STAT_AND_ID: usize = 62;
    let count = u32::from_be_bytes(index.get(8..HEAD)?.try_into().ok()?);
    let mut at = if index.starts_with(b"DIRC\0\0\0\x02") { HEAD } else { return None };
    for number in 0..count {
        let name = index.get(at + STAT_AND_ID..)?.iter().position(|byte| *byte == 0)?;
        let entry = &mut index[at..at + STAT_AND_ID];
        let time = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        // Times of change and of content, each in seconds and nanoseconds; device, inode; mode; user, group.
        entry[..24].fill(0);
        entry[4..8].copy_from_slice(&time);
        entry[12..16].copy_from_slice(&time);
        entry[20..24].copy_from_slice(&number.to_be_bytes());
        entry[28..36].fill(0);
        at += (STAT_AND_ID + name + 8) & !7;
    }
    let sum = index.len().checked_sub(20)?;
    index[sum..].fill(0);
    Some(())
}

/// The files of a clone in the order in which git writes them.
fn read_back(clone: &Path) -> Result<Recording, String> {
    let packs = sorted(&clone.join(".git/objects/pack"))?;
    let of_kind = |kind: &'static str| packs.iter().filter(move |path| path.extension().is_some_and(|end| end == kind));
    let mut files = vec![written(clone, &clone.join(".git/config"), Way::Renamed)?];
    for path in of_kind("pack").chain(of_kind("idx")) {
        files.push(written(clone, path, Way::Synced)?);
    }
    for name in ["shallow", "HEAD", "FETCH_HEAD", "logs/HEAD"] {
        let path = clone.join(".git").join(name);
        if path.exists() {
            files.push(written(clone, &path, Way::Renamed)?);
        }
    }
    for name in git(clone, &["ls-files", "-z"])?.split('\0').filter(|name| !name.is_empty()) {
        files.push(written(clone, &clone.join(name), Way::Plain)?);
    }
    files.push(written(clone, &clone.join(".git/index"), Way::Renamed)?);
    Ok(Recording { files })
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn written(clone: &Path, path: &Path, way: Way) -> Result<Written, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let piece = if path.extension().is_some_and(|end| end == "pack") { PACK_PIECE } else { PIECE };
    let path = path.strip_prefix(clone).expect("it is in the clone").to_owned();
    Ok(Written { path, bytes, piece, way })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clones_are_recorded_alike() {
        let (first, second) = match (Recording::make(), Recording::make()) {
            (Ok(first), Ok(second)) => (first, second),
            (first, _) => return onewrite_testing::skipped!("{:?}", first.err()),
        };
        let differs = |(one, other): &(&Written, &Written)| one != other;
        let pairs = first.files.iter().zip(&second.files);
        let different: Vec<_> = pairs.filter(differs).map(|(one, _)| one.path.clone()).collect();
        assert!(different.is_empty() && first.files.len() == second.files.len(), "{different:?}");
    }

    #[test]
    fn a_clone_has_a_synced_pack_before_the_tree_and_the_index_last() {
        let recording = match Recording::this_project() {
            Ok(recording) => recording,
            Err(error) => return onewrite_testing::skipped!("{error}"),
        };
        let ways: Vec<Way> = recording.files.iter().map(|file| file.way).collect();
        let last_synced = ways.iter().rposition(|way| *way == Way::Synced).unwrap();
        let first_plain = ways.iter().position(|way| *way == Way::Plain).unwrap();
        assert!(last_synced < first_plain && ways.iter().filter(|way| **way == Way::Plain).count() > 1000, "{ways:?}");
        assert_eq!(recording.files.last().unwrap().path, Path::new(".git/index"));
        assert!((5 << 20..30 << 20).contains(&recording.bytes()), "{} bytes", recording.bytes());
    }
}
