//! What a checkpoint brings home, and what the log gives back before.

use std::rc::Rc;

use onewrite_block::{Cause, Lpn, Nanos, Operation, Page, Pattern, Request};
use onewrite_fs::BlockNo;
use onewrite_fs::journal::format::MAGIC;
use onewrite_fs::journal::{CheckpointBy, Compressed};

use crate::support::coming_to;

use super::rig::{Change, LOG, Rig, Shape, page, recovered, superblock_of};

fn logs(block: u64, byte: u8) -> Change {
    Change::Logs(block, page(&[byte; 100]))
}

#[test]
fn a_block_that_begins_with_the_magic_of_the_log_comes_home_and_back_as_it_was() {
    let content = page(&[&MAGIC.to_be_bytes()[..], &[1; 50]].concat());
    for checkpoint in [CheckpointBy::Copy, CheckpointBy::Share] {
        let content = content.clone();
        let shape = Shape { checkpoint, retained_pages_max: 0, ..Shape::PLAIN };
        Rig::run(shape, move |rig| async move {
            rig.commit(&[Change::Logs(5, content.clone()), logs(6, 2)]).await;
            assert!(rig.newest(5).await == content, "read back from the log, {checkpoint:?}");
            rig.checkpoint().await;
            assert!(*rig.left().page(Lpn(5)) == content, "home, {checkpoint:?}");
        });
    }
}

#[test]
fn a_checkpoint_leaves_blocks_alone_that_were_freed_since_they_were_logged() {
    Rig::run(Shape::PLAIN, |rig| async move {
        rig.commit(&[logs(5, 1), logs(6, 1)]).await;
        rig.commit(&[Change::Frees(5)]).await;
        rig.write(5, &page(&[9; 100])).await;
        rig.checkpoint().await;
        assert!(*rig.left().page(Lpn(5)) == page(&[9; 100]), "the content that the block got since is lost");
    });
}

/// Only writes of the log's superblock take time.
fn slow_superblock(request: &Request) -> Nanos {
    Nanos::from_millis(if request.cause == Cause::LogTail { 10 } else { 0 })
}

#[test]
fn a_checkpoint_beside_the_end_of_the_log_leaves_it_empty() {
    let left = Rig::run(Shape { span: slow_superblock, ..Shape::PLAIN }, |rig| async move {
        rig.commit(&[logs(5, 1)]).await;
        let other = Rc::clone(&rig);
        let closing = rig.runtime().start(async move { other.journal.close().await });
        rig.runtime().sleep(Nanos::from_millis(5)).await;
        rig.checkpoint().await;
        closing.await.expect("it closes");
        rig.left()
    });
    assert_eq!(superblock_of(left.page(LOG.page())).start, 0, "an empty log has no first block");
    assert!(*left.page(Lpn(5)) == page(&[1; 100]), "home");
}

/// Only writes to the log take time.
fn slow_log(request: &Request) -> Nanos {
    Nanos::from_millis(if request.cause == Cause::Journal { 10 } else { 0 })
}

#[test]
fn a_block_is_home_for_good_once_the_commit_under_way_and_its_checkpoint_are_done() {
    let work = |rig: Rc<Rig>| async move {
        let other = Rc::clone(&rig);
        let commit = rig.runtime().start(async move { other.commit(&[logs(5, 1)]).await });
        rig.runtime().sleep(Nanos::from_millis(5)).await;
        rig.journal.bring_home_for_good(&[BlockNo(5)], &[]).await.expect("it comes home");
        let left = rig.left();
        assert!(*left.page(Lpn(5)) == page(&[1; 100]), "home");
        commit.await;
        left
    };
    let run = || Rig::run(Shape { span: slow_log, ..Shape::PLAIN }, work);
    let mut left = coming_to("share of pages waits for a commit under way", run);
    left.set(Lpn(5), page(&[9; 100]));
    let then = recovered(&left, CheckpointBy::Copy);
    assert!(*then.page(Lpn(5)) == page(&[9; 100]), "recovery writes over what came home for good");
}

/// Home writes and reads of the log take ten milliseconds; all else no time.
fn slow_home_and_read_back(request: &Request) -> Nanos {
    let is_read = matches!(request.operation, Operation::Read { .. });
    Nanos::from_millis(if is_read || request.cause == Cause::Checkpoint { 10 } else { 0 })
}

#[test]
fn a_version_that_commits_while_an_older_one_goes_home_goes_home_too() {
    let shape = Shape { span: slow_home_and_read_back, ..Shape::PLAIN };
    let left = Rig::run(shape, |rig| async move {
        rig.commit(&[logs(5, 1)]).await;
        let other = Rc::clone(&rig);
        let checkpoint = rig.runtime().start(async move { other.checkpoint().await });
        rig.runtime().sleep(Nanos::from_millis(5)).await;
        rig.commit(&[logs(5, 2)]).await;
        checkpoint.await;
        rig.journal.close().await.expect("it closes");
        rig.left()
    });
    assert!(*left.page(Lpn(5)) == page(&[2; 100]), "the version that committed meanwhile is lost");
}

#[test]
fn a_version_that_commits_while_an_older_one_is_read_back_is_what_the_read_gives() {
    let shape = Shape { retained_pages_max: 0, span: slow_home_and_read_back, ..Shape::PLAIN };
    Rig::run(shape, |rig| async move {
        rig.commit(&[logs(5, 1)]).await;
        let other = Rc::clone(&rig);
        let read = rig.runtime().start(async move { other.newest(5).await });
        rig.runtime().sleep(Nanos::from_millis(5)).await;
        rig.commit(&[logs(5, 2)]).await;
        assert!(read.await == page(&[2; 100]), "a version that was superseded counts");
    });
}

/// A frame of 80 blocks: three chunks, which compress so well that all begin in one log block.
fn three_chunks() -> Vec<(u64, Page)> {
    (0..80).map(|block| (block, page(&[block as u8 + 1; 100]))).collect()
}

#[test]
fn chunks_that_begin_in_one_log_block_are_not_confused() {
    let shape = Shape { commit: || Box::new(Compressed), log_blocks: 512, retained_pages_max: 0, ..Shape::PLAIN };
    let (left, home) = Rig::run(shape, |rig| async move {
        let changes = three_chunks().into_iter().map(|(block, page)| Change::Logs(block, page));
        rig.commit(&changes.collect::<Vec<_>>()).await;
        let left = rig.left();
        rig.checkpoint().await;
        (left, rig.left())
    });
    for (by, image) in [("checkpoint", home), ("recovery", recovered(&left, CheckpointBy::Copy))] {
        for (block, page) in three_chunks() {
            assert!(*image.page(Lpn(block)) == page, "{by}: block {block}");
        }
    }
}

/// Only writes of several log blocks take time.
fn slow_long_writes(request: &Request) -> Nanos {
    let is_long = matches!(&request.operation, Operation::Write { pages, .. } if pages.len() > 4);
    Nanos::from_millis(if is_long { 10 } else { 0 })
}

#[test]
fn a_commit_of_a_large_frame_returns_when_all_of_it_has_arrived() {
    let content = |block| Page::pattern(Pattern { seed: block, compressible_percent: 0 });
    let shape = Shape { commit: || Box::new(Compressed), log_blocks: 512, span: slow_long_writes, ..Shape::PLAIN };
    let left = Rig::run(shape, move |rig| async move {
        // Three chunks. What is left for the end of the commit is short.
        rig.commit(&(0..66).map(|block| Change::Logs(block, content(block))).collect::<Vec<_>>()).await;
        rig.left()
    });
    let home = recovered(&left, CheckpointBy::Copy);
    (0..66).for_each(|block| assert!(*home.page(Lpn(block)) == content(block), "block {block} is lost"));
}
