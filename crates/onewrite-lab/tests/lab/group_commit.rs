//! Group commit in virtual time: the number of threads decides how many fsyncs share a commit, not whether that number
//! is a multiple of the cores.

use onewrite_block::{HostProfile, MIB, Nanos};
use onewrite_fs::ext4::Mode;
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
