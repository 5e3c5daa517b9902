//! Time and chance of a VFS: those of its storage's [`Machine`], else those of the host's VFS. What SQLite keeps stands
//! in [`super`].

use std::ffi::{c_char, c_int};
use std::slice::from_raw_parts_mut;
use std::time::Duration;

use libsqlite3_sys::{self as ffi, sqlite3_vfs};

use super::application::application;
use crate::storage::{Machine, Storage};

/// What `work` does with the storage's machine; `None` if it has none.
///
/// # Safety
/// See the head of [`super`].
unsafe fn on_machine<S: Storage, T>(vfs: *mut sqlite3_vfs, work: impl FnOnce(&dyn Machine) -> T) -> Option<T> {
    // SAFETY: see the head of `super`.
    let vfs = unsafe { application::<S>(vfs) }.vfs().ok()?;
    vfs.storage.machine().map(work)
}

/// Calls a function of the host's VFS.
macro_rules! host {
    ($vfs:ident.$function:ident($($argument:ident),*), $absent:expr) => {{
        // SAFETY: see the head of `super`; the host's VFS lives for ever.
        unsafe {
            let host = application::<S>($vfs).host();
            (*host).$function.map_or($absent, |function| function(host, $($argument),*))
        }
    }};
}

pub(super) unsafe extern "C" fn randomness<S: Storage>(
    vfs: *mut sqlite3_vfs,
    length: c_int,
    bytes: *mut c_char,
) -> c_int {
    // SAFETY: see the head of `super`.
    let drawn = unsafe {
        on_machine::<S, _>(vfs, |machine| {
            machine.draw(from_raw_parts_mut(bytes.cast::<u8>(), length as usize));
            length
        })
    };
    drawn.unwrap_or_else(|| host!(vfs.xRandomness(length, bytes), 0))
}

pub(super) unsafe extern "C" fn sleep<S: Storage>(vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    let span = Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
    // SAFETY: see the head of `super`.
    let slept = unsafe { on_machine::<S, _>(vfs, |machine| machine.sleep(span)) };
    slept.map_or_else(|| host!(vfs.xSleep(microseconds), 0), |()| microseconds)
}

/// The beginning of 1970 as SQLite counts time: milliseconds since noon of 24 November 4714 BC.
const UNIX_EPOCH_MS: i64 = 210_866_760_000_000;
const DAY_MS: f64 = 86_400_000.0;

/// The time of the storage's machine as SQLite counts it.
///
/// # Safety
/// See the head of [`super`].
unsafe fn julian_ms<S: Storage>(vfs: *mut sqlite3_vfs) -> Option<i64> {
    // SAFETY: see the head of `super`.
    let since_1970 = unsafe { on_machine::<S, _>(vfs, |machine| machine.civil_now()) };
    since_1970.map(|since_1970| UNIX_EPOCH_MS + since_1970.as_millis() as i64)
}

pub(super) unsafe extern "C" fn current_time<S: Storage>(vfs: *mut sqlite3_vfs, days: *mut f64) -> c_int {
    // SAFETY: see the head of `super`.
    let Some(now) = (unsafe { julian_ms::<S>(vfs) }) else { return host!(vfs.xCurrentTime(days), ffi::SQLITE_ERROR) };
    // SAFETY: see the head of `super`.
    unsafe { *days = now as f64 / DAY_MS };
    ffi::SQLITE_OK
}

pub(super) unsafe extern "C" fn current_time_int64<S: Storage>(vfs: *mut sqlite3_vfs, milliseconds: *mut i64) -> c_int {
    // SAFETY: see the head of `super`.
    let Some(now) = (unsafe { julian_ms::<S>(vfs) }) else {
        return host!(vfs.xCurrentTimeInt64(milliseconds), ffi::SQLITE_ERROR);
    };
    // SAFETY: see the head of `super`.
    unsafe { *milliseconds = now };
    ffi::SQLITE_OK
}
