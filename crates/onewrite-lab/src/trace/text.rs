//! Text: trace formats with one record on each line.

use std::collections::BTreeMap;

use onewrite_block::PAGE_SIZE;
use onewrite_cache::Access;

use super::action::Action;
use super::field::{self, Problem, SECTOR, access, fields, number, scaled, seconds, shown, volume, words};
use super::parser::Parser;
use super::record::{Extent, Record};

fn bytes(offset: u64, length: u64) -> Extent {
    Extent::Bytes { offset, length }
}

/// Our own format. A first line `op,…` names the columns. Without it their number decides: two are `op,page`, three
/// `op,offset,length`, four `op,offset,length,time`. Times are in nanoseconds.
#[derive(Default)]
pub(super) struct Own {
    columns: Option<OwnColumns>,
}

/// The columns of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OwnColumns {
    count: usize,
    is_page: bool,
}

impl Own {
    /// Header of lines with a page and a time; their number of columns alone does not show this.
    pub(super) const TIMED_PAGES: &str = "op,page,time";
    /// Header of lines with bytes and a time.
    pub(super) const TIMED_BYTES: &str = "op,offset,length,time";
}

impl Parser for Own {
    fn line(&mut self, line: &[u8], _number: u64) -> Result<Option<Record>, Problem> {
        let count = line.iter().filter(|byte| **byte == b',').count() + 1;
        if self.columns.is_none() && line.starts_with(b"op,") {
            if line == Own::TIMED_PAGES.as_bytes() {
                self.columns = Some(OwnColumns { count, is_page: true });
            }
            return Ok(None);
        }
        let columns = *self.columns.get_or_insert(OwnColumns { count, is_page: count == 2 });
        if count != columns.count || !(2..=4).contains(&count) {
            let form = "`r|w,page` or `r|w,offset,length[,time]`, the same on every line";
            return Err(format!("{} has {count} columns; a line is {form}", shown(line)));
        }
        let mut fields = line.split(|byte| *byte == b',');
        let mut next = || fields.next().unwrap_or_default();
        let access = access(next())?;
        let extent = match columns.is_page {
            true => Extent::Page(number(next(), "the page")?),
            false => {
                let offset = number(next(), "the offset")?;
                bytes(offset, number(next(), "the length")?)
            }
        };
        let has_time = count == if columns.is_page { 3 } else { 4 };
        let time_ns = if has_time { number(next(), "the time")? } else { 0 };
        Ok(Some(Record { time_ns, volume: 0, access, extent }))
    }
}

/// The output of `onewrite run --trace`: device requests, in pages of 4 KiB. Flushes, trims, SHARE and the mark where
/// the counters begin are ignored.
pub(super) struct Run;

impl Run {
    /// First line of such a trace.
    pub(super) const HEADER: &str = "submitted_ns,latency_ns,operation,start_page,pages,cause,failed";
}

impl Parser for Run {
    fn line(&mut self, line: &[u8], _number: u64) -> Result<Option<Record>, Problem> {
        if line == Run::HEADER.as_bytes() {
            return Ok(None);
        }
        let [time, _latency, operation, start, count, _cause] = fields(line, b',', Run::HEADER)?;
        let access = match operation {
            b"read" => Access::Read,
            b"write" | b"write-fua" => Access::Write,
            b"flush" | b"trim" | b"share" | b"counters-begin" => return Ok(None),
            other => return Err(format!("{} is no operation of a device", shown(other))),
        };
        let page = PAGE_SIZE as u64;
        let extent = bytes(scaled(start, page, "the first page")?, scaled(count, page, "the number of pages")?);
        Ok(Some(Record { time_ns: number(time, "the time")?, volume: 0, access, extent }))
    }
}

/// MSR Cambridge (SNIA IOTTA 388). The number of the disk is the volume.
pub(super) struct Msr;

impl Parser for Msr {
    fn line(&mut self, line: &[u8], line_number: u64) -> Result<Option<Record>, Problem> {
        const FILETIME_NS: u64 = 100;
        let form = "time,host,disk,Read|Write,offset,size,response";
        if line_number == 1 && line.to_ascii_lowercase().starts_with(b"timestamp,") {
            return Ok(None);
        }
        let [time, _host, disk, operation, offset, length] = fields(line, b',', form)?;
        Ok(Some(Record {
            // Times count from 1601, so the product overflows; only differences matter.
            time_ns: number(time, "the time")?.wrapping_mul(FILETIME_NS),
            volume: volume(disk, "the disk")?,
            access: access(operation)?,
            extent: bytes(number(offset, "the offset")?, number(length, "the size")?),
        }))
    }
}

/// Storage Performance Council's trace file format, revision 1.0.1; it allows further fields.
pub(super) struct Spc;

impl Parser for Spc {
    fn line(&mut self, line: &[u8], _number: u64) -> Result<Option<Record>, Problem> {
        let [unit, sector, length, operation, time] = fields(line, b',', "unit,sector,bytes,r|w,seconds")?;
        Ok(Some(Record {
            time_ns: seconds(time, "the time")?,
            volume: volume(unit, "the storage unit")?,
            access: access(operation)?,
            extent: bytes(scaled(sector, SECTOR, "the sector")?, number(length, "the size")?),
        }))
    }
}

/// blkparse's default output; the trace ends where the summary begins.
pub(super) struct Blkparse {
    action: Action,
    volumes: BTreeMap<Vec<u8>, u32>,
    is_over: bool,
}

impl Blkparse {
    pub(super) fn new(action: Action) -> Blkparse {
        Blkparse { action, volumes: BTreeMap::new(), is_over: false }
    }
}

impl Parser for Blkparse {
    fn line(&mut self, line: &[u8], _number: u64) -> Result<Option<Record>, Problem> {
        self.is_over |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
        if self.is_over || line.starts_with(b"Input file ") {
            return Ok(None);
        }
        let form = "device cpu sequence seconds process action kinds sector + sectors";
        let [device, _cpu, _sequence, time, _process, action, kinds] = words(line, form)?;
        if !device.contains(&b',') {
            return Err(format!("the device is {}, but major,minor is needed", shown(device)));
        }
        let moves_data = kinds.iter().any(|kind| matches!(kind, b'R' | b'W')) && !kinds.contains(&b'D');
        if action != [self.action.letter()] || !moves_data {
            return Ok(None);
        }
        let mut after = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(7);
        let (Some(sector), Some(b"+"), Some(count)) = (after.next(), after.next(), after.next()) else {
            // A flush without data has no sectors.
            return Ok(None);
        };
        let next = self.volumes.len() as u32;
        Ok(Some(Record {
            time_ns: seconds(time, "the time")?,
            volume: *self.volumes.entry(device.to_owned()).or_insert(next),
            access: if kinds.contains(&b'W') { Access::Write } else { Access::Read },
            extent: bytes(scaled(sector, SECTOR, "the sector")?, scaled(count, SECTOR, "the number of sectors")?),
        }))
    }
}

/// fio's iolog: version 2 is `file action [offset length]`; version 3 has a time in microseconds in front. Files are
/// volumes, numbered in the order in which they are added.
#[derive(Default)]
pub(super) struct Fio {
    version: u32,
    files: BTreeMap<Vec<u8>, u32>,
}

impl Fio {
    fn record(&mut self, line: &[u8]) -> Result<Option<Record>, Problem> {
        let parts: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        let (time_ns, parts) = match (self.version, parts.as_slice()) {
            (3, [time, rest @ ..]) => (scaled(time, 1_000, "the time")?, rest),
            (_, parts) => (0, parts),
        };
        let (file, action, place) = match parts {
            [file, action] => (*file, *action, None),
            [file, action, offset, length] => (*file, *action, Some((*offset, *length))),
            _ => return Err(format!("{} is not `file action [offset length]`", shown(line))),
        };
        let next = self.files.len() as u32;
        let volume = *self.files.entry(file.to_owned()).or_insert(next);
        let access = match action {
            b"read" => Access::Read,
            b"write" => Access::Write,
            b"add" | b"open" | b"close" | b"wait" | b"sync" | b"datasync" | b"trim" => return Ok(None),
            other => return Err(format!("{} is no action of an iolog", shown(other))),
        };
        let Some((offset, length)) = place else {
            return Err(format!("{} has no offset and length", shown(line)));
        };
        let extent = bytes(number(offset, "the offset")?, number(length, "the length")?);
        Ok(Some(Record { time_ns, volume, access, extent }))
    }
}

impl Parser for Fio {
    fn line(&mut self, line: &[u8], _number: u64) -> Result<Option<Record>, Problem> {
        if self.version > 0 {
            return self.record(line);
        }
        self.version = match line {
            b"fio version 2 iolog" => 2,
            b"fio version 3 iolog" => 3,
            _ => return Err(format!("{} is not `fio version 2 iolog` or `… 3 iolog`", shown(line))),
        };
        Ok(None)
    }
}

/// MQSim's format with five columns.
pub(super) struct Mqsim;

impl Parser for Mqsim {
    fn line(&mut self, line: &[u8], _number: u64) -> Result<Option<Record>, Problem> {
        let [time, device, sector, count, kind] = words(line, "time device sector sectors 0|1")?;
        let access = match kind {
            b"0" => Access::Write,
            b"1" => Access::Read,
            other => return Err(format!("the type is {}, but 0 (write) or 1 (read) is needed", shown(other))),
        };
        Ok(Some(Record {
            time_ns: number(time, "the time")?,
            volume: volume(device, "the device")?,
            access,
            extent: bytes(scaled(sector, SECTOR, "the sector")?, scaled(count, SECTOR, "the number of sectors")?),
        }))
    }
}

/// Alibaba Cloud block traces (Li et al., IISWC 2020).
pub(super) struct Alibaba;

impl Parser for Alibaba {
    fn line(&mut self, line: &[u8], line_number: u64) -> Result<Option<Record>, Problem> {
        if line_number == 1 && line.starts_with(b"device_id") {
            return Ok(None);
        }
        let [device, operation, offset, length, time] = fields(line, b',', "device,R|W,offset,length,time")?;
        Ok(Some(Record {
            time_ns: scaled(time, 1_000, "the time")?,
            volume: volume(device, "the device")?,
            access: access(operation)?,
            extent: bytes(number(offset, "the offset")?, number(length, "the length")?),
        }))
    }
}

/// Tencent Cloud block storage traces (Zhang et al., USENIX ATC 2020; SNIA IOTTA 27917).
pub(super) struct Tencent;

impl Parser for Tencent {
    fn line(&mut self, line: &[u8], line_number: u64) -> Result<Option<Record>, Problem> {
        if line_number == 1 && line.to_ascii_lowercase().starts_with(b"timestamp,") {
            return Ok(None);
        }
        let [time, sector, count, kind, id] = fields(line, b',', "time,sector,sectors,0|1,volume")?;
        let access = match kind.trim_ascii() {
            b"0" => Access::Read,
            b"1" => Access::Write,
            other => return Err(format!("the type is {}, but 0 (read) or 1 (write) is needed", shown(other))),
        };
        Ok(Some(Record {
            time_ns: field::seconds(time, "the time")?,
            volume: volume(id, "the volume")?,
            access,
            extent: bytes(scaled(sector, SECTOR, "the sector")?, scaled(count, SECTOR, "the number of sectors")?),
        }))
    }
}
