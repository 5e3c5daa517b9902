//! What these tests share: an image with a VFS over it.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, make_image};
use onewrite_sqlite::volume::VolumeStorage;
use onewrite_sqlite::{Registered, register};
use rusqlite::{Connection, OpenFlags, Result};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A path for an image. Drop removes the image.
pub struct Image(pub PathBuf);

impl Image {
    pub fn new() -> Image {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onewrite-sqlite-{}-{number}.img", std::process::id()));
        make_image(&path, 64 << 20).unwrap();
        Image(path)
    }

    pub fn mounted(&self, mode: Mode) -> Mounted {
        Mounted::new(&self.0, MountOptions::new(mode))
    }

    /// e2fsck finds nothing.
    pub fn check(&self) {
        let output = Command::new("e2fsck").arg("-fn").arg(&self.0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A volume and the VFS over it.
pub struct Mounted {
    pub volume: Volume,
    pub name: String,
    _registered: Registered<VolumeStorage>,
}

impl Mounted {
    pub fn new(image: &Path, options: MountOptions) -> Mounted {
        let volume = Volume::open(image, options).unwrap();
        let name = format!("onewrite-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let registered = register(&name, &volume).unwrap();
        Mounted { volume, name, _registered: registered }
    }

    pub fn open(&self, path: &str, journal: &str) -> Connection {
        let database = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), self.name.as_str()).unwrap();
        set_journal(&database, "main", journal);
        database.pragma_update(None, "synchronous", "FULL").unwrap();
        database
    }

    /// The names in the root, without lost+found.
    pub fn names(&self) -> Vec<String> {
        let entries = self.volume.read_directory("/").unwrap().into_iter();
        let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "lost+found").collect();
        names.sort();
        names
    }
}

pub fn set_journal(database: &Connection, schema: &str, journal: &str) {
    let sql = format!("PRAGMA {schema}.journal_mode = {journal}");
    let got: String = database.query_row(&sql, [], |row| row.get(0)).unwrap();
    assert_eq!(got, journal.to_lowercase());
}

/// A table of entries and one with their sum.
pub fn make(database: &Connection) {
    database
        .execute_batch(
            "CREATE TABLE entry (number INTEGER PRIMARY KEY, value INTEGER, text TEXT);
             CREATE TABLE total (value INTEGER); INSERT INTO total VALUES (0);",
        )
        .unwrap();
}

/// Adds entry `number` and its value to the sum, in one transaction.
pub fn add(database: &Connection, number: i64) -> Result<()> {
    let transaction = database.unchecked_transaction()?;
    let text = format!("{number:05}").repeat(number as usize % 300);
    transaction.execute("INSERT INTO entry VALUES (?1, ?1 * 3, ?2)", (number, text))?;
    transaction.execute("UPDATE total SET value = value + ?1 * 3", [number])?;
    transaction.commit()
}

/// The number of entries; asserts that SQLite finds nothing wrong and that the sum is that of the entries.
pub fn judge(database: &Connection) -> i64 {
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let sums = "SELECT count(*), ifnull(sum(value), 0) = (SELECT value FROM total), ifnull(max(number), 0) FROM entry";
    let (count, is_even, last): (i64, bool, i64) =
        database.query_row(sums, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert!(is_even && count == last, "{count} entries up to {last}, sum right: {is_even}");
    count
}
