//! Columns: reads any table as a trace, by a map of its columns.
//!
//! `op=2,write=W,offset=4*512,length=5,time=1*1000,volume=3,separator=;,skip=1` means: the operation is in column 2,
//! where `W` is a write and anything else a read; the offset is in column 4, in units of 512 bytes; and so on. Columns
//! count from one. `op` is required, and so is `offset` or `page` (a page number). Without `length` a record has one
//! byte, which is one page. `time` is in nanoseconds times its factor. The first `skip` lines are ignored.

use std::str::FromStr;

use onewrite_cache::Access;

use super::field::{self, Problem};
use super::parser::Parser;
use super::record::{Extent, Record};

/// Index of a column, from zero, and the factor of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    index: usize,
    factor: u64,
}

impl Column {
    fn of(self, fields: &[&[u8]], name: &str) -> Result<u64, Problem> {
        match fields.get(self.index) {
            Some(field) => field::scaled(field, self.factor, name),
            None => Err(format!("there are {} columns; {name} should be in column {}", fields.len(), self.index + 1)),
        }
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let (index, factor) = text.split_once('*').unwrap_or((text, "1"));
        let refuse = || format!("`{text}` is no column; write its number, from 1, or number*factor");
        let index: usize = index.parse().map_err(|_| refuse())?;
        let factor = factor.parse().ok().filter(|factor| *factor > 0).ok_or_else(refuse)?;
        Ok(Column { index: index.checked_sub(1).ok_or_else(refuse)?, factor })
    }
}

/// A map of columns; the module's head has its syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    operation: usize,
    write: Option<String>,
    offset: Option<Column>,
    page: Option<Column>,
    length: Option<Column>,
    time: Option<Column>,
    volume: Option<Column>,
    /// Separator of the columns; none for blanks.
    separator: Option<u8>,
    skip: u64,
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let (operation, separator) = (usize::MAX, Some(b','));
        let (write, offset, page, length, time, volume) = (None, None, None, None, None, None);
        let mut columns = Columns { operation, write, offset, page, length, time, volume, separator, skip: 0 };
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("`{part}` in the column map should be key=value"));
            };
            columns.set(key, value)?;
        }
        if operation == columns.operation || columns.offset.is_some() == columns.page.is_some() {
            return Err(format!("the column map `{text}` needs op=… and one of offset=… and page=…"));
        }
        Ok(columns)
    }
}

impl Columns {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "op" => self.operation = value.parse::<Column>()?.index,
            "write" => self.write = Some(value.to_owned()),
            "offset" => self.offset = Some(value.parse()?),
            "page" => self.page = Some(value.parse()?),
            "length" => self.length = Some(value.parse()?),
            "time" => self.time = Some(value.parse()?),
            "volume" => self.volume = Some(value.parse()?),
            "skip" => self.skip = field::number(value.as_bytes(), "skip")?,
            "separator" => {
                self.separator = match value.as_bytes() {
                    b"blank" => None,
                    b"comma" => Some(b','),
                    b"tab" => Some(b'\t'),
                    [byte] => Some(*byte),
                    _ => return Err(format!("`{value}` is no separator; take one character, tab, comma or blank")),
                }
            }
            _ => {
                let known = "op, write, offset, page, length, time, volume, separator, skip";
                return Err(format!("`{key}` is no key of a column map; there are {known}"));
            }
        }
        Ok(())
    }

    fn access(&self, fields: &[&[u8]]) -> Result<Access, Problem> {
        let Some(word) = fields.get(self.operation).map(|word| word.trim_ascii()) else {
            let place = self.operation + 1;
            return Err(format!("there are {} columns; the operation should be in column {place}", fields.len()));
        };
        match &self.write {
            Some(write) if word == write.as_bytes() => Ok(Access::Write),
            Some(_) => Ok(Access::Read),
            None => field::access(word),
        }
    }
}

impl Parser for Columns {
    fn line(&mut self, line: &[u8], number: u64) -> Result<Option<Record>, Problem> {
        if number <= self.skip {
            return Ok(None);
        }
        let fields: Vec<&[u8]> = match self.separator {
            Some(separator) => line.split(|byte| *byte == separator).collect(),
            None => line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect(),
        };
        let number = |column: Option<Column>, name, without| column.map_or(Ok(without), |at| at.of(&fields, name));
        let extent = match self.page {
            Some(page) => Extent::Page(page.of(&fields, "the page")?),
            None => Extent::Bytes {
                offset: number(self.offset, "the offset", 0)?,
                length: number(self.length, "the length", 1)?,
            },
        };
        let volume = number(self.volume, "the volume", 0)?;
        Ok(Some(Record {
            time_ns: number(self.time, "the time", 0)?,
            volume: u32::try_from(volume).map_err(|_| format!("the volume is {volume}; 32 bits number them"))?,
            access: self.access(&fields)?,
            extent,
        }))
    }
}
