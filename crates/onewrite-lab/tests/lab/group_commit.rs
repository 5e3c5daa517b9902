//! Group commit in virtual time: the number of threads decides how many fsyncs share a commit, not whether that number
//! is a multiple of the cores.

use onewrite_block::{HostProfile, MIB, Nanos};
use onewrite_fs::ext4::Mode;
use onewrite_lab::job::JobFile;
use onewrite_lab::session::{DeviceChoice, Extras, JobSpec, RunSpec, Stack, run};
use onewrite_lab::workload::filebench::{Length, Parameters, Personality};

/// Fsyncs per commit of varmail with so many threads, blocks being allocated at write as in the LDJ papers.
fn syncs_per_commit(threads: u32, mode: Mode, cores: usize) -> f64 {
    let length = Length::Time(Nanos::from_secs(4));
    let parameters = Parameters { threads, length, ..Personality::Varmail.parameters() };
    let job = JobSpec::Personality(Personality::Varmail, parameters);
    let spec = RunSpec {
        host: HostProfile { cores, ..HostProfile::default() },
        delayed_allocation: false,
        ..RunSpec::new(job, Stack::Ext4(mode), "sata-850pro")
    };
    let device = DeviceChoice::named("sata-850pro").unwrap().open(Some(512 * MIB)).unwrap();
    let result = run(&spec, device, Extras::default()).unwrap();
    result.onewrite.total.sync.total_ios as f64 / result.onewrite.fs.unwrap().commits as f64
}

/// Fails if one thread more changes the fsyncs per commit by more than a quarter.
fn check_neighbours(mode: Mode, cores: usize) {
    let counts: Vec<(u32, f64)> = (11..=17).map(|threads| (threads, syncs_per_commit(threads, mode, cores))).collect();
    for pair in counts.windows(2) {
        let ratio = pair[1].1 / pair[0].1;
        assert!((0.8..1.25).contains(&ratio), "{mode} on {cores} cores: {counts:.2?}");
    }
}

#[test]
fn one_thread_more_does_not_change_groups_by_a_quarter() {
    check_neighbours(Mode::Ordered, 4);
    check_neighbours(Mode::Data, 4);
    check_neighbours(Mode::Ordered, 1);
    check_neighbours(Mode::Data, 1);
}

/// Fsyncs per commit, and virtual seconds of the run: so many threads append 4 KiB to a file of their own and sync, 200
/// times; `thinks` is an option of fio's that lets a thread wait between.
fn appends(threads: u32, mode: Mode, max_batch_time: Nanos, thinks: &str) -> (f64, f64) {
    let text = format!("[append]\nrw=write\nbs=4k\nsize=800k\nfsync=1\nnumjobs={threads}\n{thinks}\n");
    let job = JobSpec::Fio(JobFile::parse("append.fio", &text).unwrap());
    let spec = RunSpec { max_batch_time, ..RunSpec::new(job, Stack::Ext4(mode), "sata-850pro") };
    let device = DeviceChoice::named("sata-850pro").unwrap().open(Some(512 * MIB)).unwrap();
    let result = run(&spec, device, Extras::default()).unwrap().onewrite;
    (result.total.sync.total_ios as f64 / result.fs.unwrap().commits as f64, result.virtual_seconds.unwrap())
}

const WAITS: Nanos = Nanos::from_millis(15);

#[test]
fn a_commit_that_waits_for_others_serves_nearly_all_of_them_and_they_are_done_sooner() {
    for (threads, mode) in [(2, Mode::Ordered), (16, Mode::Ordered), (16, Mode::Data), (16, Mode::DataAsync)] {
        let (at_once, long) = appends(threads, mode, Nanos::ZERO, "");
        let (shared, short) = appends(threads, mode, WAITS, "");
        assert!(at_once < 0.6 * f64::from(threads), "{mode}, {threads} threads: {at_once} share a commit");
        assert!(shared > 0.9 * f64::from(threads), "{mode}, {threads} threads: {shared} share a commit");
        assert!(short < 0.8 * long, "{mode}, {threads} threads: {short} and {long} s");
    }
}

#[test]
fn nobody_waits_for_those_who_do_not_come() {
    let at_once = appends(1, Mode::Ordered, Nanos::ZERO, "");
    assert_eq!(at_once, appends(1, Mode::Ordered, WAITS, ""), "a thread alone");
    // Each thinks for longer than a commit takes, so that who was there a moment ago comes too late.
    let thinks = "thinktime=60000\nthinktime_blocks=1";
    let (_, long) = appends(4, Mode::Ordered, WAITS, thinks);
    let (_, short) = appends(4, Mode::Ordered, Nanos::ZERO, thinks);
    assert!(long < 1.02 * short, "{long} and {short} s");
}
