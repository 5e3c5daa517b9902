//! The hash tree of a directory: it names every block once, hashes are in order, and names lie in the block of their
//! hash.

use super::directory::{Directory, DirectoryBlock};
use super::views::DirectoryStage;
use super::{INDEX_CURE as CURE, ReadBlocks};
use crate::ext4::format::Place;
use crate::ext4::format::directory::HashVersion;
use crate::ext4::format::directory::htree::{Index, Pair, root_info};

/// Use of a directory's block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// Entries, in a directory without a tree or with a damaged tree.
    Plain,
    /// Part of the tree.
    Index,
    /// Entries with hashes from `low` to `high`.
    Leaf { low: u32, high: u32, version: HashVersion },
}

/// Whether a name with hash `hash` may lie in a block for hashes from `low` to `high`.
/// [`directory::htree`](crate::ext4::format::directory::htree) explains the lowest bit.
pub(super) fn hash_in_range(hash: u32, low: u32, high: u32) -> bool {
    hash >= low & !1 && (hash < high || high & 1 == 1 && hash == high & !1)
}

/// State of the walk over one tree.
struct Tree<'a> {
    directory: &'a Directory,
    blocks: &'a [DirectoryBlock],
    version: HashVersion,
    roles: Vec<Role>,
}

impl<R: ReadBlocks> DirectoryStage<'_, '_, R> {
    /// Checks the tree of a directory. Returns the use of each block, or `None` if the root is damaged.
    pub(super) async fn check_index(&mut self, directory: &Directory, blocks: &[DirectoryBlock]) -> Option<Vec<Role>> {
        let place = Place::FileBlock { inode: directory.inode, logical: 0 };
        let page = self.read(blocks.first()?.physical, place).await?;
        let bytes = page.bytes();
        let info = self.sound(root_info(&bytes[..], place), place)?;
        let Some(version) = self.tree_hash(info.hash_version) else {
            self.report.add(place, format!("hash version {}", info.hash_version), CURE);
            return None;
        };
        let root = self.sound(Index::root(&bytes[..], &self.layout, place), place)?;
        self.sound(root.verify_checksum(directory.seed, &self.layout, place), place);
        let mut tree = Tree { directory, blocks, version, roles: vec![Role::Plain; blocks.len()] };
        tree.roles[0] = Role::Index;
        self.check_pairs(&tree, &root, 0, u32::MAX, place);
        for number in 0..root.len() {
            let (pair, high) = pair_and_end(&root, number, 0, u32::MAX);
            match info.levels {
                0 => self.enter_leaf(&mut tree, pair, high, place),
                _ => self.enter_node(&mut tree, pair, high, place).await,
            }
        }
        for (role, block) in tree.roles.iter().zip(blocks).filter(|(role, _)| matches!(role, Role::Plain)) {
            let _ = role;
            self.report.add(place, format!("block {} is not in the index", block.logical), CURE);
        }
        Some(tree.roles)
    }

    async fn enter_node(&mut self, tree: &mut Tree<'_>, pair: Pair, high: u32, above: Place) {
        let Some(at) = self.give_role(tree, pair, Role::Index, above) else { return };
        let place = Place::FileBlock { inode: tree.directory.inode, logical: pair.block };
        let Some(page) = self.read(tree.blocks[at].physical, place).await else { return };
        let bytes = page.bytes();
        let node = Index::node(&bytes[..], &self.layout, place);
        let Some(node) = self.sound(node, place) else { return };
        self.sound(node.verify_checksum(tree.directory.seed, &self.layout, place), place);
        self.check_pairs(tree, &node, pair.hash, high, place);
        for number in 0..node.len() {
            let (child, end) = pair_and_end(&node, number, pair.hash, high);
            self.enter_leaf(tree, child, end, place);
        }
    }

    fn enter_leaf(&mut self, tree: &mut Tree<'_>, pair: Pair, high: u32, above: Place) {
        let role = Role::Leaf { low: pair.hash, high, version: tree.version };
        self.give_role(tree, pair, role, above);
    }

    /// Sets the role of the block that `pair` names. `None`, with a finding, if the block has a role already or does
    /// not exist.
    fn give_role(&mut self, tree: &mut Tree<'_>, pair: Pair, role: Role, place: Place) -> Option<usize> {
        let Ok(at) = tree.blocks.binary_search_by_key(&pair.block, |block| block.logical) else {
            self.report.add(place, format!("the index names block {}, which is not there", pair.block), CURE);
            return None;
        };
        match tree.roles[at] {
            Role::Plain => {
                tree.roles[at] = role;
                Some(at)
            }
            _ => {
                self.report.add(place, format!("the index names block {} twice", pair.block), CURE);
                None
            }
        }
    }

    fn check_pairs(&mut self, tree: &Tree<'_>, index: &Index<'_>, low: u32, high: u32, place: Place) {
        let mut before = low;
        for (number, pair) in index.pairs().enumerate().skip(1) {
            if pair.hash <= before && !(number == 1 && pair.hash == before && low == 0) || pair.hash > high {
                let problem = format!("hash {:#x} after {before:#x} in the index", pair.hash);
                self.report.add(place, format!("{problem} of inode {}", tree.directory.inode), CURE);
            }
            before = pair.hash;
        }
    }

    /// Returns the value; an error becomes a finding.
    fn sound<T>(&mut self, result: Result<T, crate::ext4::format::FormatError>, place: Place) -> Option<T> {
        result.map_err(|error| self.report.add(place, error, CURE)).ok()
    }
}

/// Pair `number` of an index for hashes from `low` to `high`, and the hash at which the pair's range ends.
fn pair_and_end(index: &Index<'_>, number: usize, low: u32, high: u32) -> (Pair, u32) {
    let pair = index.pair(number);
    let end = if number + 1 < index.len() { index.pair(number + 1).hash } else { high };
    (Pair { hash: if number == 0 { low } else { pair.hash }, ..pair }, end)
}
