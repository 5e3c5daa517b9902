//! Write log: writes and reads a recording in the format of the kernel's dm-log-writes target.
//!
//! ```text
//!   sector 0: magic u64, version u64, entries u64, sector size u32        (little endian, padded to a sector)
//!   then for each entry a sector: sector u64, sectors u64, flags u64, data length u64, text of a mark
//!   then, unless it is a discard, the data
//! ```
//!
//! Like the kernel, this writer logs a write when a FLUSH that covers it has completed, and a FUA write when it has
//! completed. So writes between two FLUSHes may be lost. Onewrite's marks carry the number of a happening. Source:
//! drivers/md/dm-log-writes.c.

use std::collections::BTreeMap;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Cause, Durable, Image, Lpn, Operation, PAGE_SIZE, Page, Request, Token};

use crate::error::CrashError;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const SECTOR: usize = 512;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const MARK_PREFIX: &str = "onewrite ";

/// A write of a recording that waits for the FLUSH that covers it.
struct Waiting<'e> {
    token: Token,
    request: &'e Request,
    is_completed: bool,
    covered_by: Vec<Token>,
}

/// Sectors that an entry is about.
#[derive(Clone, Copy, Debug, Default)]
struct Sectors {
    first: u64,
    count: u64,
}

impl Sectors {
    /// The sectors of `count` pages from `start` on.
    fn of_pages(start: Lpn, count: u64) -> Sectors {
        let per_page = (PAGE_SIZE / SECTOR) as u64;
        Sectors { first: start.0 * per_page, count: count * per_page }
    }
}

/// An entry as read.
struct Entry<'b> {
    /// First byte of the device.
    byte: u64,
    /// Bytes of the device.
    length: u64,
    flags: u64,
    /// Text of a mark.
    text: &'b [u8],
    /// Content of a write.
    data: &'b [u8],
}

struct Writer {
    bytes: Vec<u8>,
    entries: u64,
}

impl Writer {
    fn entry(&mut self, sectors: Sectors, flags: u64, text: &[u8]) {
        let start = self.bytes.len();
        for word in [sectors.first, sectors.count, flags, text.len() as u64] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(text);
        self.bytes.resize(start + SECTOR, 0);
        self.entries += 1;
    }

    fn request(&mut self, request: &Request) {
        match &request.operation {
            Operation::Write { start, pages, durable } => {
                self.entry(Sectors::of_pages(*start, pages.len() as u64), if durable.is_fua() { FUA } else { 0 }, b"");
                pages.iter().for_each(|page| self.bytes.extend_from_slice(&page.bytes()[..]));
            }
            Operation::Trim { start, count } => self.entry(Sectors::of_pages(*start, *count), DISCARD, b""),
            Operation::Flush => self.entry(Sectors::default(), FLUSH, b""),
            // The format has neither. A SHARE cannot be logged; a read need not be.
            Operation::Share(_) | Operation::Read { .. } => (),
        }
    }
}

/// The recording as a write log.
pub(crate) fn written(events: &[RecordedEvent]) -> Vec<u8> {
    let mut writer = Writer { bytes: vec![0; SECTOR], entries: 0 };
    let (mut waiting, mut flushes) = (Vec::<Waiting<'_>>::new(), BTreeMap::new());
    for event in events {
        match event {
            RecordedEvent::Mark(mark) => {
                writer.entry(Sectors::default(), MARK, format!("{MARK_PREFIX}{mark}").as_bytes())
            }
            RecordedEvent::Submitted(token, request) if request.operation == Operation::Flush => {
                flushes.insert(*token, request);
                let completed = waiting.iter_mut().filter(|write| write.is_completed);
                completed.for_each(|write| write.covered_by.push(*token));
            }
            RecordedEvent::Submitted(token, request) => {
                waiting.push(Waiting { token: *token, request, is_completed: false, covered_by: Vec::new() });
            }
            RecordedEvent::Completed(token) => match flushes.remove(token) {
                Some(flush) => {
                    let (covered, rest) = waiting.into_iter().partition(|write| write.covered_by.contains(token));
                    waiting = rest;
                    let covered: Vec<Waiting<'_>> = covered;
                    covered.iter().for_each(|write| writer.request(write.request));
                    writer.request(flush);
                }
                None => complete(&mut writer, &mut waiting, *token),
            },
            RecordedEvent::Failed(token) => drop(flushes.remove(token)),
        }
    }
    waiting.iter().filter(|write| write.is_completed).for_each(|write| writer.request(write.request));
    finish(writer)
}

fn complete(writer: &mut Writer, waiting: &mut Vec<Waiting<'_>>, token: Token) {
    let Some(place) = waiting.iter().rposition(|write| write.token == token && !write.is_completed) else { return };
    match waiting[place].request.operation {
        Operation::Write { durable: Durable::OnCompletion, .. } => writer.request(waiting.remove(place).request),
        _ => waiting[place].is_completed = true,
    }
}

fn finish(mut writer: Writer) -> Vec<u8> {
    for (place, word) in [MAGIC, VERSION, writer.entries].into_iter().enumerate() {
        writer.bytes[place * 8..place * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    writer.bytes[24..28].copy_from_slice(&(SECTOR as u32).to_le_bytes());
    writer.bytes
}

/// Reads a write log of a device whose content was `base` when the log began.
pub(crate) fn read(bytes: &[u8], base: &Image) -> Result<Vec<RecordedEvent>, CrashError> {
    let refuse = |reason: &str| CrashError::WriteLog(reason.into());
    let word = |at: usize| {
        let word = bytes.get(at..at + 8).ok_or_else(|| refuse("it ends in the middle of an entry"))?;
        Ok::<u64, CrashError>(u64::from_le_bytes(word.try_into().expect("eight bytes")))
    };
    if word(0)? != MAGIC || word(8)? != VERSION {
        return Err(refuse("wrong magic number or version"));
    }
    let (entries, sector) = (word(16)?, (word(24)? & 0xffff_ffff) as usize);
    if !matches!(sector, 512..=4096) || !sector.is_power_of_two() {
        return Err(refuse("a sector size of 512 to 4096 is needed"));
    }
    let mut reader = Reader { base, newest: BTreeMap::new(), events: Vec::new(), token: 0 };
    let mut at = sector;
    for _ in 0..entries {
        let (start, count, flags, length) = (word(at)?, word(at + 8)?, word(at + 16)?, word(at + 24)? as usize);
        let too_long = || refuse("an entry reaches beyond the end");
        let text = bytes.get(at + 32..).and_then(|rest| rest.get(..length)).ok_or_else(too_long)?;
        at += sector;
        let data_bytes = if flags & (DISCARD | MARK) == 0 { count } else { 0 }.checked_mul(sector as u64);
        let data_bytes = data_bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_long)?;
        let data = bytes.get(at..).and_then(|rest| rest.get(..data_bytes)).ok_or_else(too_long)?;
        at += data_bytes;
        let byte = start.checked_mul(sector as u64).ok_or_else(too_long)?;
        reader.entry(Entry { byte, length: count.saturating_mul(sector as u64), flags, text, data })?;
    }
    Ok(reader.events)
}

struct Reader<'b> {
    base: &'b Image,
    newest: BTreeMap<Lpn, Page>,
    events: Vec<RecordedEvent>,
    token: u32,
}

impl Reader<'_> {
    fn entry(&mut self, entry: Entry<'_>) -> Result<(), CrashError> {
        let Entry { byte, length, flags, text, data } = entry;
        if flags & MARK != 0 {
            let text = std::str::from_utf8(text).unwrap_or("");
            let mark = text.strip_prefix(MARK_PREFIX).and_then(|number| number.parse().ok());
            self.events.extend(mark.map(RecordedEvent::Mark));
            return Ok(());
        }
        let end = byte.checked_add(length).filter(|end| *end <= self.base.pages() * PAGE_SIZE as u64);
        let end = end.ok_or_else(|| CrashError::WriteLog(format!("{length} bytes at {byte} are beyond the image")))?;
        if flags & FLUSH != 0 {
            self.pass(Request::flush(Cause::Data));
        }
        let first = byte / PAGE_SIZE as u64;
        if flags & DISCARD != 0 {
            let count = end / PAGE_SIZE as u64 - first.min(end / PAGE_SIZE as u64);
            self.pass(Request::trim(Lpn(first), count, Cause::Data));
        } else if !data.is_empty() {
            let pages = self.merged(byte, data);
            let durable = if flags & FUA != 0 { Durable::OnCompletion } else { Durable::AfterFlush };
            self.pass(Request::new(Operation::Write { start: Lpn(first), pages, durable }, Cause::Data));
        }
        Ok(())
    }

    /// The pages of a write; a page that it covers in part keeps the rest of its content.
    fn merged(&mut self, byte: u64, data: &[u8]) -> Vec<Page> {
        let (mut pages, mut done) = (Vec::new(), 0);
        while done < data.len() {
            let at = byte + done as u64;
            let (lpn, offset) = (Lpn(at / PAGE_SIZE as u64), (at % PAGE_SIZE as u64) as usize);
            let part = &data[done..data.len().min(done + PAGE_SIZE - offset)];
            let mut page = self.newest.get(&lpn).unwrap_or_else(|| self.base.page(lpn)).clone();
            page.write(offset, part);
            self.newest.insert(lpn, page.clone());
            pages.push(page);
            done += part.len();
        }
        pages
    }

    fn pass(&mut self, request: Request) {
        self.token += 1;
        let token = Token(self.token);
        self.events.extend([RecordedEvent::Submitted(token, request), RecordedEvent::Completed(token)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(token: u32, lpn: u64, byte: u8, durable: Durable) -> RecordedEvent {
        let pages = vec![Page::new([byte; PAGE_SIZE])];
        let operation = Operation::Write { start: Lpn(lpn), pages, durable };
        RecordedEvent::Submitted(Token(token), Request::new(operation, Cause::Data))
    }

    fn shown(events: &[RecordedEvent]) -> Vec<String> {
        let shown = |event: &RecordedEvent| match event {
            RecordedEvent::Submitted(_, request) => Some(match &request.operation {
                Operation::Write { start, durable, .. } => {
                    format!("{}{}", start.0, if durable.is_fua() { " FUA" } else { "" })
                }
                other => other.name().to_owned(),
            }),
            RecordedEvent::Mark(mark) => Some(format!("mark {mark}")),
            RecordedEvent::Completed(_) | RecordedEvent::Failed(_) => None,
        };
        events.iter().filter_map(shown).collect()
    }

    #[test]
    fn a_flush_stands_behind_what_it_covers_and_before_what_it_does_not() {
        let done = |token| RecordedEvent::Completed(Token(token));
        let flush = RecordedEvent::Submitted(Token(2), Request::flush(Cause::Data));
        let events = [
            write(0, 5, 1, Durable::AfterFlush),
            write(1, 6, 2, Durable::AfterFlush),
            done(0),
            flush,
            done(1),
            done(2),
            RecordedEvent::Mark(7),
            write(3, 9, 3, Durable::OnCompletion),
            done(3),
        ];
        let read = read(&written(&events), &Image::new(16)).unwrap();
        assert_eq!(shown(&read), ["5", "flush", "mark 7", "9 FUA", "6"]);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let image = Image::new(16);
        assert!(read(b"short", &image).is_err());
        let mut bytes = written(&[write(0, 5, 1, Durable::AfterFlush), RecordedEvent::Completed(Token(0))]);
        assert!(read(&bytes, &image).is_ok());
        assert!(read(&bytes, &Image::new(4)).unwrap_err().to_string().contains("beyond the image"));
        bytes.truncate(bytes.len() - 1);
        assert!(read(&bytes, &image).is_err());
    }
}
