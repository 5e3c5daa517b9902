//! Door: the functions that SQLite calls, and how it gets to know them. The only module with unsafe code: it believes
//! SQLite's pointers.
//!
//! What SQLite keeps (its documentation of `sqlite3_vfs` and `sqlite3_io_methods`):
//! - The VFS that a function gets is one that was registered here; its `pAppData` lives as long as the process.
//! - The file that a method gets was opened by [`open`] and not closed yet, and one thread at a time uses it. A file
//!   whose opening failed, or that the host's VFS opened, does not come here: it has no methods, or those of the host.
//! - Buffers have the length that stands beside them, names end with a zero byte, results may be written.
#![expect(unsafe_code, reason = "SQLite gives pointers")]

mod application;
pub mod chance;
mod extension;
mod file;
mod machine;

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::slice::from_raw_parts_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex};

use libsqlite3_sys::{self as ffi, sqlite3, sqlite3_file, sqlite3_vfs};

use application::{Api, Application, application};

use crate::failure::{guarded, last};
use crate::file::{Kind, OpenFile};
use crate::images::Images;
use crate::storage::{Failure, Opening, Removal, Result, Storage};
use crate::vfs::{Connection, Vfs, locked};
use crate::volume::VolumeStorage;

/// The SQLite that the program is linked with.
const LINKED: Api = Api {
    find_vfs: ffi::sqlite3_vfs_find,
    register_vfs: ffi::sqlite3_vfs_register,
    uri_parameter: ffi::sqlite3_uri_parameter,
    database_file: ffi::sqlite3_database_file_object,
    print: ffi::sqlite3_mprintf,
    log: ffi::sqlite3_log,
};

/// A file, as SQLite has it.
#[repr(C)]
struct Handle<S: Storage> {
    base: sqlite3_file,
    file: *mut OpenFile<S>,
    application: *const Application<S>,
    /// Where SQLite keeps the connection of a database; NULL until it has told.
    connection: *const *mut sqlite3,
}

/// A VFS that SQLite knows. Dropped, SQLite forgets it; connections that are open then cannot open further files.
pub struct Registered<S: Storage> {
    vfs: AtomicPtr<sqlite3_vfs>,
    application: &'static Application<S>,
}

// Threads of the program share a registration.
const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<Registered<VolumeStorage>>();
const _: () = is_shared::<Registered<Images>>();

/// Gives the SQLite that this program is linked with a VFS called `name` over `storage`.
///
/// # Errors
/// A name with a zero byte; a SQLite that does not start.
pub fn register_storage<S>(name: &str, storage: S) -> Result<Registered<S>>
where
    S: Storage + Send + Sync,
    S::File: Send + Sync,
    S::Draft: Send,
{
    // SAFETY: it starts SQLite, which `find_vfs` asks for; it may be called any number of times.
    if unsafe { ffi::sqlite3_initialize() } != ffi::SQLITE_OK {
        return Err(Failure::new(5, "SQLite does not start"));
    }
    enter(name, storage, LINKED)
}

/// Makes a VFS and tells SQLite of it. The caller sees to it that threads may share `storage`.
fn enter<S: Storage>(name: &str, storage: S, api: Api) -> Result<Registered<S>> {
    let name = CString::new(name).map_err(|_| Failure::new(Failure::INVALID, "a name with a zero byte"))?;
    // SAFETY: NULL asks for the default VFS; what SQLite registered lives for ever.
    let host = unsafe { (api.find_vfs)(null()) };
    let refused = || Failure::new(Failure::INVALID, "SQLite has no VFS of the host");
    // SAFETY: as above.
    let host_bytes = unsafe { host.as_ref() }.ok_or_else(refused)?.szOsFile;
    let vfs = Mutex::new(Some(Arc::new(Vfs::new(storage))));
    let application = Application { vfs, api, host: AtomicPtr::new(host), name, methods: Handle::<S>::METHODS };
    let application: &'static Application<S> = Box::leak(Box::new(application));
    let vfs = Box::leak(Box::new(description(application, host_bytes)));
    // SAFETY: the description and all it points to live for ever.
    match unsafe { (api.register_vfs)(vfs, 0) } {
        ffi::SQLITE_OK => Ok(Registered { vfs: AtomicPtr::new(vfs), application }),
        code => Err(Failure::new(5, format!("SQLite does not take the VFS: error {code}"))),
    }
}

impl<S: Storage> Drop for Registered<S> {
    /// The description stays: connections may be open.
    fn drop(&mut self) {
        // SAFETY: it was registered with the SQLite that the program is linked with; that of an extension is
        // never dropped.
        unsafe { ffi::sqlite3_vfs_unregister(*self.vfs.get_mut()) };
        *locked(&self.application.vfs) = None;
    }
}

fn description<S: Storage>(application: &'static Application<S>, host_bytes: c_int) -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: 2,
        szOsFile: host_bytes.max(size_of::<Handle<S>>() as c_int),
        mxPathname: 4096,
        pNext: null_mut(),
        zName: application.name.as_ptr(),
        pAppData: (&raw const *application).cast_mut().cast(),
        xOpen: Some(open::<S>),
        xDelete: Some(delete::<S>),
        xAccess: Some(access::<S>),
        xFullPathname: Some(full_pathname::<S>),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(machine::randomness::<S>),
        xSleep: Some(machine::sleep::<S>),
        xCurrentTime: Some(machine::current_time::<S>),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(machine::current_time_int64::<S>),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

impl<S: Storage> Handle<S> {
    /// The connection of a database, as far as SQLite has told.
    fn connection(&self) -> Connection {
        // SAFETY: SQLite keeps the place as long as the database is open.
        unsafe { self.connection.as_ref() }.map_or(0, |connection| connection.addr())
    }

    /// Does `work` on the file; a failure goes to SQLite's log.
    fn answer(&self, failed: c_int, work: impl FnOnce(&OpenFile<S>) -> Result<c_int>) -> c_int {
        // SAFETY: both are there from the opening to the closing of the file.
        let (file, application) = unsafe { (&*self.file, &*self.application) };
        application.answer(failed, || work(file))
    }
}

/// # Safety
/// See the head.
unsafe fn handle<'a, S: Storage>(file: *mut sqlite3_file) -> &'a mut Handle<S> {
    // SAFETY: `open` made it.
    unsafe { &mut *file.cast() }
}

/// # Safety
/// See the head.
unsafe fn name<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: see the head.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// Kinds of files that need not survive, and have no name in the storage.
const TEMPORARY: c_int = ffi::SQLITE_OPEN_TEMP_DB
    | ffi::SQLITE_OPEN_TEMP_JOURNAL
    | ffi::SQLITE_OPEN_TRANSIENT_DB
    | ffi::SQLITE_OPEN_SUBJOURNAL
    | ffi::SQLITE_OPEN_DELETEONCLOSE;

unsafe extern "C" fn open<S: Storage>(
    vfs: *mut sqlite3_vfs,
    path: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: see the head; SQLite gives room for either kind of handle.
    unsafe {
        let application = application::<S>(vfs);
        if path.is_null() || flags & TEMPORARY != 0 {
            let host = application.host();
            return (*host).xOpen.map_or(ffi::SQLITE_CANTOPEN, |open| open(host, path, file, flags, out_flags));
        }
        (*file).pMethods = null();
        application.answer(ffi::SQLITE_CANTOPEN, || {
            let opened = opened(application, path, flags)?;
            let base = sqlite3_file { pMethods: &raw const application.methods };
            let opened = Box::into_raw(Box::new(opened));
            file.cast::<Handle<S>>().write(Handle { base, file: opened, application, connection: null() });
            if !out_flags.is_null() {
                *out_flags = flags;
            }
            Ok(ffi::SQLITE_OK)
        })
    }
}

/// # Safety
/// `path` is one that SQLite gave to [`open`], with `flags`.
unsafe fn opened<S: Storage>(application: &Application<S>, path: *const c_char, flags: c_int) -> Result<OpenFile<S>> {
    let has = |flag| flags & flag != 0;
    let opening = match (has(ffi::SQLITE_OPEN_CREATE), has(ffi::SQLITE_OPEN_EXCLUSIVE)) {
        (false, _) => Opening::Existing,
        (true, false) => Opening::OrNew,
        (true, true) => Opening::New,
    };
    let has_parameters = has(ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL);
    let parameter = |key: &str| {
        let key = CString::new(key).ok().filter(|_| has_parameters)?;
        // SAFETY: SQLite writes parameters behind the names of these files.
        let value = unsafe { (application.api.uri_parameter)(path, key.as_ptr()) };
        // SAFETY: a value ends with a zero byte, and stays as long as the name.
        (!value.is_null()).then(|| String::from_utf8_lossy(unsafe { name(value) }).into_owned())
    };
    let vfs = application.vfs()?;
    // SAFETY: see the head.
    let (kind, path) = unsafe { (kind(application, &vfs, path, flags), name(path)) };
    OpenFile::open(vfs, path, kind, opening, &parameter)
}

/// # Safety
/// As [`opened`].
unsafe fn kind<S: Storage>(application: &Application<S>, vfs: &Vfs<S>, path: *const c_char, flags: c_int) -> Kind {
    if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        return Kind::Database;
    }
    if flags & (ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL) == 0 {
        return Kind::Other;
    }
    // SAFETY: the name of a journal or log lies behind that of its database, whose file SQLite finds from there. Its
    // methods tell whether `open` made it; another VFS may lie between SQLite and this one.
    unsafe {
        match (application.api.database_file)(path).as_ref() {
            Some(database) if database.pMethods == &raw const application.methods => {
                let database = (&raw const *database).cast::<Handle<S>>();
                Kind::Journal((*(*database).file).journals())
            }
            _ => Kind::Journal(vfs.stray_journals()),
        }
    }
}

unsafe extern "C" fn delete<S: Storage>(vfs: *mut sqlite3_vfs, path: *const c_char, is_durable: c_int) -> c_int {
    // SAFETY: see the head.
    let (application, path) = unsafe { (application::<S>(vfs), name(path)) };
    let removal = if is_durable != 0 { Removal::Durable } else { Removal::Volatile };
    guarded(ffi::SQLITE_IOERR_DELETE, || match application.vfs()?.storage.remove(path, removal) {
        Err(failure) if failure.number == Failure::NO_ENTRY => Ok(ffi::SQLITE_IOERR_DELETE_NOENT),
        done => done.map(|()| ffi::SQLITE_OK),
    })
}

unsafe extern "C" fn access<S: Storage>(
    vfs: *mut sqlite3_vfs,
    path: *const c_char,
    asked: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: see the head.
    let (application, path, answer) = unsafe { (application::<S>(vfs), name(path), &mut *answer) };
    application.answer(ffi::SQLITE_IOERR_ACCESS, || {
        let size = application.vfs()?.storage.size_at(path)?;
        // As on Unix: an empty file is as good as none.
        let is_there = size.is_some_and(|size| size > 0 || asked != ffi::SQLITE_ACCESS_EXISTS);
        *answer = c_int::from(is_there);
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn full_pathname<S: Storage>(
    vfs: *mut sqlite3_vfs,
    path: *const c_char,
    length: c_int,
    full: *mut c_char,
) -> c_int {
    // SAFETY: see the head.
    let (application, path) = unsafe { (application::<S>(vfs), name(path)) };
    // SAFETY: see the head.
    let room = unsafe { from_raw_parts_mut(full.cast::<u8>(), length as usize) };
    application.answer(ffi::SQLITE_CANTOPEN, || {
        let path = application.vfs()?.storage.full_path(path)?;
        let too_long = || Failure::new(36, format!("a path of {} bytes is too long", path.len()));
        let (bytes, end) = room.split_at_mut_checked(path.len()).ok_or_else(too_long)?;
        bytes.copy_from_slice(&path);
        *end.first_mut().ok_or_else(too_long)? = 0;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn last_error(_: *mut sqlite3_vfs, length: c_int, text: *mut c_char) -> c_int {
    let Some(failure) = last() else { return 0 };
    if !text.is_null() && length > 0 {
        // SAFETY: see the head.
        let room = unsafe { from_raw_parts_mut(text.cast::<u8>(), length as usize) };
        let count = failure.text.len().min(room.len() - 1);
        room[..count].copy_from_slice(&failure.text.as_bytes()[..count]);
        room[count] = 0;
    }
    failure.number
}
