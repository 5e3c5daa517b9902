//! Trace: block traces as the field has them, read as a stream.
//!
//! [`Trace`] opens a file, compressed or not, finds out or is told its [`Format`], and gives [`Record`]s one at a time, so
//! that a trace of any length is read in the same memory. [`pages`](Trace::next_pages) cuts them into the page requests of
//! the cache simulator. What cannot be understood is an error that names the line, or the byte of a binary trace.

mod accesses;
mod binary;
mod columns;
mod draw;
mod field;
mod format;
mod pages;
mod source;
mod summary;
mod text;
mod write;

pub use accesses::Pages;
pub use columns::Columns;
pub use draw::{Drawing, draw};
pub use format::{Action, Format, TraceOptions};
pub use pages::VOLUME_PAGES;
pub use summary::{Summary, summarise};
pub use write::{TraceWriter, WriteFormat};

use std::io::BufRead;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use binary::Binary;
use source::Source;
use text::Parser;

/// What a record touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes from an offset on.
    Bytes {
        /// First byte.
        offset: u64,
        /// Number of bytes; may be zero, which touches nothing.
        length: u64,
    },
    /// One page, in pages of whatever size the reader of the trace chooses.
    Page(u64),
}

/// A read or write of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, in nanoseconds on the trace's own clock; zero where the format has none.
    pub time_ns: u64,
    /// Which disk or file, where the trace has several; else zero.
    pub volume: u32,
    /// Whether it is a write.
    pub is_write: bool,
    /// What it touches.
    pub extent: Extent,
}

/// How the bytes become records.
enum Reader {
    Text(Box<dyn Parser>),
    Binary(Binary),
}

/// An open trace.
pub struct Trace {
    path: PathBuf,
    source: Source,
    reader: Reader,
    format: Format,
    volume: Option<u32>,
    line: Vec<u8>,
    line_number: u64,
}

impl Trace {
    /// Opens a trace.
    ///
    /// # Errors
    /// If it cannot be read, or its format cannot be told.
    pub fn open(path: &Path, options: &TraceOptions) -> Result<Trace, LabError> {
        let source = Source::open(path)?;
        let format = match &options.format {
            Some(format) => format.clone(),
            None => Format::of(path, source.start()).map_err(|problem| LabError::Trace {
                file: path.display().to_string(),
                place: "line 1".into(),
                problem,
            })?,
        };
        let reader = match Binary::new(&format) {
            Some(binary) => Reader::Binary(binary.of_action(options.action.unwrap_or_default())),
            None => Reader::Text(format.parser(options)),
        };
        let (volume, line, line_number) = (options.volume, Vec::new(), 0);
        Ok(Trace { path: path.to_owned(), source, reader, format, volume, line, line_number })
    }

    /// The format, told or found out.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Bytes of the file read so far, as they lie on disk.
    pub fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    fn unreadable(path: &Path, error: &std::io::Error) -> LabError {
        LabError::ReadFile { path: path.display().to_string(), message: error.to_string() }
    }

    fn refuse(&self, problem: String) -> LabError {
        let place = match &self.reader {
            Reader::Text(_) => format!("line {}", self.line_number),
            Reader::Binary(binary) => format!("byte {}", binary.offset()),
        };
        LabError::Trace { file: self.path.display().to_string(), place, problem }
    }

    /// The next read or write; none at the end.
    ///
    /// # Errors
    /// If the file cannot be read or a line cannot be understood.
    pub fn next_record(&mut self) -> Result<Option<Record>, LabError> {
        loop {
            let record = match &mut self.reader {
                Reader::Text(_) => self.next_of_text()?,
                Reader::Binary(binary) => binary.next(&mut self.source).map_err(|problem| self.refuse(problem))?,
            };
            match record {
                Some(record) if self.volume.is_some_and(|volume| volume != record.volume) => (),
                other => return Ok(other),
            }
        }
    }

    fn next_of_text(&mut self) -> Result<Option<Record>, LabError> {
        loop {
            self.line.clear();
            self.line_number += 1;
            let read = self.source.read_until(b'\n', &mut self.line);
            if read.map_err(|error| Trace::unreadable(&self.path, &error))? == 0 {
                return Ok(None);
            }
            let Reader::Text(parser) = &mut self.reader else { unreachable!("a text trace has a parser") };
            let line = self.line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            match parser.line(line, self.line_number) {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => (),
                Err(problem) => return Err(self.refuse(problem)),
            }
        }
    }
}
