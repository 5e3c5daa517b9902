//! What several openers of a file see and may do, call by call.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, make_image};

use super::*;
use crate::volume::VolumeStorage;

/// A volume with the file `/db`, which holds `old`.
struct Place {
    image: PathBuf,
    vfs: Arc<Vfs<VolumeStorage>>,
}

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let image = std::env::temp_dir().join(format!("onewrite-sqlite-file-{}-{number}.img", std::process::id()));
        make_image(&image, 32 << 20).unwrap();
        let volume = Volume::open(&image, MountOptions::new(Mode::Data)).unwrap();
        volume.create("/db").unwrap().append(b"old").unwrap();
        Place { image, vfs: Arc::new(Vfs::new(VolumeStorage::new(volume))) }
    }

    fn open(&self, path: &str, kind: Kind) -> OpenFile<VolumeStorage> {
        OpenFile::open(Arc::clone(&self.vfs), path.as_bytes(), kind, Opening::OrNew, &|_| None).unwrap()
    }

    /// An opener of the database that may write.
    fn writer(&self) -> OpenFile<VolumeStorage> {
        let file = self.open("/db", Kind::Database);
        file.lock(Level::Shared).unwrap_or_else(|_| panic!("nobody has a lock"));
        file.lock(Level::Reserved).unwrap_or_else(|_| panic!("nobody writes"));
        file
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.image);
    }
}

fn content(file: &OpenFile<VolumeStorage>) -> Vec<u8> {
    file.read(0, 99).unwrap()
}

#[test]
fn nobody_writes_in_place_beside_changes_of_another_and_after_them_it_is_free() {
    let place = Place::new();
    let (writer, other) = (place.writer(), place.open("/db", Kind::Database));
    writer.write(0, b"new").unwrap();
    assert_eq!((content(&writer), content(&other)), (b"new".to_vec(), b"old".to_vec()));
    assert_eq!(other.write(0, b"bad").unwrap_err().number, Failure::BUSY);
    assert_eq!(other.set_size(0).unwrap_err().number, Failure::BUSY);
    writer.unlock(Level::Shared).unwrap();
    assert_eq!(content(&writer), b"old", "aborted");
    // The draft is kept for the next transaction; whoever writes in place ends it.
    other.write(0, b"one").unwrap();
    assert_eq!(content(&writer), b"one");
}

#[test]
fn a_batch_that_is_taken_back_leaves_what_was_spilled_before_it() {
    let place = Place::new();
    let writer = place.writer();
    writer.begin_batch().unwrap();
    writer.write(0, b"first").unwrap();
    writer.abort_batch().unwrap();
    assert!(!writer.is_in_batch() && content(&writer) == b"old", "nothing was there before the batch");
    writer.write(0, b"spilled").unwrap();
    writer.begin_batch().unwrap();
    writer.write(7, b", batch").unwrap();
    writer.abort_batch().unwrap();
    assert!(content(&writer).starts_with(b"spilled"), "pages of the same transaction");
    writer.unlock(Level::None).unwrap();
    assert_eq!(content(&writer), b"old");
}

#[test]
fn a_file_is_truncated_with_the_commit() {
    let place = Place::new();
    let (writer, other) = (place.writer(), place.open("/db", Kind::Database));
    writer.write(0, b"n").unwrap();
    writer.set_size(2).unwrap();
    assert_eq!((content(&writer), writer.size().unwrap()), (b"nl".to_vec(), 2));
    assert_eq!((content(&other), other.size().unwrap()), (b"old".to_vec(), 3));
    writer.end_first_phase(1);
    writer.second_phase(1).unwrap();
    assert_eq!((content(&other), other.size().unwrap()), (b"nl".to_vec(), 2));
}

/// A journal takes changes back, so they need no draft: one beside the database, or one whose database is not known.
#[test]
fn with_a_journal_open_writes_go_in_place() {
    for is_stray in [false, true] {
        let place = Place::new();
        let (writer, other) = (place.writer(), place.open("/db", Kind::Database));
        let count = if is_stray { place.vfs.stray_journals() } else { writer.journals() };
        let journal = place.open("/db-journal", Kind::Journal(count));
        writer.write(0, b"new").unwrap();
        assert_eq!(content(&other), b"new", "stray: {is_stray}");
        drop(journal);
        writer.write(0, b"own").unwrap();
        assert_eq!((content(&writer), content(&other)), (b"own".to_vec(), b"new".to_vec()), "stray: {is_stray}");
    }
}

#[test]
fn a_database_has_batches_while_sqlite_syncs_it() {
    let place = Place::new();
    let (database, journal) = (place.open("/db", Kind::Database), place.open("/db-journal", Kind::Other));
    assert!(database.has_batches() && !journal.has_batches());
    for (level, has_batches) in [("OFF", false), ("1", true), ("0", false), ("extra", true), ("no", false), ("2", true)]
    {
        database.set_synchronous(level.as_bytes());
        assert_eq!(database.has_batches(), has_batches, "{level}");
    }
    // Whatever was asked for, a commit shows what SQLite does.
    database.before_sync(1);
    assert!(!database.has_batches());
    database.before_sync(1);
    database.sync(Synced::Data).unwrap();
    assert!(database.has_batches());
}

#[test]
fn within_a_transaction_synchronous_stays() {
    let place = Place::new();
    let writer = place.writer();
    writer.set_synchronous(b"off");
    assert!(writer.has_batches());
}

/// As `getSafetyLevel` of SQLite, and what is done with its result.
#[test]
fn levels_are_read_as_sqlite_reads_them() {
    for off in ["off", "OFF", "False", "no", "0", "7", "8"] {
        assert!(is_off(off.as_bytes()), "{off}");
    }
    for synced in ["on", "normal", "full", "extra", "yes", "true", "1", "2", "3", "9", "", "office"] {
        assert!(!is_off(synced.as_bytes()), "{synced}");
    }
}

#[test]
fn who_leaves_the_shared_memory_leaves_its_locks() {
    let place = Place::new();
    let (one, two) = (place.open("/db", Kind::Database), place.open("/db", Kind::Database));
    for file in [&one, &two] {
        assert!(file.region(0, 32_768, Absent::Made).is_some());
    }
    assert!(one.lock_memory(2..4, Share::Alone).is_ok() && two.lock_memory(3..4, Share::Shared).is_err());
    one.leave_memory();
    assert!(two.lock_memory(2..4, Share::Alone).is_ok() && one.lock_memory(2..3, Share::Shared).is_err());
}
