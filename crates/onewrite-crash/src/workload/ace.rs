//! ACE: short sequences of operations with persistence points, after Mohan et al., OSDI 2018 (CrashMonkey and ACE).
//!
//! # The sets
//! Files `/foo`, `/bar`, `/A/foo`, `/A/bar`; directories `/A` (always present), `/B`, `/A/C`. The operations are those
//! of `core` (length 2 and 3) or of `all` (length 1). After the last operation comes one of three persistence points:
//! fsync, fdatasync, sync. After every other operation comes one of three: none, fsync of what the operation touched,
//! sync.
//!
//! If an operation cannot succeed on the present files and directories, actions that make or remove some are inserted:
//! before the first operation in the setup, later between the operations. Lengths 1 and 2 are complete; of length 3
//! every `STRIDE`-th sequence is taken, the first one by seed.

use std::collections::BTreeMap;

use crate::action::{Action, Workload};

const FILES: [&str; 4] = ["/foo", "/bar", "/A/foo", "/A/bar"];
/// One in this many sequences of length 3 is taken.
const STRIDE: usize = 199;
/// Persistence points to choose from after each operation.
const POINTS: usize = 3;
/// Size in bytes of a file that exists before the operation.
const BYTES: u64 = 9_000;

fn write(file: &str, offset: u64, length: u64) -> Action {
    Action::Write { file: file.into(), offset, length, seed: offset + length, direct: false }
}

fn append(file: &str, length: u64) -> Action {
    Action::Append { file: file.into(), length, seed: length }
}

fn truncate(file: &str, size: u64) -> Action {
    Action::Truncate { file: file.into(), size }
}

fn rename(from: &str, to: &str) -> Action {
    Action::Rename(from.into(), to.into())
}

fn link(from: &str, to: &str) -> Action {
    Action::Link(from.into(), to.into())
}

/// The operations for sequences of length 2 and 3.
fn core() -> Vec<Action> {
    vec![
        Action::Create("/foo".into()),
        Action::Create("/A/foo".into()),
        Action::MakeDirectory("/B".into()),
        Action::RemoveDirectory("/B".into()),
        append("/foo", 5_000),
        append("/A/foo", 20_000),
        write("/foo", 0, 4_096),
        write("/foo", 3_000, 3_000),
        write("/foo", 30_000, 5_000),
        truncate("/foo", 0),
        truncate("/foo", 2_500),
        truncate("/foo", 40_000),
        Action::Unlink("/foo".into()),
        Action::Unlink("/A/foo".into()),
        link("/foo", "/bar"),
        link("/foo", "/A/bar"),
        Action::Symlink("foo".into(), "/bar".into()),
        rename("/foo", "/bar"),
        rename("/foo", "/A/bar"),
        rename("/A/foo", "/foo"),
        rename("/A", "/B"),
        Action::Exchange("/foo".into(), "/A/bar".into()),
    ]
}

/// The operations for sequences of length 1: every operation on every file and on every pair of files.
fn all() -> Vec<Action> {
    let mut all = Vec::new();
    for file in FILES {
        all.push(Action::Create(file.into()));
        all.push(Action::Unlink(file.into()));
        all.push(Action::Symlink("target".into(), file.into()));
        all.extend([append(file, 100), append(file, 5_000), append(file, 150_000)]);
        all.extend([write(file, 0, 4_096), write(file, 500, 1_000), write(file, 3_000, 3_000)]);
        all.extend([write(file, 0, 65_536), write(file, 100_000, 5_000)]);
        all.extend([truncate(file, 0), truncate(file, 2_500), truncate(file, 4_096), truncate(file, 20_000)]);
        for other in FILES.into_iter().filter(|other| *other != file) {
            all.extend([rename(file, other), link(file, other)]);
            all.push(Action::Exchange(file.into(), other.into()));
        }
    }
    for directory in ["/B", "/A/C"] {
        all.push(Action::MakeDirectory(directory.into()));
        all.push(Action::RemoveDirectory(directory.into()));
    }
    all.extend([rename("/A", "/B"), rename("/B", "/A/C"), rename("/A/C", "/B")]);
    all.push(Action::Exchange("/A".into(), "/B".into()));
    all
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

/// The existing paths while a sequence is built.
#[derive(Clone)]
struct Present(BTreeMap<String, Kind>);

impl Present {
    fn new() -> Present {
        Present(BTreeMap::from([("/A".to_owned(), Kind::Directory)]))
    }

    /// The actions that `action` needs before it can succeed.
    fn prepare(&self, action: &Action) -> Vec<Action> {
        match action {
            Action::Create(path) | Action::MakeDirectory(path) | Action::Symlink(_, path) => self.absent(path),
            Action::Write { file, .. } | Action::Append { file, .. } | Action::Truncate { file, .. } => self.file(file),
            Action::Unlink(path) => self.file(path),
            Action::RemoveDirectory(path) => self.empty_directory(path),
            Action::Link(from, to) => [self.file(from), self.absent(to)].concat(),
            Action::Rename(from, to) if is_directory(from) => [self.directory(from), self.empty_directory(to)].concat(),
            Action::Rename(from, _) => self.file(from),
            Action::Exchange(from, to) if is_directory(from) => [self.directory(from), self.directory(to)].concat(),
            Action::Exchange(from, to) => [self.file(from), self.file(to)].concat(),
            _ => Vec::new(),
        }
    }

    fn absent(&self, path: &str) -> Vec<Action> {
        let mut actions = self.parent(path);
        match self.0.get(path) {
            Some(Kind::Directory) => actions.extend(self.empty_directory(path).into_iter().chain([rmdir(path)])),
            Some(Kind::File) => actions.push(Action::Unlink(path.into())),
            None => (),
        }
        actions
    }

    fn parent(&self, path: &str) -> Vec<Action> {
        let parent = &path[..path.rfind('/').unwrap_or(0)];
        if parent.is_empty() { Vec::new() } else { self.directory(parent) }
    }

    fn file(&self, path: &str) -> Vec<Action> {
        if self.0.get(path) == Some(&Kind::File) {
            return Vec::new();
        }
        let make = [
            Action::Create(path.into()),
            Action::Write { file: path.into(), offset: 0, length: BYTES, seed: 9, direct: false },
        ];
        self.parent(path).into_iter().chain(make).collect()
    }

    fn directory(&self, path: &str) -> Vec<Action> {
        if self.0.get(path) == Some(&Kind::Directory) { Vec::new() } else { vec![Action::MakeDirectory(path.into())] }
    }

    fn empty_directory(&self, path: &str) -> Vec<Action> {
        let inside = self.0.iter().rev().filter(|(name, _)| name.starts_with(&format!("{path}/")));
        let emptied = inside.map(|(name, kind)| match kind {
            Kind::Directory => rmdir(name),
            Kind::File => Action::Unlink(name.clone()),
        });
        self.parent(path).into_iter().chain(self.directory(path)).chain(emptied).collect()
    }

    fn take(&mut self, action: &Action) {
        match action {
            Action::Create(path) | Action::Symlink(_, path) | Action::Link(_, path) => self.add(path, Kind::File),
            Action::MakeDirectory(path) => self.add(path, Kind::Directory),
            Action::Unlink(path) | Action::RemoveDirectory(path) => self.0.retain(|name, _| name != path),
            Action::Rename(from, to) => self.rename(from, to),
            Action::Exchange(from, to) => {
                self.rename(from, "/~");
                self.rename(to, from);
                self.rename("/~", to);
            }
            _ => (),
        }
    }

    fn add(&mut self, path: &str, kind: Kind) {
        self.0.insert(path.to_owned(), kind);
    }

    fn rename(&mut self, from: &str, to: &str) {
        let moved: Vec<(String, Kind)> = self
            .0
            .iter()
            .filter(|(name, _)| *name == from || name.starts_with(&format!("{from}/")))
            .map(|(name, kind)| (name.clone(), *kind))
            .collect();
        self.0.retain(|name, _| !moved.iter().any(|(gone, _)| gone == name));
        for (name, kind) in moved {
            self.0.insert(format!("{to}{}", &name[from.len()..]), kind);
        }
    }
}

fn is_directory(path: &str) -> bool {
    ["/A", "/B", "/A/C"].contains(&path)
}

fn rmdir(path: &str) -> Action {
    Action::RemoveDirectory(path.into())
}

/// The path that an operation touched, as a later sync finds it.
fn touched(action: &Action) -> String {
    match action {
        Action::Write { file, .. } | Action::Append { file, .. } | Action::Truncate { file, .. } => file.clone(),
        Action::Create(path) => path.clone(),
        Action::Rename(_, to) | Action::Link(_, to) | Action::Exchange(_, to) => to.clone(),
        Action::MakeDirectory(path) => path.clone(),
        Action::Unlink(path) | Action::RemoveDirectory(path) | Action::Symlink(_, path) => {
            let parent = &path[..path.rfind('/').unwrap_or(0)];
            if parent.is_empty() { "/".into() } else { parent.into() }
        }
        _ => "/".into(),
    }
}

fn point(action: &Action, number: usize, is_last: bool) -> Option<Action> {
    match (number, is_last) {
        (0, false) => None,
        (0, true) => Some(Action::Fdatasync(touched(action))),
        (1, _) => Some(Action::Fsync(touched(action))),
        _ => Some(Action::Sync),
    }
}

/// The sequence number `number` of its length.
fn sequence(operations: &[Action], length: usize, mut number: usize) -> Workload {
    let (mut present, mut actions) = (Present::new(), Vec::new());
    let mut setup = vec![Action::MakeDirectory("/A".into())];
    for place in 0..length {
        let operation = &operations[number % operations.len()];
        number /= operations.len();
        let persistence = point(operation, number % POINTS, place + 1 == length);
        number /= POINTS;
        for needed in present.prepare(operation) {
            present.take(&needed);
            if place == 0 { setup.push(needed) } else { actions.push(needed) }
        }
        present.take(operation);
        actions.push(operation.clone());
        actions.extend(persistence);
    }
    Workload { setup, ..Workload::of(actions) }
}

fn operations(length: usize) -> Vec<Action> {
    if length == 1 { all() } else { core() }
}

fn total(length: usize) -> usize {
    (operations(length).len() * POINTS).pow(length as u32)
}

/// The number of workloads of this length.
pub(crate) fn count(length: usize) -> usize {
    if length < 3 { total(length) } else { total(length).div_ceil(STRIDE) }
}

/// The workloads of this length.
pub(crate) fn workloads(length: usize, seed: u64) -> Box<dyn Iterator<Item = Workload>> {
    let operations = operations(length);
    let stride = if length < 3 { 1 } else { STRIDE };
    let first = if length < 3 { 0 } else { (seed % STRIDE as u64) as usize };
    let numbers = (0..count(length)).map(move |index| (first + index * stride) % total(length));
    Box::new(numbers.map(move |number| sequence(&operations, length, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_workloads_are_those_of_the_documentation() {
        assert_eq!((count(1), count(2), count(3)), (312, 4_356, 1_445));
        assert_eq!(workloads(2, 1).count(), 4_356);
    }

    #[test]
    fn dependencies_make_every_operation_possible() {
        let after_unlink = sequence(&[Action::Unlink("/foo".into()), append("/foo", 5)], 2, 2 * POINTS - 6);
        assert!(after_unlink.to_string().contains("create /foo"), "{after_unlink}");
    }
}
