//! When log space may be used again, and by whom.

use std::cell::Cell;
use std::rc::Rc;

use onewrite_block::sync::either;
use onewrite_block::{Cause, Nanos, Operation, Request};

use super::rig::{Change, Rig, Shape, page};

fn logs(block: u64) -> Change {
    Change::Logs(block, page(&[7; 100]))
}

fn millis(count: u64) -> Nanos {
    Nanos::from_millis(count)
}

/// Whether a transaction of `blocks` blocks gets room at once.
async fn is_granted(rig: &Rig, blocks: usize) -> bool {
    let is_granted = Cell::new(false);
    let start = async {
        drop(rig.journal.start(blocks).await.expect("no error"));
        is_granted.set(true);
    };
    either(start, rig.runtime().sleep(Nanos(1))).await;
    is_granted.get()
}

/// Commits transactions until the log has no room for one of `blocks` blocks.
async fn fill(rig: &Rig, blocks: usize) {
    for number in 0.. {
        if !is_granted(rig, blocks).await {
            return;
        }
        rig.commit(&[logs(number % 50)]).await;
    }
}

/// FLUSH takes ten milliseconds, writes outside the log and that of its superblock one.
fn slow_flush(request: &Request) -> Nanos {
    match (&request.operation, request.cause) {
        (Operation::Flush, _) => millis(10),
        (_, Cause::Checkpoint | Cause::LogTail) => millis(1),
        _ => Nanos::ZERO,
    }
}

#[test]
fn log_space_is_free_only_when_the_tail_behind_it_is_durable() {
    Rig::run(Shape { log_blocks: 128, span: slow_flush, ..Shape::PLAIN }, |rig| async move {
        let runtime = rig.runtime();
        fill(&rig, 20).await;
        let start = runtime.now();
        let sealed = rig.seal(&[logs(60)]).await;
        // 0: home writes. 1: FLUSH. 11: superblock. 12: FLUSH. 22: the new tail is durable.
        let checkpoint = Rc::clone(&rig);
        runtime.spawn(async move { checkpoint.checkpoint().await });
        let waiting = Rc::clone(&rig);
        let room = runtime.start(async move {
            drop(waiting.journal.start(20).await.expect("no error"));
            waiting.runtime().now()
        });
        // This FLUSH begins before the superblock is written, and ends before that is durable.
        runtime.sleep(millis(5)).await;
        rig.journal.commit(sealed).await.expect("it commits");
        assert_eq!(runtime.now(), start + millis(15), "the commit has ended");
        assert_eq!(room.await, start + millis(22), "room was given at another moment");
    });
}

#[test]
fn log_space_that_a_sealed_transaction_will_take_is_given_to_nobody_else() {
    Rig::run(Shape { log_blocks: 128, ..Shape::PLAIN }, |rig| async move {
        fill(&rig, 24).await;
        assert!(is_granted(&rig, 15).await, "there is room for one");
        let sealed = rig.seal(&(100..115).map(logs).collect::<Vec<_>>()).await;
        assert!(!is_granted(&rig, 15).await, "and not for another one beside it");
        rig.journal.commit(sealed).await.expect("it commits");
    });
}
