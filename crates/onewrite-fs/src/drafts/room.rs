//! Room: what is done where a change finds none, and writes that are more than drafts keep in memory.
//!
//! Where the file system spills ([`Spills::spill`]), a write that does not fit as a whole is carried out in steps. Its
//! pages are promised before the first: no step is refused, unless the device fails. Commits and aborts of the draft
//! and other changes of the file wait until the last.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::RwGuard;

use super::claims::Drafting;
use super::host::{Claimable, DraftHost, PlansSpill, Spills};
use crate::api::{FsError, FsResult, Ino, Position};
use crate::atomic::DraftId;
use crate::content::Content;
use crate::pages::{Access, PAGE_BYTES};

/// Pages that are promised to a write in steps; dropped, they are not any more.
struct Promise<'a, H: DraftHost> {
    drafting: Drafting<'a, H>,
    draft: DraftId,
    file: Rc<H::File>,
}

impl<H: DraftHost> Drop for Promise<'_, H> {
    fn drop(&mut self) {
        self.drafting.spills().end_promise(self.draft, &self.file);
        self.drafting.page_layer().progress().notify_all();
    }
}

impl<H: DraftHost> Drafting<'_, H> {
    pub(super) fn spills(&self) -> H::Spills<'_> {
        H::Spills::from(self.0)
    }

    /// See [`AtomicFiles::draft_write`](crate::AtomicFiles::draft_write).
    pub(crate) async fn write(
        &self,
        draft: DraftId,
        ino: Ino,
        position: Position,
        content: Content<'_>,
    ) -> FsResult<u64> {
        let Some(pages_max) = self.spills().step_pages() else {
            return self.try_write(draft, ino, position, content).await;
        };
        if content.length() <= pages_max * PAGE_BYTES {
            let whole = self.with_room(draft, async || self.try_write(draft, ino, position, content).await).await;
            if !matches!(whole, Err(FsError::TooManyChanges { .. })) {
                return whole;
            }
        }
        let promised = self.with_room(draft, async || self.promise_write(draft, ino, position, content).await).await;
        let (offset, promise) = promised?;
        let end = offset + content.length();
        let (mut next, mut pages) = (offset, pages_max.div_ceil(2));
        while next < end {
            onewrite_block::reached!("draft written in several steps", next > offset);
            let stop = end.min((next / PAGE_BYTES + pages) * PAGE_BYTES);
            let step = async || self.write_step(draft, &promise.file, next..stop, (offset, content)).await;
            match self.with_room(draft, step).await {
                Ok(()) => next = stop,
                Err(FsError::TooManyChanges { .. }) if pages > 1 => pages /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(offset)
    }

    /// Promises the pages of a write in steps. The file gets its size behind all of them: no append comes between.
    async fn promise_write(
        &self,
        draft: DraftId,
        ino: Ino,
        position: Position,
        content: Content<'_>,
    ) -> FsResult<(u64, Promise<'_, H>)> {
        let node = self.file(draft, ino)?.node;
        let _held = self.lock_to_change(draft, &node).await?;
        let (offset, end) = self.place(&self.file(draft, ino)?, position, content)?;
        let pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        self.page_layer().tell(&*node, pages.clone(), Access::Write);
        self.spills().promise(draft, &node, pages.clone()).await?;
        let promise = Promise { drafting: *self, draft, file: Rc::clone(&node) };
        let mut file = self.file(draft, ino)?;
        let tail = self.last_page_if_passed(draft, &file, pages.start).await?;
        file.size = file.size.max(end);
        self.put_pages(draft, file, tail).await?;
        Ok((offset, promise))
    }

    async fn write_step(
        &self,
        draft: DraftId,
        node: &Rc<H::File>,
        bytes: Range<u64>,
        whole: (u64, Content<'_>),
    ) -> FsResult<()> {
        let _held = node.lock().write().await;
        self.write_pages(draft, self.file(draft, node.ino())?, (bytes, Vec::new()), whole).await
    }

    /// Waits until no write in steps changes the drafts.
    pub(crate) async fn until_steps_end(&self, drafts: &[DraftId]) {
        self.page_layer().progress().until(|| !drafts.iter().any(|id| self.has_steps(*id))).await;
    }

    /// Whether a write in steps changes a draft.
    pub(super) fn has_steps(&self, draft: DraftId) -> bool {
        self.drafts().read(draft, |draft| draft.files.values().any(|it| it.plan.has_promise())) == Ok(true)
    }

    /// Locks a file of a draft alone, to change it, while no write in steps does.
    ///
    /// # Errors
    /// If the draft has ended, or did not claim the file.
    pub(super) async fn lock_to_change<'n>(&self, draft: DraftId, node: &'n H::File) -> FsResult<RwGuard<'n>> {
        loop {
            let held = node.lock().write().await;
            if !self.file(draft, node.ino())?.plan.has_promise() {
                return Ok(held);
            }
            drop(held);
            onewrite_block::reached!("change of a draft waits for a write in steps");
            let is_free = || !self.file(draft, node.ino()).is_ok_and(|file| file.plan.has_promise());
            self.page_layer().progress().until(is_free).await;
        }
    }

    /// Makes a change. As long as it is refused for want of memory or space, and more can be had, tries again.
    pub(super) async fn with_room<R>(&self, draft: DraftId, change: impl AsyncFn() -> FsResult<R>) -> FsResult<R> {
        let mut available = None;
        loop {
            let mut outcome = change().await;
            if matches!(outcome, Err(FsError::TooManyChanges { .. })) {
                match self.make_room(draft).await {
                    Ok(true) => continue,
                    Ok(false) => return outcome,
                    Err(error) => outcome = Err(error),
                }
            }
            if !matches!(outcome, Err(FsError::NoSpace { .. })) || !self.spills().wait_for_space(&mut available).await?
            {
                return outcome;
            }
        }
    }

    /// Spills the pages of a draft, or if that gains nothing, those of another. Returns whether there is more room.
    async fn make_room(&self, draft: DraftId) -> FsResult<bool> {
        let others = self.drafts().ids().into_iter().filter(|id| *id != draft);
        for id in std::iter::once(draft).chain(others) {
            let mut gain = 0;
            for node in self.nodes_of(id).unwrap_or_default() {
                let _held = node.lock().write().await;
                if node.claimant() == Some(id) {
                    gain += self.spills().spill(id, &node).await?;
                }
            }
            if gain > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
