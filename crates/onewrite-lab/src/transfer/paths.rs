//! Paths: the directories of a tree, each with its parent. Whole paths are built only to be shown.
//!
//! Trees may be deeper than a path may be long. So nothing here recurses, and a path that is too long to read is
//! shortened.

/// Most bytes of a path that are shown.
const SHOWN_MAX: usize = 1024;

/// Directories by index; 0 is the top of the tree.
#[derive(Debug)]
pub(super) struct Paths(Vec<Directory>);

#[derive(Debug)]
struct Directory {
    parent: usize,
    name: Vec<u8>,
    depth: usize,
}

impl Paths {
    /// A tree whose top is shown as `name`.
    pub(super) fn new(name: Vec<u8>) -> Paths {
        Paths(vec![Directory { parent: 0, name, depth: 0 }])
    }

    /// Adds a directory and returns its index.
    pub(super) fn add(&mut self, parent: usize, name: &[u8]) -> usize {
        let depth = self.0[parent].depth + 1;
        self.0.push(Directory { parent, name: name.to_owned(), depth });
        self.0.len() - 1
    }

    pub(super) fn parent(&self, index: usize) -> usize {
        self.0[index].parent
    }

    pub(super) fn name(&self, index: usize) -> &[u8] {
        &self.0[index].name
    }

    pub(super) fn depth(&self, index: usize) -> usize {
        self.0[index].depth
    }

    /// The deepest directory that contains both or is one of them.
    pub(super) fn common(&self, mut one: usize, mut other: usize) -> usize {
        while one != other {
            match self.depth(one) >= self.depth(other) {
                true => one = self.parent(one),
                false => other = self.parent(other),
            }
        }
        one
    }

    /// The path of `name` in `directory`; a path that is too long loses its beginning.
    pub(super) fn shown(&self, directory: usize, name: &[u8]) -> Vec<u8> {
        let (mut parts, mut length, mut at) = (vec![name], name.len(), directory);
        while length < SHOWN_MAX {
            parts.push(self.name(at));
            length += self.name(at).len() + 1;
            if at == 0 {
                parts.retain(|part| !part.is_empty());
                parts.reverse();
                // The root of an image, `n.img:/`, already ends with a slash.
                if let [root, _, ..] = &mut parts[..] {
                    *root = root.strip_suffix(b"/").unwrap_or(root);
                }
                return parts.join(&b'/');
            }
            at = self.parent(at);
        }
        parts.push("…".as_bytes());
        parts.reverse();
        parts.join(&b'/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_put_together_and_cut_if_too_long() {
        let mut paths = Paths::new(b"out".to_vec());
        let inner = paths.add(0, b"a");
        assert_eq!(paths.shown(inner, b"file"), b"out/a/file");
        let mut of_image = Paths::new(Vec::new());
        let inside = of_image.add(0, b"n.img:/");
        assert_eq!(of_image.shown(inside, b"a"), b"n.img:/a");
        assert_eq!(of_image.shown(0, b"n.img:/"), b"n.img:/");
        let mut deep = inner;
        for _ in 0..100_000 {
            deep = paths.add(deep, b"d");
        }
        let shown = paths.shown(deep, b"file");
        assert!(shown.len() <= SHOWN_MAX + 8 && shown.starts_with("…/d/".as_bytes()) && shown.ends_with(b"/d/file"));
        let other = paths.add(inner, b"b");
        assert_eq!((paths.common(deep, other), paths.common(other, inner), paths.common(deep, 0)), (inner, inner, 0));
    }
}
