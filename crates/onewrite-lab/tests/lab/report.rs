//! Results and reports of runs on a file system in memory, with device figures made up for the purpose.

use onewrite_block::{Cause, Counters};
use onewrite_fs::FsCounters;
use onewrite_lab::report::{Compared, Comparison, CrashVerdict};
use onewrite_lab::results::{DeviceFigures, Figures, FsFigures, RunResult, Settings};
use onewrite_lab::workload::filebench::Personality;

use crate::support::run_personality;

pub fn result(mode: &str, factor: u64) -> RunResult {
    let mut counters = Counters { flushes: 1200 * factor, erases: 31 * factor, ..Counters::default() };
    counters.host_write_bytes_by_cause[Cause::Data as usize] = 40_000_000;
    counters.host_write_bytes_by_cause[Cause::Journal as usize] = 25_000_000 * factor;
    counters.flash_program_bytes = 95_000_000 * factor;
    let measures = run_personality(Personality::Varmail, 100, 4000, factor);
    RunResult::new(&measures, |total| Figures {
        job: "varmail".into(),
        seed: 7,
        virtual_seconds: Some(1.5),
        wall_seconds: None,
        total,
        device: DeviceFigures::new("sata-850pro", &counters),
        fs: Some(FsFigures::new(mode, "version", FsCounters { commits: 1234, ..FsCounters::default() })),
        settings: Settings {
            fs: "ext4".into(),
            mode: Some(mode.into()),
            device: "sata-850pro".into(),
            host: "default".into(),
            size_bytes: 1 << 30,
            journal_bytes: Some(64 << 20),
            cache_bytes: Some(64 << 20),
            cache_policy: Some("lru".to_owned()),
            delayed_allocation: Some(false),
        },
    })
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
    assert!(table.contains("all 32 cuts kept") && table.contains("fsync p99.9"));
}

#[test]
fn the_page_stands_alone() {
    let page = comparison().html();
    let foreign = ["http:", "https:", "<script", "<link", "src=", "@import", "url("];
    assert_eq!(foreign.iter().find(|mark| page.contains(**mark)), None);
    assert!(page.matches("<svg").count() == 7 && page.matches("<svg").count() == page.matches("</svg>").count());
    assert!(page.contains("onewrite compare varmail") && page.contains("prefers-color-scheme"));
}
