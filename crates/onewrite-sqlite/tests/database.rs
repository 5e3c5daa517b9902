//! One database: journals, batches, drafts, locks, and what happens when the volume refuses.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::Draft;
use rusqlite::{Connection, ErrorCode};
use support::{Image, Mounted, add, judge, make, set_journal};

/// A change that fails when it has changed something.
const FAILING: &str = "UPDATE entry SET value = 0; INSERT INTO entry SELECT 1, 1, ''";

fn is_there(mounted: &Mounted, path: &str) -> bool {
    mounted.volume.metadata(path).is_ok()
}

#[test]
fn every_journal_mode_keeps_what_was_committed_and_nothing_else() {
    for (mode, journal) in [Mode::Ordered, Mode::DataAsync, Mode::Data]
        .into_iter()
        .flat_map(|mode| ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL"].map(|journal| (mode, journal)))
    {
        let image = Image::new();
        let mounted = image.mounted(mode);
        let database = mounted.open("/db", journal);
        make(&database);
        for number in 1..=8 {
            add(&database, number).unwrap();
            let transaction = database.unchecked_transaction().unwrap();
            transaction.execute("UPDATE entry SET value = 0, text = 'lost'", []).unwrap();
            transaction.rollback().unwrap();
            assert!(database.execute_batch(FAILING).is_err());
            database.execute_batch("UPDATE entry SET value = number * 3").unwrap();
            database.execute_batch("ROLLBACK").unwrap_err();
        }
        let reader = mounted.open("/db", journal);
        assert_eq!((judge(&database), judge(&reader)), (8, 8), "{mode} {journal}");
        drop((database, reader));
        mounted.volume.clone().close().unwrap();
        drop(mounted);
        let mounted = image.mounted(mode);
        assert_eq!(judge(&mounted.open("/db", journal)), 8, "{mode} {journal}");
        drop(mounted);
        image.check();
    }
}

/// A database with its first transaction, which always has a journal, behind it.
fn made(mounted: &Mounted, journal: &str) -> Connection {
    make(&mounted.open("/db", "DELETE"));
    mounted.open("/db", journal)
}

/// Adds entries and tells whether a journal file was there at any commit. SQLite calls the hook before it writes.
fn has_journal_while_adding(mounted: &Mounted, journal: &str) -> bool {
    let mut database = made(mounted, journal);
    let (volume, seen) = (mounted.volume.clone(), Arc::new(AtomicBool::new(false)));
    let sees = Arc::clone(&seen);
    let hook = move || {
        sees.fetch_or(volume.metadata("/db-journal").is_ok(), Ordering::SeqCst);
        false
    };
    database.commit_hook(Some(hook)).unwrap();
    (1..=20).for_each(|number| add(&database, number).unwrap());
    assert_eq!(judge(&database), 20, "{journal}");
    seen.load(Ordering::SeqCst)
}

#[test]
fn no_journal_appears_where_the_mode_has_drafts() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"] {
        let image = Image::new();
        let mounted = image.mounted(Mode::DataAsync);
        assert!(!has_journal_while_adding(&mounted, journal), "{journal}");
        assert_eq!(mounted.names(), ["db"], "{journal}");
    }
}

#[test]
fn a_mode_without_drafts_gets_a_journal() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
        let image = Image::new();
        assert!(has_journal_while_adding(&image.mounted(Mode::Ordered), journal), "{journal}");
    }
}

#[test]
fn without_a_journal_a_rollback_still_takes_everything_back() {
    for journal in ["OFF", "MEMORY"] {
        let image = Image::new();
        let mounted = image.mounted(Mode::Data);
        let database = mounted.open("/db", journal);
        make(&database);
        // Pages go to the file in the middle of the transaction.
        database.execute_batch("PRAGMA cache_size = 10").unwrap();
        for number in 1..=20 {
            add(&database, number).unwrap();
            let transaction = database.unchecked_transaction().unwrap();
            for lost in 100..400 {
                transaction.execute("INSERT INTO entry VALUES (?1, 9, zeroblob(2000))", [lost]).unwrap();
            }
            transaction.execute("UPDATE total SET value = 0", []).unwrap();
            let read: i64 = transaction.query_row("SELECT count(*) FROM entry", [], |row| row.get(0)).unwrap();
            assert_eq!(read, number + 300, "{journal}: a transaction reads its own changes");
            transaction.rollback().unwrap();
            assert_eq!((judge(&database), judge(&mounted.open("/db", journal))), (number, number), "{journal}");
        }
    }
}

#[test]
fn a_connection_that_closes_within_a_transaction_leaves_nothing() {
    let image = Image::new();
    let mounted = image.mounted(Mode::Data);
    let database = mounted.open("/db", "OFF");
    make(&database);
    add(&database, 1).unwrap();
    database.execute_batch("PRAGMA cache_size = 1; BEGIN; DELETE FROM entry;").unwrap();
    drop(database);
    assert_eq!(judge(&mounted.open("/db", "OFF")), 1);
}

#[test]
fn a_transaction_of_more_than_memory_needs_no_journal() {
    let image = Image::new();
    let options = MountOptions { cache_pages: MountOptions::CACHE_PAGES_MIN, ..MountOptions::new(Mode::Data) };
    let mounted = Mounted::new(&image.0, options);
    let database = made(&mounted, "PERSIST");
    database.execute_batch("PRAGMA cache_size = 10000; CREATE TABLE much (bytes)").unwrap();
    let fill = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                INSERT INTO much SELECT zeroblob(4000) FROM n";
    database.execute_batch(fill).unwrap();
    assert!(!is_there(&mounted, "/db-journal"), "a batch did");
    set_journal(&database, "main", "MEMORY");
    database.execute_batch("BEGIN; UPDATE much SET bytes = zeroblob(4002); ROLLBACK").unwrap();
    database.execute_batch("UPDATE much SET bytes = zeroblob(4001)").unwrap();
    let count = "SELECT count(*) FROM much WHERE length(bytes) = 4001";
    let changed: i64 = mounted.open("/db", "DELETE").query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!((changed, judge(&database)), (1000, 0));
}

/// One commit changes a quarter of the cache at most: three names, 55 blocks each, and three more.
fn with_small_commits(image: &Image) -> Mounted {
    Mounted::new(&image.0, MountOptions { cache_pages: 4 * 168, ..MountOptions::new(Mode::Data) })
}

/// Three names.
fn most_of_a_commit(mounted: &Mounted) -> Draft {
    let names = mounted.volume.atomic().unwrap();
    for name in ["/one", "/two", "/three"] {
        names.create(name).unwrap();
    }
    names
}

#[test]
fn what_is_refused_as_too_much_goes_through_a_real_journal() {
    let image = Image::new();
    let mounted = with_small_commits(&image);
    let database = made(&mounted, "PERSIST");
    add(&database, 1).unwrap();
    assert!(!is_there(&mounted, "/db-journal"), "a batch did as long as there was room");
    let names = most_of_a_commit(&mounted);
    add(&database, 2).unwrap();
    assert!(is_there(&mounted, "/db-journal"), "the commit had no room for it");
    assert_eq!((judge(&database), judge(&mounted.open("/db", "DELETE"))), (2, 2));
    // Without a journal to go back to it is refused as a whole.
    set_journal(&database, "main", "MEMORY");
    let refused = add(&database, 3).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
    assert_eq!(judge(&database), 2);
    drop(names);
    add(&database, 3).unwrap();
    assert_eq!((judge(&database), judge(&mounted.open("/db", "DELETE"))), (3, 3));
}

/// SQLite uses no batches then, and all the same keeps its journal in memory for a file that has them.
#[test]
fn without_syncs_what_is_too_much_for_a_draft_has_a_journal_too() {
    for (journal, off) in [("DELETE", "OFF"), ("TRUNCATE", "0"), ("PERSIST", "false")] {
        let image = Image::new();
        let mounted = with_small_commits(&image);
        let database = made(&mounted, journal);
        add(&database, 1).unwrap();
        database.execute_batch(&format!("PRAGMA synchronous = {off}")).unwrap();
        let names = most_of_a_commit(&mounted);
        add(&database, 2).unwrap_or_else(|error| panic!("{journal}: {error}"));
        database.execute_batch("BEGIN; DELETE FROM entry; ROLLBACK").unwrap();
        assert_eq!((judge(&database), judge(&mounted.open("/db", journal))), (2, 2), "{journal}");
        drop(names);
        assert_eq!(is_there(&mounted, "/db-journal"), journal != "DELETE", "{journal}");
    }
}

#[test]
fn a_file_that_another_draft_has_is_not_changed_and_usable_later() {
    let image = Image::new();
    let mounted = image.mounted(Mode::Data);
    let database = made(&mounted, "DELETE");
    let draft = mounted.volume.atomic().unwrap();
    draft.claim("/db").unwrap();
    let refused = add(&database, 1).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{refused}");
    drop(draft);
    assert_eq!(judge(&database), 0);
    add(&database, 1).unwrap();
    assert_eq!((judge(&database), mounted.names()), (1, vec!["db".to_owned()]));
}

#[test]
fn a_full_volume_is_said_to_be_full() {
    let image = Image::new();
    let mounted = image.mounted(Mode::DataAsync);
    let database = mounted.open("/db", "DELETE");
    make(&database);
    add(&database, 1).unwrap();
    let mut rows = 0;
    let refused = loop {
        match database.execute("INSERT INTO entry VALUES (?1, 0, zeroblob(300000))", [1_000 + rows]) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused} after {rows} rows");
    database.execute_batch("DELETE FROM entry WHERE number >= 1000").unwrap();
    add(&database, 2).unwrap();
    assert_eq!(judge(&database), 2);
}

#[test]
fn one_writes_while_others_read_what_was_committed() {
    for journal in ["DELETE", "MEMORY", "WAL"] {
        let image = Image::new();
        let mounted = image.mounted(Mode::DataAsync);
        let (first, second) = (mounted.open("/db", journal), mounted.open("/db", journal));
        make(&first);
        [&first, &second].iter().for_each(|database| database.busy_timeout(Duration::ZERO).unwrap());
        for number in 1..=20 {
            let (writer, other) = if number % 2 == 0 { (&first, &second) } else { (&second, &first) };
            writer.execute_batch("BEGIN IMMEDIATE; UPDATE total SET value = -1").unwrap();
            let busy = other.execute_batch("BEGIN IMMEDIATE").unwrap_err();
            assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
            assert_eq!(judge(other), number - 1);
            writer.execute_batch("ROLLBACK").unwrap();
            add(writer, number).unwrap();
            assert_eq!((judge(&first), judge(&second)), (number, number), "{journal}");
        }
    }
}

#[test]
fn connections_of_several_threads_share_a_database() {
    for journal in ["DELETE", "MEMORY", "WAL"] {
        let image = Image::new();
        let mounted = image.mounted(Mode::DataAsync);
        make(&mounted.open("/db", journal));
        let count = |database: &Connection| {
            for _ in 0..20 {
                let sql = "BEGIN IMMEDIATE; UPDATE total SET value = value + 3;
                           INSERT INTO entry SELECT ifnull(max(number), 0) + 1, 3, '' FROM entry; COMMIT";
                database.execute_batch(sql).unwrap();
            }
        };
        #[expect(clippy::disallowed_methods, reason = "threads of a program with a connection each")]
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let database = mounted.open("/db", journal);
                    database.busy_timeout(Duration::from_secs(20)).unwrap();
                    count(&database);
                });
            }
        });
        assert_eq!(judge(&mounted.open("/db", journal)), 60, "{journal}");
    }
}

#[test]
fn a_database_is_opened_by_its_own_name_only() {
    let image = Image::new();
    let mounted = image.mounted(Mode::Data);
    make(&mounted.open("/db", "DELETE"));
    mounted.volume.symlink("/link", "db").unwrap();
    mounted.volume.create_directory("/directory").unwrap();
    for wrong in ["/link", "/directory", "/none/db"] {
        let opened = Connection::open_with_flags_and_vfs(wrong, Default::default(), mounted.name.as_str());
        assert!(opened.is_err(), "{wrong}");
    }
    assert_eq!(judge(&mounted.open("directory/.././/db", "DELETE")), 0);
}

#[test]
fn locks_are_never_kept_between_transactions() {
    let image = Image::new();
    let mounted = image.mounted(Mode::Data);
    let database = mounted.open("/db", "DELETE");
    let mode: String = database.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "normal");
}

#[test]
fn vacuum_and_backup_work() {
    let image = Image::new();
    let mounted = image.mounted(Mode::DataAsync);
    let database = mounted.open("/db", "MEMORY");
    make(&database);
    (1..=200).for_each(|number| add(&database, number).unwrap());
    database.execute_batch("DELETE FROM entry WHERE number > 100; UPDATE total SET value = 15150; VACUUM").unwrap();
    assert_eq!(judge(&database), 100);
    let sql = format!("VACUUM INTO 'file:/copy?vfs={}'", mounted.name);
    database.execute_batch(&sql).unwrap();
    assert_eq!(judge(&mounted.open("/copy", "DELETE")), 100);
}
