//! Given: the tree of an image that exists already.

use std::collections::BTreeMap;

use super::listing::{FileContent, ItemKind, Listing};
use super::tree::{Node, NodeId, Tree};

impl Tree {
    /// The tree that a listing shows. A page that holds zeros counts as a hole.
    ///
    /// # Errors
    /// The path of an item that is no file, directory or link.
    pub(crate) fn of_listing(listing: &Listing) -> Result<Tree, String> {
        let mut tree = Tree::of_directories(&[]);
        let mut known: BTreeMap<u64, NodeId> = BTreeMap::new();
        for (path, entry) in listing.entries() {
            let next = NodeId(known.len() as u32 + 1);
            let node = *known.entry(entry.owner).or_insert(next);
            if node == next {
                tree.nodes.insert_mut(node, node_of(&entry.item.kind).ok_or(path)?);
            }
            let (parent, name) = path.rsplit_once('/').ok_or(path)?;
            let parent = listing.owner(parent).map_or(Tree::ROOT, |owner| known[&owner]);
            if let Some(Node::Directory { names, .. }) = tree.nodes.get_mut(&parent) {
                names.insert(name.to_owned(), node);
            }
        }
        Ok(tree)
    }
}

fn node_of(kind: &ItemKind) -> Option<Node> {
    match kind {
        ItemKind::Directory(attributes) => {
            Some(Node::Directory { names: BTreeMap::new(), attributes: attributes.clone() })
        }
        ItemKind::Symlink(target, attributes) => {
            Some(Node::Symlink { target: target.clone(), attributes: attributes.clone() })
        }
        ItemKind::File(content) => {
            let pages = content.pages.filled().map(|(index, page)| (index, page.clone())).collect();
            Some(Node::File(FileContent { pages, ..content.clone() }))
        }
        ItemKind::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tree::file_tree;
    use crate::model::{Item, Step};

    #[test]
    fn a_tree_of_a_listing_has_that_listing() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Write { node, offset: 5000, length: 9000, seed: 3 }).expect("a file");
        tree.apply(&Step::Link { node, directory: Tree::ROOT, name: "b".into() }).expect("another name");
        let again = Tree::of_listing(&tree.listing()).expect("nothing else is there");
        assert_eq!(again.listing().full_hash(), tree.listing().full_hash());
        let mut listing = tree.listing();
        listing.insert("/socket".into(), 99, Item::new(ItemKind::Other("Socket".into())));
        assert_eq!(Tree::of_listing(&listing).err().as_deref(), Some("/socket"));
    }
}
