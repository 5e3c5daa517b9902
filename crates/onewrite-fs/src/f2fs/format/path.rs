//! Path: which nodes lead from an inode to a block of its content.
//!
//! ```text
//!   inode ─ its own blocks (923 at most)
//!     ├ nid 0, 1: direct node                      ─ 1018 blocks each         positions 1, 2
//!     ├ nid 2, 3: indirect node ─ 1018 direct      ─ 1018² blocks each        positions 3, 1022
//!     └ nid 4: double indirect ─ 1018 indirect ─ … ─ 1018³ blocks             position 2041
//! ```
//!
//! A footer holds the position: nodes are counted in the order in which a walk meets them, a node before its children.

use super::node::{POINTERS, XATTR_OFFSET};

const N: u64 = POINTERS as u64;

/// A node on the way, seen from the one above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathNode {
    /// Place of its number in the node above: 0 to 4 in the inode, else 0 to 1017.
    pub slot: usize,
    /// Its position in the file's tree.
    pub offset: u32,
}

/// The way to a block of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePath {
    steps: [PathNode; 3],
    depth: usize,
    /// The block's slot in the last node; in the inode if there are no steps.
    pub slot: usize,
}

impl NodePath {
    /// The way to block `logical` of a file whose inode names `in_inode` blocks itself; `None` if no node names it.
    pub fn of(logical: u64, in_inode: u64) -> Option<NodePath> {
        let Some(mut rest) = logical.checked_sub(in_inode) else {
            return Some(NodePath { steps: Default::default(), depth: 0, slot: logical as usize });
        };
        let step = |slot: u64, offset: u64| PathNode { slot: slot as usize, offset: offset as u32 };
        let path = |steps: [PathNode; 3], depth, rest: u64| Some(NodePath { steps, depth, slot: (rest % N) as usize });
        if rest < 2 * N {
            let slot = rest / N;
            return path([step(slot, 1 + slot), PathNode::default(), PathNode::default()], 1, rest);
        }
        rest -= 2 * N;
        if rest < 2 * N * N {
            let (slot, direct) = (rest / (N * N), rest / N % N);
            let above = 3 + slot * (N + 1);
            return path([step(2 + slot, above), step(direct, above + 1 + direct), PathNode::default()], 2, rest);
        }
        rest -= 2 * N * N;
        if rest >= N * N * N {
            return None;
        }
        let (indirect, direct) = (rest / (N * N), rest / N % N);
        let top = 3 + 2 * (N + 1);
        let above = top + 1 + indirect * (N + 1);
        path([step(4, top), step(indirect, above), step(direct, above + 1 + direct)], 3, rest)
    }

    /// The nodes below the inode, from above.
    pub fn steps(&self) -> &[PathNode] {
        &self.steps[..self.depth]
    }

    /// Blocks from this one to the last one that step `depth` leads to, this one included.
    ///
    /// # Panics
    /// If there is no such step.
    pub fn rest_below(&self, depth: usize) -> u64 {
        let below = &self.steps()[depth + 1..];
        let before = below.iter().fold(0, |at, step| at * N + step.slot as u64) * N + self.slot as u64;
        N.pow(below.len() as u32 + 1) - before
    }
}

/// Whether the node at position `offset` of a tree names content itself: the inode or a direct node. The node of
/// extended attributes does not.
pub fn is_direct(offset: u32) -> bool {
    let (offset, n) = (u64::from(offset), N);
    let top = 3 + 2 * (n + 1);
    match offset {
        0..=2 => true,
        _ if offset == u64::from(XATTR_OFFSET) => false,
        _ if offset < top => !(offset - 3).is_multiple_of(n + 1),
        _ => offset > top && !(offset - top - 1).is_multiple_of(n + 1),
    }
}

/// The first block of content that the direct node at position `offset` names, in a file whose inode names `in_inode`
/// blocks itself.
///
/// # Panics
/// If no direct node has this position.
pub fn first_block(offset: u32, in_inode: u64) -> u64 {
    assert!(offset > 0 && is_direct(offset), "position {offset} is no direct node's");
    let (offset, top) = (u64::from(offset), 3 + 2 * (N + 1));
    // Direct nodes before this one: all nodes before it but the inode and the indirect ones.
    let before = match offset {
        1 | 2 => offset - 1,
        _ if offset < top => offset - 1 - (offset - 3).div_ceil(N + 1),
        _ => offset - 1 - 2 - 1 - (offset - top - 1).div_ceil(N + 1),
    };
    in_inode + before * N
}

/// Blocks of the largest file whose inode names `in_inode` blocks itself.
pub const fn blocks_max(in_inode: u64) -> u64 {
    in_inode + 2 * N + 2 * N * N + N * N * N
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(logical: u64) -> Vec<(usize, u32)> {
        NodePath::of(logical, 923).unwrap().steps().iter().map(|step| (step.slot, step.offset)).collect()
    }

    #[test]
    fn positions_count_nodes_in_the_order_of_a_walk() {
        assert_eq!(offsets(922), []);
        assert_eq!(offsets(923), [(0, 1)]);
        assert_eq!(offsets(923 + N), [(1, 2)]);
        assert_eq!(offsets(923 + 2 * N), [(2, 3), (0, 4)]);
        assert_eq!(offsets(923 + 3 * N), [(2, 3), (1, 5)]);
        assert_eq!(offsets(923 + 2 * N + N * N), [(3, 1022), (0, 1023)]);
        assert_eq!(offsets(923 + 2 * N + 2 * N * N), [(4, 2041), (0, 2042), (0, 2043)]);
        assert_eq!(offsets(923 + 2 * N + 3 * N * N + N), [(4, 2041), (1, 3061), (1, 3063)]);
        assert_eq!(NodePath::of(blocks_max(923), 923), None);
        assert!(NodePath::of(blocks_max(923) - 1, 923).is_some());
    }

    #[test]
    fn the_last_node_of_each_path_is_direct_and_no_other_below_the_inode() {
        for logical in [0, 923, 923 + N, 923 + 2 * N, 923 + 3 * N, 923 + 2 * N + N * N, 923 + 2 * N + 2 * N * N + N * N]
        {
            let path = NodePath::of(logical, 923).unwrap();
            let found: Vec<bool> = path.steps().iter().map(|step| is_direct(step.offset)).collect();
            let expected: Vec<bool> = (1..=found.len()).map(|depth| depth == found.len()).collect();
            assert_eq!(found, expected, "{logical}");
            if let Some(last) = path.steps().last() {
                assert_eq!(first_block(last.offset, 923), logical - path.slot as u64, "{logical}");
            }
        }
        assert!(is_direct(0));
    }

    #[test]
    fn the_node_of_attributes_names_no_content() {
        assert!(!is_direct(XATTR_OFFSET) && is_direct(XATTR_OFFSET - 1));
    }

    #[test]
    fn what_is_left_below_a_node_ends_where_the_next_begins() {
        for logical in [5, 923, 924, 923 + N, 923 + 2 * N + 7, 923 + 3 * N + 7, 923 + 2 * N + 2 * N * N + 5 * N * N + 3]
        {
            let path = NodePath::of(logical, 923).unwrap();
            for depth in 0..path.steps().len() {
                let next = NodePath::of(logical + path.rest_below(depth), 923);
                let next = next.and_then(|next| next.steps().get(depth).copied());
                assert_ne!(Some(path.steps()[depth]), next, "{logical} {depth}");
                let last = NodePath::of(logical + path.rest_below(depth) - 1, 923).unwrap();
                assert_eq!(path.steps()[depth], last.steps()[depth], "{logical} {depth}");
            }
        }
    }
}
