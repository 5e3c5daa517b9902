//! Orders and stock in two databases: an order takes a piece from the stock, or neither changes, whenever the program
//! ends or the power goes: `cargo run --package onewrite-sqlite --example ledger -- shop.img 1000`.
//!
//! Elsewhere a transaction over two databases needs journals and a super-journal, and in WAL mode it is not atomic.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, make_image};
use rusqlite::{Connection, OpenFlags};

/// Pieces in the stock at the beginning.
pub const PIECES: i64 = 1_000_000;

const TABLES: &str = "
    PRAGMA main.journal_mode = MEMORY;
    CREATE TABLE IF NOT EXISTS main.bought (number INTEGER PRIMARY KEY);
    ATTACH '/stock.db' AS stock;
    PRAGMA stock.journal_mode = MEMORY;
    CREATE TABLE IF NOT EXISTS stock.piece (count INTEGER);
    INSERT INTO stock.piece SELECT 1000000 WHERE NOT EXISTS (SELECT * FROM stock.piece);";

const ORDER: &str = "
    BEGIN;
    INSERT INTO main.bought DEFAULT VALUES;
    UPDATE stock.piece SET count = count - 1;
    COMMIT;"; // here both change

/// Makes the image, unless there is one, and places `orders` orders. `after_each` gets the number of those that are
/// durable. Returns orders and pieces.
///
/// # Errors
/// Those of the image and of SQLite.
pub fn run(image: &Path, orders: u64, mut after_each: impl FnMut(i64)) -> Result<(i64, i64), Box<dyn Error>> {
    if !image.exists() {
        make_image(image, 32 << 20)?;
    }
    let volume = Volume::open(image, MountOptions::new(Mode::DataAsync))?;
    let registered = onewrite_sqlite::register("onewrite", &volume)?;
    let database = Connection::open_with_flags_and_vfs("/orders.db", OpenFlags::default(), "onewrite")?;
    database.execute_batch(TABLES)?;
    for _ in 0..orders {
        database.execute_batch(ORDER)?;
        after_each(database.last_insert_rowid());
    }
    let count = |sql| database.query_row(sql, [], |row| row.get(0));
    let counts = (count("SELECT count(*) FROM bought")?, count("SELECT count FROM piece")?);
    drop(database);
    drop(registered);
    volume.close()?;
    Ok(counts)
}

/// Takes the image's path and the number of orders.
#[allow(dead_code, reason = "a test calls `run`")]
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let orders = arguments.get(1).and_then(|number| number.to_str()?.parse().ok());
    let (Some(image), Some(orders)) = (arguments.first(), orders) else {
        eprintln!("ledger: which image, and how many orders?");
        return ExitCode::FAILURE;
    };
    match run(Path::new(image), orders, |_| ()) {
        Ok((orders, pieces)) => println!("{orders} orders, {pieces} pieces left"),
        Err(error) => {
            eprintln!("ledger: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
