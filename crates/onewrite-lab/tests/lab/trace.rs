//! Traces of every format: each one gives the same records, and errors name the place.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use onewrite_cache::{Access, PageRequest};
use onewrite_lab::error::LabError;
use onewrite_lab::trace::{
    Action, Drawing, Extent, Format, Record, Trace, TraceOptions, TraceWriter, VOLUME_PAGES, WriteFormat, draw,
    summarise,
};
use onewrite_testing::skipped;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A file that is removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str, content: &[u8]) -> Scratch {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("onewrite-trace-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        Scratch(path)
    }

    pub fn beside(&self, name: &str) -> PathBuf {
        self.0.with_file_name(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.0.parent().unwrap()).unwrap();
    }
}

fn all(path: &Path, options: &TraceOptions) -> Result<(Vec<Record>, String), LabError> {
    let mut trace = Trace::open(path, options)?;
    let mut records = Vec::new();
    while let Some(record) = trace.next_record()? {
        records.push(record);
    }
    Ok((records, trace.format().to_string()))
}

fn read(name: &str, content: &[u8]) -> Result<(Vec<Record>, String), LabError> {
    all(&Scratch::new(name, content).0, &TraceOptions::default())
}

fn bytes(access: Access, offset: u64, length: u64) -> (Access, Extent) {
    (access, Extent::Bytes { offset, length })
}

/// The records of every trace below: a write of 8 KiB at 4096, a read of 512 bytes at 1 MiB.
fn expected() -> [(Access, Extent); 2] {
    [bytes(Access::Write, 4096, 8192), bytes(Access::Read, 1 << 20, 512)]
}

/// Name of the format, a trace, and the nanoseconds between its two records.
const SAME: [(&str, &str, u64); 10] = [
    ("own", "op,offset,length,time\nw,4096,8192,7\nr,1048576,512,1007\n", 1_000),
    ("own", "op,offset,length\n# a comment\nw,4096,8192\n\nr,1048576,512\n", 0),
    ("msr", "128166372003061629,usr,0,Write,4096,8192,41286\n128166372003061639,usr,0,Read,1048576,512,9\n", 1_000),
    ("spc", "0,8,8192,W,0.551706,x\n0,2048,512,r,0.551707\n", 1_000),
    ("mqsim", "5000 0 8 16 0\n6000 0 2048 1 1\n", 1_000),
    ("alibaba", "0,W,4096,8192,1577808000000038\n0,R,1048576,512,1577808000000039\n", 1_000),
    ("tencent", "1538323200,8,16,1,0\n1538323201,2048,1,0,0\n", 1_000_000_000),
    ("fio", "fio version 2 iolog\n/f add\n/f open\n/f write 4096 8192\n/f read 1048576 512\n/f close\n", 0),
    ("fio", "fio version 3 iolog\n3 /f add\n5 /f write 4096 8192\n6 /f read 1048576 512\n9 /f close\n", 1_000),
    (
        "blkparse",
        "  8,0    3        1     0.000001000   697  Q  WS 8 + 16 [fio]\n\
         \x20 8,0    3        2     0.000001500   697  G  WS 8 + 16 [fio]\n\
         \x20 8,0    3        3     0.000001600   697  Q FWS [fio]\n\
         \x20 8,0    1        4     0.000001700     0  Q   D 64 + 128 [fstrim]\n\
         \x20 8,0    1        5     0.000002000   698  Q   R 2048 + 1 [a b]\n\
         CPU0 (8,0):\n Reads Queued:           1,        0KiB\n",
        1_000,
    ),
];

#[test]
fn every_text_format_is_told_by_its_lines_and_says_the_same() {
    for (name, text, apart) in SAME {
        let (records, format) = read("trace", text.as_bytes()).unwrap();
        let found: Vec<_> = records.iter().map(|record| (record.access, record.extent)).collect();
        assert_eq!((format.as_str(), found), (name, expected().to_vec()));
        assert_eq!(records[1].time_ns.wrapping_sub(records[0].time_ns), apart, "{name}");
    }
}

#[test]
fn compressed_traces_are_read_as_they_are() {
    for (name, text, _) in SAME {
        let (half, rest) = text.as_bytes().split_at(text.len() / 2);
        let mut gzip = Vec::new();
        for part in [half, rest] {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(part).unwrap();
            gzip.extend(encoder.finish().unwrap());
        }
        let zstd = zstd::encode_all(text.as_bytes(), 3).unwrap();
        let plain = read("trace", text.as_bytes()).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 3);
        xz.write_all(text.as_bytes()).unwrap();
        assert_eq!(read("trace.xz", &xz.finish().unwrap()).unwrap(), plain, "{name}: xz");
        assert_eq!(read("trace.gz", &gzip).unwrap(), plain, "{name}: gzip in two members");
        assert_eq!(read("trace.zst", &zstd).unwrap(), plain, "{name}");
    }
}

#[test]
fn a_trace_of_our_own_runs_is_read() {
    let text = "submitted_ns,latency_ns,operation,start_page,pages,cause,failed\n\
                5,9,write-fua,1,2,journal,false\n6,1,flush,0,0,data,false\n7,1,read,256,1,data,false\n";
    let (records, format) = read("trace", text.as_bytes()).unwrap();
    let found: Vec<_> = records.iter().map(|record| (record.access, record.extent)).collect();
    assert_eq!(
        (format.as_str(), found),
        ("run", vec![bytes(Access::Write, 4096, 8192), bytes(Access::Read, 1 << 20, 4096)])
    );
}

#[test]
fn a_page_column_is_a_page_of_whatever_size() {
    let trace = Scratch::new("own.csv", b"w,3\nr,0\n");
    let mut pages = Vec::new();
    Trace::open(&trace.0, &TraceOptions::default()).unwrap().next_pages(8192, 10, &mut pages).unwrap();
    assert_eq!(pages, [PageRequest::write(3), PageRequest::read(0)]);
}

#[test]
fn records_are_cut_where_pages_end() {
    let trace = Scratch::new("own.csv", b"w,4095,2\nr,8192,8192\nr,5,0\n");
    let mut pages = Vec::new();
    Trace::open(&trace.0, &TraceOptions::default()).unwrap().next_pages(4096, 10, &mut pages).unwrap();
    assert_eq!(
        pages,
        [0, 1].map(PageRequest::write).into_iter().chain([2, 3].map(PageRequest::read)).collect::<Vec<_>>()
    );
}

#[test]
fn any_table_is_read_by_a_map_of_its_columns() {
    let map = "op=2,write=PUT,offset=4*512,length=5*512,time=1*1000,volume=3,separator=;,skip=1";
    let format = format!("columns:{map}").parse::<Format>().unwrap();
    let table = Scratch::new("table", b"time;what;disk;sector;count\n7;PUT;2;8;16\n8;GET;2;2048;1\n");
    let options = TraceOptions { format: Some(format), ..TraceOptions::default() };
    let (records, _) = all(&table.0, &options).unwrap();
    let found: Vec<_> = records.iter().map(|record| (record.access, record.extent)).collect();
    assert_eq!(found, expected());
    assert_eq!((records[0].time_ns, records[0].volume), (7_000, 2));
}

#[test]
fn a_map_that_cannot_be_is_refused() {
    for (map, word) in [
        ("op=2", "needs op=… and one of"),
        ("offset=1", "needs op=…"),
        ("op=1,offset=0", "from 1"),
        ("op=1,offset=2*0", "factor"),
        ("op=1,offset=2,what=3", "no key"),
        ("op", "key=value"),
        ("op=1,page=2,separator=ab", "no separator"),
    ] {
        let error = format!("columns:{map}").parse::<Format>().unwrap_err();
        assert!(error.contains(word), "{map}: {error}");
    }
}

#[test]
fn an_error_names_the_line_and_what_would_be_right() {
    for (text, line, word) in [
        ("r,1\nx,2\n", 2, "r or w is needed"),
        ("r,1\nr,2,3\n", 2, "the same on every line"),
        ("op,page,time\nr,1,2\nr,2\n", 3, "the same on every line"),
        ("# c\n\nr,1\nw,-1\n", 4, "whole number"),
        ("r,1\nw,99999999999999999999\n", 2, "64 bits"),
        ("1,usr,0,Write,4096,8192,41286\n1,usr,0,Wri,4096,8192,1\n", 2, "r or w"),
        ("1,usr,0,Write,4096,8192,41286\n1,usr,0\n", 2, "3 fields"),
        ("5 0 8 16 0\n5 0 8 16 2\n", 2, "0 (write) or 1 (read)"),
        ("5 0 8 16 0\n5 0 99999999999999999 16 1\n", 2, "times 512"),
        ("0,8,8192,W,0.5\n0,8,8192,W,0.x\n", 2, "seconds"),
        ("fio version 3 iolog\n1 /f add\n2 /f write 4096\n", 3, "offset length"),
        ("fio version 3 iolog\n1 /f add\n2 /f frob 4096 1\n", 3, "no action"),
        ("fio version 7 iolog\n", 1, "version 2"),
        ("hello\n", 1, "--format"),
    ] {
        let error = read("trace", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}: ")) && error.contains(word), "{text:?}: {error}");
    }
}

#[test]
fn addresses_past_all_bounds_are_refused_with_their_line() {
    for (text, word) in [
        ("r,0,1\nr,18446744073709551615,2\n", "beyond what 64 bits"),
        ("r,0,1\nr,0,18446744073709551615\n", "are believed"),
        ("1 0 0 8 1\n1 7 9007199254740992 8 1\n", "--volume"),
    ] {
        let trace = Scratch::new("trace", text.as_bytes());
        let mut open = Trace::open(&trace.0, &TraceOptions::default()).unwrap();
        let error = open.next_pages(4096, 10, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("line 2: ") && error.contains(word), "{error}");
    }
}

#[test]
fn volumes_lie_side_by_side_or_one_is_taken() {
    let trace = Scratch::new("trace", b"1 0 0 8 1\n1 3 0 8 0\n");
    let pages = |volume| {
        let mut pages = Vec::new();
        let options = TraceOptions { volume, ..TraceOptions::default() };
        Trace::open(&trace.0, &options).unwrap().next_pages(4096, 10, &mut pages).unwrap();
        pages
    };
    assert_eq!(pages(None), [PageRequest::read(0), PageRequest::write(3 * VOLUME_PAGES)]);
    assert_eq!(pages(Some(0)), [PageRequest::read(0)]);
}

/// A record of blktrace with two bytes after it.
fn blktrace(is_little: bool, sector: u64, length: u32, action: u32) -> Vec<u8> {
    let word = |value: u32| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
    let long = |value: u64| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
    let half = |value: u16| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
    let mut record = Vec::new();
    record.extend(word(0x6561_7407));
    record.extend(word(1));
    record.extend(long(1_000));
    record.extend(long(sector));
    [length, action, 77, 0x0080_0000, 0].into_iter().for_each(|value| record.extend(word(value)));
    [0, 2].into_iter().for_each(|value| record.extend(half(value)));
    record.extend(b"xy");
    record
}

const QUEUED: u32 = 1;
const ISSUED: u32 = 7;
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const DISCARD: u32 = 1 << 29;
const NOTIFY: u32 = 1 << 26;

fn blktrace_file(is_little: bool) -> Vec<u8> {
    let records = [
        (0, 0, NOTIFY),
        (8, 8192, QUEUED | WRITE),
        (8, 8192, ISSUED | WRITE),
        (64, 4096, QUEUED | WRITE | DISCARD),
        (2048, 512, QUEUED | READ),
    ];
    records.into_iter().flat_map(|(sector, length, action)| blktrace(is_little, sector, length, action)).collect()
}

#[test]
fn blktrace_is_read_on_either_kind_of_machine() {
    for is_little in [true, false] {
        let (records, format) = read("trace.blktrace.0", &blktrace_file(is_little)).unwrap();
        let found: Vec<_> = records.iter().map(|record| (record.access, record.extent)).collect();
        assert_eq!((format.as_str(), found), ("blktrace", expected().to_vec()));
    }
    let file = Scratch::new("trace", &blktrace_file(true));
    let options = TraceOptions { action: Some(Action::Issued), ..TraceOptions::default() };
    assert_eq!(all(&file.0, &options).unwrap().0.len(), 1);
}

/// The format's own tool reads the same records.
#[test]
fn blkparse_agrees_on_a_binary_trace() {
    let file = Scratch::new("trace.blktrace.0", &blktrace_file(true));
    let run = Command::new("blkparse").args(["-q", "-i", "trace"]).current_dir(file.0.parent().unwrap()).output();
    let Ok(output) = run else {
        skipped!("blkparse is not installed (Debian package blktrace)");
        return;
    };
    let text = Scratch::new("text", &output.stdout);
    let options = TraceOptions { format: Some(Format::Blkparse), ..TraceOptions::default() };
    let of_text: Vec<_> =
        all(&text.0, &options).unwrap().0.iter().map(|record| (record.access, record.extent)).collect();
    assert_eq!(of_text, expected(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// fio logs its own accesses; the reader must return the accesses that fio reports.
#[test]
fn a_log_that_fio_wrote_is_read() {
    let job =
        Scratch::new("job.fio", b"[j]\nfilename=data\nsize=256k\nbs=4k\nrw=randrw\nioengine=psync\nwrite_iolog=log\n");
    let mut fio = Command::new("fio");
    let run = fio.args(["job.fio", "--output-format=json"]).current_dir(job.0.parent().unwrap()).output();
    let Ok(output) = run else {
        skipped!("fio is not installed");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (records, format) = all(&job.beside("log"), &TraceOptions::default()).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let count = |side: &str| json["jobs"][0][side]["total_ios"].as_u64().unwrap();
    let writes = records.iter().filter(|record| record.access == Access::Write).count() as u64;
    assert_eq!((format.as_str(), writes, records.len() as u64 - writes), ("fio", count("write"), count("read")));
    assert!(records.iter().all(|record| matches!(record.extent, Extent::Bytes { length: 4096, .. })));
}

#[test]
fn a_binary_trace_that_ends_early_names_the_byte() {
    let mut file = blktrace_file(true);
    file.truncate(60);
    let error = read("t.blktrace.0", &file).unwrap_err().to_string();
    assert!(error.contains("byte 50: ") && error.contains("10 bytes into a record"), "{error}");
    let error = read("t.oracleGeneral", &[0; 30]).unwrap_err().to_string();
    assert!(error.contains("byte 24: "), "{error}");
}

#[test]
fn an_object_of_oracle_general_is_a_page_that_is_read() {
    let mut file = Vec::new();
    for object in [5_u64, 7, 5] {
        file.extend(9_u32.to_le_bytes());
        file.extend(object.to_le_bytes());
        file.extend(100_u32.to_le_bytes());
        file.extend((-1_i64).to_le_bytes());
    }
    let (records, format) = read("x.oracleGeneral.zst", &zstd::encode_all(&file[..], 1).unwrap()).unwrap();
    let found: Vec<_> = records.iter().map(|record| (record.access, record.extent)).collect();
    assert_eq!(
        (format.as_str(), found),
        ("oracle-general", [5, 7, 5].map(|page| (Access::Read, Extent::Page(page))).to_vec())
    );
    assert_eq!(records[0].time_ns, 9_000_000_000);
}

#[test]
fn what_is_written_is_read_again() {
    let records = [
        Record { time_ns: 0, volume: 0, access: Access::Write, extent: Extent::Bytes { offset: 4095, length: 4098 } },
        Record { time_ns: 0, volume: 0, access: Access::Read, extent: Extent::Bytes { offset: 0, length: 1 } },
        Record { time_ns: 0, volume: 0, access: Access::Read, extent: Extent::Page(7) },
    ];
    for name in ["plain.csv", "csv.gz", "csv.zst"] {
        for (format, wanted) in [
            (
                WriteFormat::Bytes(4096),
                vec![bytes(Access::Write, 4095, 4098), bytes(Access::Read, 0, 1), bytes(Access::Read, 7 * 4096, 4096)],
            ),
            (
                WriteFormat::Pages(4096),
                [(Access::Write, 0), (Access::Write, 1), (Access::Write, 2), (Access::Read, 0), (Access::Read, 7)]
                    .map(|(access, page)| (access, Extent::Page(page)))
                    .to_vec(),
            ),
        ] {
            let file = Scratch::new(name, b"");
            let mut writer = TraceWriter::create(&file.0).unwrap();
            records.iter().for_each(|record| writer.record(record, format).unwrap());
            writer.finish().unwrap();
            let found = all(&file.0, &TraceOptions::default()).unwrap().0;
            assert_eq!(found.iter().map(|record| (record.access, record.extent)).collect::<Vec<_>>(), wanted, "{name}");
        }
    }
}

#[test]
fn a_summary_has_the_columns_of_table_2_2() {
    let trace = Scratch::new("own.csv", b"w,0,8192\nw,4096,4096\nw,16384,1\nr,4096,4096\nr,40960,1\n");
    let mut open = Trace::open(&trace.0, &TraceOptions::default()).unwrap();
    let found = summarise(&mut open, 4096, |_| ()).unwrap();
    assert_eq!((found.reads, found.writes, found.requests), (2, 4, 6));
    assert_eq!((found.read_bytes, found.write_bytes), (2 * 4096, 4 * 4096));
    assert_eq!((found.write_range_bytes, found.write_footprint_bytes), (5 * 4096, 3 * 4096), "from page 0 to page 4");
    assert_eq!(found.footprint_bytes, 4 * 4096);
    assert_eq!((found.first_page, found.last_page), (Some(0), Some(10)));
}

#[test]
fn a_picture_has_a_mark_where_there_are_requests() {
    let trace = Scratch::new("own.csv", b"w,0\nr,5\nw,9\n");
    let open = || Trace::open(&trace.0, &TraceOptions::default());
    let marks = |only_writes| {
        let svg = draw("a<b", Drawing { page_bytes: 4096, only_writes }, open).unwrap();
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
        svg.matches("opacity").count()
    };
    assert_eq!((marks(false), marks(true)), (3, 2));
}

#[test]
fn records_taken_in_batches_say_what_single_ones_say() {
    // More than one buffer of records; their times go back and forth, and the latest is not the last.
    let mut choices = onewrite_block::Choices::new(11);
    let mut file = Vec::new();
    for _ in 0..30_000 {
        file.extend((1_000 + choices.below(500) as u32).to_le_bytes());
        file.extend(choices.below(900).to_le_bytes());
        file.extend([0; 12]);
    }
    file.extend(700_u32.to_le_bytes());
    file.extend([0; 20]);
    let trace = Scratch::new("x.oracleGeneral", &file);
    let open = |volume| Trace::open(&trace.0, &TraceOptions { volume, ..TraceOptions::default() }).unwrap();
    let (mut single, mut expected) = (open(None), Vec::new());
    while let Some(record) = single.next_record().unwrap() {
        let Extent::Page(page) = record.extent else { panic!("{record:?}") };
        expected.push(PageRequest::read(page));
    }
    let (mut batches, mut pages) = (open(None), Vec::new());
    while batches.next_pages(4096, 1_000, &mut pages).unwrap() {}
    assert!(pages == expected, "{} requests of {}", pages.len(), expected.len());
    assert_eq!(batches.seen(), single.seen());
    let duration = summarise(&mut open(None), 4096, |_| ()).unwrap().duration_seconds;
    assert_eq!(duration, Some(f64::from(1_499 - 700)));
    let (mut other, mut none) = (open(Some(1)), Vec::new());
    let goes_on = other.next_pages(4096, 1_000, &mut none).unwrap();
    assert!(!goes_on && none.is_empty(), "volume 1 has no records");
}
