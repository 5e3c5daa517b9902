//! Acknowledgements: a program that `onewrite crash --run` proves says what has to survive from now on.
//!
//! Its one idea: a call is the line `onewrite: acked TOKEN`, written at once to the file that hears the program's
//! lines. The file's path comes with the environment. A descriptor would not do: a child that was started without it
//! may have another file under its number.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The environment variable that names the file which takes acknowledgements.
pub const ACKNOWLEDGE_TO: &str = "ONEWRITE_ACK";
/// What a line begins with that acknowledges a token.
pub const ACKNOWLEDGES: &str = "onewrite: acked ";

/// Acknowledges `token` to `onewrite crash --run`: what is durable now has to be there after each later power cut.
///
/// The token is noted when this returns, before anything that the program does next. Any thread and any child process
/// may call.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if nothing listens: `ONEWRITE_ACK` is not set, or the run is over. A program that also
/// runs by itself may ignore that. [`io::ErrorKind::InvalidInput`] if the token is empty or has a line's end in it.
pub fn acked(token: impl AsRef<[u8]>) -> io::Result<()> {
    let path = std::env::var_os(ACKNOWLEDGE_TO).ok_or_else(|| {
        let problem = "ONEWRITE_ACK is not set: acknowledgements are for programs that `onewrite crash --run` starts";
        io::Error::new(io::ErrorKind::NotFound, problem)
    })?;
    write_line(path.as_ref(), token.as_ref())
}

fn write_line(path: &Path, token: &[u8]) -> io::Result<()> {
    if token.is_empty() || token.contains(&b'\n') {
        let problem = "a token of an acknowledgement is one line, and not empty";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let line = [ACKNOWLEDGES.as_bytes(), token, b"\n"].concat();
    OpenOptions::new().append(true).open(path)?.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_and_goes_to_a_file_that_is_there() {
        let path = std::env::temp_dir().join(format!("onewrite-acked-{}", std::process::id()));
        assert_eq!(write_line(&path, b"a").unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "before\n").unwrap();
        write_line(&path, b"row 7").unwrap();
        for wrong in ["", "two\nlines"] {
            assert_eq!(write_line(&path, wrong.as_bytes()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nonewrite: acked row 7\n");
        std::fs::remove_file(path).unwrap();
    }
}
