//! The file disk with scripted carriers, and the real carriers at their limits.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Cause, Lpn, Page, Remap};
use rustix::io::Errno;

use super::*;

fn scratch(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("onewrite-file-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn page(byte: u8) -> Page {
    Page::from_slice(&[byte; PAGE_SIZE])
}

fn write(lpn: u64, byte: u8) -> Request {
    Request::write(Lpn(lpn), vec![page(byte)], Cause::Data)
}

/// Given work, until a test ends it.
#[derive(Clone, Default)]
struct Script(Rc<RefCell<Given>>);

#[derive(Default)]
struct Given {
    under_way: Vec<(usize, Work)>,
    ended: Vec<Ended>,
}

impl Script {
    /// The names of work under way, in the order in which it was given.
    fn under_way(&self) -> Vec<&'static str> {
        self.0.borrow().under_way.iter().map(|(_, work)| work.name()).collect()
    }

    fn end(&self, index: usize, result: io::Result<()>) {
        let mut given = self.0.borrow_mut();
        let (number, work) = given.under_way.remove(index);
        given.ended.push(Ended { number, work, result });
    }
}

impl Carrier for Script {
    fn give(&mut self, number: usize, work: Work) -> Option<Ended> {
        self.0.borrow_mut().under_way.push((number, work));
        None
    }

    fn collect(&mut self, ended: &mut Vec<Ended>) {
        ended.append(&mut self.0.borrow_mut().ended);
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn finish(&mut self, ended: &mut Vec<Ended>) {
        while !self.under_way().is_empty() {
            self.end(0, Err(Errno::IO.into()));
        }
        self.collect(ended);
    }
}

/// A disk of 16 pages; the script ends its requests.
struct Told {
    disk: FileDisk,
    script: Script,
    path: std::path::PathBuf,
}

impl Told {
    fn new(name: &str) -> Told {
        let path = scratch(name);
        let mut disk = FileDisk::create(&path, 16 * PAGE_SIZE as u64).unwrap();
        let script = Script::default();
        disk.carrier = Box::new(script.clone());
        Told { disk, script, path }
    }

    fn submit(&mut self, requests: impl IntoIterator<Item = Request>) {
        (0..).zip(requests).for_each(|(token, request)| self.disk.submit(Token(token), request, Nanos::ZERO));
    }

    /// The completions: the token, and whether the request succeeded.
    fn completed(&mut self) -> Vec<(u32, bool)> {
        let mut completed = Vec::new();
        self.disk.advance(Nanos::ZERO, &mut completed);
        completed.iter().map(|completion| (completion.token.0, completion.outcome.is_ok())).collect()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn after_a_failed_flush_what_has_not_begun_fails_and_what_is_under_way_ends() {
    let mut told = Told::new("lost");
    let read = Request::read(Lpn(1), 1, Cause::Data);
    // 0 and 1 are under way with 2. 3 and 4 wait for 2; 5 waits for 0, and 6 for 1.
    let flush = || Request::flush(Cause::Data);
    told.submit([write(0, 1), write(1, 1), flush(), flush(), flush(), write(0, 2), read]);
    assert_eq!(told.script.under_way(), ["write", "write", "flush"]);
    told.script.end(2, Err(Errno::IO.into()));
    assert_eq!(told.completed(), [(2, false), (3, false), (4, false)]);
    told.script.end(0, Ok(()));
    told.script.end(0, Ok(()));
    assert_eq!(told.completed(), [(0, true), (1, true), (5, false)]);
    assert_eq!(told.script.under_way(), ["read"], "it can still be read");
    told.script.end(0, Ok(()));
    assert_eq!(told.completed(), [(6, true)]);
    assert_eq!(told.disk.next_event(), NextEvent::Idle);
    let trim = Request::trim(Lpn(3), 1, Cause::Data);
    told.submit([write(9, 1), trim, flush()]);
    assert_eq!(told.disk.next_event(), NextEvent::At(Nanos::ZERO));
    assert_eq!(told.completed(), [(0, false), (1, false), (2, false)]);
}

#[test]
fn a_failed_share_ends_all_changes() {
    let mut told = Told::new("lost-share");
    (told.disk.geometry.share_pairs_max, told.disk.geometry.share_refusal) = (4, None);
    let share = || Request::share(vec![Remap { target: Lpn(1), source: Lpn(2) }], Cause::Data);
    told.submit([share()]);
    assert_eq!(told.script.under_way(), ["share"]);
    told.script.end(0, Err(Errno::IO.into()));
    assert_eq!(told.completed(), [(0, false)]);
    told.submit([write(0, 1), Request::flush(Cause::Data), share()]);
    assert_eq!(told.completed(), [(0, false), (1, false), (2, false)]);
}

#[test]
fn a_failed_write_is_told_and_stops_nothing() {
    let mut told = Told::new("failed-write");
    told.submit([write(0, 1), write(1, 1)]);
    assert_eq!(told.disk.next_event(), NextEvent::Unknown);
    told.script.end(0, Err(Errno::NOSPC.into()));
    let mut completed = Vec::new();
    told.disk.advance(Nanos::ZERO, &mut completed);
    let Err(DeviceError::Host { operation: "write", message, .. }) = &completed[0].outcome else { panic!() };
    assert!(message.contains("No space left"), "{message}");
    told.submit([Request::flush(Cause::Data)]);
    assert_eq!(told.script.under_way(), ["write", "flush"]);
}

#[test]
fn a_flush_begun_before_others_came_does_not_cover_for_them() {
    let mut told = Told::new("flushes");
    told.submit([Request::flush(Cause::Data), Request::flush(Cause::Data), Request::flush(Cause::Data)]);
    assert_eq!(told.script.under_way(), ["flush"]);
    told.script.end(0, Ok(()));
    assert_eq!(told.completed(), [(0, true)]);
    assert_eq!(told.script.under_way(), ["flush"], "one for both that waited");
    told.script.end(0, Ok(()));
    assert_eq!(told.completed(), [(1, true), (2, true)]);
    assert_eq!(told.disk.counters().flushes, 2, "those that the disk did");
}

#[test]
fn a_flush_that_fails_between_two_runs_is_remembered() {
    let mut told = Told::new("between");
    told.submit([Request::flush(Cause::Data), write(1, 1)]);
    told.disk.attached(None);
    assert_eq!((told.disk.next_event(), told.completed()), (NextEvent::Idle, vec![]));
    told.submit([write(1, 1)]);
    assert_eq!(told.completed(), [(0, false)]);
}

#[test]
fn a_flush_fails_once_others_made_the_file_shorter_be_it_by_a_byte() {
    for (name, missing) in [("by-a-byte", 1), ("by-a-page", PAGE_SIZE as u64)] {
        let mut told = Told::new(name);
        told.disk.file.set_len(16 * PAGE_SIZE as u64 - missing).unwrap();
        told.submit([Request::flush(Cause::Data)]);
        told.script.end(0, Ok(()));
        assert_eq!(told.completed(), [(0, false)], "{name}");
        told.submit([write(1, 1)]);
        assert_eq!(told.completed(), [(0, false)], "{name}");
    }
}

/// Says that a test of the ring did nothing.
pub(super) fn skipped(test: &str, reason: &str) {
    onewrite_testing::skipped!("{test}: the kernel refuses io_uring: {reason}");
}

/// Carriers that work beside the run, on a file of 64 pages of the byte 7: threads, and rings of few and many places.
fn carriers(name: &str, mut judge: impl FnMut(&str, Box<dyn Carrier>, &Arc<File>)) {
    let bell = Bell::new().unwrap();
    for (kind, entries) in [("threads", 0), ("ring", 1), ("ring", 2), ("ring", 64)] {
        let path = scratch(&format!("{name}-{kind}-{entries}"));
        std::fs::write(&path, vec![7; 64 * PAGE_SIZE]).unwrap();
        let file = Arc::new(File::options().read(true).write(true).open(&path).unwrap());
        match (kind, Ring::new(&file, &bell, entries)) {
            ("threads", _) => judge(kind, Box::new(Threads::new(&file, &bell, 3)), &file),
            (_, Ok(ring)) => judge(&format!("{kind} {entries}"), Box::new(ring), &file),
            (_, Err(error)) => skipped(name, &error.to_string()),
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn more_work_than_places_is_carried_out() {
    carriers("places", |kind, mut carrier, file| {
        let mut ended = Vec::new();
        for lpn in 0..64 {
            let work = Work::write(Lpn(lpn), &[page(lpn as u8)], Alignment::Any);
            assert!(carrier.give(lpn as usize, work).is_none());
        }
        carrier.collect(&mut ended);
        carrier.finish(&mut ended);
        assert!(ended.iter().all(|ended| ended.result.is_ok()), "{kind}: {ended:?}");
        let mut numbers: Vec<_> = ended.iter().map(|ended| ended.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..64).collect::<Vec<_>>(), "{kind}");
        let mut all = Work::read(Lpn(0), 64, Alignment::Any);
        all.carry_out(file).unwrap();
        let Work::Read(all) = all else { unreachable!() };
        assert_eq!(all.pages(), (0..64).map(page).collect::<Vec<_>>(), "{kind}");
    });
}

#[test]
fn every_kind_of_work_ends_as_blocking_calls_end_it() {
    carriers("kinds", |kind, mut carrier, file| {
        let last = Work::read(Lpn(63), 2, Alignment::Any);
        let beyond = Work::read(Lpn(64), 1, Alignment::Any);
        let trim = |count| Work::Trim(Extent::of_pages(Lpn(3), count));
        for (number, work) in [Work::Flush, trim(2), trim(0), last, beyond].into_iter().enumerate() {
            let mut ended = Vec::from_iter(carrier.give(number, work));
            carrier.finish(&mut ended);
            let [Ended { number: told, work, result }] = &ended[..] else { panic!("{kind}: {ended:?}") };
            assert_eq!((*told, result.is_ok()), (number, number < 3), "{kind}: {work:?} {result:?}");
        }
        let mut trimmed = Work::read(Lpn(2), 4, Alignment::Any);
        trimmed.carry_out(file).unwrap();
        let Work::Read(trimmed) = trimmed else { unreachable!() };
        assert_eq!(trimmed.pages(), [page(7), Page::ZEROS, Page::ZEROS, page(7)], "{kind}");
    });
}

#[test]
fn a_carrier_that_is_dropped_waits_for_what_is_under_way() {
    carriers("dropped", |kind, mut carrier, file| {
        for number in 0..32 {
            let work = Work::write(Lpn(number as u64 * 2), &[page(1), page(1)], Alignment::Any);
            carrier.give(number, work);
        }
        carrier.collect(&mut Vec::new());
        drop(carrier);
        let mut all = Work::read(Lpn(0), 64, Alignment::Any);
        all.carry_out(file).unwrap();
        let Work::Read(all) = all else { unreachable!() };
        let is_torn = |pair: &[Page]| pair[0] != pair[1] || ![page(1), page(7)].contains(&pair[0]);
        assert!(!all.pages().chunks(2).any(is_torn), "{kind}");
    });
}
