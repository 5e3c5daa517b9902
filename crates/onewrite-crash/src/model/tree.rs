//! Tree: the plain model, changed step by step.
//!
//! # Invariants
//! - Nodes are never removed. A node without a name is not visible from the root, but an open descriptor can still
//!   change it.
//! - A page that is absent from a file's map reads as zeros and has no block; a page that is present has a block.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeBounds};

use onewrite_block::{PAGE_SIZE, Page};
use onewrite_fs::{NewNode, RenameManner};
use rpds::RedBlackTreeMap;

use super::listing::{FileAttributes, FileContent, Item, ItemKind, Listing};
use super::pages::Pages;
use crate::action::{AttributeChange, content};
use crate::hash::ZEROS;

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// Identifies a node of the model. Unlike an inode number, it is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// The kind of node that a step creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewKind {
    File,
    Directory,
    Symlink(String),
}

/// Pages of a file that take the content of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedPages {
    pub(crate) source: NodeId,
    /// First page there.
    pub(crate) source_index: u64,
    pub(crate) target: NodeId,
    pub(crate) target_pages: Range<u64>,
}

impl SharedPages {
    /// The bytes of the target's file up to the end of the pages.
    pub(crate) const fn target_end(&self) -> u64 {
        self.target_pages.end * PAGE_BYTES
    }
}

/// One atomic change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create {
        directory: NodeId,
        name: String,
        node: NodeId,
        kind: NewKind,
    },
    Write {
        node: NodeId,
        offset: u64,
        length: u64,
        seed: u64,
    },
    Truncate {
        node: NodeId,
        size: u64,
    },
    /// Part of a page becomes zeros, if it has a block.
    Zero {
        node: NodeId,
        offset: u64,
        length: u64,
    },
    /// Pages become a hole, together. Behind the last page of a file they may be very many.
    Free {
        node: NodeId,
        pages: Range<u64>,
    },
    /// The content from page `from` on moves to page `to`, and the end of the file moves with it: to lower offsets over
    /// a hole, or to higher offsets to make a hole.
    Shift {
        node: NodeId,
        from: u64,
        to: u64,
    },
    SetAttributes {
        node: NodeId,
        change: AttributeChange,
    },
    /// Sets an extended attribute to a value, given by its hash, or removes it.
    SetExtended {
        node: NodeId,
        name: String,
        value: Option<u64>,
    },
    Remove {
        directory: NodeId,
        name: String,
    },
    Rename {
        from: (NodeId, String),
        to: (NodeId, String),
        manner: RenameManner,
    },
    Link {
        node: NodeId,
        directory: NodeId,
        name: String,
    },
    /// All of these or none: the commit of drafts.
    Atomic(Vec<Step>),
    /// Pages take the content that the sources have before.
    Share(Vec<SharedPages>),
}

impl Step {
    /// The file whose content it changes, in a draft; `None` for changes of names.
    pub(crate) const fn content_of(&self) -> Option<NodeId> {
        match self {
            Step::Write { node, .. }
            | Step::Truncate { node, .. }
            | Step::Zero { node, .. }
            | Step::Free { node, .. } => Some(*node),
            _ => None,
        }
    }
}

/// A page whose content a step changed.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) node: NodeId,
    pub(crate) index: u64,
    pub(crate) page: Page,
    pub(crate) hash: u64,
    /// Whether the page had no block before.
    pub(crate) allocates: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Its pages are those that have a block.
    File(FileContent),
    Directory {
        names: BTreeMap<String, NodeId>,
        attributes: FileAttributes,
    },
    Symlink {
        target: String,
        attributes: FileAttributes,
    },
}

/// See the module's head. A copy is free, and shares what does not change.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(super) nodes: RedBlackTreeMap<NodeId, Node>,
}

impl Tree {
    /// The root.
    pub(crate) const ROOT: NodeId = NodeId(0);

    /// The tree of a new file system: the root with empty directories of these names, for root alone.
    pub(crate) fn of_directories(directories: &[&str]) -> Tree {
        let node = |names, permissions| {
            let attributes = FileAttributes { permissions, ..FileAttributes::of(NewNode::DIRECTORY) };
            Node::Directory { names, attributes }
        };
        let children = directories.iter().map(|_| node(BTreeMap::new(), 0o700));
        let mut nodes: RedBlackTreeMap<NodeId, Node> = (1..).map(NodeId).zip(children).collect();
        let names = directories.iter().map(|name| (*name).to_owned()).zip((1..).map(NodeId));
        nodes.insert_mut(Tree::ROOT, node(names.collect(), NewNode::DIRECTORY.permissions));
        Tree { nodes }
    }

    /// The highest number of a node, of those without a name, too.
    pub(crate) fn last_node(&self) -> NodeId {
        self.nodes.last().map_or(Tree::ROOT, |(node, _)| *node)
    }

    /// Size of a file in bytes; 0 for anything else.
    pub(crate) fn size(&self, node: NodeId) -> u64 {
        self.known_file(node).map_or(0, |file| file.size)
    }

    /// A page of a file with its hash, if it has a block.
    pub(crate) fn page(&self, node: NodeId, index: u64) -> Option<(Page, u64)> {
        self.known_file(node)?.pages.get(index).cloned()
    }

    /// Numbers of the pages of a file that have a block, in this range.
    pub(crate) fn blocks_in(&self, node: NodeId, range: Range<u64>) -> Vec<u64> {
        self.known_file(node).map_or_else(Vec::new, |file| file.pages.indexes(range).collect())
    }

    /// What a file holds; `None` for anything else.
    pub(crate) fn content(&self, node: NodeId) -> Option<FileContent> {
        self.known_file(node).cloned()
    }

    fn known_file(&self, node: NodeId) -> Option<&FileContent> {
        match self.nodes.get(&node)? {
            Node::File(content) => Some(content),
            _ => None,
        }
    }

    /// Whether there is such a node, with a name or without.
    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// The names of a node, each with its directory.
    pub(crate) fn names_of(&self, node: NodeId) -> Vec<(NodeId, String)> {
        let of_directory = |(directory, entry): (&NodeId, &Node)| match entry {
            Node::Directory { names, .. } => {
                let own = names.iter().filter(|(_, child)| **child == node);
                own.map(|(name, _)| (*directory, name.clone())).collect()
            }
            _ => Vec::new(),
        };
        self.nodes.iter().flat_map(of_directory).collect()
    }

    /// The node of `name` in `directory`.
    pub(crate) fn child(&self, directory: NodeId, name: &str) -> Option<NodeId> {
        match self.nodes.get(&directory) {
            Some(Node::Directory { names, .. }) => names.get(name).copied(),
            _ => None,
        }
    }

    /// Applies a step and returns the pages with new content. Returns `None` and changes nothing if the step is
    /// impossible.
    pub(crate) fn apply(&mut self, step: &Step) -> Option<Vec<Touched>> {
        match step {
            Step::Create { directory, name, node, kind } => self.create(*directory, name, *node, kind)?,
            Step::Write { node, offset, length, seed } => return self.write(*node, *offset, *length, *seed),
            Step::Truncate { node, size } => return self.truncate(*node, *size),
            Step::Zero { node, offset, length } => return self.zero(*node, *offset, *length),
            Step::Free { node, pages } => return self.free(*node, pages),
            Step::Shift { node, from, to } => return self.shift(*node, *from, *to),
            Step::SetAttributes { node, change } => self.set_attributes(*node, *change)?,
            Step::SetExtended { node, name, value } => {
                let extended = &mut self.attributes(*node)?.extended;
                match value {
                    Some(value) => drop(extended.insert(name.clone(), *value)),
                    None => drop(extended.remove(name)?),
                }
            }
            Step::Remove { directory, name } => drop(self.names(*directory)?.remove(name)?),
            Step::Rename { from, to, manner } => self.rename(from, to, *manner)?,
            Step::Link { node, directory, name } => {
                let node = self.nodes.contains_key(node).then_some(*node)?;
                self.names(*directory)?.insert(name.clone(), node);
            }
            Step::Atomic(steps) => {
                let mut changed = self.clone();
                let touched = steps.iter().map(|step| changed.apply(step)).collect::<Option<Vec<_>>>()?;
                *self = changed;
                return Some(touched.concat());
            }
            Step::Share(parts) => return self.share(parts),
        }
        Some(Vec::new())
    }

    /// The steps without those that change nothing here.
    pub(crate) fn effective(&self, steps: &[Step]) -> Vec<Step> {
        let mut tree = self.clone();
        let mut changes = |step: &&Step| match step {
            Step::Truncate { node, .. } | Step::Zero { node, .. } | Step::Free { node, .. } => {
                let before = tree.size(*node);
                let touched = tree.apply(step);
                touched.is_none_or(|pages| !pages.is_empty()) || tree.size(*node) != before
            }
            _ => {
                tree.apply(step);
                true
            }
        };
        steps.iter().filter(|step| changes(step)).cloned().collect()
    }

    fn names(&mut self, directory: NodeId) -> Option<&mut BTreeMap<String, NodeId>> {
        match self.nodes.get_mut(&directory)? {
            Node::Directory { names, .. } => Some(names),
            _ => None,
        }
    }

    fn create(&mut self, directory: NodeId, name: &str, node: NodeId, kind: &NewKind) -> Option<()> {
        let names = self.names(directory)?;
        if names.contains_key(name) {
            return None;
        }
        names.insert(name.to_owned(), node);
        let made = match kind {
            NewKind::File => Node::File(FileContent::default()),
            NewKind::Directory => {
                let attributes = FileAttributes::of(NewNode::DIRECTORY);
                Node::Directory { names: BTreeMap::new(), attributes }
            }
            NewKind::Symlink(target) => Node::Symlink { target: target.clone(), attributes: FileAttributes::of_link() },
        };
        self.nodes.insert_mut(node, made);
        Some(())
    }

    fn rename(&mut self, from: &(NodeId, String), to: &(NodeId, String), manner: RenameManner) -> Option<()> {
        let exchange = manner == RenameManner::Exchange;
        let (moved, other) = (self.child(from.0, &from.1)?, self.child(to.0, &to.1));
        if !exchange && other == Some(moved) {
            return Some(());
        }
        if exchange {
            let other = other?;
            self.names(from.0)?.insert(from.1.clone(), other);
        } else {
            self.names(from.0)?.remove(&from.1);
        }
        self.names(to.0)?.insert(to.1.clone(), moved);
        Some(())
    }

    pub(super) fn file(&mut self, node: NodeId) -> Option<(&mut u64, &mut Pages)> {
        match self.nodes.get_mut(&node)? {
            Node::File(FileContent { size, pages, .. }) => Some((size, pages)),
            _ => None,
        }
    }

    fn attributes(&mut self, node: NodeId) -> Option<&mut FileAttributes> {
        match self.nodes.get_mut(&node)? {
            Node::File(FileContent { attributes, .. })
            | Node::Directory { attributes, .. }
            | Node::Symlink { attributes, .. } => Some(attributes),
        }
    }

    fn set_attributes(&mut self, node: NodeId, change: AttributeChange) -> Option<()> {
        let attributes = self.attributes(node)?;
        match change {
            AttributeChange::Permissions(bits) => attributes.permissions = bits,
            AttributeChange::Owner { uid, gid } => (attributes.uid, attributes.gid) = (uid, gid),
            AttributeChange::Accessed(seconds) => attributes.accessed = Some(seconds),
        }
        Some(())
    }

    fn free(&mut self, node: NodeId, range: &Range<u64>) -> Option<Vec<Touched>> {
        let pages = self.file(node)?.1;
        Some(removed(pages, range.clone()).into_iter().map(|(index, _)| hole(node, index)).collect())
    }

    /// Every page from the lower of `from` and `to` on that has a block before or after counts as changed and durable:
    /// the file system writes the content before it moves it.
    fn shift(&mut self, node: NodeId, from: u64, to: u64) -> Option<Vec<Touched>> {
        let (size, pages) = self.file(node)?;
        *size = (*size + to * PAGE_BYTES).checked_sub(from * PAGE_BYTES)?;
        let before = removed(pages, from.min(to)..);
        for (index, page) in before.iter().filter(|(index, _)| *index >= from) {
            pages.insert(index + to - from, page.clone());
        }
        let after = pages.indexes(from.min(to)..);
        let all: BTreeSet<u64> = before.into_iter().map(|(index, _)| index).chain(after).collect();
        let touched = all.into_iter().map(|index| match pages.get(index) {
            Some((page, hash)) => Touched { node, index, page: page.clone(), hash: *hash, allocates: true },
            None => hole(node, index),
        });
        Some(touched.collect())
    }

    fn write(&mut self, node: NodeId, offset: u64, length: u64, seed: u64) -> Option<Vec<Touched>> {
        let content = content(seed, length);
        let (size, pages) = self.file(node)?;
        *size = (*size).max(offset + length);
        let mut touched = Vec::new();
        for index in offset / PAGE_BYTES..=(offset + length - 1) / PAGE_BYTES {
            let allocates = pages.get(index).is_none();
            let page = content.whole_page(offset, index).unwrap_or_else(|| {
                let mut page = pages.shown(index).0.clone();
                let (place, bytes) = content.part_of_page(offset, index);
                page.write(place, &bytes);
                page
            });
            touched.push(Touched { allocates, ..put(pages, node, index, page) });
        }
        Some(touched)
    }

    fn zero(&mut self, node: NodeId, offset: u64, length: u64) -> Option<Vec<Touched>> {
        let (index, place) = (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize);
        let (_, pages) = self.file(node)?;
        let Some((page, _)) = pages.get(index) else { return Some(Vec::new()) };
        let mut page = page.clone();
        page.bytes_mut()[place..place + length as usize].fill(0);
        Some(vec![put(pages, node, index, page)])
    }

    fn truncate(&mut self, node: NodeId, to: u64) -> Option<Vec<Touched>> {
        let (size, pages) = self.file(node)?;
        let end = std::mem::replace(size, to).min(to);
        let gone = removed(pages, to.div_ceil(PAGE_BYTES)..);
        let mut touched: Vec<Touched> = gone.into_iter().map(|(index, _)| hole(node, index)).collect();
        let (last, used) = (end / PAGE_BYTES, (end % PAGE_BYTES) as usize);
        if let Some((page, _)) = pages.get(last)
            && page.bytes()[used..].iter().any(|byte| *byte != 0)
        {
            let mut page = page.clone();
            page.bytes_mut()[used..].fill(0);
            touched.push(put(pages, node, last, page));
        }
        Some(touched)
    }

    /// The outside view of the tree.
    pub(crate) fn listing(&self) -> Listing {
        let mut listing = Listing::default();
        let mut pending = vec![(String::new(), Tree::ROOT)];
        while let Some((path, id)) = pending.pop() {
            let Node::Directory { names, .. } = &self.nodes[&id] else { continue };
            for (name, child) in names {
                let path = format!("{path}/{name}");
                listing.insert(path.clone(), u64::from(child.0), self.item(*child));
                pending.push((path, *child));
            }
        }
        listing.number_groups();
        listing
    }

    fn item(&self, id: NodeId) -> Item {
        match &self.nodes[&id] {
            Node::Directory { attributes, .. } => Item::new(ItemKind::Directory(attributes.clone())),
            Node::Symlink { target, attributes } => Item::new(ItemKind::Symlink(target.clone(), attributes.clone())),
            Node::File(content) => Item::new(ItemKind::File(content.clone())),
        }
    }
}

/// A page that lost its block.
fn hole(node: NodeId, index: u64) -> Touched {
    Touched { node, index, page: Page::ZEROS, hash: ZEROS, allocates: false }
}

/// Removes the pages of a range, and returns those that were there.
fn removed(pages: &mut Pages, range: impl RangeBounds<u64>) -> Vec<(u64, Page)> {
    let gone: Vec<u64> = pages.indexes(range).collect();
    gone.into_iter().filter_map(|index| Some((index, pages.remove(index)?))).collect()
}

/// Replaces the content of a page that has a block.
pub(super) fn put(pages: &mut Pages, node: NodeId, index: u64, page: Page) -> Touched {
    let hash = pages.insert(index, page.clone());
    Touched { node, index, page, hash, allocates: false }
}

/// A tree with an empty file `a`.
#[cfg(test)]
pub(super) fn file_tree() -> (Tree, NodeId) {
    let (mut tree, node) = (Tree::of_directories(&[]), NodeId(7));
    let create = Step::Create { directory: Tree::ROOT, name: "a".into(), node, kind: NewKind::File };
    tree.apply(&create).unwrap();
    (tree, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_range_moves_with_the_end_of_the_file() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Write { node, offset: 0, length: 17_000, seed: 4 }).unwrap();
        let before: Vec<u64> = (0..5).map(|index| tree.page(node, index).unwrap().1).collect();
        let page = |tree: &Tree, index| tree.page(node, index).map(|(_, hash)| hash);
        let touched = tree.apply(&Step::Shift { node, from: 2, to: 1 }).unwrap();
        assert_eq!((tree.size(node), touched.len()), (17_000 - 4096, 4));
        assert_eq!(
            [0, 1, 3, 4].map(|index| page(&tree, index)),
            [Some(before[0]), Some(before[2]), Some(before[4]), None]
        );
        tree.apply(&Step::Shift { node, from: 0, to: 2 }).unwrap();
        assert_eq!(tree.size(node), 17_000 + 4096);
        assert_eq!([0, 1, 2, 5].map(|index| page(&tree, index)), [None, None, Some(before[0]), Some(before[4])]);
    }

    #[test]
    fn attributes_are_part_of_what_is_seen() {
        let (mut tree, node) = file_tree();
        let set = |name: &str, value| Step::SetExtended { node, name: name.into(), value };
        let plain = tree.listing().name_hash();
        assert!(tree.apply(&set("user.a", None)).is_none(), "there is none");
        tree.apply(&set("user.a", Some(1))).unwrap();
        let with = tree.listing().name_hash();
        tree.apply(&set("user.a", Some(2))).unwrap();
        assert!(plain != with && with != tree.listing().name_hash());
        tree.apply(&set("user.a", None)).unwrap();
        assert_eq!(tree.listing().name_hash(), plain);
        for change in [
            AttributeChange::Permissions(0o600),
            AttributeChange::Owner { uid: 0, gid: 1 },
            AttributeChange::Accessed(0),
        ] {
            let before = tree.listing().name_hash();
            tree.apply(&Step::SetAttributes { node, change }).unwrap();
            assert_ne!(tree.listing().name_hash(), before, "{change:?}");
        }
    }

    #[test]
    fn what_is_cut_off_reads_as_zeros_when_the_file_grows_again() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Write { node, offset: 0, length: 5000, seed: 3 }).unwrap();
        let short = tree.apply(&Step::Truncate { node, size: 100 }).unwrap();
        assert_eq!(short.len(), 2);
        tree.apply(&Step::Truncate { node, size: 5000 }).unwrap();
        let listing = tree.listing();
        let ItemKind::File(content) = &listing.item("/a").unwrap().kind else { panic!() };
        assert_eq!((content.size, content.pages.filled().count()), (5000, 1));
        assert!(content.pages.shown(0).0.bytes()[100..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_steps_of_a_commit_are_done_together_or_not_at_all() {
        let (mut tree, node) = file_tree();
        let before = tree.listing().full_hash();
        let write = Step::Write { node, offset: 0, length: 5000, seed: 3 };
        let remove = |name: &str| Step::Remove { directory: Tree::ROOT, name: name.into() };
        assert!(tree.apply(&Step::Atomic(vec![write.clone(), remove("b")])).is_none(), "there is no b");
        assert_eq!(tree.listing().full_hash(), before);
        let touched = tree.apply(&Step::Atomic(vec![write, remove("a")])).unwrap();
        assert_eq!((touched.len(), tree.size(node), tree.child(Tree::ROOT, "a")), (2, 5000, None));
    }

    #[test]
    fn steps_without_effect_are_left_out() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Write { node, offset: 0, length: 5000, seed: 3 }).unwrap();
        let truncate = |size| Step::Truncate { node, size };
        let steps = [
            truncate(5000),
            Step::Free { node, pages: 3..4 },
            truncate(100),
            truncate(100),
            Step::Free { node, pages: 0..1 },
        ];
        assert_eq!(tree.effective(&steps), [truncate(100), Step::Free { node, pages: 0..1 }]);
    }

    #[test]
    fn a_rename_onto_another_name_of_the_same_file_changes_nothing() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Link { node, directory: Tree::ROOT, name: "b".into() }).unwrap();
        let before = tree.listing().full_hash();
        let (from, to) = ((Tree::ROOT, "a".to_owned()), (Tree::ROOT, "b".to_owned()));
        tree.apply(&Step::Rename { from, to, manner: RenameManner::Replace }).unwrap();
        assert_eq!(tree.listing().full_hash(), before);
    }
}
