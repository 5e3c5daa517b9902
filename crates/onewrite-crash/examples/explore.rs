//! Explores workloads and prints the report as JSON: `explore WORKLOAD MODE STATES SEED`; with `trace`
//! for STATES it prints the events of a script.

use onewrite_block::Nanos;
use onewrite_crash::{ExploreOptions, Sound, WorkloadSpec, crash, trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, mode, states, seed] = &arguments[..] else {
        return Err("usage: explore WORKLOAD MODE STATES SEED".into());
    };
    let options = ExploreOptions {
        states_max: states.parse().unwrap_or(0),
        seed: seed.parse()?,
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        ..ExploreOptions::new(mode.parse()?)
    };
    if let (WorkloadSpec::Script(workload), "trace") = (workload.parse()?, states.as_str()) {
        trace(Sound, &workload, &options)?.iter().for_each(|line| println!("{line}"));
        return Ok(());
    }
    let report = crash(Sound, &workload.parse()?, &options, std::env::var_os("MINIMISE").is_some(), |report| {
        if report.workloads.is_multiple_of(100) {
            eprintln!("{} workloads, {} states", report.workloads, report.states);
        }
    })?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
