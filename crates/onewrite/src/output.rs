//! Output: prints results on standard output, and writes files completely or not at all.

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use onewrite_lab::Partial;

use crate::escape;

/// Prints to standard output; ends the program if that is closed.
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
    let mut stdout = std::io::stdout().lock();
    let printed = match stdout.is_terminal() {
        true => stdout.write_all(escape::message(&text.to_string()).as_bytes()),
        false => stdout.write_fmt(text),
    };
    let Err(error) = printed else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        onewrite_lab::remove_all();
        std::process::exit(0);
    }
    errln!("onewrite: standard output: {error}; what was printed is not whole");
    onewrite_lab::remove_all();
    std::process::exit(3);
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
        return Ok(std::io::stdout().write_all(json.as_bytes())?);
    }
    write(path, json)
}
