//! Application: what a VFS of ours knows when SQLite calls it. What SQLite keeps stands in [`super`].

use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use libsqlite3_sys::{sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use crate::failure::{guarded, last, log_lines};
use crate::storage::{Failure, Result, Storage};
use crate::vfs::{Vfs, locked};

pub(super) type FindVfs = unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs;
pub(super) type RegisterVfs = unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int;
pub(super) type UriParameter = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
pub(super) type DatabaseFile = unsafe extern "C" fn(*const c_char) -> *mut sqlite3_file;
pub(super) type Print = unsafe extern "C" fn(*const c_char, ...) -> *mut c_char;
pub(super) type Log = unsafe extern "C" fn(c_int, *const c_char, ...);

/// What is called in SQLite: that which the program is linked with, or that which loads the extension.
#[derive(Clone, Copy)]
pub(super) struct Api {
    pub(super) find_vfs: FindVfs,
    pub(super) register_vfs: RegisterVfs,
    pub(super) uri_parameter: UriParameter,
    pub(super) database_file: DatabaseFile,
    pub(super) print: Print,
    pub(super) log: Log,
}

/// What `pAppData` of a VFS points to. Never freed: SQLite may keep a pointer to the VFS.
pub(super) struct Application<S: Storage> {
    /// `None` when the registration was dropped.
    pub(super) vfs: Mutex<Option<Arc<Vfs<S>>>>,
    pub(super) api: Api,
    /// The host's VFS, for temporary files, chance, time and sleep.
    pub(super) host: AtomicPtr<sqlite3_vfs>,
    pub(super) name: CString,
    pub(super) methods: sqlite3_io_methods,
}

impl<S: Storage> Application<S> {
    pub(super) fn answer(&self, failed: c_int, work: impl FnOnce() -> Result<c_int>) -> c_int {
        let mut has_failed = true;
        let code = guarded(failed, || {
            let done = work();
            has_failed = done.is_err();
            done
        });
        if has_failed {
            self.log(code);
        }
        code
    }

    pub(super) fn log(&self, code: c_int) {
        for part in log_lines(&last().map(|failure| failure.text).unwrap_or_default()) {
            let text = CString::new(part).unwrap_or_default();
            // SAFETY: the format asks for one string.
            unsafe { (self.api.log)(code, c"onewrite: %s".as_ptr(), text.as_ptr()) };
        }
    }

    pub(super) fn host(&self) -> *mut sqlite3_vfs {
        self.host.load(Ordering::Relaxed)
    }

    pub(super) fn vfs(&self) -> Result<Arc<Vfs<S>>> {
        let ended = || Failure::new(Failure::INVALID, "the VFS was unregistered");
        locked(&self.vfs).clone().ok_or_else(ended)
    }
}

/// # Safety
/// See the head of [`super`].
pub(super) unsafe fn application<'a, S: Storage>(vfs: *mut sqlite3_vfs) -> &'a Application<S> {
    // SAFETY: see the head of `super`.
    unsafe { &*(*vfs).pAppData.cast() }
}
