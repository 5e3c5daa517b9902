//! A scratch directory, and the program run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use onewrite_testing::skipped;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed in the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onewrite-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs the program here, with arguments separated by blanks.
    pub fn onewrite(&self, arguments: &str) -> Outcome {
        let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
        Outcome::of(program.args(arguments.split_whitespace()).current_dir(&self.0))
    }

    /// Runs the program here, with these arguments.
    pub fn onewrite_with(&self, arguments: &[&str]) -> Outcome {
        let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
        Outcome::of(program.args(arguments).current_dir(&self.0))
    }

    /// Runs the program here with `input` on its standard input.
    pub fn onewrite_fed(&self, arguments: &str, input: &[u8]) -> Outcome {
        let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
        program.args(arguments.split_whitespace()).current_dir(&self.0);
        let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Outcome(child.wait_with_output().unwrap())
    }

    /// Runs the program here; nobody reads what it prints on standard output.
    pub fn onewrite_unread(&self, arguments: &str) -> Outcome {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_onewrite"));
        program.args(arguments.split_whitespace()).current_dir(&self.0).stdout(writer).stderr(Stdio::piped());
        Outcome(program.spawn().unwrap().wait_with_output().unwrap())
    }

    /// Runs another program here; `None`, with a message, if it is not installed.
    pub fn other(&self, program: &str, arguments: &str) -> Option<Outcome> {
        let mut command = Command::new(program);
        match command.args(arguments.split_whitespace()).current_dir(&self.0).output() {
            Ok(output) => Some(Outcome(output)),
            Err(error) => {
                skipped!("{program}: {error}");
                None
            }
        }
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Output and exit status of a program.
pub struct Outcome(Output);

impl Outcome {
    fn of(command: &mut Command) -> Outcome {
        Outcome(command.output().unwrap())
    }

    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    pub fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Standard output of a program that must have succeeded.
    pub fn ok(&self) -> String {
        assert_eq!(self.code(), 0, "{}{}", self.out(), self.err());
        self.out()
    }

    /// Standard error of a program that must have ended with `code`.
    pub fn fails_with(&self, code: i32) -> String {
        assert_eq!(self.code(), code, "{}{}", self.out(), self.err());
        self.err()
    }
}

/// The names in the scratch directory.
pub fn names(scratch: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(scratch.as_path()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
