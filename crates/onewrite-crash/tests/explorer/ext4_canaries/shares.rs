//! Shares of pages that are wrong.

use std::collections::BTreeMap;

use onewrite_block::{
    Cause, Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request, Token,
};
use onewrite_crash::{Alter, Ext4Subject, Subject};
use onewrite_fs::ext4::Ext4;
use onewrite_fs::{FsResult, SharePages, ShareRange};

/// Each range is a SHARE of its own.
#[derive(Clone, Copy)]
pub struct SplitShare;

impl Alter<Ext4Subject> for SplitShare {
    async fn share(&self, fs: &Ext4, sound: &Ext4Subject, ranges: &[ShareRange]) -> FsResult<()> {
        for range in ranges {
            sound.share(fs, std::slice::from_ref(range)).await?;
        }
        Ok(())
    }
}

/// A call returns before the commit of what it says in the maps.
#[derive(Clone, Copy)]
pub struct EarlyShare;

impl Alter<Ext4Subject> for EarlyShare {
    async fn share(&self, fs: &Ext4, _: &Ext4Subject, ranges: &[ShareRange]) -> FsResult<()> {
        fs.share_lazily(ranges).await
    }
}

/// First token of the device's own writes.
const OWN: u32 = 1 << 30;

/// Pages of files take what their sources' home blocks held before the last checkpoint.
struct Stale {
    inner: Box<dyn Device>,
    /// The content of the disk, as far as it was written here.
    current: BTreeMap<Lpn, Page>,
    /// What home blocks held before their last checkpoint.
    stale: BTreeMap<Lpn, Page>,
    own: u32,
}

/// A device that shares stale home blocks.
pub fn stale_source(disk: Box<dyn Device>) -> Box<dyn Device> {
    Box::new(Stale { inner: disk, current: BTreeMap::new(), stale: BTreeMap::new(), own: OWN })
}

impl Stale {
    fn put(&mut self, lpn: Lpn, page: Page, cause: Cause) {
        match (self.current.insert(lpn, page), cause) {
            (Some(before), Cause::Checkpoint) => drop(self.stale.insert(lpn, before)),
            _ => drop(self.stale.remove(&lpn)),
        }
    }

    /// Notes what a request changes; returns what to write behind it.
    fn note(&mut self, request: &Request) -> Vec<(Lpn, Page)> {
        match (request.cause, &request.operation) {
            (cause, Operation::Write { start, pages, .. }) => {
                (start.0..).map(Lpn).zip(pages).for_each(|(lpn, page)| self.put(lpn, page.clone(), cause));
                Vec::new()
            }
            (Cause::Data, Operation::Share(pairs)) => {
                pairs.iter().filter_map(|pair| Some((pair.target, self.stale.get(&pair.source)?.clone()))).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Device for Stale {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let behind = self.note(&request);
        self.inner.submit(token, request, now);
        for (start, page) in behind {
            self.own += 1;
            let write = Request::write(start, vec![page], Cause::Data);
            self.inner.submit(Token(self.own), write, now);
        }
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.inner.advance(to, completed);
        completed.retain(|completion| completion.token.0 < OWN);
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}
