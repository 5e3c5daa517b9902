//! Ways to commit that break the contract of `Commit`, each in one way.

use std::cell::RefCell;

use onewrite_block::{Cause, Page, PageBytes, crc32c};
use onewrite_fs::BlockNo;
use onewrite_fs::journal::format::{Kind, Sequence, Style, header};
use onewrite_fs::journal::{Barrier, Commit, CommitFuture, Log, LogFeatures, Record, send_and_wait};

/// The commit block is durable before its blocks are written.
pub struct CommitFirst;

impl Commit for CommitFirst {
    fn features(&self) -> LogFeatures {
        Barrier.features()
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(async move {
            log.write(record.commit_at, vec![record.commit], Cause::Journal).await?;
            log.flush().await?;
            send_and_wait(log, record.runs).await?;
            log.last_flush().await
        })
    }
}

/// Nothing makes the commit block durable.
pub struct NoLastFlush;

impl Commit for NoLastFlush {
    fn features(&self) -> LogFeatures {
        Barrier.features()
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(async move {
            send_and_wait(log, record.runs).await?;
            log.last_flush().await?;
            log.write(record.commit_at, vec![record.commit], Cause::Journal).await
        })
    }
}

/// Revoke records revoke nothing.
pub struct NoRevokes;

impl Commit for NoRevokes {
    fn features(&self) -> LogFeatures {
        Barrier.features()
    }

    fn commit<'a>(&'a self, log: &'a Log, mut record: Record) -> CommitFuture<'a> {
        for page in record.runs.iter_mut().flat_map(|(_, pages)| pages) {
            let bytes: PageBytes = *page.bytes();
            if let Some((Kind::Revoke, sequence)) = header(&bytes) {
                *page = Page::new(log.style().revoke(sequence, &[]));
            }
        }
        Barrier.commit(log, record)
    }
}

/// Each commit returns at once and is performed before the next one, so everything is one commit late.
#[derive(Default)]
pub struct Lagging(RefCell<Option<Record>>);

impl Commit for Lagging {
    fn features(&self) -> LogFeatures {
        Barrier.features()
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        let late = self.0.replace(Some(record));
        Box::pin(async move {
            match late {
                Some(late) => Barrier.commit(log, late).await,
                None => Ok(()),
            }
        })
    }
}

/// The superblock goes into the log without the head of its orphan list.
pub struct NoOrphans;

impl Commit for NoOrphans {
    fn features(&self) -> LogFeatures {
        Barrier.features()
    }

    fn commit<'a>(&'a self, log: &'a Log, mut record: Record) -> CommitFuture<'a> {
        let mut pages: Vec<&mut Page> = record.runs.iter_mut().flat_map(|(_, pages)| pages).collect();
        let mut at = 0;
        while at < pages.len() {
            let bytes: PageBytes = *pages[at].bytes();
            at += match header(&bytes) {
                Some((Kind::Descriptor, sequence)) => forget_orphans(&log.style(), sequence, &mut pages[at..]),
                _ => 1,
            };
        }
        Barrier.commit(log, record)
    }
}

/// Edits a descriptor and the blocks behind it; returns the number of their pages.
fn forget_orphans(style: &Style, sequence: Sequence, pages: &mut [&mut Page]) -> usize {
    let mut tags = style.tags(&pages[0].bytes());
    for (tag, page) in tags.iter_mut().zip(&mut pages[1..]) {
        if tag.home_block == BlockNo::FIRST {
            clear_orphan_list(page.bytes_mut());
            tag.checksum = style.block_checksum(sequence, page);
        }
    }
    *pages[0] = Page::new(style.descriptor(sequence, &tags));
    1 + tags.len()
}

/// `s_last_orphan` is at byte 232 of the superblock, its checksum the last four bytes of 1024.
fn clear_orphan_list(block: &mut PageBytes) {
    let superblock = &mut block[1024..2048];
    superblock[232..236].fill(0);
    let checksum = crc32c(!0, &superblock[..1020]);
    superblock[1020..].copy_from_slice(&checksum.to_le_bytes());
}
