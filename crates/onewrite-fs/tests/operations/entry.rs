//! The compared properties of a path.

use onewrite_fs::DeviceNumber;
use onewrite_fs::FileKind;

/// A path with everything that must be equal in two file systems.
///
/// Not compared: inode numbers; `st_blocks`, because it depends on fragmentation; times, because the kernel and we use
/// different clocks (see `Operation::Times` and the stamps of `ext4_like_kernel`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: FileKind,
    pub permissions: u16,
    pub owner: (u32, u32),
    pub links: u32,
    /// Size in bytes; for a directory, the blocks of its names.
    pub size: u64,
    pub device: DeviceNumber,
    /// Content of a file or target of a link.
    pub content: Vec<u8>,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A tree: paths in order, without a slash at the beginning.
pub type Tree = Vec<(String, Entry)>;

/// Fails with the first path that differs.
pub fn assert_same(one: &Tree, other: &Tree, what: &str) {
    let paths = |tree: &Tree| tree.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(one), paths(other), "{what}");
    for ((path, one), (_, other)) in one.iter().zip(other) {
        assert_same_entry(one, other, &format!("{what}: {path}"));
    }
}

/// Fails with the differences; for content, only the first differing place.
pub fn assert_same_entry(one: &Entry, other: &Entry, what: &str) {
    let short = |entry: &Entry| Entry { content: Vec::new(), ..entry.clone() };
    assert_eq!(short(one), short(other), "{what}");
    let place = one.content.iter().zip(&other.content).position(|(a, b)| a != b);
    let bytes = |entry: &Entry, at: usize| entry.content[at..entry.content.len().min(at + 8)].to_vec();
    let shown = place.map(|at| (at, bytes(one, at), bytes(other, at)));
    assert!(one.content == other.content, "{what}: content differs at {shown:?}");
}
