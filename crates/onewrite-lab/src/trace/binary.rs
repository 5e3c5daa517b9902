//! Binary: trace formats with binary records.
//!
//! ```text
//!   oracleGeneral, little endian   time u32 │ object u64 │ size u32 │ next access i64
//!   blktrace, either endian        magic u32 │ sequence u32 │ time u64 │ sector u64 │ bytes u32 │ action u32 │ pid u32
//!                                  │ device u32 │ cpu u32 │ error u16 │ length of what follows u16 │ what follows
//! ```
//!
//! The lower 16 bits of blktrace's action say what happened; the upper ones have the kind of the request.

use std::io::{BufRead, ErrorKind, Read};
use std::ops::Range;

use onewrite_cache::{Access, PageRequest};

use super::action::Action;
use super::field::SECTOR;
use super::format::{BLKTRACE_MAGIC, Format};
use super::record::{Extent, Record};
use super::source::Source;

const ORACLE_BYTES: usize = 24;
const BLKTRACE_BYTES: usize = 48;
/// blktrace's version of its records, the only one since 2006.
const BLKTRACE_VERSION: u8 = 7;
const KIND_SHIFT: u32 = 16;
const KIND_READ: u32 = 1 << 0;
const KIND_WRITE: u32 = 1 << 1;
const KIND_NOTIFY: u32 = 1 << 10;
const KIND_DISCARD: u32 = 1 << 13;
/// Object numbers are reduced to the page numbers that a simulation can use.
const OBJECT_MASK: u64 = (1 << 62) - 1;

enum Kind {
    Oracle,
    Blktrace(Action),
}

/// Records that were taken together.
pub(super) struct Batch {
    /// How many.
    pub(super) count: usize,
    /// Time of the first one.
    pub(super) first_ns: u64,
    /// The earliest and the latest time, both inclusive.
    pub(super) times: Range<u64>,
}

/// Reads the records of one format.
pub(super) struct Binary {
    kind: Kind,
    /// Offset of the next record in bytes.
    offset: u64,
}

impl Binary {
    /// The reader of `format`; none for formats with lines.
    pub(super) fn new(format: &Format) -> Option<Binary> {
        let kind = match format {
            Format::OracleGeneral => Kind::Oracle,
            Format::Blktrace => Kind::Blktrace(Action::default()),
            _ => return None,
        };
        Some(Binary { kind, offset: 0 })
    }

    /// The same reader, for blktrace records of another action.
    pub(super) fn of_action(mut self, action: Action) -> Binary {
        if let Kind::Blktrace(taken) = &mut self.kind {
            *taken = action;
        }
        self
    }

    /// Offset of the current record in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next read or write; none at the end.
    pub(super) fn next(&mut self, source: &mut Source) -> Result<Option<Record>, String> {
        match self.kind {
            Kind::Oracle => self.next_of_oracle(source),
            Kind::Blktrace(action) => self.next_of_blktrace(source, action),
        }
    }

    /// Appends a read for each of at most `wanted` records of oracleGeneral that lie whole in the buffer. None if there
    /// is none, or the format is another.
    pub(super) fn append_objects(
        &mut self,
        source: &mut Source,
        wanted: usize,
        pages: &mut Vec<PageRequest>,
    ) -> std::io::Result<Option<Batch>> {
        if !matches!(self.kind, Kind::Oracle) {
            return Ok(None);
        }
        let buffer = match source.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(None),
            other => other?,
        };
        let (records, _) = buffer.as_chunks::<ORACLE_BYTES>();
        let records = &records[..records.len().min(wanted)];
        let Some(first) = records.first() else { return Ok(None) };
        let (mut earliest, mut latest) = (u32::MAX, 0);
        pages.extend(records.iter().map(|record| {
            let (time, object) = oracle_record(record);
            (earliest, latest) = (earliest.min(time), latest.max(time));
            PageRequest::read(object)
        }));
        let (count, first_ns) = (records.len(), seconds(oracle_record(first).0));
        source.consume(count * ORACLE_BYTES);
        self.offset += (count * ORACLE_BYTES) as u64;
        Ok(Some(Batch { count, first_ns, times: seconds(earliest)..seconds(latest) }))
    }

    fn next_of_oracle(&mut self, source: &mut Source) -> Result<Option<Record>, String> {
        let Some(record) = take::<ORACLE_BYTES>(source)? else { return Ok(None) };
        self.offset += ORACLE_BYTES as u64;
        let (time, object) = oracle_record(&record);
        Ok(Some(Record { time_ns: seconds(time), volume: 0, access: Access::Read, extent: Extent::Page(object) }))
    }

    fn next_of_blktrace(&mut self, source: &mut Source, taken: Action) -> Result<Option<Record>, String> {
        loop {
            let Some(record) = take::<BLKTRACE_BYTES>(source)? else { return Ok(None) };
            let is_little = record[1..4] == BLKTRACE_MAGIC[1];
            let version = if is_little { record[0] } else { record[3] };
            if !(is_little || record[..3] == BLKTRACE_MAGIC[0]) || version != BLKTRACE_VERSION {
                return Err("no record of blktrace version 7 begins here; was a file of another kind appended?".into());
            }
            let long = |at: usize| {
                let bytes: [u8; 8] = record[at..at + 8].try_into().expect("eight bytes");
                if is_little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
            };
            let word = |at: usize| {
                let bytes: [u8; 4] = record[at..at + 4].try_into().expect("four bytes");
                if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
            };
            let extra = if is_little { [record[46], record[47]] } else { [record[47], record[46]] };
            let extra = u64::from(u16::from_le_bytes(extra));
            if std::io::copy(&mut source.take(extra), &mut std::io::sink()).map_err(|error| error.to_string())? < extra
            {
                return Err("the trace ends in the middle of a record".into());
            }
            self.offset += BLKTRACE_BYTES as u64 + extra;
            let (action, kinds) = (word(28) & 0xffff, word(28) >> KIND_SHIFT);
            let moves_data = kinds & (KIND_READ | KIND_WRITE) != 0 && kinds & (KIND_NOTIFY | KIND_DISCARD) == 0;
            if action != taken.number() || !moves_data || word(24) == 0 {
                continue;
            }
            let sector = long(16);
            let Some(offset) = sector.checked_mul(SECTOR) else {
                return Err(format!("sector {sector} lies beyond what 64 bits can address"));
            };
            let extent = Extent::Bytes { offset, length: u64::from(word(24)) };
            let access = if kinds & KIND_WRITE != 0 { Access::Write } else { Access::Read };
            return Ok(Some(Record { time_ns: long(8), volume: word(36), access, extent }));
        }
    }
}

/// Time in seconds, and object, of a record of oracleGeneral.
#[inline]
fn oracle_record(record: &[u8; ORACLE_BYTES]) -> (u32, u64) {
    let time = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
    let object = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
    (time, object & OBJECT_MASK)
}

/// In nanoseconds.
fn seconds(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000_000_000
}

/// The next `N` bytes; none at the end.
fn take<const N: usize>(source: &mut Source) -> Result<Option<[u8; N]>, String> {
    let mut record = [0; N];
    let mut filled = 0;
    while filled < N {
        match source.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(format!("the trace ends {filled} bytes into a record of {N}")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(Some(record))
}
