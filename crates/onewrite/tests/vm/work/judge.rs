//! Judge: holds a recovered tree against the model.
//!
//! 1. A name is what one of its candidates is: nothing, or a file of which size, pages and attributes may be these.
//! 2. A file that an fsync made durable, and that lost no name since, has a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::model::{FileModel, Kind, Model, PAGE};
use super::{FileId, Step};
use crate::listing::{attribute, each_page, names};

/// Whether the tree shows extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    Shown,
    LeftOut,
}

/// Judges the tree at `root` after a power cut behind `done` steps.
///
/// # Errors
/// The first name or file that is not as it may be.
pub fn judge(root: &Path, steps: &[Step], done: usize, attributes: Attributes) -> Result<(), String> {
    let model = Model::after(steps, done);
    let found = found_names(root);
    let mut seen = BTreeSet::new();
    let nothing = vec![None];
    let all: BTreeSet<&String> = model.names.keys().chain(&found).collect();
    for name in all {
        let candidates = model.names.get(name).unwrap_or(&nothing);
        let is_there = found.contains(name);
        match is_there {
            true => seen.extend(which(root, name, &model, candidates, attributes)?),
            false if candidates.contains(&None) => (),
            false => return Err(format!("{name} is missing: it is file {candidates:?}")),
        }
    }
    let mut must = model.files.iter().filter(|(_, file)| file.is_synced && file.links > 0);
    match must.find(|(id, _)| !seen.contains(id)) {
        Some((id, _)) => Err(format!("file {id} was synced and has no name")),
        None => Ok(()),
    }
}

fn found_names(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for path in names(&directory) {
            found.insert(path.strip_prefix(root).unwrap().to_str().expect("UTF-8").to_owned());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                pending.push(path);
            }
        }
    }
    found
}

/// The candidates that the name may be: several if files may have the same content.
fn which(
    root: &Path,
    name: &str,
    model: &Model,
    candidates: &[Option<FileId>],
    attributes: Attributes,
) -> Result<Vec<FileId>, String> {
    let (mut problems, mut fitting) = (Vec::new(), Vec::new());
    for id in candidates.iter().rev().flatten() {
        match problem(&root.join(name), &model.files[id], attributes) {
            None => fitting.push(*id),
            Some(problem) => problems.push(format!("no file {id}: {problem}")),
        }
    }
    match fitting.is_empty() {
        true => Err(format!("{name} is none that it may be: {problems:?}")),
        false => Ok(fitting),
    }
}

fn problem(path: &Path, file: &FileModel, attributes: Attributes) -> Option<String> {
    let metadata = fs::symlink_metadata(path).unwrap();
    let kind = metadata.file_type();
    match &file.kind {
        Kind::Directory => return (!kind.is_dir()).then(|| "no directory".into()),
        Kind::Symlink(_) if !kind.is_symlink() => return Some("no link".into()),
        Kind::Symlink(target) => {
            let found = fs::read_link(path).unwrap();
            return (found.as_os_str().as_bytes() != target.as_bytes()).then(|| format!("leads to {found:?}"));
        }
        Kind::Regular if !kind.is_file() => return Some("no file".into()),
        Kind::Regular => (),
    }
    let size = metadata.len();
    if !file.allows_size(size) {
        return Some(format!("{size} bytes, not one of {:?}", file.sizes));
    }
    if attributes == Attributes::Shown {
        let value = attribute(path, "user.a");
        if !file.attributes.contains(&value) {
            return Some(format!("an attribute of {:?} bytes", value.map(|value| value.len())));
        }
    }
    problem_of_pages(path, file, size)
}

fn problem_of_pages(path: &Path, file: &FileModel, size: u64) -> Option<String> {
    let mut found = BTreeMap::new();
    each_page(path, |index, page| {
        found.insert(index, page.to_vec());
    });
    let all: BTreeSet<u64> = file.pages.keys().chain(found.keys()).copied().collect();
    let wrong = all.into_iter().filter(|index| index * PAGE < size).find(|index| {
        let length = (size - index * PAGE).min(PAGE) as usize;
        !file.allows_page(*index, found.get(index).map(Vec::as_slice), length)
    });
    wrong.map(|index| {
        let candidates = file.pages.get(&index).map_or(0, Vec::len);
        format!("page {index} of {size} bytes is none of {candidates}, and {} zeros", !found.contains_key(&index))
    })
}
