//! Failure codes: which number of SQLite a failure gets, and what `xGetLastError` tells of it.

use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libsqlite3_sys as ffi;

use crate::storage::{Failure, Result};

thread_local! {
    /// The last failure of this thread.
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// The result of `work`, whose failures are `failed` unless SQLite has a better word. A panic is a failure.
pub(crate) fn guarded(failed: c_int, work: impl FnOnce() -> Result<c_int>) -> c_int {
    let panicked = |_| Err(Failure::new(5, "a defect in Onewrite: the call panicked"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked).unwrap_or_else(|failure| {
        let code = code(&failure, failed);
        LAST.with(|last| *last.borrow_mut() = Some(failure));
        code
    })
}

fn code(failure: &Failure, failed: c_int) -> c_int {
    match failure.number {
        Failure::NO_SPACE | Failure::TOO_MANY_CHANGES => ffi::SQLITE_FULL,
        Failure::READ_ONLY => ffi::SQLITE_READONLY,
        Failure::IS_A_DIRECTORY if failed == ffi::SQLITE_CANTOPEN => ffi::SQLITE_CANTOPEN_ISDIR,
        _ => failed,
    }
}

/// The last failure of this thread, with its number.
pub(crate) fn last() -> Option<Failure> {
    LAST.with(|last| last.borrow().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_a_text() {
        assert_eq!(guarded(ffi::SQLITE_IOERR_READ, || panic!("on purpose")), ffi::SQLITE_IOERR_READ);
        assert!(last().unwrap().text.contains("a defect"));
    }

    #[test]
    fn a_full_disk_is_full_for_sqlite() {
        let full = || Err(Failure::new(Failure::NO_SPACE, "no space"));
        assert_eq!(guarded(ffi::SQLITE_IOERR_WRITE, full), ffi::SQLITE_FULL);
    }
}
