//! Format: the known trace formats, their names, and how to detect them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::action::Action;
use super::columns::Columns;
use super::field;
use super::packing::Packing;
use super::parser::Parser;
use super::text;

/// A trace format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own CSV: `r|w,page` or `r|w,offset,length` in bytes, with or without a time.
    Own,
    /// The output of `onewrite run --trace`.
    Run,
    /// Any table, described by a map of its columns.
    Columns(Columns),
    /// MSR Cambridge: `time,host,disk,Read|Write,offset,size,response`, time in 100 ns, bytes.
    Msr,
    /// SPC: `volume,sector,bytes,r|w,seconds`, sectors of 512 bytes.
    Spc,
    /// The default output of `blkparse`.
    Blkparse,
    /// The binary files of `blktrace`.
    Blktrace,
    /// fio's `write_iolog`, version 2 or 3.
    Fio,
    /// MQSim: time in ns, device, sector, sectors, 0 for a write and 1 for a read.
    Mqsim,
    /// libCacheSim's oracleGeneral: 24 bytes for each request; an object counts as a page, and each request as a read.
    OracleGeneral,
    /// Alibaba block traces: `device,R|W,offset,length,time`, bytes and µs.
    Alibaba,
    /// Tencent block traces: `time,sector,sectors,0|1,volume`, seconds, 1 for a write.
    Tencent,
}

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The format; `None` to detect it from the file.
    pub format: Option<Format>,
    /// Read only records of this volume.
    pub volume: Option<u32>,
    /// The action whose records are taken from blkparse and blktrace; `None` for `Q` (queued).
    pub action: Option<Action>,
    /// Places of the volumes, one directly after the other; `None` to place them far apart.
    pub packing: Option<Packing>,
}

/// Formats that need no map, by name.
const NAMED: [(&str, Format); 11] = [
    ("own", Format::Own),
    ("run", Format::Run),
    ("msr", Format::Msr),
    ("spc", Format::Spc),
    ("blkparse", Format::Blkparse),
    ("blktrace", Format::Blktrace),
    ("fio", Format::Fio),
    ("mqsim", Format::Mqsim),
    ("oracle-general", Format::OracleGeneral),
    ("alibaba", Format::Alibaba),
    ("tencent", Format::Tencent),
];

/// blktrace's magic number without its version, as on disk: big endian, little endian.
pub(super) const BLKTRACE_MAGIC: [[u8; 3]; 2] = [[0x65, 0x61, 0x74], [0x74, 0x61, 0x65]];

impl Format {
    /// Detects the format from a file's name and first bytes.
    ///
    /// # Errors
    /// If they match no format.
    pub(super) fn of(path: &Path, start: &[u8]) -> Result<Format, String> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        if name.contains("oraclegeneral") {
            return Ok(Format::OracleGeneral);
        }
        let is_blktrace = start.len() >= 4 && (start[1..4] == BLKTRACE_MAGIC[1] || start[..3] == BLKTRACE_MAGIC[0]);
        if is_blktrace {
            return Ok(Format::Blktrace);
        }
        let lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut lines = lines.filter(|line| !line.is_empty() && line[0] != b'#');
        let first = lines.next().unwrap_or_default();
        // The first line may be a header.
        let second = lines.next();
        if first.is_empty() || (second.is_none() && first.starts_with(b"op,")) {
            return Err("the trace is empty: it has no record".to_owned());
        }
        Format::of_line(first).or_else(|| second.and_then(Format::of_line)).ok_or_else(|| {
            let known = NAMED.map(|(name, _)| name).join(", ");
            format!("the format cannot be told from {}; say --format {known} or columns:…", field::shown(first))
        })
    }

    fn of_line(line: &[u8]) -> Option<Format> {
        if line.starts_with(b"fio version ") {
            return Some(Format::Fio);
        }
        if line == text::Run::HEADER.as_bytes() {
            return Some(Format::Run);
        }
        let commas: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        let is_number = |field: &&[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
        let is_operation = |field: &[u8]| field::access(field).is_ok();
        let blanks: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        match commas.as_slice() {
            [operation, rest @ ..] if (1..=3).contains(&rest.len()) && is_operation(operation) => Some(Format::Own),
            [_, _, _, operation, ..] if commas.len() == 7 && is_operation(operation) => Some(Format::Msr),
            [_, operation, _, _, _] if is_operation(operation) => Some(Format::Alibaba),
            [_, _, _, operation, _, ..] if is_operation(operation) => Some(Format::Spc),
            [_, _, _, b"0" | b"1", _] if commas.iter().all(is_number) => Some(Format::Tencent),
            _ if blanks.len() == 5 && blanks.iter().all(is_number) => Some(Format::Mqsim),
            [major, _] if blanks.len() >= 7 && is_number(major) => Some(Format::Blkparse),
            _ => None,
        }
    }

    /// The parser of its lines; binary formats have no lines.
    pub(super) fn parser(&self, options: &TraceOptions) -> Box<dyn Parser> {
        let action = options.action.unwrap_or_default();
        match self {
            Format::Own => Box::new(text::Own::default()),
            Format::Run => Box::new(text::Run),
            Format::Columns(columns) => Box::new(columns.clone()),
            Format::Msr => Box::new(text::Msr),
            Format::Spc => Box::new(text::Spc),
            Format::Blkparse => Box::new(text::Blkparse::new(action)),
            Format::Fio => Box::new(text::Fio::default()),
            Format::Mqsim => Box::new(text::Mqsim),
            Format::Alibaba => Box::new(text::Alibaba),
            Format::Tencent => Box::new(text::Tencent),
            Format::Blktrace | Format::OracleGeneral => unreachable!("a binary format has no lines"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMED.iter().find(|(_, format)| format == self);
        f.write_str(named.map_or("columns", |(name, _)| name))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        if let Some(map) = text.strip_prefix("columns:") {
            return Ok(Format::Columns(map.parse()?));
        }
        let found = NAMED.iter().find(|(name, _)| *name == text).map(|(_, format)| format.clone());
        found.ok_or_else(|| {
            let known = NAMED.map(|(name, _)| name).join(", ");
            format!("`{text}` is no trace format; there are {known} and columns:MAP")
        })
    }
}
