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

/// Bytes of a text that SQLite's log takes for certain: it shortens what is longer than 210 with the words before it.
const LOG_LINE: usize = 180;

/// A text in pieces that fit into SQLite's log, divided between words.
pub(crate) fn log_lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = lines.last_mut().expect("never empty");
        match last.is_empty() || last.len() + word.len() <= LOG_LINE {
            true => last.push_str(word),
            false => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_gets_several_lines_in_the_log() {
        let text = "a reason with a cure ".repeat(40);
        let lines = log_lines(&text);
        assert!(lines.len() > 4 && lines.iter().all(|line| line.len() <= LOG_LINE), "{lines:?}");
        assert_eq!(lines.concat(), text);
        assert_eq!((log_lines(""), log_lines("short")), (vec![String::new()], vec!["short".to_owned()]));
    }

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
