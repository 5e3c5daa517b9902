//! Several databases of one connection: transactions over all of them are one step.

mod support;

use onewrite_fs::ext4::Mode;
use rusqlite::{Connection, ErrorCode};
use support::{Image, Mounted, set_journal};

/// Coins of both accounts together.
const COINS: i64 = 1_000;

/// Two databases with an account each.
fn accounts(mounted: &Mounted, journal: &str) -> Connection {
    let database = mounted.open("/alice", journal);
    database.execute_batch("ATTACH '/bob' AS bob").unwrap();
    set_journal(&database, "bob", journal);
    for (schema, coins) in [("main", COINS), ("bob", 0)] {
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {schema}.account_{schema} (coins INTEGER);
             INSERT INTO account_{schema} SELECT {coins} WHERE NOT EXISTS (SELECT * FROM account_{schema})"
        );
        database.execute_batch(&sql).unwrap();
    }
    database
}

fn transfer(database: &Connection, coins: i64) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    transaction.execute("UPDATE account_main SET coins = coins - ?1", [coins])?;
    transaction.execute("UPDATE account_bob SET coins = coins + ?1", [coins])?;
    transaction.commit()
}

/// What both hold; asserts that SQLite finds nothing wrong.
fn balances(database: &Connection) -> (i64, i64) {
    for schema in ["main", "bob"] {
        let check = format!("PRAGMA {schema}.integrity_check");
        let check: String = database.query_row(&check, [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
    let sql = "SELECT (SELECT coins FROM account_main), (SELECT coins FROM account_bob)";
    database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

#[test]
fn what_is_rolled_back_is_rolled_back_in_all_databases() {
    for journal in ["MEMORY", "OFF", "DELETE", "WAL"] {
        let image = Image::new();
        let mounted = image.mounted(Mode::DataAsync);
        let database = accounts(&mounted, journal);
        for count in 1..=20 {
            let lost = database.unchecked_transaction().unwrap();
            lost.execute("UPDATE account_main SET coins = 7", []).unwrap();
            lost.execute("UPDATE account_bob SET coins = 7", []).unwrap();
            lost.rollback().unwrap();
            assert_eq!(balances(&database), (COINS - count + 1, count - 1), "{journal}");
            transfer(&database, 1).unwrap();
        }
        let other = accounts(&mounted, journal);
        assert_eq!((balances(&database), balances(&other)), ((980, 20), (980, 20)), "{journal}");
    }
}

#[test]
fn a_transaction_of_one_database_leaves_the_others_alone() {
    let image = Image::new();
    let mounted = image.mounted(Mode::DataAsync);
    let database = accounts(&mounted, "MEMORY");
    // Somebody else writes to the second database at the same time.
    let other = mounted.open("/bob", "MEMORY");
    other.execute_batch("BEGIN IMMEDIATE; PRAGMA cache_size = 1; UPDATE account_bob SET coins = 5").unwrap();
    database.execute_batch("UPDATE account_main SET coins = coins - 1").unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(balances(&database), (COINS - 1, 0));
}

#[test]
fn a_commit_that_is_refused_changes_neither_database() {
    let image = Image::new();
    let mounted = image.mounted(Mode::DataAsync);
    let database = accounts(&mounted, "MEMORY");
    // A reader of the second database keeps the writer from EXCLUSIVE there.
    let reader = mounted.open("/bob", "MEMORY");
    reader.execute_batch("BEGIN; SELECT * FROM account_bob").unwrap();
    let mut rows = reader.prepare("SELECT * FROM account_bob").unwrap();
    let mut rows = rows.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    database.busy_timeout(std::time::Duration::ZERO).unwrap();
    let busy = transfer(&database, 1).unwrap_err();
    assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    let _ = database.execute_batch("ROLLBACK");
    assert_eq!(balances(&database), (COINS, 0));
}
