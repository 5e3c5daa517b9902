//! Load file: the calls of dbench's clients, one on each line.
//!
//! ```text
//!   NTCreateX "\clients\client1\~dmtmp\file" 0x40 0x2 9938 NT_STATUS_OK      options, disposition, handle, outcome
//!   WriteX 9938 65534 1 1 NT_STATUS_OK                                       handle, offset, length asked for and done
//! ```
//!
//! Only calls that succeeded and concern files, names or content are used; queries, locks and attributes are ignored.
//! The file itself is under the GPL and no part of this project, so it is read from the place where Debian's package
//! `dbench` puts it.

use std::path::Path;

use crate::error::LabError;

/// Path of the load file in Debian's package `dbench`.
pub const LOAD_FILE: &str = "/usr/share/dbench/client.txt";
/// The directory that stands for the client's own.
const CLIENT: &str = "clients/client1";
/// The bit of the options that asks for a directory.
const DIRECTORY: u64 = 0x1;
/// The disposition that empties a file.
const OVERWRITE: u64 = 5;

/// A call. Paths are relative to the client's own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Directory(String),
    /// Opens a file, and makes it if it is missing.
    Open {
        path: String,
        handle: u64,
        empties: bool,
    },
    Close(u64),
    Read(Transfer),
    Write(Transfer),
    Flush(u64),
    Unlink(String),
    Rename(String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) handle: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Reads a load file.
///
/// # Errors
/// If the file is missing (the error says where to get it), or a line cannot be understood.
pub(super) fn load(path: &Path) -> Result<Vec<Call>, LabError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let cure =
            "the file server runs dbench's load file: install Debian's package dbench, or name the file by --load-file";
        LabError::ReadFile { path: path.display().to_string(), message: format!("{error}; {cure}") }
    })?;
    let refuse = |number: usize, problem: String| LabError::Trace {
        file: path.display().to_string(),
        place: format!("line {}", number + 1),
        problem,
    };
    let lines = text.lines().enumerate();
    let calls = lines.filter_map(|(number, text)| match call(text) {
        Ok(call) => call.map(Ok),
        Err(problem) => Some(Err(refuse(number, problem))),
    });
    calls.collect()
}

fn call(line: &str) -> Result<Option<Call>, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.last() != Some(&"NT_STATUS_OK") {
        return Ok(None);
    }
    let field = |index: usize| fields.get(index).copied().ok_or_else(|| format!("`{line}` ends too soon"));
    let number = |index: usize| {
        let text = field(index)?;
        let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
        parsed.map_err(|_| format!("`{text}` is no number"))
    };
    let path = |index: usize| field(index).map(local);
    let transfer = || Ok::<_, String>(Transfer { handle: number(1)?, offset: number(2)?, length: number(4)? });
    Ok(match fields[0] {
        "NTCreateX" if number(2)? & DIRECTORY != 0 => Some(Call::Directory(path(1)?)),
        "NTCreateX" => Some(Call::Open { path: path(1)?, handle: number(4)?, empties: number(3)? == OVERWRITE }),
        "Close" => Some(Call::Close(number(1)?)),
        "ReadX" => Some(Call::Read(transfer()?)),
        "WriteX" => Some(Call::Write(transfer()?)),
        "Flush" => Some(Call::Flush(number(1)?)),
        "Unlink" => Some(Call::Unlink(path(1)?)),
        "Rename" => Some(Call::Rename(path(1)?, path(2)?)),
        _ => None,
    })
}

/// A path of the load file, relative to the client's own directory; the directory itself is the empty path.
fn local(text: &str) -> String {
    let path = text.trim_matches('"').replace('\\', "/").to_lowercase();
    let path = path.trim_start_matches('/');
    path.strip_prefix(CLIENT).unwrap_or(path).trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_succeeded_are_taken() {
        let open = call(r#"NTCreateX "\clients\client1\~dmtmp\A.DOC" 0x40 0x5 9938 NT_STATUS_OK"#).unwrap();
        assert_eq!(open, Some(Call::Open { path: "~dmtmp/a.doc".into(), handle: 9938, empties: true }));
        let read = call("ReadX 7 4096 8192 100 NT_STATUS_OK").unwrap();
        assert_eq!(read, Some(Call::Read(Transfer { handle: 7, offset: 4096, length: 100 })));
        assert_eq!(call("Unlink \"\\x\" 0x6 NT_STATUS_OBJECT_NAME_NOT_FOUND").unwrap(), None);
        assert_eq!(call("QUERY_FS_INFORMATION 1 NT_STATUS_OK").unwrap(), None);
    }

    #[test]
    fn a_line_that_ends_too_soon_is_refused() {
        assert!(call("ReadX 7 NT_STATUS_OK").unwrap_err().contains("no number"));
    }
}
