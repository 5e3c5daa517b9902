//! Write: writes traces in our own format, compressed if the file's name says so.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use onewrite_cache::{Access, PageRequest};

use super::text::Own;
use super::{Extent, Record};
use crate::error::LabError;
use crate::partial::Partial;

/// Content of a line of our own format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// `r|w,page`, with the bytes of a page.
    Pages(u64),
    /// `r|w,offset,length` in bytes; a page record has this many bytes.
    Bytes(u64),
}

/// xz(1)'s default level.
const XZ_LEVEL: u32 = 6;

/// Destination of the lines.
enum Sink {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
    Xz(Box<XzEncoder<BufWriter<File>>>),
}

impl Sink {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Sink::Plain(file) => file,
            Sink::Gzip(encoder) => encoder,
            Sink::Zstd(encoder) => encoder,
            Sink::Xz(encoder) => encoder,
        }
    }
}

/// Writes a trace. End it with [`TraceWriter::finish`]; a writer that is dropped before removes its file.
pub struct TraceWriter {
    path: PathBuf,
    sink: Sink,
    line: Vec<u8>,
    partial: Partial,
    /// Time of the current record, if the file has times.
    time_ns: Option<u64>,
}

impl TraceWriter {
    /// Makes a new file: `.zst` compresses with zstd, `.gz` with gzip, `.xz` with xz.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> Result<TraceWriter, LabError> {
        let open = || -> io::Result<(Sink, Partial)> {
            let (file, partial) = Partial::create(path)?;
            let file = BufWriter::with_capacity(1 << 17, file);
            let sink = match path.extension().and_then(|extension| extension.to_str()) {
                Some("zst") => Sink::Zstd(Box::new(zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?)),
                Some("gz") => Sink::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
                Some("xz") => Sink::Xz(Box::new(XzEncoder::new(file, XZ_LEVEL))),
                _ => Sink::Plain(file),
            };
            Ok((sink, partial))
        };
        let (sink, partial) = open().map_err(|error| unwritable(path, &error))?;
        Ok(TraceWriter { path: path.to_owned(), sink, line: Vec::new(), partial, time_ns: None })
    }

    /// Begins a file with times: writes a header, and adds a column to each line of a [`TraceWriter::record`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn with_times(mut self, format: WriteFormat) -> Result<TraceWriter, LabError> {
        let header = match format {
            WriteFormat::Pages(_) => Own::TIMED_PAGES,
            WriteFormat::Bytes(_) => Own::TIMED_BYTES,
        };
        self.line.extend_from_slice(header.as_bytes());
        self.time_ns = None;
        self.end()?;
        self.time_ns = Some(0);
        Ok(self)
    }

    /// Writes a record with the address of its own volume, so take only one volume of a trace with several.
    ///
    /// # Errors
    /// If the file cannot be written; if the format cannot express the extent.
    pub fn record(&mut self, record: &Record, format: WriteFormat) -> Result<(), LabError> {
        if let Some(time_ns) = &mut self.time_ns {
            *time_ns = record.time_ns;
        }
        match (format, record.extent) {
            (WriteFormat::Pages(_), Extent::Page(page)) => self.page(PageRequest::new(page, record.access)),
            (WriteFormat::Pages(_), Extent::Bytes { length: 0, .. }) => Ok(()),
            (WriteFormat::Pages(size), Extent::Bytes { offset, length }) => {
                let last = offset.saturating_add(length - 1) / size;
                (offset / size..=last).try_for_each(|page| self.page(PageRequest::new(page, record.access)))
            }
            (WriteFormat::Bytes(size), Extent::Page(page)) => {
                let Some(offset) = page.checked_mul(size) else {
                    let problem = format!("page {page} of {size} bytes has no offset in 64 bits; convert to pages");
                    return Err(LabError::Option(problem));
                };
                self.bytes(record.access, offset, size)
            }
            (WriteFormat::Bytes(_), Extent::Bytes { offset, length }) => self.bytes(record.access, offset, length),
        }
    }

    /// Writes `r|w,page`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn page(&mut self, request: PageRequest) -> Result<(), LabError> {
        self.begin(request.access());
        self.number(request.page());
        self.end()
    }

    fn bytes(&mut self, access: Access, offset: u64, length: u64) -> Result<(), LabError> {
        self.begin(access);
        self.number(offset);
        self.line.push(b',');
        self.number(length);
        self.end()
    }

    fn begin(&mut self, access: Access) {
        self.line.clear();
        self.line.extend_from_slice(match access {
            Access::Write => b"w,",
            Access::Read => b"r,",
        });
    }

    fn number(&mut self, mut value: u64) {
        let start = self.line.len();
        loop {
            self.line.push(b'0' + (value % 10) as u8);
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.line[start..].reverse();
    }

    fn end(&mut self) -> Result<(), LabError> {
        if let Some(time_ns) = self.time_ns {
            self.line.push(b',');
            self.number(time_ns);
        }
        self.line.push(b'\n');
        self.sink.writer().write_all(&self.line).map_err(|error| unwritable(&self.path, &error))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(self) -> Result<(), LabError> {
        let ended = match self.sink {
            Sink::Plain(file) => Ok(file),
            Sink::Gzip(encoder) => encoder.finish(),
            Sink::Zstd(encoder) => encoder.finish(),
            Sink::Xz(encoder) => encoder.finish(),
        };
        ended.and_then(|mut file| file.flush()).map_err(|error| unwritable(&self.path, &error))?;
        self.partial.keep().map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> LabError {
    LabError::WriteFile { path: path.display().to_string(), message: error.to_string() }
}
