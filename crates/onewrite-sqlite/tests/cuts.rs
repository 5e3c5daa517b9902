//! The image as it is after each call of SQLite, mounted elsewhere: what a process that is killed there leaves behind.

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, make_image};
use onewrite_sqlite::register_storage;
use onewrite_sqlite::storage::{Identity, Opening, Promise, Removal, Result, Storage, StoredDraft, StoredFile, Synced};
use onewrite_sqlite::volume::{VolumeDraft, VolumeFile, VolumeStorage};
use rusqlite::{Connection, OpenFlags};
use support::{Mounted, add, judge, make, set_journal};

/// A storage that keeps a copy of its image after each change.
struct Cutting {
    storage: VolumeStorage,
    camera: Arc<Camera>,
    /// Whether a commit of several drafts falls apart into one for each: the defect that the test has to find.
    splits: bool,
}

/// Copies the image.
struct Camera {
    image: PathBuf,
    is_on: AtomicBool,
    copies: Mutex<Vec<PathBuf>>,
}

struct CuttingFile(VolumeFile, Arc<Camera>);
struct CuttingDraft(VolumeDraft, Arc<Camera>);

impl Camera {
    fn shoot<T>(&self, done: T) -> T {
        if self.is_on.load(Ordering::SeqCst) {
            let mut copies = self.copies.lock().unwrap();
            let copy = self.image.with_extension(copies.len().to_string());
            std::fs::copy(&self.image, &copy).unwrap();
            copies.push(copy);
        }
        done
    }
}

impl Storage for Cutting {
    type File = CuttingFile;
    type Draft = CuttingDraft;

    fn full_path(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.storage.full_path(name)
    }

    fn open(&self, path: &[u8], opening: Opening, parameter: &dyn Fn(&str) -> Option<String>) -> Result<CuttingFile> {
        let file = self.camera.shoot(self.storage.open(path, opening, parameter)?);
        Ok(CuttingFile(file, Arc::clone(&self.camera)))
    }

    fn remove(&self, path: &[u8], removal: Removal) -> Result<()> {
        self.camera.shoot(self.storage.remove(path, removal))
    }

    fn size_at(&self, path: &[u8]) -> Result<Option<u64>> {
        self.storage.size_at(path)
    }

    fn commit(&self, drafts: &[&CuttingDraft]) -> Result<()> {
        let drafts: Vec<&VolumeDraft> = drafts.iter().map(|draft| &draft.0).collect();
        let step = if self.splits { 1 } else { drafts.len() };
        drafts.chunks(step).try_for_each(|drafts| self.camera.shoot(self.storage.commit(drafts)))
    }
}

impl StoredFile for CuttingFile {
    type Draft = CuttingDraft;

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn promise(&self) -> Promise {
        self.0.promise()
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.0.read(offset, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.1.shoot(self.0.write(offset, bytes))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.1.shoot(self.0.set_size(size))
    }

    fn size(&self) -> Result<u64> {
        self.0.size()
    }

    fn sync(&self, what: Synced) -> Result<()> {
        self.1.shoot(self.0.sync(what))
    }

    fn draft(&self) -> Result<CuttingDraft> {
        Ok(CuttingDraft(self.0.draft()?, Arc::clone(&self.1)))
    }
}

impl StoredDraft for CuttingDraft {
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.0.read(offset, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.1.shoot(self.0.write(offset, bytes))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.1.shoot(self.0.set_size(size))
    }

    fn size(&self) -> Result<u64> {
        self.0.size()
    }

    fn abort(&self) -> Result<()> {
        self.1.shoot(self.0.abort())
    }
}

/// Runs `work` on a connection to `/db` of a new image; `told` of it is what had returned at each copy.
fn copies_of(name: &str, mode: Mode, splits: bool, work: impl FnOnce(&Connection, &Camera)) -> Vec<PathBuf> {
    let image = std::env::temp_dir().join(format!("onewrite-cuts-{}-{name}.img", std::process::id()));
    make_image(&image, 16 << 20).unwrap();
    let volume = Volume::open(&image, MountOptions::new(mode)).unwrap();
    let (is_on, copies) = (AtomicBool::new(false), Mutex::default());
    let camera = Arc::new(Camera { image: image.clone(), is_on, copies });
    let storage = Cutting { storage: VolumeStorage::new(volume), camera: Arc::clone(&camera), splits };
    let registered = register_storage(name, storage).unwrap();
    let database = Connection::open_with_flags_and_vfs("/db", OpenFlags::default(), name).unwrap();
    work(&database, &camera);
    drop((database, registered));
    std::fs::remove_file(&image).unwrap();
    std::mem::take(&mut *camera.copies.lock().unwrap())
}

/// Mounts the copy, does `work` on it and removes it.
fn after_cut<T>(copy: &Path, mode: Mode, work: impl FnOnce(&Mounted) -> T) -> T {
    let mounted = Mounted::new(copy, MountOptions::new(mode));
    let result = work(&mounted);
    drop(mounted);
    std::fs::remove_file(copy).unwrap();
    result
}

/// Adds entries, and judges the image of each moment.
fn survive(mode: Mode, journal: &str) {
    let mut returned = Vec::new();
    let copies = copies_of(&format!("cut-{mode}-{journal}"), mode, false, |database, camera| {
        // FULL does not make the removal of a journal durable: one that comes back undoes its transaction.
        database.pragma_update(None, "synchronous", "EXTRA").unwrap();
        make(database);
        set_journal(database, "main", journal);
        for number in 1..=4 {
            returned.push(camera.copies.lock().unwrap().len());
            camera.is_on.store(true, Ordering::SeqCst);
            add(database, number).unwrap();
            camera.is_on.store(false, Ordering::SeqCst);
        }
    });
    assert!(copies.len() > 4 * 3, "{mode} {journal}: {} copies", copies.len());
    for (moment, copy) in copies.iter().enumerate() {
        let found = after_cut(copy, mode, |mounted| judge(&mounted.open("/db", "DELETE")));
        // The transactions that had returned, and perhaps the one that was under way.
        let committed = returned.iter().filter(|begin| **begin <= moment).count() as i64 - 1;
        let is_right = found == committed || found == committed + 1;
        assert!(is_right, "{mode} {journal} at {moment}: {found}, not {committed}");
    }
}

#[test]
fn each_journal_mode_survives_a_kill_at_each_call() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"] {
        survive(Mode::DataAsync, journal);
    }
}

/// Without drafts SQLite's own journals have to do it. The copies lack what was not synced.
#[test]
fn the_journals_of_sqlite_survive_a_kill_at_each_call_in_a_mode_without_drafts() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        survive(Mode::Ordered, journal);
    }
}

/// Coins of both databases together.
const COINS: i64 = 100;

fn balances(mounted: &Mounted) -> (i64, i64) {
    let balance = |path| {
        let database = mounted.open(path, "MEMORY");
        let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        database.query_row("SELECT coins FROM account", [], |row| row.get(0)).unwrap()
    };
    (balance("/db"), balance("/bob"))
}

/// What both databases hold after each cut within transfers of a coin.
fn balances_after_cuts(name: &str, journal: &str, splits: bool) -> Vec<(i64, i64)> {
    let copies = copies_of(name, Mode::DataAsync, splits, |database, camera| {
        database.execute_batch("ATTACH '/bob' AS bob").unwrap();
        for (schema, coins) in [("main", COINS), ("bob", 0)] {
            let sql = format!("CREATE TABLE {schema}.account (coins); INSERT INTO {schema}.account VALUES ({coins})");
            database.execute_batch(&sql).unwrap();
            set_journal(database, schema, journal);
        }
        camera.is_on.store(true, Ordering::SeqCst);
        for _ in 0..4 {
            let sql = "BEGIN; UPDATE main.account SET coins = coins - 1; UPDATE bob.account SET coins = coins + 1;";
            database.execute_batch(sql).unwrap();
            database.execute_batch("COMMIT").unwrap();
        }
        camera.is_on.store(false, Ordering::SeqCst);
    });
    copies.iter().map(|copy| after_cut(copy, Mode::DataAsync, balances)).collect()
}

#[test]
fn no_coin_is_lost_between_attached_databases() {
    for journal in ["MEMORY", "OFF"] {
        let found = balances_after_cuts(&format!("coins-{journal}"), journal, false);
        assert!(found.len() >= 4 * 3 && found.last() == Some(&(COINS - 4, 4)), "{journal}: {found:?}");
        assert!(found.is_sorted_by_key(|(_, bob)| bob), "{journal}: {found:?}");
        assert!(found.iter().all(|(alice, bob)| alice + bob == COINS), "{journal}: {found:?}");
    }
}

#[test]
fn commits_one_after_the_other_lose_coins_and_are_found_out() {
    let found = balances_after_cuts("split", "MEMORY", true);
    assert!(found.iter().any(|(alice, bob)| alice + bob != COINS), "{found:?}");
}

#[test]
fn a_log_for_each_database_loses_coins() {
    // SQLite says so itself: a transaction over several databases in WAL mode is atomic for each of them only.
    let found = balances_after_cuts("wal", "WAL", false);
    assert!(found.iter().any(|(alice, bob)| alice + bob != COINS), "{found:?}");
}
