//! Trace: reads block traces in the usual formats, as a stream.
//!
//! [`Trace`] opens a file, compressed or not, detects its [`Format`] unless it is given, and returns [`Record`]s one at
//! a time. So memory does not grow with the length of a trace. [`pages`](Trace::next_pages) splits records into the
//! page requests of the cache simulator. An error names the line, or the byte of a binary trace.

mod accesses;
mod action;
mod binary;
mod columns;
mod field;
mod format;
mod grid;
mod packing;
mod page_set;
mod pages;
mod parser;
mod record;
mod source;
mod summary;
mod text;
mod volumes;
mod write;

pub use accesses::Pages;
pub use action::Action;
pub use columns::Columns;
pub use format::{Format, TraceOptions};
pub use grid::{Drawing, draw};
pub use packing::Packing;
pub(crate) use page_set::PageSet;
pub use pages::VOLUME_PAGES;
pub use record::{Extent, Record};
pub use summary::{Summary, summarise};
pub use volumes::Volumes;
pub use write::{TraceWriter, WriteFormat};

use std::io::BufRead;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use binary::Binary;
use onewrite_cache::Access;
use parser::Parser;
use source::Source;

/// Turns bytes into records.
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
    packing: Option<Packing>,
    line: Vec<u8>,
    line_number: u64,
    seen: Seen,
}

/// Statistics of the records read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Records that read.
    pub reads: u64,
    /// Records that write.
    pub writes: u64,
    /// Time of the first record.
    first_ns: u64,
    /// Earliest and latest time, relative to the first record.
    earliest: i64,
    latest: i64,
    has_times: bool,
    /// Whether there were volumes besides the first; they lie far behind it.
    pub has_volumes: bool,
}

impl Seen {
    fn count(&mut self, record: &Record) {
        if self.reads + self.writes == 0 {
            self.first_ns = record.time_ns;
        }
        *(match record.access {
            Access::Write => &mut self.writes,
            Access::Read => &mut self.reads,
        }) += 1;
        // Times since 1601 wrap around; only differences matter.
        let since = record.time_ns.wrapping_sub(self.first_ns).cast_signed();
        (self.earliest, self.latest) = (self.earliest.min(since), self.latest.max(since));
        self.has_times |= record.time_ns != 0;
    }

    /// Counts `reads` records that follow each other, with times between `times.start` and `times.end`; `first_ns` is
    /// that of the first of them.
    fn count_reads(&mut self, reads: u64, first_ns: u64, times: Range<u64>) {
        if self.reads + self.writes == 0 {
            self.first_ns = first_ns;
        }
        self.reads += reads;
        let since = |time: u64| time.wrapping_sub(self.first_ns).cast_signed();
        (self.earliest, self.latest) = (self.earliest.min(since(times.start)), self.latest.max(since(times.end)));
        self.has_times |= times.end != 0;
    }

    /// Nanoseconds from the earliest record to the latest; `None` if the trace has no times.
    pub(crate) fn duration_ns(&self) -> Option<u64> {
        self.has_times.then(|| self.latest.wrapping_sub(self.earliest).cast_unsigned())
    }

    /// Nanoseconds from the first record to `time_ns`; zero if it is earlier.
    pub fn since_first(&self, time_ns: u64) -> u64 {
        time_ns.wrapping_sub(self.first_ns).cast_signed().max(0).cast_unsigned()
    }
}

impl Trace {
    /// Opens a trace.
    ///
    /// # Errors
    /// If it cannot be read, or its format cannot be detected.
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
        let (volume, packing, line, line_number) = (options.volume, options.packing.clone(), Vec::new(), 0);
        let (path, seen) = (path.to_owned(), Seen::default());
        Ok(Trace { path, source, reader, format, volume, packing, line, line_number, seen })
    }

    /// Whether one of the first records of a trace has a time.
    ///
    /// # Errors
    /// As [`Trace::next_record`].
    pub fn has_times(path: &Path, options: &TraceOptions) -> Result<bool, LabError> {
        const LOOKED_AT: usize = 4096;
        let mut trace = Trace::open(path, options)?;
        for _ in 0..LOOKED_AT {
            match trace.next_record()? {
                Some(record) if record.time_ns != 0 => return Ok(true),
                Some(_) => (),
                None => break,
            }
        }
        Ok(false)
    }

    /// Statistics of the records read so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The format, given or detected.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Bytes of the file read so far, before decompression.
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

    /// The next read or write; `None` at the end.
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
                Some(record) => {
                    self.seen.count(&record);
                    let placed = self.packing.as_ref().map_or(Ok(record), |packing| packing.place(record));
                    let placed = placed.map_err(|problem| self.refuse(problem))?;
                    self.seen.has_volumes |= placed.volume != 0;
                    return Ok(Some(placed));
                }
                None => return Ok(None),
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
