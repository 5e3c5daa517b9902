//! The load of InnoDB's shape on the emulated `nvme-share`.

use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;
use onewrite_lab::innodb::{Doublewrite, Filling, InnodbJob, Load, LogSyncs};
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, Extras, JobSpec, RunSpec, Stack};

const PAGE_BYTES: u64 = 16 << 10;

fn run(load: Load, doublewrite: Option<Doublewrite>, mode: Mode, (operations, seed): (u32, u64)) -> RunResult {
    let job = JobSpec::Innodb(InnodbJob { doublewrite, operations: Some(operations), ..InnodbJob::new(load) });
    let spec = RunSpec { seed, ..RunSpec::new(job, Stack::Ext4(mode), "nvme-share") };
    let device = Profile::load("nvme-share").unwrap().device(Some(1 << 30)).unwrap();
    session::run(&spec, device, Extras::default()).unwrap()
}

/// A run with sysbench's rows in `ldj`.
fn with_rows(clients: u16) -> RunResult {
    let sysbench = InnodbJob::new(Load::Sysbench);
    let job = InnodbJob { clients, filling: Filling::Rows, operations: Some(3_000), ..sysbench };
    let spec = RunSpec::new(JobSpec::Innodb(job), Stack::Ext4(Mode::Ldj), "nvme-share");
    let device = Profile::load("nvme-share").unwrap().device(Some(2 << 30)).unwrap();
    session::run(&spec, device, Extras::default()).unwrap()
}

#[test]
fn more_clients_share_commits_and_rows_of_digits_hardly_compress() {
    let (few, many) = (with_rows(16), with_rows(128));
    let speed = |result: &RunResult| result.onewrite.operations_per_second;
    assert!(speed(&many) > 1.5 * speed(&few), "{} {}", speed(&many), speed(&few));
    let fs = many.onewrite.fs.unwrap();
    let ratio = fs.packed_bytes as f64 / fs.packed_raw_bytes as f64;
    assert!((0.5..0.9).contains(&ratio), "{ratio}: random digits, with zeros at the ends of pages");
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| run(Load::Linkbench, None, Mode::Sdj, (2_000, seed));
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first.onewrite.device, run(2).onewrite.device);
}

/// What the doublewrite file takes is written twice, and synced apart; the layout is the same on both sides.
#[test]
fn doublewrite_writes_pages_twice() {
    let bytes_and_flushes = |doublewrite, operations| {
        let device = run(Load::Sysbench, Some(doublewrite), Mode::Ordered, (operations, 1)).onewrite.device;
        (device.host_write_bytes as i64, device.flushes as i64)
    };
    let of = |doublewrite| {
        let ((few, few_flushes), (many, flushes)) =
            (bytes_and_flushes(doublewrite, 100), bytes_and_flushes(doublewrite, 6_000));
        (many - few, flushes - few_flushes)
    };
    let (double, single) = (of(Doublewrite::On), of(Doublewrite::Off));
    // The cleaner has written hundreds of pages by then.
    assert!(double.0 - single.0 > 300 * PAGE_BYTES as i64, "{double:?} {single:?}");
    assert!(double.1 > single.1, "{double:?} {single:?}");
}

#[test]
fn clients_share_syncs_of_the_log() {
    let result = run(Load::Sysbench, None, Mode::Ordered, (3_000, 1));
    let all = result.onewrite.total.onewrite.as_ref().unwrap();
    assert_eq!(all.operations, 3_000);
    let flushes = result.onewrite.device.flushes;
    assert!(flushes < 3_000 / 2, "{flushes} flushes for 3,000 commits of 16 clients");
}

/// Commits do not wait for the log; it is synced once in each second of the run, and before pages are written.
#[test]
fn a_lazy_log_is_synced_once_a_second() {
    let of = |log_syncs, operations| {
        let (doublewrite, operations) = (Some(Doublewrite::Off), Some(operations));
        let job = InnodbJob { doublewrite, log_syncs, operations, ..InnodbJob::new(Load::Linkbench) };
        let spec = RunSpec::new(JobSpec::Innodb(job), Stack::Ext4(Mode::Sdj), "nvme-share");
        let device = Profile::load("nvme-share").unwrap().device(Some(1 << 30)).unwrap();
        session::run(&spec, device, Extras::default()).unwrap()
    };
    let flushes = |log_syncs| {
        let (few, many) = (of(log_syncs, 100), of(log_syncs, 6_000));
        (many.onewrite.device.flushes - few.onewrite.device.flushes, many.onewrite.operations_per_second)
    };
    let ((each, each_speed), (lazy, lazy_speed)) = (flushes(LogSyncs::EachCommit), flushes(LogSyncs::EachSecond));
    assert!(each > 500 && lazy < each / 10, "{each} FLUSHes, lazily {lazy}");
    assert!(lazy_speed > 3.0 * each_speed, "{each_speed} operations a second, lazily {lazy_speed}");
}
