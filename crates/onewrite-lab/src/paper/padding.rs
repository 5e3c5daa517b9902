//! Padding: zero padding (`papers/003` §3 to §5) on `sata-850pro`, in short runs of its experiments.
//!
//! The paper's fio run writes 1 GB and sweeps the fsync interval. Here each point writes 4 MiB within 64 MiB, and the
//! best point counts, as in the paper's "up to". Varmail runs a fixed number of operations.

use onewrite_block::{Executor, MIB, PAGE_SIZE};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;

use super::entry::Versus;
use super::flushes::{Syncs, flushes_of};
use super::found::{Case, Found, largest};
use super::verdict::{Even, Terms};
use crate::error::LabError;
use crate::job::JobFile;
use crate::probe::{ProbeOptions, probe};
use crate::results::RunResult;
use crate::session::{self, Extras, JobSpec, RunSpec, Stack};
use crate::workload::filebench::{Length, Parameters, Personality};

const PROFILE: &str = "sata-850pro";
const DEVICE_BYTES: u64 = 512 * MIB;
/// Writes between two fsyncs, as in fio.
const INTERVALS: [u32; 5] = [1, 8, 32, 128, 512];
const VARMAIL_OPERATIONS: u64 = 12_000;
/// Commits for which FLUSHes are counted.
const COMMITS: u64 = 20;

/// The largest ratio of two modes' IOPS over the sweep, whose points are shown.
pub(super) fn best_fio(Versus { a, b }: Versus) -> Result<Found, LabError> {
    let one = |interval: u32| {
        let text = format!("[w]\nrw=randwrite\nbs=4k\nsize=64m\nio_size=4m\nfsync={interval}\n");
        let iops = |mode: Mode| -> Result<f64, LabError> {
            let job = JobSpec::Fio(JobFile::parse("zp.fio", &text)?);
            Ok(run(mode, job)?.onewrite.total.write.iops)
        };
        Ok(Case::shown(format!("fsync every {interval}"), iops(a)? / iops(b)?))
    };
    let cases = INTERVALS.into_iter().map(one).collect::<Result<Vec<Case>, LabError>>()?;
    Ok(Found::largest_of(cases))
}

/// Ratio of two modes' operations a second in varmail.
pub(super) fn varmail_ratio(Versus { a, b }: Versus) -> Result<f64, LabError> {
    Ok(run_varmail(a)?.onewrite.operations_per_second / run_varmail(b)?.onewrite.operations_per_second)
}

fn run_varmail(mode: Mode) -> Result<RunResult, LabError> {
    let parameters = Parameters { length: Length::Operations(VARMAIL_OPERATIONS), ..Personality::Varmail.parameters() };
    run(mode, JobSpec::Personality(Personality::Varmail, parameters))
}

fn run(mode: Mode, job: JobSpec) -> Result<RunResult, LabError> {
    let spec = RunSpec { journal_bytes: Some(128 * MIB), ..RunSpec::new(job, Stack::Ext4(mode), PROFILE) };
    session::run(&spec, Profile::load(PROFILE)?.device(Some(DEVICE_BYTES))?, Extras::default())
}

/// Mean number of log blocks of a transaction in varmail, all kinds together.
pub(super) fn blocks_per_transaction(mode: Mode) -> Result<f64, LabError> {
    let result = run_varmail(mode)?;
    let Some(fs) = &result.onewrite.fs else { return Ok(f64::NAN) };
    Ok(fs.journal_bytes as f64 / PAGE_SIZE as f64 / fs.commits as f64)
}

/// Largest ratio of the time of padding to the time of FLUSH: below in all cases, and above in all where the interface
/// is half as fast, as SATA 2.0 is.
pub(super) fn eviction_over_flush(profile: &str) -> Result<Found, LabError> {
    let profile = Profile::load(profile)?;
    let mut slow = profile.clone();
    slow.host.link_mb_s /= 2.0;
    let fast = evictions_over_flushes(&profile)?;
    let cases = |name: &str, ratios: &[f64], terms| {
        let case = |(place, ratio): (usize, &f64)| Case::own(format!("{name} amount {}", place + 1), *ratio, terms);
        ratios.iter().enumerate().map(case).collect::<Vec<Case>>()
    };
    let below = cases("SATA 3.0", &fast, Terms::Below(Even::Ratio));
    let above = cases("SATA 2.0", &evictions_over_flushes(&slow)?, Terms::Above(Even::Ratio));
    Ok(Found { figure: largest(below.iter().map(|case| case.figure)), cases: [below, above].concat() })
}

/// Ratios of the time of padding to the time of FLUSH, one for each amount of dirty data.
fn evictions_over_flushes(profile: &Profile) -> Result<Vec<f64>, LabError> {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(profile.device(Some(64 * MIB))?);
    let options = ProbeOptions { bytes_max: 8 * MIB, ..ProbeOptions::default() };
    let found = executor.block_on(async move { probe(&port, options, |_| ()).await })??;
    Ok(found.persist.iter().map(|one| one.eviction.mean_ns as f64 / one.flush.mean_ns as f64).collect())
}

/// FLUSHes of commits of one page each and of as many fsyncs with nothing to commit, for each of them; the largest of
/// `modes`, each of which counts.
pub(super) fn flushes(modes: &[Mode]) -> Result<Found, LabError> {
    let one = |mode: &Mode| {
        let flushes = flushes_of(PROFILE, *mode, Syncs { commits: COMMITS, idle: true })?;
        Ok(Case::counts(mode.to_string(), flushes as f64 / (2 * COMMITS) as f64))
    };
    let cases = modes.iter().map(one).collect::<Result<Vec<Case>, LabError>>()?;
    Ok(Found::largest_of(cases))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row `zp-evict-flush` needs a FLUSH as long as the LDJ paper's fio shows it if it ran on the bare device, and
    /// not the one that is fitted through ext4.
    #[test]
    fn pushing_out_is_faster_than_a_flush_of_the_bare_reading_alone() {
        let ratios = |flush_us| {
            let mut profile = Profile::load(PROFILE).unwrap();
            profile.host.flush_us = flush_us;
            evictions_over_flushes(&profile).unwrap()
        };
        let (bare, through_ext4) = (ratios(5_600.0), ratios(2_550.0));
        assert!(bare.iter().all(|ratio| *ratio < 0.98), "{bare:?}");
        assert!(through_ext4.iter().all(|ratio| *ratio > 1.02), "{through_ext4:?}");
    }

    #[test]
    fn on_sata_2_pushing_out_takes_longer_than_a_flush() {
        let mut profile = Profile::load(PROFILE).unwrap();
        profile.host.link_mb_s /= 2.0;
        let ratios = evictions_over_flushes(&profile).unwrap();
        assert!(ratios.len() == 6 && ratios.iter().all(|ratio| *ratio > 1.0), "{ratios:?}");
    }
}
