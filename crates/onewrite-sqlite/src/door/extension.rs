//! The loadable extension. [`Images`] says how databases are named.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;

use libsqlite3_sys::{self as ffi, sqlite3};

use super::application::{Api, DatabaseFile, FindVfs, Log, Print, RegisterVfs, UriParameter};
use super::enter;
use crate::failure::guarded;
use crate::images::Images;

/// Places in `struct sqlite3_api_routines` (`sqlite3ext.h`), which only ever grows at its end.
mod place {
    pub(super) const LIBRARY_VERSION_NUMBER: usize = 67;
    pub(super) const PRINT: usize = 69;
    pub(super) const FIND_VFS: usize = 141;
    pub(super) const REGISTER_VFS: usize = 142;
    pub(super) const LOG: usize = 167;
    pub(super) const URI_PARAMETER: usize = 189;
    pub(super) const DATABASE_FILE: usize = 251;
}

type Version = unsafe extern "C" fn() -> c_int;

/// The oldest SQLite that has all functions of [`place`]: 3.32.
const OLDEST: c_int = 3_032_000;

/// Called by SQLite when it loads the extension: gives it the VFS `onewrite` over [`Images`], for all connections of
/// the process from now on.
///
/// # Safety
/// SQLite calls it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sqlite3_extension_init(
    _: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const *const c_void,
) -> c_int {
    // SAFETY: SQLite gives its table of functions, which have the types of `Api`; older ones end before the last.
    unsafe {
        let at = |place: usize| *routines.add(place);
        let print = transmute::<*const c_void, Print>(at(place::PRINT));
        let version = transmute::<*const c_void, Version>(at(place::LIBRARY_VERSION_NUMBER));
        if version() < OLDEST {
            *message = print(c"onewrite needs SQLite 3.32 or newer".as_ptr());
            return ffi::SQLITE_ERROR;
        }
        let api = Api {
            find_vfs: transmute::<*const c_void, FindVfs>(at(place::FIND_VFS)),
            register_vfs: transmute::<*const c_void, RegisterVfs>(at(place::REGISTER_VFS)),
            uri_parameter: transmute::<*const c_void, UriParameter>(at(place::URI_PARAMETER)),
            database_file: transmute::<*const c_void, DatabaseFile>(at(place::DATABASE_FILE)),
            print,
            log: transmute::<*const c_void, Log>(at(place::LOG)),
        };
        if !(api.find_vfs)(NAME.as_ptr()).is_null() {
            return OK_LOAD_PERMANENTLY;
        }
        guarded(ffi::SQLITE_ERROR, || {
            // It stays registered as long as the process lives.
            std::mem::forget(enter(&NAME.to_string_lossy(), Images::default(), api)?);
            Ok(OK_LOAD_PERMANENTLY)
        })
    }
}

/// The name of the extension's VFS.
const NAME: &CStr = c"onewrite";

/// Tells SQLite to keep the library when the connection that loaded it closes.
const OK_LOAD_PERMANENTLY: c_int = ffi::SQLITE_OK_LOAD_PERMANENTLY;
