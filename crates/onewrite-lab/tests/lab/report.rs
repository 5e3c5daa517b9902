//! Results and reports of runs on a file system in memory, with invented device figures.

use onewrite_block::layer::Usage;
use onewrite_block::{Cause, Counters, Nanos};
use onewrite_fs::FsCounters;
use onewrite_lab::report::{Compared, Comparison, CrashVerdict};
use onewrite_lab::results::{DeviceFigures, DeviceSetup, DiskUtil, Figures, FsFigures, RunResult, Settings};
use onewrite_lab::workload::filebench::Personality;

use crate::support::run_personality;

pub fn result(mode: &str, factor: u64) -> RunResult {
    let mut counters = Counters { flushes: 1200 * factor, erases: 31 * factor, ..Counters::default() };
    counters.host_write_bytes_by_cause[Cause::Data as usize] = 40_000_000;
    counters.host_write_bytes_by_cause[Cause::Journal as usize] = 25_000_000 * factor;
    counters.flash_program_bytes = 95_000_000 * factor;
    let measures = run_personality(Personality::Varmail, 100, 4000, factor);
    RunResult::new(&measures, disk_util(), |total, operations_per_second| Figures {
        job: "varmail".into(),
        seed: 7,
        virtual_seconds: Some(1.5),
        wall_seconds: None,
        device: DeviceFigures::new("sata-850pro", &counters, total.write.io_bytes),
        operations_per_second,
        total,
        fs: Some(FsFigures::new(mode, "version", FsCounters { commits: 1234, ..FsCounters::default() })),
        settings: Settings {
            fs: "ext4".into(),
            mode: Some(mode.into()),
            device: "sata-850pro".into(),
            setup: DeviceSetup::default(),
            host: "default".into(),
            size_bytes: 1 << 30,
            journal_bytes: Some(64 << 20),
            cache_bytes: Some(64 << 20),
            cache_policy: Some("lru".to_owned()),
            delayed_allocation: Some(false),
            max_batch_ns: None,
            drop_caches: false,
        },
    })
}

fn disk_util() -> DiskUtil {
    let usage = Usage { read_ios: 3, write_ios: 5, busy_time: Nanos::from_millis(375), ..Usage::default() };
    DiskUtil::new("sata-850pro", &usage, Nanos::from_millis(1500))
}

pub fn comparison() -> Comparison {
    let crash = Some(CrashVerdict { cuts: 32, losses: 0, first_loss: None });
    let run =
        |label: &str, factor| Compared { label: label.into(), result: result(label, factor), crash: crash.clone() };
    Comparison { command: "onewrite compare varmail".into(), runs: vec![run("ordered", 1), run("data+async", 2)] }
}

#[test]
fn json_has_fios_shape() {
    let json: serde_json::Value = serde_json::from_str(&result("data", 1).to_json()).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["jobname"], "varmail");
    assert!(job["write"]["iops"].as_f64().unwrap() > 0.0 && job["write"]["bw_bytes"].as_u64().unwrap() > 0);
    assert_eq!(job["write"]["clat_ns"]["percentile"]["99.900000"], 10_000);
    assert_eq!(job["sync"]["lat_ns"]["N"], job["sync"]["total_ios"]);
    assert_eq!(json["onewrite"]["device"]["host_write_bytes_by_cause"]["journal"], 25_000_000);
    assert!(!json.to_string().contains("timestamp"));
    assert_eq!((&json["disk_util"][0]["name"], &json["disk_util"][0]["util"]), (&"sata-850pro".into(), &25.0.into()));
    let each = &json["onewrite"]["device"]["flash_bytes_per_application_byte"];
    let written = json["onewrite"]["total"]["write"]["io_bytes"].as_f64().unwrap();
    assert_eq!(each.as_f64(), Some(95_000_000.0 / written), "wear for each byte that was asked for");
}

#[test]
fn json_is_the_same_for_the_same_seed() {
    assert_eq!(result("data", 1).to_json(), result("data", 1).to_json());
    assert_ne!(result("data", 1).to_json(), result("data", 2).to_json());
}

#[test]
fn every_line_of_the_table_has_a_column_for_each_run() {
    let table = comparison().table();
    assert!(table.starts_with("varmail on sata-850pro (emulated, 1 GiB), seed 7\n"), "{table}");
    let heads = table.lines().nth(2).unwrap();
    let width = heads.chars().count();
    assert!(table.lines().skip(4).all(|line| line.chars().count() == width), "{table}");
    assert!(table.contains("read p99.9") && table.contains("flash bytes for each byte asked"), "{table}");
    assert!(table.contains("all 32 cuts kept") && table.contains("fsync p99.9"));
}

#[test]
fn the_page_stands_alone() {
    let page = comparison().html();
    assert!(page.contains("Flash bytes for each byte asked</h2>"), "wear stands beside the WAF");
    let foreign = ["http:", "https:", "<script", "<link", "src=", "@import", "url("];
    assert_eq!(foreign.iter().find(|mark| page.contains(**mark)), None);
    assert!(page.matches("<svg").count() == 9 && page.matches("<svg").count() == page.matches("</svg>").count());
    assert!(page.contains("onewrite compare varmail") && page.contains("prefers-color-scheme"));
}

/// Two modes: one reads from memory, the other from the device.
fn unequal() -> Comparison {
    let mut runs = comparison().runs;
    for (run, (cached, rate)) in runs.iter_mut().zip([(0, 1.0), (98 << 20, 1000.0)]) {
        let counters =
            FsCounters { direct_read_bytes: 100 << 20, direct_cached_bytes: cached, ..FsCounters::default() };
        run.result.onewrite.fs = Some(FsFigures::new(&run.label, "version", counters));
        run.result.onewrite.operations_per_second *= rate;
    }
    Comparison { command: String::new(), runs }
}

#[test]
fn a_mode_that_reads_from_memory_is_not_crowned_and_says_so() {
    let comparison = unequal();
    let (table, page) = (comparison.table(), comparison.html());
    let note = "data+async served 98.0 % of its O_DIRECT reads from memory";
    assert!(table.contains(&format!("note: {note}")) && table.contains("direct reads from memory"), "{table}");
    assert!(page.contains(note) && page.contains("--drop-caches"));
    let (_, lead) = page.split_once("class=\"lead\">").unwrap();
    let (lead, _) = lead.split_once("</p>").unwrap();
    assert!(lead.starts_with("<b>ordered</b> promises version") && lead.contains("is not ranked"), "{lead}");
    assert!(!lead.contains("fastest"), "{lead}");
    let json = comparison.runs[1].result.to_json();
    assert!(json.contains(note) && !comparison.runs[0].result.to_json().contains("from memory"));
}

#[test]
fn a_set_up_that_differs_is_told_for_each_mode() {
    let mut both = comparison();
    assert!(!both.table().contains("journal ") && both.html().contains("<dt>journal</dt><dd>64 MiB</dd>"));
    both.runs[1].result.onewrite.settings.journal_bytes = Some(128 << 20);
    let (table, page) = (both.table(), both.html());
    let line = table.lines().find(|line| line.starts_with("journal")).unwrap();
    assert!(line.contains("64 MiB") && line.contains("128 MiB"), "{table}");
    assert!(page.contains("<dt>journal</dt><dd>64 MiB (ordered); 128 MiB (data+async)</dd>"));
    assert!(page.contains("<th scope=\"row\">journal</th><td>64 MiB</td><td>128 MiB</td>"));
}

#[test]
fn each_job_has_its_rows_with_read_and_write_latency() {
    let mut both = comparison();
    assert!(!both.table().contains("bandwidth   mean"), "one job is the run");
    for run in &mut both.runs {
        let mut second = run.result.jobs[0].clone();
        second.jobname = "second".into();
        second.write.total_ios = 0;
        run.result.jobs.push(second);
    }
    let (table, page) = (both.table(), both.html());
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let count =
        |job: &str, kind: &str| rows.iter().filter(|row| row.len() > 8 && row[0] == job && row[2] == kind).count();
    assert_eq!((count("varmail", "read"), count("varmail", "write"), count("varmail", "fsync")), (2, 2, 2), "{table}");
    assert_eq!((count("second", "read"), count("second", "write")), (2, 0), "{table}");
    let read = rows.iter().find(|row| row[..3.min(row.len())] == ["varmail", "ordered", "read"]).unwrap();
    assert_eq!(read.iter().filter(|cell| **cell == "20.0").count(), 4, "mean and three percentiles: {read:?}");
    assert!(page.contains("<h2>Each job</h2>") && page.contains("<th scope=\"row\">second</th><td>ordered</td>"));
}

#[test]
fn few_erases_are_a_count_and_a_device_without_flash_has_none() {
    let mut both = comparison();
    both.runs[0].result.onewrite.device.erases = 1;
    both.runs[1].result.onewrite.device.waf = None;
    let table = both.table();
    let line = table.lines().find(|line| line.starts_with("erases")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["erases", "1", "–"], "{table}");
    let chart = |both: &Comparison| {
        let page = both.html();
        let (_, chart) = page.split_once("<h2>Flash blocks erased</h2>").unwrap();
        chart.split_once("</section>").unwrap().0.to_owned()
    };
    let few = chart(&both);
    assert!(few.contains("how many") && few.contains(">1</text>") && few.contains(">62</text>"), "{few}");
    both.runs[1].result.onewrite.device.erases = 12_345;
    let many = chart(&both);
    assert!(many.contains("for each GB") && many.contains(" · 12,345</text>"), "{many}");
}
