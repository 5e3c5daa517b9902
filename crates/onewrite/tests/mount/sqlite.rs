//! SQLite, unmodified, built with batch atomic writes: on a mount with atomic files it commits without a journal.
//!
//! The first transaction of an empty database writes a journal file, so each test begins with one.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use onewrite_block::Choices;
use rusqlite::{Connection, Result};

use crate::support::{Mounted, detach, kill, pause, text};

/// Opens a database with a rollback journal.
fn open(path: &Path) -> Result<Connection> {
    let database = Connection::open(path)?;
    database.busy_timeout(Duration::from_secs(10))?;
    database.pragma_update(None, "journal_mode", "DELETE")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    Ok(database)
}

/// A database of entries and their sum.
fn make(path: &Path) -> Result<Connection> {
    let database = open(path)?;
    database.execute_batch(
        "CREATE TABLE entry (number INTEGER PRIMARY KEY, value INTEGER, text TEXT);
         CREATE TABLE total (value INTEGER); INSERT INTO total VALUES (0);",
    )?;
    Ok(database)
}

/// Adds entry `number` and its value to the sum, in one transaction.
fn add(database: &Connection, number: i64) -> Result<()> {
    let transaction = database.unchecked_transaction()?;
    let text = format!("{number:05}").repeat(number as usize % 300);
    transaction.execute("INSERT INTO entry VALUES (?1, ?1 * 3, ?2)", (number, text))?;
    transaction.execute("UPDATE total SET value = value + ?1 * 3", [number])?;
    transaction.commit()
}

/// The number of entries; asserts that SQLite finds nothing wrong and that the sum is that of the entries.
fn judge(database: &Connection) -> i64 {
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let sums = "SELECT count(*), ifnull(sum(value), 0) = (SELECT value FROM total), ifnull(max(number), 0) FROM entry";
    let (count, is_even, last): (i64, bool, i64) =
        database.query_row(sums, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert!(is_even && count == last, "{count} entries up to {last}, sum right: {is_even}");
    count
}

/// Requests of these kinds so far.
fn requests(place: &Mounted, kinds: &[&str]) -> u64 {
    let stats = place.stats();
    kinds.iter().map(|kind| stats["requests"][kind]["count"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn it_commits_without_a_journal() {
    for mode in ["data", "data+async"] {
        let Some(mut place) = Mounted::new(64, &format!("data={mode}")) else { return };
        let database = make(&place.at("db")).unwrap();
        let (journals, ioctls) = (requests(&place, &["create", "unlink"]), requests(&place, &["ioctl"]));
        let device_flushes = |place: &Mounted| place.stats()["device"]["flushes"].as_u64().unwrap();
        let (commits, flushes) = (place.stats()["fs"]["commits"].as_u64().unwrap(), device_flushes(&place));
        (1..=200).for_each(|number| add(&database, number).unwrap());
        assert_eq!(requests(&place, &["create", "unlink"]), journals, "{mode}: no journal file came or went");
        assert_eq!(requests(&place, &["ioctl"]), ioctls + 400, "{mode}: a start and a commit each");
        let commits = place.stats()["fs"]["commits"].as_u64().unwrap() - commits;
        assert!((200..=220).contains(&commits), "{mode}: {commits} commits of the log for 200 transactions");
        // SQLite calls fsync after each commit; nothing is left for it to do.
        let (flushes, each) = (device_flushes(&place) - flushes, if mode == "data" { 2 } else { 1 });
        assert!(flushes <= 220 * each, "{mode}: {flushes} flushes of the device for 200 transactions");
        let reader = open(&place.at("db")).unwrap();
        assert_eq!((judge(&database), judge(&reader)), (200, 200));
        drop((database, reader));
        place.unmount();
    }
}

#[test]
fn on_f2fs_it_commits_without_a_journal_too() {
    let Some(mut place) = Mounted::unmounted_f2fs(64).and_then(|place| place.mounted("")) else { return };
    let database = make(&place.at("db")).unwrap();
    add(&database, 1).unwrap();
    let (journals, ioctls) = (requests(&place, &["create", "unlink"]), requests(&place, &["ioctl"]));
    let checkpoints = |place: &Mounted| place.stats()["fs"]["checkpoints"].as_u64().unwrap();
    let (before, flushes) = (checkpoints(&place), device(&place).1);
    (2..=200).for_each(|number| add(&database, number).unwrap());
    assert_eq!(requests(&place, &["create", "unlink"]), journals, "no journal file came or went");
    assert_eq!(requests(&place, &["ioctl"]), ioctls + 398, "a start and a commit each");
    let (made, flushes) = (checkpoints(&place) - before, device(&place).1 - flushes);
    // The file under the mount has no FUA: one flush behind the pages, one behind the node.
    assert!(made <= 5 && flushes <= 2 * 199 + 10 + 2 * made, "{made} checkpoints, {flushes} flushes");
    assert_eq!(judge(&database), 200);
    drop(database);
    place.unmount();
}

/// Bytes that the device was given, and its FLUSHes, so far.
fn device(place: &Mounted) -> (u64, u64) {
    let device = &place.stats()["device"];
    let causes = device["host_write_bytes_by_cause"].as_array().unwrap();
    (causes.iter().map(|bytes| bytes.as_u64().unwrap()).sum(), device["flushes"].as_u64().unwrap())
}

/// All bytes: the log, which is written more than once over here, and the checkpoints.
#[test]
fn a_row_costs_less_than_twelve_kibibytes_and_a_flush_where_the_log_is_compressed() {
    const ROWS: i64 = 1000;
    for mode in ["ldj", "data+cmp"] {
        let Some(mut place) = Mounted::new(64, &format!("data={mode}")) else { return };
        let database = open(&place.at("db")).unwrap();
        database.execute_batch("CREATE TABLE t (number INTEGER PRIMARY KEY, bytes BLOB)").unwrap();
        let (bytes, flushes) = device(&place);
        (0..ROWS).for_each(|row| {
            database.execute("INSERT INTO t VALUES (?1, randomblob(100))", [row]).unwrap();
        });
        let (bytes, flushes) = (device(&place).0 - bytes, device(&place).1 - flushes);
        let (kib, flushes) = (bytes as f64 / 1024.0 / ROWS as f64, flushes as f64 / ROWS as f64);
        println!("{mode}: {kib:.2} KiB, {flushes:.3} flushes for each row");
        assert!((4.0..=12.0).contains(&kib) && flushes <= 1.1, "{mode}: {kib} KiB, {flushes} flushes");
        drop(database);
        place.unmount();
    }
}

#[test]
fn what_is_rolled_back_nobody_sees() {
    let Some(mut place) = Mounted::new(64, "data=data") else { return };
    let (database, reader) = (make(&place.at("db")).unwrap(), open(&place.at("db")).unwrap());
    for number in 1..=20 {
        add(&database, number).unwrap();
        let transaction = database.unchecked_transaction().unwrap();
        transaction.execute("UPDATE entry SET value = 0, text = 'lost'", []).unwrap();
        transaction.rollback().unwrap();
        assert_eq!((judge(&database), judge(&reader)), (number, number));
    }
    drop((database, reader));
    place.unmount();
}

#[test]
fn two_connections_in_turn_commit_without_a_journal() {
    let Some(mut place) = Mounted::new(64, "data=data") else { return };
    let (first, second) = (make(&place.at("db")).unwrap(), open(&place.at("db")).unwrap());
    let journals = requests(&place, &["create", "unlink"]);
    for number in 1..=40 {
        add(if number % 2 == 0 { &first } else { &second }, number).unwrap();
        assert_eq!((judge(&first), judge(&second)), (number, number));
    }
    assert_eq!(requests(&place, &["create", "unlink"]), journals);
    drop((first, second));
    place.unmount();
}

#[test]
fn a_mode_without_atomic_files_gets_a_journal() {
    let Some(mut place) = Mounted::new(64, "data=ordered") else { return };
    let database = make(&place.at("db")).unwrap();
    let journals = requests(&place, &["create"]);
    (1..=10).for_each(|number| add(&database, number).unwrap());
    assert_eq!((judge(&database), requests(&place, &["create"])), (10, journals + 10));
    drop(database);
    place.unmount();
}

#[test]
fn what_was_committed_is_there_after_kills_of_the_mount() {
    let kills: u64 = std::env::var("ONEWRITE_KILLS").map_or(4, |text| text.parse().unwrap());
    let mut moments = Choices::new(17).stream("sqlite", 0);
    for (place, options) in [(Mounted::unmounted(64), "data=data"), (Mounted::unmounted_f2fs(64), "")] {
        let Some(place) = place else { return };
        kill_and_judge(place, options, kills, &mut moments);
    }
}

fn kill_and_judge(mut place: Mounted, options: &str, kills: u64, moments: &mut Choices) {
    place = place.mounted(options).unwrap();
    drop(make(&place.at("db")).unwrap());
    place.unmount();
    let mut last = 0;
    for round in 0..kills {
        place = place.mounted(options).unwrap();
        last = entries_before_kill(&place, last, moments.below(150));
        text(&place.fsck_after_kill());
        if !options.is_empty() {
            // fsck.f2fs stops at some chains of nodes.
            place.check();
        }
        text(&place.onewrite(&["cp", "image:/db", "db"]));
        let found = judge(&open(&place.beside("db")).unwrap());
        std::fs::remove_file(place.beside("db")).unwrap();
        assert!(found == last || found == last + 1, "kill {round}: {found} entries, {last} were committed");
        assert!(!text(&place.onewrite(&["ls", "image:/"])).contains("journal"), "kill {round}");
        last = found;
    }
}

/// Adds entries until the mount is killed; returns the last that was committed.
fn entries_before_kill(place: &Mounted, last: i64, after_milliseconds: u64) -> i64 {
    let (tell, told) = channel();
    let path = place.at("db");
    #[expect(clippy::disallowed_methods, reason = "commits while the mount is killed")]
    let adder = std::thread::spawn(move || add_until_killed(&path, last, &tell));
    let first = told.recv().expect("an entry is committed");
    pause(after_milliseconds);
    kill(place);
    adder.join().unwrap();
    detach(place);
    latest(&told, first)
}

fn add_until_killed(path: &Path, last: i64, tell: &Sender<i64>) {
    let database = open(path).unwrap();
    for number in last + 1.. {
        match add(&database, number) {
            Ok(()) => tell.send(number).unwrap(),
            Err(_) => return,
        }
    }
}

fn latest(told: &Receiver<i64>, first: i64) -> i64 {
    told.try_iter().last().unwrap_or(first)
}
