//! Summary: the figures of a trace, in the columns of the dissertation's table 2-2.

use std::collections::BTreeMap;

use onewrite_cache::PageRequest;
use serde::Serialize;

use super::Trace;
use super::page_set::PageSet;
use super::pages::VOLUME_PAGES;
use crate::error::LabError;

/// Page requests between two calls of `watch`.
const CHUNK: usize = 1 << 16;

/// The figures of a trace. Bytes are whole pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Records of the trace, of any length.
    pub records: u64,
    /// Records that write.
    pub write_records: u64,
    /// Time from the earliest record to the latest; none if the trace has no times.
    pub duration_seconds: Option<f64>,
    /// Page requests: pages read and written.
    pub requests: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes from the lowest to the highest page written: the write range of table 2-2. It cannot be the bytes of
    /// different pages, because the server workloads write less than their range. With several volumes it is the sum of
    /// their ranges.
    pub write_range_bytes: u64,
    /// Bytes of different pages written.
    pub write_footprint_bytes: u64,
    /// Bytes of different pages read or written.
    pub footprint_bytes: u64,
    /// The lowest page; none if there is no request.
    pub first_page: Option<u64>,
    /// The highest page.
    pub last_page: Option<u64>,
}

/// Reads a whole trace and calls `watch` for each batch. Memory grows by at most 80 bytes for each different page, and
/// by less than one where pages lie together.
///
/// # Errors
/// As [`Trace::next_record`].
pub fn summarise(trace: &mut Trace, page_bytes: u64, mut watch: impl FnMut(&Trace)) -> Result<Summary, LabError> {
    let (mut written, mut touched) = (PageSet::default(), PageSet::default());
    let (mut writes, mut reads) = (0, 0);
    let (mut range, mut written_ranges) = (None, BTreeMap::new());
    let mut pages: Vec<PageRequest> = Vec::new();
    let mut goes_on = true;
    while goes_on {
        pages.clear();
        goes_on = trace.next_pages(page_bytes, CHUNK, &mut pages)?;
        for request in &pages {
            let page = request.page();
            *(if request.is_write() { &mut writes } else { &mut reads }) += 1;
            touched.insert(page);
            widen(&mut range, page);
            if request.is_write() {
                written.insert(page);
                widen(written_ranges.entry(page / VOLUME_PAGES).or_default(), page);
            }
        }
        watch(trace);
    }
    let seen = trace.seen();
    Ok(Summary {
        page_bytes,
        records: seen.reads + seen.writes,
        write_records: seen.writes,
        duration_seconds: seen.duration_ns().map(|span| span as f64 / 1e9),
        requests: reads + writes,
        reads,
        writes,
        read_bytes: reads * page_bytes,
        write_bytes: writes * page_bytes,
        write_range_bytes: write_range(&written_ranges, seen.has_volumes) * page_bytes,
        write_footprint_bytes: written.count() * page_bytes,
        footprint_bytes: touched.count() * page_bytes,
        first_page: range.map(|range| range.first),
        last_page: range.map(|range| range.last),
    })
}

/// The lowest and the highest of some pages.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    fn and(self, other: Span) -> Span {
        Span { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Pages from the first to the last.
    fn pages(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Pages from the lowest to the highest of all `ranges`. If the ranges are volumes, the sum over them, because nothing
/// lies between volumes.
fn write_range(ranges: &BTreeMap<u64, Option<Span>>, are_volumes: bool) -> u64 {
    let ranges = ranges.values().flatten().copied();
    match are_volumes {
        true => ranges.map(Span::pages).sum(),
        false => ranges.reduce(Span::and).map_or(0, Span::pages),
    }
}

/// Extends a range so that it holds `page`.
fn widen(range: &mut Option<Span>, page: u64) {
    let page = Span { first: page, last: page };
    *range = Some(range.map_or(page, |range| range.and(page)));
}
