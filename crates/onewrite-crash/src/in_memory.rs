//! In memory: a layer that gives the content of an image bytes in memory instead of recipes.
//!
//! A run's pages come back in thousands of states. As bytes they remember their hash and their checksum (see [`Page`]);
//! a recipe would be carried out again for each. The bytes are the same, so no result depends on this.

use onewrite_block::{Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request, Token};
use rustc_hash::FxHashMap;

/// See the module's head.
pub(crate) struct InMemory {
    inner: Box<dyn Device>,
    /// Pages from this one on keep their recipes.
    end: Lpn,
    made: FxHashMap<onewrite_block::Pattern, Page>,
}

impl InMemory {
    /// A layer over `inner`, for the pages before `end`.
    pub(crate) fn new(inner: Box<dyn Device>, end: Lpn) -> InMemory {
        InMemory { inner, end, made: FxHashMap::default() }
    }

    /// The page as bytes; equal recipes share them.
    fn made(&mut self, page: Page) -> Page {
        match page.recipe() {
            Some(recipe) => self.made.entry(recipe).or_insert_with(|| Page::new(recipe.bytes())).clone(),
            None => page,
        }
    }
}

impl Device for InMemory {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, mut request: Request, now: Nanos) {
        if let Operation::Write { start, pages, .. } = &mut request.operation
            && *start < self.end
        {
            *pages = std::mem::take(pages).into_iter().map(|page| self.made(page)).collect();
        }
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.inner.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Cause, Executor, Pattern, RamDisk};

    use super::*;

    #[test]
    fn pages_of_the_image_are_bytes_and_read_the_same() {
        let pages: Vec<Page> =
            [0, 40, 100].map(|compressible_percent| Page::pattern(Pattern { seed: 9, compressible_percent })).to_vec();
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(InMemory::new(Box::new(RamDisk::new(64)), Lpn(32))));
        let written = pages.clone();
        let read = async move {
            for start in [Lpn(3), Lpn(40)] {
                port.request(Request::write(start, written.clone(), Cause::Data)).await?;
            }
            let inside = port.request(Request::read(Lpn(3), 3, Cause::Data)).await?;
            Ok::<_, onewrite_block::DeviceError>((inside, port.request(Request::read(Lpn(40), 3, Cause::Data)).await?))
        };
        let (inside, behind) = executor.block_on(read).expect("nothing halts").expect("no error");
        assert_eq!((&inside, &behind), (&pages, &pages));
        assert!(inside.iter().all(Page::takes_memory) && !behind.iter().any(Page::takes_memory));
    }
}
