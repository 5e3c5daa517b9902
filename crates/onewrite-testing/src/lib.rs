//! What the tests of all crates share.

/// Says on standard error, past the test runner's capture, that a test or a part of it is skipped, and why.
///
/// Takes what `format!` takes.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => {
        $crate::say_skipped(format_args!($($why)*))
    };
}

/// What [`skipped!`] calls: writes `SKIPPED: why` and the name of the test, which is its thread's.
pub fn say_skipped(why: std::fmt::Arguments<'_>) {
    use std::io::Write;

    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread");
    // `eprintln!` would be captured. If standard error is closed, nobody reads it.
    let _ = writeln!(std::io::stderr().lock(), "\nSKIPPED: {test}: {why}");
}
