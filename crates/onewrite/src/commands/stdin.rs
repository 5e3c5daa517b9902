//! Standard input: the meaning of `-` for commands that read a job file or a trace.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onewrite_lab::Partial;

use crate::args::{Command, Trace};

/// The name of standard input.
pub const NAME: &str = "-";

/// All of standard input as text.
pub fn text() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input")?;
    Ok(text)
}

/// Copies a trace from standard input to a file and puts its path into `command`, because traces are read several
/// times. Dropping the result removes the file.
pub fn spool(command: &mut Command) -> anyhow::Result<Option<Partial>> {
    let paths = traces(command);
    let mut piped: Vec<&mut PathBuf> = paths.into_iter().filter(|path| path.as_path() == Path::new(NAME)).collect();
    if piped.len() > 1 {
        bail!("standard input (-) can be read once; name files for the other traces");
    }
    let Some(path) = piped.pop() else { return Ok(None) };
    let place = std::env::temp_dir().join("standard-input");
    let failed = || format!("standard input could not be kept in {}; set TMPDIR", std::env::temp_dir().display());
    let (mut file, partial) = Partial::create(&place).with_context(failed)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).with_context(failed)?;
    *path = partial.path().to_owned();
    Ok(Some(partial))
}

/// Every trace that the command reads.
fn traces(command: &mut Command) -> Vec<&mut PathBuf> {
    match command {
        Command::Cache(cache) => vec![&mut cache.trace],
        Command::Trace(Trace::Summarise { traces, .. }) => traces.iter_mut().collect(),
        Command::Trace(Trace::Convert { trace, .. } | Trace::Cut { trace, .. } | Trace::Draw { trace, .. }) => {
            vec![trace]
        }
        _ => Vec::new(),
    }
}
