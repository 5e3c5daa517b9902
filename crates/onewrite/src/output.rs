//! Output: prints results on standard output, and writes files completely or not at all.

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use anyhow::Context;
use onewrite_lab::Partial;

use crate::escape;

/// Prints to standard output; if that is closed, a command whose result is what it prints ends the program.
macro_rules! out {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line, as [`out`] does.
macro_rules! outln {
    () => { out!("\n") };
    ($form:literal $($rest:tt)*) => { out!("{}\n", format_args!($form $($rest)*)) };
}

/// Prints an error, a warning or a violation on standard error, escaped.
macro_rules! errln {
    ($($text:tt)*) => { $crate::output::tell(&format!($($text)*)) };
}

/// Prints a remark on standard error, unless `--quiet` is set.
macro_rules! note {
    ($($text:tt)*) => { if !$crate::output::is_quiet() { errln!($($text)*) } };
}

static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// Whether the program goes on when nobody reads what it prints.
static GOES_ON: AtomicBool = AtomicBool::new(false);
/// Whether nobody does.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);
/// The exit code if standard output cannot be written.
static FAILED: AtomicU8 = AtomicU8::new(3);

/// For a command that does more than print: it goes on when its reader has closed the pipe, and its exit code tells the
/// result (`onewrite fsck IMAGE | head -1`). `failed` is the exit code if standard output cannot be written.
pub fn go_on_unread(failed: u8) {
    GOES_ON.store(true, Ordering::Relaxed);
    FAILED.store(failed, Ordering::Relaxed);
}

/// Prints only errors, warnings and results from now on.
pub fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Whether remarks and progress are suppressed.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// The work of [`errln`]. A failure of standard error is ignored.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", escape::message(text));
}

/// The work of [`out`]. A reader that has closed its end (`onewrite cache … | head`) is no failure; a full disk is. A
/// terminal gets no control characters except line breaks and tabs.
pub fn print(text: fmt::Arguments<'_>) {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut stdout = std::io::stdout().lock();
    let printed = match stdout.is_terminal() {
        true => stdout.write_all(escape::message(&text.to_string()).as_bytes()),
        false => stdout.write_fmt(text),
    };
    let Err(error) = printed else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        if GOES_ON.load(Ordering::Relaxed) {
            return IS_CLOSED.store(true, Ordering::Relaxed);
        }
        onewrite_lab::remove_all();
        std::process::exit(0);
    }
    errln!("onewrite: standard output: {error}; what was printed is not whole");
    onewrite_lab::remove_all();
    std::process::exit(FAILED.load(Ordering::Relaxed).into());
}

/// Whether `path` means standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a file; a failure leaves no partial file.
pub fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    let written = Partial::create(path).and_then(|(mut file, partial)| {
        file.write_all(content.as_bytes())?;
        partial.keep()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes JSON to `path`, or to standard output.
pub fn write_json(path: &Path, json: &str) -> anyhow::Result<()> {
    if is_stdout(path) {
        print(format_args!("{json}"));
        return Ok(());
    }
    write(path, json)
}
