//! Shared: pages that take the content of other pages, in the model.

use onewrite_block::Page;

use super::tree::{NodeId, SharedPages, Step, Touched, Tree, put};

impl Tree {
    /// All sources are read first: a call may name a page as the source of several targets.
    pub(super) fn share(&mut self, parts: &[SharedPages]) -> Option<Vec<Touched>> {
        let content = |part: &SharedPages, at: u64| {
            self.page(part.source, part.source_index + at).map_or(Page::ZEROS, |(page, _)| page)
        };
        let pages = |part: &SharedPages| -> Vec<Page> {
            (0..part.target_pages.end - part.target_pages.start).map(|at| content(part, at)).collect()
        };
        let contents: Vec<Vec<Page>> = parts.iter().map(pages).collect();
        if parts.iter().any(|part| self.file(part.target).is_none()) {
            return None;
        }
        let mut touched = Vec::new();
        for (part, contents) in parts.iter().zip(contents) {
            let (size, pages) = self.file(part.target)?;
            *size = (*size).max(part.target_end());
            for (index, page) in part.target_pages.clone().zip(contents) {
                let allocates = pages.get(index).is_none();
                touched.push(Touched { allocates, ..put(pages, part.target, index, page) });
            }
        }
        Some(touched)
    }

    /// The files that a step makes larger by sharing; to ask before it is applied.
    pub(crate) fn grown_by_share(&self, step: &Step) -> Vec<NodeId> {
        let Step::Share(parts) = step else { return Vec::new() };
        parts.iter().filter(|part| part.target_end() > self.size(part.target)).map(|part| part.target).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tree::file_tree;

    #[test]
    fn shared_pages_have_the_content_that_their_sources_had() {
        let (mut tree, node) = file_tree();
        tree.apply(&Step::Write { node, offset: 0, length: 8192, seed: 3 }).unwrap();
        let hash = |tree: &Tree, index| tree.page(node, index).map(|(_, hash)| hash);
        let (first, second) = (hash(&tree, 0), hash(&tree, 1));
        let part = |source_index, target_pages| SharedPages { source: node, source_index, target: node, target_pages };
        let touched = tree.apply(&Step::Share(vec![part(1, 0..1), part(0, 3..4)])).unwrap();
        assert_eq!((touched.len(), tree.size(node)), (2, 4 * 4096));
        assert_eq!([0, 1, 2, 3].map(|index| hash(&tree, index)), [second, second, None, first]);
        assert_eq!((touched[0].allocates, touched[1].allocates), (false, true));
    }
}
