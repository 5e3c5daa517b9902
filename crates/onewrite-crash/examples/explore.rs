//! Explores workloads and prints the report as JSON: `explore WORKLOAD MODE DEVICE STATES SEED`; with `trace` for
//! STATES it prints the events of a script.
//!
//! DEVICE is the profile whose promises the modelled disk keeps. Commits and checkpoints come often and the page cache
//! is small, so that logs wrap and memory is short.

use onewrite_block::{MIB, Nanos};
use onewrite_crash::{CrashPlan, ExploreOptions, Sound, WorkloadSpec, crash, trace};
use onewrite_device::Profile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, mode, device, states, seed] = &arguments[..] else {
        return Err("usage: explore WORKLOAD MODE DEVICE STATES SEED".into());
    };
    let device = Profile::load(device)?.device(Some(32 * MIB))?;
    let options = ExploreOptions {
        states_max: states.parse().unwrap_or(0),
        seed: seed.parse()?,
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        ..ExploreOptions::new(mode.parse()?)
    };
    let options = options.on(device.geometry());
    if let (WorkloadSpec::Script(workload), "trace") = (workload.parse()?, states.as_str()) {
        trace(Sound, &workload, &options)?.iter().for_each(|line| println!("{line}"));
        return Ok(());
    }
    let workloads = workload.parse::<WorkloadSpec>()?.workloads(&options);
    let report = crash(Sound, workloads, CrashPlan::new(&options), |report| {
        if report.workloads.is_multiple_of(100) {
            eprintln!("{} workloads, {} states", report.workloads, report.states);
        }
    })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
