//! Listing: every path of a tree with its kind, content and attributes. Listings have hashes, and two have a
//! difference.

use std::collections::{BTreeMap, BTreeSet};

use onewrite_fs::NewNode;

use super::pages::Pages;
use crate::hash::{bytes_hash, mixed};

/// The content of a file: its size and its pages. A copy is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileContent {
    pub(crate) size: u64,
    pub(crate) pages: Pages,
    pub(crate) attributes: FileAttributes,
}

/// The attributes of a file, a directory or a link that workloads change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileAttributes {
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The time of the last read in seconds since 1970, if an action set it.
    pub(crate) accessed: Option<u32>,
    /// Full names of extended attributes, with the hashes of their values.
    pub(crate) extended: BTreeMap<String, u64>,
}

impl Default for FileAttributes {
    /// The attributes of a new file.
    fn default() -> FileAttributes {
        FileAttributes::of(NewNode::FILE)
    }
}

impl FileAttributes {
    /// Those of a new inode.
    pub(crate) fn of(new: NewNode) -> FileAttributes {
        let NewNode { permissions, uid, gid, .. } = new;
        FileAttributes { permissions, uid, gid, accessed: None, extended: BTreeMap::new() }
    }

    /// Those of a new symbolic link.
    pub(crate) fn of_link() -> FileAttributes {
        FileAttributes { permissions: 0o777, ..FileAttributes::default() }
    }

    fn hash(&self) -> u64 {
        let owner = mixed(u64::from(self.uid), u64::from(self.gid));
        let accessed = self.accessed.map_or(u64::MAX, u64::from);
        let fixed = mixed(mixed(u64::from(self.permissions), owner), accessed);
        self.extended.iter().fold(fixed, |sum, (name, value)| mixed(sum, mixed(bytes_hash(name.as_bytes()), *value)))
    }
}

impl FileContent {
    /// Hash of size, content and attributes.
    pub(crate) fn full_hash(&self) -> u64 {
        mixed(self.attributes.hash(), self.hash())
    }

    fn hash(&self) -> u64 {
        mixed(self.size, self.pages.hash())
    }
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Directory(FileAttributes),
    File(FileContent),
    Symlink(String, FileAttributes),
    /// A kind that no workload makes, or a name that is listed and not found.
    Other(String),
}

impl ItemKind {
    /// Those of a directory or a link; a file has them in its content.
    fn attributes(&self) -> Option<&FileAttributes> {
        match self {
            ItemKind::Directory(attributes) | ItemKind::Symlink(_, attributes) => Some(attributes),
            ItemKind::File(_) | ItemKind::Other(_) => None,
        }
    }
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    /// Equal for the names of one inode; see [`Listing::number_groups`].
    pub(crate) group: u64,
}

impl Item {
    /// An item that belongs to no group yet.
    pub(crate) fn new(kind: ItemKind) -> Item {
        Item { kind, group: 0 }
    }

    /// Hash of everything but a file's content and size.
    pub(crate) fn name_hash(&self) -> u64 {
        match &self.kind {
            ItemKind::File(content) => mixed(mixed(2, content.attributes.hash()), self.group),
            _ => self.shape_hash(),
        }
    }

    /// Hash of everything but what a file is like: its attributes, size and content.
    fn skeleton_hash(&self) -> u64 {
        match &self.kind {
            ItemKind::File(_) => mixed(5, self.group),
            _ => self.shape_hash(),
        }
    }

    /// Hash of everything but content.
    pub(crate) fn shape_hash(&self) -> u64 {
        let kind = match &self.kind {
            ItemKind::Directory(attributes) => mixed(1, attributes.hash()),
            ItemKind::File(content) => mixed(mixed(2, content.attributes.hash()), content.size),
            ItemKind::Symlink(target, attributes) => mixed(mixed(3, attributes.hash()), bytes_hash(target.as_bytes())),
            ItemKind::Other(what) => mixed(4, bytes_hash(what.as_bytes())),
        };
        mixed(kind, self.group)
    }

    /// Hash of everything.
    pub(crate) fn full_hash(&self) -> u64 {
        match &self.kind {
            ItemKind::File(content) => mixed(self.shape_hash(), content.hash()),
            _ => self.shape_hash(),
        }
    }
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of the inode or node.
    pub(crate) owner: u64,
    pub(crate) item: Item,
}

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    entries: BTreeMap<String, Entry>,
}

impl Listing {
    /// Adds a path; `owner` is equal for the names of one inode. A path that is there already is kept beside it, under
    /// a name that no tree has: a directory that gives a name twice is none that somebody made.
    pub(crate) fn insert(&mut self, mut path: String, owner: u64, item: Item) {
        while self.entries.contains_key(&path) {
            path.push_str("/again");
        }
        self.entries.insert(path, Entry { owner, item });
    }

    /// Numbers the inodes: all names of an inode get the hash of its first name in the order of paths. So a path that
    /// comes or goes changes the groups of its own inode only.
    pub(crate) fn number_groups(&mut self) {
        let mut first: BTreeMap<u64, u64> = BTreeMap::new();
        for (path, Entry { owner, item }) in &mut self.entries {
            item.group = *first.entry(*owner).or_insert_with(|| bytes_hash(path.as_bytes()));
        }
    }

    /// The item at `path`.
    pub(crate) fn item(&self, path: &str) -> Option<&Item> {
        self.entry(path).map(|entry| &entry.item)
    }

    /// The item at `path`, and what it belongs to.
    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The number of the inode or node at `path`.
    pub(crate) fn owner(&self, path: &str) -> Option<u64> {
        self.entry(path).map(|entry| entry.owner)
    }

    /// Every path in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.entries().map(|(path, entry)| (path, &entry.item))
    }

    /// The same, each with what it belongs to.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    fn hash(&self, of: impl Fn(&Item) -> u64) -> u64 {
        self.items().fold(0, |sum, (path, item)| mixed(sum, mixed(bytes_hash(path.as_bytes()), of(item))))
    }

    /// Hash of names, kinds, links and attributes: everything but the files' content and size.
    pub(crate) fn name_hash(&self) -> u64 {
        self.hash(Item::name_hash)
    }

    /// Hash of names, kinds, links, link targets, and attributes of what is no file.
    pub(crate) fn skeleton_hash(&self) -> u64 {
        self.hash(Item::skeleton_hash)
    }

    /// Hash of names, kinds, sizes, links and attributes: everything but content.
    pub(crate) fn shape_hash(&self) -> u64 {
        self.hash(Item::shape_hash)
    }

    /// Hash of everything.
    pub(crate) fn full_hash(&self) -> u64 {
        self.hash(Item::full_hash)
    }

    /// Number of paths that only one of two listings has, or at which `of` differs.
    pub(crate) fn distance(&self, found: &Listing, of: impl Fn(&Item) -> u64) -> usize {
        let differs = |(path, item): &(&str, &Item)| found.item(path).is_none_or(|other| of(other) != of(item));
        let extra = found.items().filter(|(path, _)| self.item(path).is_none());
        self.items().filter(differs).count() + extra.count()
    }

    /// The difference to the recovered listing, a line for each path: `-` only expected, `+` only found.
    pub(crate) fn difference(&self, found: &Listing) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, item) in self.items() {
            match found.item(path) {
                None => lines.push(format!("- {path}: {}", described(item))),
                Some(other) if other != item => lines.push(change(path, item, other)),
                Some(_) => (),
            }
        }
        let extra = found.items().filter(|(path, _)| self.item(path).is_none());
        lines.extend(extra.map(|(path, item)| format!("+ {path}: {}", described(item))));
        lines
    }
}

fn described(item: &Item) -> String {
    match &item.kind {
        ItemKind::Directory(_) => "directory".into(),
        ItemKind::File(content) => format!("file of {} bytes", content.size),
        ItemKind::Symlink(target, _) => format!("link to {target}"),
        ItemKind::Other(what) => what.clone(),
    }
}

fn change(path: &str, expected: &Item, found: &Item) -> String {
    if let (ItemKind::File(one), ItemKind::File(other)) = (&expected.kind, &found.kind)
        && one.size == other.size
        && expected.group == found.group
    {
        if one.attributes != other.attributes {
            return format!("! {path}: expected {:?}, found {:?}", one.attributes, other.attributes);
        }
        return format!("! {path}: content differs in {}", differing_pages(one, other));
    }
    if let (Some(one), Some(other)) = (expected.kind.attributes(), found.kind.attributes())
        && one != other
    {
        return format!("! {path}: expected {one:?}, found {other:?}");
    }
    if expected.kind == found.kind {
        return format!("! {path}: names the inode of another path than expected");
    }
    format!("! {path}: expected {}, found {}", described(expected), described(found))
}

fn differing_pages(one: &FileContent, other: &FileContent) -> String {
    let hash = |content: &FileContent, index: u64| content.pages.shown(index).1;
    let all: BTreeSet<u64> = one.pages.filled().chain(other.pages.filled()).map(|(index, _)| index).collect();
    let indexes: Vec<String> = all
        .into_iter()
        .filter(|index| hash(one, *index) != hash(other, *index))
        .map(|index| index.to_string())
        .collect();
    format!("page {}", indexes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(entries: &[(&str, u64, u64)]) -> Listing {
        let mut listing = Listing::default();
        for (path, owner, size) in entries {
            let content = FileContent { size: *size, ..FileContent::default() };
            listing.insert((*path).into(), *owner, Item::new(ItemKind::File(content)));
        }
        listing.number_groups();
        listing
    }

    #[test]
    fn inode_numbers_do_not_matter_but_links_do() {
        let one = listing(&[("/a", 5, 1), ("/b", 5, 1)]);
        assert_eq!(one.full_hash(), listing(&[("/a", 9, 1), ("/b", 9, 1)]).full_hash());
        assert_ne!(one.full_hash(), listing(&[("/a", 5, 1), ("/b", 6, 1)]).full_hash());
    }

    #[test]
    fn the_difference_names_paths() {
        let (one, other) = (listing(&[("/a", 1, 1), ("/b", 2, 1)]), listing(&[("/a", 1, 2), ("/c", 2, 1)]));
        let lines = one.difference(&other);
        assert_eq!(lines[0], "! /a: expected file of 1 bytes, found file of 2 bytes");
        assert_eq!(lines[1..], ["- /b: file of 1 bytes", "+ /c: file of 1 bytes"]);
    }
}
