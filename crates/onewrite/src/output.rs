//! Output: results on standard output, and files that are whole or not there.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onewrite_lab::Partial;

/// Prints to standard output; the program ends where that takes nothing any more.
macro_rules! out {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line, as [`out`] does.
macro_rules! outln {
    () => { out!("\n") };
    ($form:literal $($rest:tt)*) => { out!("{}\n", format_args!($form $($rest)*)) };
}

/// What [`out`] does: a reader that has seen enough (`onewrite cache … | head`) is no failure, a full disk is.
pub fn print(text: fmt::Arguments<'_>) {
    let Err(error) = std::io::stdout().lock().write_fmt(text) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("onewrite: standard output: {error}; what was printed is not whole");
    std::process::exit(1);
}

/// Whether `path` stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses files that cannot be made, before the work is done whose results they are to hold.
pub fn check(paths: &[Option<&PathBuf>]) -> anyhow::Result<()> {
    for path in paths.iter().flatten().filter(|path| !is_stdout(path)) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent
            && !parent.is_dir()
        {
            bail!("{}: there is no directory {}; make it first", path.display(), parent.display());
        }
        if path.is_dir() {
            bail!("{}: it is a directory; name a file in it", path.display());
        }
    }
    Ok(())
}

/// Writes a file; what cannot be written whole is not left behind.
pub fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    let written = Partial::create(path).and_then(|(mut file, partial)| {
        file.write_all(content.as_bytes())?;
        partial.keep();
        Ok(())
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
