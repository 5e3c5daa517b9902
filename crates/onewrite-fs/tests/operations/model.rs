//! The model: a tree in memory with the behaviour of POSIX and Linux's error numbers.

use std::collections::BTreeMap;

use onewrite_fs::{AttributeManner, DeviceNumber, FileKind, RenameManner};

use super::entry::{Entry, Tree};
use super::model_file::{File, INVALID};
use super::operation::{Answer, NOT_ASKED, OpenManner, Operation, Outcome, SLOTS, Target, filled_name, link_target};

type Id = u64;

const ROOT: Id = 0;

const NOT_PERMITTED: i32 = 1;
const NOT_FOUND: i32 = 2;
const EXISTS: i32 = 17;
const NOT_DIRECTORY: i32 = 20;
const IS_DIRECTORY: i32 = 21;
const NAME_TOO_LONG: i32 = 36;
const NOT_EMPTY: i32 = 39;
const NO_DATA: i32 = 61;

#[derive(Clone, Debug)]
struct Node {
    kind: FileKind,
    permissions: u16,
    owner: (u32, u32),
    /// Number of names; unused for a directory.
    links: u32,
    openers: u32,
    names: BTreeMap<String, Id>,
    file: File,
    target: Vec<u8>,
    device: DeviceNumber,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The handles that a task has open.
pub type Slots = [Option<Id>; SLOTS];

/// The tree.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<Id, Node>,
    next: Id,
}

impl Default for Model {
    fn default() -> Model {
        let mut model = Model { nodes: BTreeMap::new(), next: ROOT };
        model.add(FileKind::Directory, 0o755);
        model
    }
}

/// Device numbers of a new node.
pub const fn device_of(kind: FileKind) -> DeviceNumber {
    match kind {
        FileKind::CharacterDevice => DeviceNumber::new(1, 3),
        FileKind::BlockDevice => DeviceNumber::new(259, 70_000),
        _ => DeviceNumber::NONE,
    }
}

/// Whether Linux allows an attribute of this name on a file of this kind.
pub fn takes_attribute(kind: FileKind, name: &str) -> bool {
    matches!(kind, FileKind::Regular | FileKind::Directory) || !name.starts_with("user.")
}

impl Model {
    fn add(&mut self, kind: FileKind, permissions: u16) -> Id {
        let id = self.next;
        self.next += 1;
        let node = Node {
            kind,
            permissions,
            owner: (0, 0),
            links: 1,
            openers: 0,
            names: BTreeMap::new(),
            file: File::default(),
            target: Vec::new(),
            device: device_of(kind),
            attributes: BTreeMap::new(),
        };
        self.nodes.insert(id, node);
        id
    }

    fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node that something names")
    }

    fn child(&self, directory: Id, name: &str) -> Result<Option<Id>, i32> {
        match name.len() > 255 {
            true => Err(NAME_TOO_LONG),
            false => Ok(self.node(directory).names.get(name).copied()),
        }
    }

    fn parent<'a>(&self, path: &'a str) -> Result<(Id, &'a str), i32> {
        let (mut directory, mut names) = (ROOT, path.split('/').peekable());
        loop {
            let name = names.next().expect("a path has a name");
            match self.node(directory).kind {
                FileKind::Directory => (),
                FileKind::Symlink => return Err(NOT_FOUND),
                _ => return Err(NOT_DIRECTORY),
            }
            if names.peek().is_none() {
                return Ok((directory, name));
            }
            directory = self.child(directory, name)?.ok_or(NOT_FOUND)?;
        }
    }

    /// The node that a path names.
    pub fn find(&self, path: &str) -> Result<Id, i32> {
        let (directory, name) = self.parent(path)?;
        self.child(directory, name)?.ok_or(NOT_FOUND)
    }

    fn absent<'a>(&self, path: &'a str) -> Result<(Id, &'a str), i32> {
        let (directory, name) = self.parent(path)?;
        match self.child(directory, name)? {
            Some(_) => Err(EXISTS),
            None => Ok((directory, name)),
        }
    }

    fn make(&mut self, path: &str, kind: FileKind, permissions: u16) -> Result<Id, i32> {
        let (directory, name) = self.absent(path)?;
        let id = self.add(kind, permissions);
        self.node_mut(directory).names.insert(name.into(), id);
        Ok(id)
    }

    /// Removes a node without names and open handles.
    fn drop_if_unused(&mut self, id: Id) {
        let node = self.node(id);
        let is_unused = node.openers == 0 && (node.links == 0);
        if is_unused {
            self.nodes.remove(&id);
        }
    }

    fn drop_name(&mut self, id: Id) {
        let node = self.node_mut(id);
        node.links -= 1;
        self.drop_if_unused(id);
    }

    /// Runs an operation of the task with the open handles `slots`.
    pub fn apply(&mut self, slots: &mut Slots, operation: &Operation) -> Outcome {
        if let Some(target) = operation.target() {
            let id = match target {
                Target::Path(path) => self.find(path)?,
                Target::Slot(slot) => slots[*slot].ok_or(NOT_ASKED)?,
            };
            return self.apply_to(id, operation);
        }
        match operation {
            Operation::Open(path, slot, manner) => {
                self.close(slots, *slot);
                let id = self.open(path, *manner)?;
                self.node_mut(id).openers += 1;
                slots[*slot] = Some(id);
            }
            Operation::Close(slot) => self.close(slots, *slot),
            _ => return self.apply_names(operation),
        }
        Ok(Answer::Done)
    }

    fn close(&mut self, slots: &mut Slots, slot: usize) {
        if let Some(id) = slots[slot].take() {
            self.node_mut(id).openers -= 1;
            self.drop_if_unused(id);
        }
    }

    fn open(&mut self, path: &str, manner: OpenManner) -> Result<Id, i32> {
        match self.find(path) {
            Ok(_) if manner.exclusive => Err(EXISTS),
            Ok(id) if self.node(id).kind != FileKind::Regular => Err(NOT_ASKED),
            Ok(id) => {
                if manner.truncate {
                    self.node_mut(id).file.truncate(0)?;
                }
                Ok(id)
            }
            Err(NOT_FOUND) if manner.create => self.make(path, FileKind::Regular, 0o644),
            Err(error) => Err(error),
        }
    }

    fn apply_names(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Make(path, kind, permissions) => drop(self.make(path, *kind, *permissions)?),
            Operation::Symlink(path, length) => {
                let id = self.make(path, FileKind::Symlink, 0o777)?;
                self.node_mut(id).target = link_target(*length).into_bytes();
            }
            Operation::Link(old, new) => self.link(old, new)?,
            Operation::Unlink(path) => self.unlink(path)?,
            Operation::RemoveDirectory(path) => self.remove_directory(path)?,
            Operation::Rename(from, to, manner) => self.rename(from, to, *manner)?,
            Operation::Fill(path, first, count) => self.fill(path, (*first, *count))?,
            Operation::Clear(path, first, count) => self.clear(path, (*first, *count))?,
            Operation::List(path) => return self.list(path),
            Operation::ReadLink(path) => {
                let node = self.node(self.find(path)?);
                let is_link = node.kind == FileKind::Symlink;
                return if is_link { Ok(Answer::Bytes(node.target.clone())) } else { Err(INVALID) };
            }
            Operation::Permissions(path, permissions) => {
                let id = self.find(path)?;
                if self.node(id).kind == FileKind::Symlink {
                    return Err(NOT_ASKED);
                }
                self.node_mut(id).permissions = *permissions;
            }
            Operation::Owner(path, user, group) => {
                let id = self.find(path)?;
                self.node_mut(id).owner = (*user, *group);
            }
            Operation::Times(path, accessed, modified) => {
                self.find(path)?;
                return Ok(Answer::Times(*accessed, *modified));
            }
            _ => unreachable!("not about names: {operation:?}"),
        }
        Ok(Answer::Done)
    }

    fn link(&mut self, old: &str, new: &str) -> Result<(), i32> {
        let id = self.find(old)?;
        let (directory, name) = self.absent(new)?;
        if self.node(id).kind == FileKind::Directory {
            return Err(NOT_PERMITTED);
        }
        self.node_mut(id).links += 1;
        self.node_mut(directory).names.insert(name.into(), id);
        Ok(())
    }

    fn unlink(&mut self, path: &str) -> Result<(), i32> {
        let (directory, name) = self.parent(path)?;
        let id = self.child(directory, name)?.ok_or(NOT_FOUND)?;
        if self.node(id).kind == FileKind::Directory {
            return Err(IS_DIRECTORY);
        }
        self.node_mut(directory).names.remove(name);
        self.drop_name(id);
        Ok(())
    }

    fn remove_directory(&mut self, path: &str) -> Result<(), i32> {
        let (directory, name) = self.parent(path)?;
        let id = self.child(directory, name)?.ok_or(NOT_FOUND)?;
        match self.node(id) {
            Node { kind, .. } if *kind != FileKind::Directory => return Err(NOT_DIRECTORY),
            Node { names, .. } if !names.is_empty() => return Err(NOT_EMPTY),
            _ => (),
        }
        self.node_mut(directory).names.remove(name);
        self.drop_name(id);
        Ok(())
    }

    /// Whether `inner` is `outer` or lies below it.
    fn is_within(&self, inner: Id, outer: Id) -> bool {
        inner == outer || self.node(outer).names.values().any(|child| self.is_within(inner, *child))
    }

    fn rename(&mut self, from: &str, to: &str, manner: RenameManner) -> Result<(), i32> {
        let ((source, from), (target, to)) = (self.parent(from)?, self.parent(to)?);
        let moved = self.child(source, from)?.ok_or(NOT_FOUND)?;
        let other = self.child(target, to)?;
        match (other, manner) {
            (None, RenameManner::Exchange) => return Err(NOT_FOUND),
            (Some(_), RenameManner::NoReplace) => return Err(EXISTS),
            _ => (),
        }
        if self.is_within(target, moved) {
            return Err(INVALID);
        }
        if let Some(other) = other {
            if self.is_within(source, other) {
                return Err(if manner == RenameManner::Exchange { INVALID } else { NOT_EMPTY });
            }
            if other == moved {
                return Ok(());
            }
            if manner == RenameManner::Exchange {
                self.node_mut(source).names.insert(from.into(), other);
                self.node_mut(target).names.insert(to.into(), moved);
                return Ok(());
            }
            self.expect_replaceable(moved, other)?;
        }
        self.node_mut(source).names.remove(from);
        self.node_mut(target).names.insert(to.into(), moved);
        if let Some(other) = other {
            self.drop_name(other);
        }
        Ok(())
    }

    fn expect_replaceable(&self, moved: Id, other: Id) -> Result<(), i32> {
        let is_directory = |id| self.node(id).kind == FileKind::Directory;
        match (is_directory(moved), is_directory(other)) {
            (true, false) => Err(NOT_DIRECTORY),
            (false, true) => Err(IS_DIRECTORY),
            (true, true) if !self.node(other).names.is_empty() => Err(NOT_EMPTY),
            _ => Ok(()),
        }
    }

    fn directory(&self, path: &str) -> Result<Id, i32> {
        let id = self.find(path)?;
        if self.node(id).kind == FileKind::Directory { Ok(id) } else { Err(NOT_ASKED) }
    }

    fn fill(&mut self, path: &str, (first, count): (u32, u32)) -> Result<(), i32> {
        self.directory(path)?;
        for number in first..first + count {
            match self.make(&format!("{path}/{}", filled_name(number)), FileKind::Regular, 0o600) {
                Ok(_) | Err(EXISTS) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn clear(&mut self, path: &str, (first, count): (u32, u32)) -> Result<(), i32> {
        self.directory(path)?;
        for number in first..first + count {
            match self.unlink(&format!("{path}/{}", filled_name(number))) {
                Ok(()) | Err(NOT_FOUND) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn list(&self, path: &str) -> Outcome {
        let directory = self.node(self.directory(path)?);
        Ok(Answer::Names(directory.names.keys().map(|name| name.clone().into_bytes()).collect()))
    }

    fn apply_to(&mut self, id: Id, operation: &Operation) -> Outcome {
        let node = self.node_mut(id);
        match operation {
            Operation::SetAttribute(_, name, value, manner) => return set_attribute(node, name, value, *manner),
            Operation::RemoveAttribute(_, name) | Operation::GetAttribute(_, name)
                if !takes_attribute(node.kind, name) =>
            {
                return Err(NOT_ASKED);
            }
            Operation::RemoveAttribute(_, name) => {
                return node.attributes.remove(name.as_bytes()).map(|_| Answer::Done).ok_or(NO_DATA);
            }
            Operation::GetAttribute(_, name) => {
                return node.attributes.get(name.as_bytes()).cloned().map(Answer::Bytes).ok_or(NO_DATA);
            }
            _ if node.kind != FileKind::Regular => return Err(NOT_ASKED),
            Operation::Write(_, offset, bytes) => node.file.write(*offset, bytes),
            Operation::Append(_, bytes) => node.file.write(node.file.bytes.len() as u64, bytes),
            Operation::Read(_, offset, length) => return Ok(Answer::Bytes(node.file.read(*offset, *length))),
            Operation::Truncate(_, size) => node.file.truncate(*size)?,
            Operation::Allocate(_, offset, length, allocation) => node.file.allocate(*offset, *length, *allocation)?,
            Operation::Seek(_, offset, target) => return node.file.seek(*offset, *target).map(Answer::Number),
            Operation::Sync(..) => (),
            _ => unreachable!("not about a file: {operation:?}"),
        }
        Ok(Answer::Done)
    }

    /// Sets the content of a file, after an operation that happened only in part.
    pub fn set_content(&mut self, id: Id, bytes: Vec<u8>) {
        self.node_mut(id).file.bytes = bytes;
    }

    /// All paths, deepest last.
    pub fn paths(&self) -> Vec<(String, FileKind)> {
        self.tree().into_iter().map(|(path, entry)| (path, entry.kind)).collect()
    }

    /// The compared properties of a node.
    pub fn entry(&self, id: Id) -> Entry {
        let node = self.node(id);
        let is_directory = |child: &&Id| self.node(**child).kind == FileKind::Directory;
        let (links, size, content) = match node.kind {
            FileKind::Directory => (2 + node.names.values().filter(is_directory).count() as u32, 0, Vec::new()),
            FileKind::Symlink => (node.links, node.target.len() as u64, node.target.clone()),
            _ => (node.links, node.file.bytes.len() as u64, node.file.bytes.clone()),
        };
        Entry {
            kind: node.kind,
            permissions: node.permissions,
            owner: node.owner,
            links,
            size,
            device: node.device,
            content,
            attributes: node.attributes.clone().into_iter().collect(),
        }
    }

    /// Everything below the root.
    pub fn tree(&self) -> Tree {
        let (mut tree, mut pending) = (Tree::new(), vec![(String::new(), ROOT)]);
        while let Some((path, id)) = pending.pop() {
            let below = |name: &String| if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            pending.extend(self.node(id).names.iter().map(|(name, child)| (below(name), *child)));
            if id != ROOT {
                tree.push((path, self.entry(id)));
            }
        }
        tree.sort_by(|one, other| one.0.cmp(&other.0));
        tree
    }
}

fn set_attribute(node: &mut Node, name: &str, value: &[u8], manner: AttributeManner) -> Outcome {
    if !takes_attribute(node.kind, name) {
        return Err(NOT_ASKED);
    }
    match (node.attributes.contains_key(name.as_bytes()), manner) {
        (true, AttributeManner::Create) => return Err(EXISTS),
        (false, AttributeManner::Replace) => return Err(NO_DATA),
        _ => node.attributes.insert(name.into(), value.to_vec()),
    };
    Ok(Answer::Done)
}
