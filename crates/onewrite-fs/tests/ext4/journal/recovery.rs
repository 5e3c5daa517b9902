//! What recovery brings home, of logs that a power cut left.

use onewrite_block::{Image, Lpn, Page, Pattern};
use onewrite_fs::BlockNo;
use onewrite_fs::journal::format::frame::pack;
use onewrite_fs::journal::format::{JournalSuperblock, Kind, MAGIC, header};
use onewrite_fs::journal::{Barrier, CheckpointBy, Checksum, Commit, Compressed, Owner, Urgency};

use super::rig::{Change, LOG, Rig, Shape, page, recovered, superblock_of};

/// The strategies that need no write buffer.
const STRATEGIES: [fn() -> Box<dyn Commit>; 3] = [|| Box::new(Barrier), || Box::new(Checksum), || Box::new(Compressed)];

fn logs(block: u64, byte: u8) -> Change {
    Change::Logs(block, page(&[byte; 100]))
}

fn assert_home(image: &Image, block: u64, byte: u8) {
    assert!(*image.page(Lpn(block)) == page(&[byte; 100]), "block {block} is not as version {byte}");
}

/// Ends the log of an image behind log block `last`.
fn with_log_that_ends_at(image: &Image, last: u32) -> Image {
    let mut image = image.clone();
    let mut first = image.page(LOG.page()).clone();
    let superblock = superblock_of(&first);
    let shorter = JournalSuperblock { length: last + 1, ..superblock };
    shorter.encode_into(first.bytes_mut());
    image.set(LOG.page(), first);
    image
}

#[test]
fn a_log_that_is_full_to_its_last_block_is_replayed_whole() {
    let left = Rig::run(Shape::PLAIN, |rig| async move {
        rig.commit(&[logs(5, 1)]).await;
        rig.commit(&[logs(6, 2), logs(7, 3)]).await;
        rig.left()
    });
    // Descriptor, copies and commit block of both, behind the superblock.
    let home = recovered(&with_log_that_ends_at(&left, 3 + 4), CheckpointBy::Copy);
    (5..8).zip(1..).for_each(|(block, byte)| assert_home(&home, block, byte));
}

/// The log ends where copies of the last transaction should be: it is torn, as one without its commit block.
#[test]
fn a_transaction_that_the_log_has_no_room_for_is_torn() {
    let left = Rig::run(Shape::PLAIN, |rig| async move {
        rig.commit(&[logs(5, 1)]).await;
        rig.commit(&[logs(6, 2), logs(7, 3)]).await;
        rig.left()
    });
    // The first transaction, and of the second its descriptor and one copy.
    let home = recovered(&with_log_that_ends_at(&left, 3 + 2), CheckpointBy::Copy);
    assert_home(&home, 5, 1);
    assert!([6, 7].iter().all(|&block| home.page(Lpn(block)).is_zeros()), "copies of a torn transaction");
}

/// A page that its owner dropped is not logged. If a transaction had nothing else, those behind it count all the same.
#[test]
fn a_transaction_of_dropped_pages_alone_hides_none_behind_it() {
    for commit in STRATEGIES {
        let left = Rig::run(Shape { commit, ..Shape::PLAIN }, |rig| async move {
            rig.commit(&[logs(5, 1)]).await;
            let mut handle = rig.journal.start(1).await.expect("it starts");
            handle.join(BlockNo(6), Owner { file: 0, index: 6 });
            drop(handle);
            let sealed = rig.journal.seal(|_| None).await.expect("a block joined it");
            rig.journal.commit(sealed).await.expect("it commits");
            rig.commit(&[logs(7, 3)]).await;
            rig.left()
        });
        let home = recovered(&left, CheckpointBy::Copy);
        assert_home(&home, 5, 1);
        assert_home(&home, 7, 3);
        assert!(home.page(Lpn(6)).is_zeros(), "a dropped page");
    }
}

/// What is logged in a round: pages that do not compress, so that records are long in each strategy.
fn round(round: u64) -> Vec<(u64, Page)> {
    let content = |block| Page::pattern(Pattern { seed: block << 8 | round, compressible_percent: 0 });
    (0..9).map(|block| (block + round % 3 * 10, content(block))).collect()
}

/// What a power cut leaves after so many rounds. Up to three of them lie behind the tail of the log.
fn left_after(rounds: u64, commit: fn() -> Box<dyn Commit>) -> Image {
    Rig::run(Shape { commit, log_blocks: 64, ..Shape::PLAIN }, move |rig| async move {
        for number in 0..rounds {
            if number % 3 == 0 {
                rig.checkpoint().await;
            }
            let changes = round(number).into_iter().map(|(block, page)| Change::Logs(block, page));
            rig.commit(&changes.collect::<Vec<_>>()).await;
        }
        rig.left()
    })
}

#[test]
fn transactions_that_pass_the_end_of_the_log_are_replayed_whole() {
    for commit in STRATEGIES {
        for rounds in 20..32 {
            let left = left_after(rounds, commit);
            for by in [CheckpointBy::Copy, CheckpointBy::Share] {
                let home = recovered(&left, by);
                for (block, page) in (rounds - 3..rounds).flat_map(round) {
                    assert!(*home.page(Lpn(block)) == page, "block {block} after {rounds} rounds, {by:?}");
                }
            }
        }
    }
}

#[test]
fn a_block_that_begins_with_the_magic_of_the_log_is_replayed_as_it_was() {
    let magic = |byte: u8| page(&[&MAGIC.to_be_bytes()[..], &[byte; 50]].concat());
    let contents = [magic(1), page(&[2; 9]), magic(3), page(&[4; 9]), page(&[5; 9])];
    for commit in STRATEGIES {
        let logged = contents.clone();
        let left = Rig::run(Shape { commit, ..Shape::PLAIN }, |rig| async move {
            let changes = (20..).zip(logged).map(|(block, page)| Change::Logs(block, page));
            rig.commit(&changes.collect::<Vec<_>>()).await;
            rig.left()
        });
        for by in [CheckpointBy::Copy, CheckpointBy::Share] {
            let home = recovered(&left, by);
            (20..).zip(&contents).for_each(|(block, page)| assert!(home.page(Lpn(block)) == page, "{by:?} {block}"));
        }
    }
}

#[test]
fn no_block_is_replayed_that_was_freed_since_it_was_logged() {
    for commit in STRATEGIES {
        let left = Rig::run(Shape { commit, ..Shape::PLAIN }, |rig| async move {
            let blocks = 40..56;
            rig.commit(&blocks.clone().map(|block| logs(block, 1)).collect::<Vec<_>>()).await;
            rig.commit(&blocks.clone().map(Change::Frees).collect::<Vec<_>>()).await;
            for block in blocks {
                rig.write(block, &page(&[9; 100])).await;
            }
            rig.left()
        });
        let home = recovered(&left, CheckpointBy::Copy);
        (40..56).for_each(|block| assert_home(&home, block, 9));
    }
}

#[test]
fn the_last_of_logging_and_freeing_a_block_counts() {
    for frees_last in [false, true] {
        let left = Rig::run(Shape::PLAIN, move |rig| async move {
            for byte in [1, 2] {
                rig.commit(&[logs(5, byte)]).await;
                rig.commit(&[Change::Frees(5)]).await;
            }
            rig.write(5, &page(&[9; 100])).await;
            if !frees_last {
                rig.commit(&[logs(5, 3)]).await;
            }
            rig.left()
        });
        assert_home(&recovered(&left, CheckpointBy::Copy), 5, if frees_last { 9 } else { 3 });
    }
}

#[test]
fn a_transaction_that_frees_more_than_a_block_of_revokes_holds_has_them_all() {
    let left = Rig::run(Shape { log_blocks: 2048, ..Shape::PLAIN }, |rig| async move {
        for part in 0..4 {
            let changes: Vec<Change> = (0..200).map(|block| logs(part * 200 + block, 1)).collect();
            rig.commit(&changes).await;
        }
        rig.commit(&(0..800).map(Change::Frees).collect::<Vec<_>>()).await;
        for block in 0..800 {
            rig.write(block, &page(&[9; 100])).await;
        }
        rig.left()
    });
    let home = recovered(&left, CheckpointBy::Copy);
    (0..800).for_each(|block| assert_home(&home, block, 9));
}

/// A block that was freed while an older transaction that logged it has left the log and a newer one has not.
#[test]
fn a_freed_block_is_not_replayed_from_the_newer_of_two_transactions() {
    let left = Rig::run(Shape::PLAIN, |rig| async move {
        rig.commit(&[logs(5, 1), logs(6, 1)]).await;
        rig.commit(&[logs(5, 2), logs(7, 2)]).await;
        // Takes home what the first one alone holds, and the tail behind it.
        rig.journal.checkpoint(1, Urgency::Forced).await.expect("no error");
        assert_home(&rig.left(), 6, 1);
        assert!(rig.left().page(Lpn(7)).is_zeros(), "the second one stays in the log");
        rig.commit(&[Change::Frees(5)]).await;
        rig.write(5, &page(&[9; 100])).await;
        rig.left()
    });
    assert_home(&recovered(&left, CheckpointBy::Copy), 5, 9);
}

/// An image whose last transaction lacks its commit block, and where that lies: there is one of a time before the wrap.
fn torn_over_an_older_transaction() -> (Image, BlockNo) {
    const TRANSACTIONS: u64 = 16;
    let after = |count: u64| {
        Rig::run(Shape { log_blocks: 1 + 3 * TRANSACTIONS, ..Shape::PLAIN }, move |rig| async move {
            for number in 0..count {
                if number % 5 == 0 {
                    rig.checkpoint().await;
                }
                rig.commit(&[logs(100 + number, 1)]).await;
            }
            rig.left()
        })
    };
    let (before, mut torn) = (after(TRANSACTIONS + 2), after(TRANSACTIONS + 3));
    let commit_at = LOG + 1 + 3 * 2 + 2;
    let is_commit = |image: &Image| matches!(header(&image.page(commit_at.page()).bytes()), Some((Kind::Commit, _)));
    assert!(is_commit(&before) && is_commit(&torn), "an older commit block lies there");
    torn.set(commit_at.page(), before.page(commit_at.page()).clone());
    (torn, commit_at)
}

#[test]
fn the_commit_block_of_an_older_transaction_commits_nothing() {
    let (torn, _) = torn_over_an_older_transaction();
    let home = recovered(&torn, CheckpointBy::Copy);
    assert_home(&home, 117, 1);
    assert!(home.page(Lpn(118)).is_zeros(), "a transaction without its commit block came home");
}

#[test]
fn the_number_of_a_torn_transaction_is_never_given_again() {
    let (torn, commit_at) = torn_over_an_older_transaction();
    let descriptor = BlockNo(commit_at.0 - 2);
    let (kind, number) = header(&torn.page(descriptor.page()).bytes()).expect("a block of the log");
    assert_eq!(kind, Kind::Descriptor);
    let home = recovered(&torn, CheckpointBy::Copy);
    assert_eq!(superblock_of(home.page(LOG.page())).sequence, number.next());
}

#[test]
fn a_frame_that_ends_with_a_log_block_is_replayed() {
    // Head and index of one block take 92 bytes.
    let random = *Page::pattern(Pattern { seed: 1, compressible_percent: 0 }).bytes();
    let ends_with_a_block = |length: &usize| pack(&[page(&random[..*length])]).bytes.len() + 92 == 4096;
    let length = (3800..4096).find(ends_with_a_block).expect("one length fits");
    let content = page(&random[..length]);
    let logged = content.clone();
    let left = Rig::run(Shape { commit: || Box::new(Compressed), ..Shape::PLAIN }, |rig| async move {
        rig.commit(&[Change::Logs(5, logged)]).await;
        rig.commit(&[logs(6, 1)]).await;
        rig.left()
    });
    let home = recovered(&left, CheckpointBy::Copy);
    assert!(*home.page(Lpn(5)) == content, "its only transaction was taken for torn");
    assert_home(&home, 6, 1);
}
