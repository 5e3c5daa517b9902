//! What a transaction costs: blocks of the log for each changed page, flushes for each transaction.

mod support;

use onewrite_block::Counters;
use onewrite_fs::ext4::Mode;
use rusqlite::Connection;
use support::{Image, Mounted};

const TRANSACTIONS: i64 = 200;

/// Pages that each transaction changes, beside the first, which has SQLite's counter of changes.
const PAGES: i64 = 20;

/// A table whose rows fill a page each.
fn filled(mounted: &Mounted) -> Connection {
    let database = mounted.open("/db", "DELETE");
    let sql = "CREATE TABLE page (number INTEGER PRIMARY KEY, bytes BLOB);
               WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
               INSERT INTO page SELECT i, randomblob(3900) FROM n";
    database.execute_batch(sql).unwrap();
    database
}

/// Overwrites the rows of `PAGES` pages.
fn overwrite(database: &Connection, number: i64) {
    let first = 1 + number * PAGES % 480;
    let sql = "UPDATE page SET bytes = randomblob(3900) WHERE number >= ?1 AND number < ?2";
    database.execute(sql, [first, first + PAGES]).unwrap();
}

/// Adds a row of 100 bytes.
fn add(database: &Connection, number: i64) {
    database.execute("INSERT INTO page VALUES (?1, randomblob(100))", [1000 + number]).unwrap();
}

/// What the device counted during `count` transactions.
fn counted(journal: &str, mode: Mode, (count, change): (i64, fn(&Connection, i64))) -> Counters {
    let image = Image::new();
    let mounted = image.mounted(mode);
    let database = filled(&mounted);
    support::set_journal(&database, "main", journal);
    mounted.volume.sync().unwrap();
    let before = mounted.volume.device_counters().unwrap();
    (0..count).for_each(|number| change(&database, number));
    let after = mounted.volume.device_counters().unwrap();
    let host_write_bytes_by_cause =
        std::array::from_fn(|at| after.host_write_bytes_by_cause[at] - before.host_write_bytes_by_cause[at]);
    Counters { host_write_bytes_by_cause, flushes: after.flushes - before.flushes, ..Counters::default() }
}

/// Blocks that commits wrote into the log, and flushes, for each transaction.
fn each(journal: &str, mode: Mode) -> (f64, f64) {
    let counters = counted(journal, mode, (TRANSACTIONS, overwrite));
    let log_bytes = counters.host_write_bytes_by_cause[onewrite_block::Cause::Journal as usize];
    println!("{mode} {journal}: {counters:?}");
    (log_bytes as f64 / 4096.0 / TRANSACTIONS as f64, counters.flushes as f64 / TRANSACTIONS as f64)
}

#[test]
fn a_changed_page_is_written_once_into_the_log_and_a_commit_is_one_flush() {
    for journal in ["DELETE", "MEMORY", "OFF"] {
        let (blocks, flushes) = each(journal, Mode::DataAsync);
        println!("{journal}: {blocks:.2} log blocks, {flushes:.2} flushes");
        // Beside the pages: descriptor, commit block, and where the clock has ticked the inode.
        let pages = (PAGES + 1) as f64;
        assert!((pages..=pages + 3.1).contains(&blocks), "{journal}: {blocks} log blocks for {pages} pages");
        assert!(flushes <= 1.1, "{journal}: {flushes} flushes for each transaction");
    }
}

/// All bytes of a transaction that adds a row: log, checkpoint, tail. The aim is 12 KiB; a commit of two pages that is
/// not compressed has four blocks, so `data+async` misses it.
#[test]
fn a_row_costs_one_flush_and_in_a_compressed_log_less_than_twelve_kibibytes() {
    const ROWS: i64 = 1000;
    for (mode, least, most) in [(Mode::DataAsync, 16.0, 19.0), (Mode::Ldj, 4.0, 12.0)] {
        let counters = counted("MEMORY", mode, (ROWS, add));
        let kib = counters.host_write_bytes() as f64 / 1024.0 / ROWS as f64;
        let flushes = counters.flushes as f64 / ROWS as f64;
        println!("{mode}: {kib:.2} KiB, {flushes:.3} flushes for each row");
        assert!((least..=most).contains(&kib), "{mode}: {kib} KiB");
        assert!(flushes <= 1.1, "{mode}: {flushes} flushes");
    }
}
