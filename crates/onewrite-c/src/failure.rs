//! Failure: the number and the text of an error, and their way to the C program: errno, and a text for each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use onewrite_host::VolumeError;
use rustix::io::Errno;

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    number: i32,
    text: String,
}

impl Failure {
    /// The error `number`; `text` says what the number leaves open.
    pub(crate) fn new(number: Errno, text: impl Into<String>) -> Failure {
        Failure { number: number.raw_os_error(), text: text.into() }
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Failure {
        Failure { number: error.errno(), text: error.to_string() }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        let number = error.raw_os_error().unwrap_or(match error.kind() {
            std::io::ErrorKind::NotFound => Errno::NOENT.raw_os_error(),
            std::io::ErrorKind::InvalidInput => Errno::INVAL.raw_os_error(),
            _ => Errno::IO.raw_os_error(),
        });
        Failure { number, text: error.to_string() }
    }
}

thread_local! {
    /// The text of the last failure of this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// The result of `work`; after a failure `failed`, with errno set and the text kept. A panic is EIO.
pub(crate) fn guarded<T>(failed: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let panicked = |_| Err(Failure::new(Errno::IO, "a defect in Onewrite: the call panicked"));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked).unwrap_or_else(|failure| {
        keep(&failure);
        failed
    })
}

/// 0, or after a failure -1.
pub(crate) fn status(work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    guarded(-1, || work().map(|()| 0))
}

fn keep(failure: &Failure) {
    let text = CString::new(failure.text.replace('\0', "?")).unwrap_or_default();
    // A thread that is ending has no such text any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    errno::set_errno(errno::Errno(failure.number));
}

/// The text of this thread's last failure; empty if there was none. Valid until the thread's next failure.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_a_text() {
        assert_eq!(status(|| panic!("on purpose")), -1);
        assert_eq!(errno::errno().0, Errno::IO.raw_os_error());
        assert!(LAST.with(|last| last.borrow().to_str().unwrap().contains("a defect")));
    }

    #[test]
    fn a_text_with_a_zero_byte_is_kept() {
        assert_eq!(status(|| Err(Failure::new(Errno::NOENT, "a\0b"))), -1);
        assert_eq!(LAST.with(|last| last.borrow().to_str().unwrap().to_owned()), "a?b");
        assert_eq!(errno::errno().0, Errno::NOENT.raw_os_error());
    }
}
