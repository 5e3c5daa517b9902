//! Methods of an open file. What SQLite keeps stands in [`super`].

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::atomic::{Ordering, fence};

use libsqlite3_sys::{self as ffi, sqlite3_file, sqlite3_io_methods};

use super::{Handle, handle, name};
use crate::failure::guarded;
use crate::locks::Level;
use crate::memory::{Absent, LOCK_COUNT, Share};
use crate::storage::{Failure, Promise, Storage, Synced};

impl<S: Storage> Handle<S> {
    /// Each VFS has a table of its own in its [`super::Application`]: its address tells its files.
    pub(super) const METHODS: sqlite3_io_methods = sqlite3_io_methods {
        iVersion: 2,
        xClose: Some(close::<S>),
        xRead: Some(read::<S>),
        xWrite: Some(write::<S>),
        xTruncate: Some(truncate::<S>),
        xSync: Some(sync::<S>),
        xFileSize: Some(file_size::<S>),
        xLock: Some(lock::<S>),
        xUnlock: Some(unlock::<S>),
        xCheckReservedLock: Some(check_reserved_lock::<S>),
        xFileControl: Some(file_control::<S>),
        xSectorSize: Some(sector_size),
        xDeviceCharacteristics: Some(device_characteristics::<S>),
        xShmMap: Some(shm_map::<S>),
        xShmLock: Some(shm_lock::<S>),
        xShmBarrier: Some(shm_barrier),
        xShmUnmap: Some(shm_unmap::<S>),
        xFetch: None,
        xUnfetch: None,
    };
}

unsafe extern "C" fn close<S: Storage>(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see the head; SQLite uses the file no more.
    let opened = unsafe {
        let handle = handle::<S>(file);
        handle.base.pMethods = null();
        Box::from_raw(handle.file)
    };
    guarded(ffi::SQLITE_IOERR_CLOSE, || {
        drop(opened);
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn read<S: Storage>(
    file: *mut sqlite3_file,
    target: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: see the head.
    let (handle, target) = unsafe { (handle::<S>(file), from_raw_parts_mut(target.cast::<u8>(), length as usize)) };
    handle.answer(ffi::SQLITE_IOERR_READ, |file| {
        let bytes = file.read(offset as u64, target.len() as u64)?;
        let (found, missing) = target.split_at_mut(bytes.len());
        found.copy_from_slice(&bytes);
        missing.fill(0);
        Ok(if missing.is_empty() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ })
    })
}

unsafe extern "C" fn write<S: Storage>(
    file: *mut sqlite3_file,
    source: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: see the head.
    let (handle, source) = unsafe { (handle::<S>(file), from_raw_parts(source.cast::<u8>(), length as usize)) };
    handle.answer(ffi::SQLITE_IOERR_WRITE, |file| match file.write(offset as u64, source) {
        // SQLite then takes the batch back and makes a real journal.
        Err(refused) if refused.number == Failure::TOO_MANY_CHANGES && file.is_in_batch() => {
            Ok(ffi::SQLITE_IOERR_WRITE)
        }
        done => done.map(|()| ffi::SQLITE_OK),
    })
}

unsafe extern "C" fn truncate<S: Storage>(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    handle.answer(ffi::SQLITE_IOERR_TRUNCATE, |file| file.set_size(size as u64).map(|()| ffi::SQLITE_OK))
}

unsafe extern "C" fn sync<S: Storage>(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    let what = if flags & ffi::SQLITE_SYNC_DATAONLY != 0 { Synced::Data } else { Synced::Everything };
    handle.answer(ffi::SQLITE_IOERR_FSYNC, |file| file.sync(what).map(|()| ffi::SQLITE_OK))
}

unsafe extern "C" fn file_size<S: Storage>(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: see the head.
    let (handle, size) = unsafe { (handle::<S>(file), &mut *size) };
    handle.answer(ffi::SQLITE_IOERR_FSTAT, |file| {
        *size = file.size()? as i64;
        Ok(ffi::SQLITE_OK)
    })
}

/// A lock of SQLite.
const fn level(level: c_int) -> Level {
    match level {
        ffi::SQLITE_LOCK_NONE => Level::None,
        ffi::SQLITE_LOCK_SHARED => Level::Shared,
        ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
        ffi::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn lock<S: Storage>(file: *mut sqlite3_file, asked: c_int) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    handle.answer(ffi::SQLITE_IOERR_LOCK, |file| {
        Ok(file.lock(level(asked)).map_or(ffi::SQLITE_BUSY, |()| ffi::SQLITE_OK))
    })
}

unsafe extern "C" fn unlock<S: Storage>(file: *mut sqlite3_file, left: c_int) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    handle.answer(ffi::SQLITE_IOERR_UNLOCK, |file| file.unlock(level(left)).map(|()| ffi::SQLITE_OK))
}

unsafe extern "C" fn check_reserved_lock<S: Storage>(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: see the head.
    let (handle, answer) = unsafe { (handle::<S>(file), &mut *answer) };
    handle.answer(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, |file| {
        *answer = c_int::from(file.is_reserved());
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn file_control<S: Storage>(
    file: *mut sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    let connection = handle.connection();
    let ok = |()| ffi::SQLITE_OK;
    match operation {
        ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => {
            handle.answer(ffi::SQLITE_IOERR_BEGIN_ATOMIC, |file| file.begin_batch().map(ok))
        }
        ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => handle.answer(ffi::SQLITE_IOERR_COMMIT_ATOMIC, |file| {
            file.end_batch(connection);
            Ok(ffi::SQLITE_OK)
        }),
        ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => {
            handle.answer(ffi::SQLITE_IOERR_ROLLBACK_ATOMIC, |file| file.abort_batch().map(ok))
        }
        ffi::SQLITE_FCNTL_SYNC => handle.answer(ffi::SQLITE_IOERR_FSYNC, |file| {
            file.before_sync(connection);
            Ok(ffi::SQLITE_OK)
        }),
        ffi::SQLITE_FCNTL_COMMIT_PHASETWO => {
            handle.answer(ffi::SQLITE_IOERR_FSYNC, |file| file.second_phase(connection).map(ok))
        }
        ffi::SQLITE_FCNTL_PDB => {
            handle.connection = argument.cast();
            ffi::SQLITE_OK
        }
        // SAFETY: these have the arguments that SQLite's documentation tells.
        ffi::SQLITE_FCNTL_VFSNAME => unsafe {
            let application = &*handle.application;
            *argument.cast() = (application.api.print)(c"%s".as_ptr(), application.name.as_ptr());
            ffi::SQLITE_OK
        },
        // SAFETY: as above.
        ffi::SQLITE_FCNTL_PRAGMA => unsafe { pragma(handle, argument.cast()) },
        _ => ffi::SQLITE_NOTFOUND,
    }
}

/// A connection that keeps its locks would not tell of a rollback: so each has the locking mode `normal`. SQLite sets
/// `synchronous` itself.
///
/// # Safety
/// `words` are the result, the name and the value or NULL of a pragma.
unsafe fn pragma<S: Storage>(handle: &Handle<S>, words: *mut *mut c_char) -> c_int {
    // SAFETY: as told.
    unsafe {
        let (pragma, value) = (*words.add(1), *words.add(2));
        if value.is_null() {
            return ffi::SQLITE_NOTFOUND;
        }
        let (pragma, value) = (name(pragma), name(value));
        if pragma.eq_ignore_ascii_case(b"synchronous") {
            (*handle.file).set_synchronous(value);
        }
        if !pragma.eq_ignore_ascii_case(b"locking_mode") || !value.eq_ignore_ascii_case(b"exclusive") {
            return ffi::SQLITE_NOTFOUND;
        }
        *words = ((*handle.application).api.print)(c"normal".as_ptr());
        ffi::SQLITE_OK
    }
}

/// Bytes that a write to the volume's log changes.
const unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    4096
}

/// No write touches what lies beside it: a page is written with what it had there. A volume that keeps the order of
/// writes also keeps what the other flags say: a file is longer only with what was appended, and all of that for all
/// files.
unsafe extern "C" fn device_characteristics<S: Storage>(file: *mut sqlite3_file) -> c_int {
    const ORDERED: c_int =
        ffi::SQLITE_IOCAP_SEQUENTIAL | ffi::SQLITE_IOCAP_SAFE_APPEND | ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    // SAFETY: see the head.
    let file = unsafe { &*handle::<S>(file).file };
    let batches = if file.has_batches() { ffi::SQLITE_IOCAP_BATCH_ATOMIC } else { 0 };
    match file.promise() {
        Promise::Synced | Promise::Drafts => ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | batches,
        Promise::Prefix => ORDERED | batches,
    }
}

unsafe extern "C" fn shm_map<S: Storage>(
    file: *mut sqlite3_file,
    number: c_int,
    bytes: c_int,
    may_make: c_int,
    place: *mut *mut c_void,
) -> c_int {
    // SAFETY: see the head.
    let (handle, place) = unsafe { (handle::<S>(file), &mut *place) };
    handle.answer(ffi::SQLITE_IOERR_SHMMAP, |file| {
        let absent = if may_make == 0 { Absent::Left } else { Absent::Made };
        let region = file.region(number as usize, bytes as usize, absent);
        *place = region.map_or(null_mut(), |region| region.cast_mut().cast());
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn shm_lock<S: Storage>(file: *mut sqlite3_file, first: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    handle.answer(ffi::SQLITE_IOERR_SHMLOCK, |file| {
        let locks = first as usize..(first + count) as usize;
        assert!(locks.end <= LOCK_COUNT, "SQLite has {LOCK_COUNT} locks and asks for {locks:?}");
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            file.unlock_memory(locks);
            return Ok(ffi::SQLITE_OK);
        }
        let share = if flags & ffi::SQLITE_SHM_SHARED != 0 { Share::Shared } else { Share::Alone };
        Ok(file.lock_memory(locks, share).map_or(ffi::SQLITE_BUSY, |()| ffi::SQLITE_OK))
    })
}

unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap<S: Storage>(file: *mut sqlite3_file, _: c_int) -> c_int {
    // SAFETY: see the head.
    let handle = unsafe { handle::<S>(file) };
    handle.answer(ffi::SQLITE_IOERR_SHMMAP, |file| {
        file.leave_memory();
        Ok(ffi::SQLITE_OK)
    })
}
