//! Explores one workload and prints the report as JSON: `explore MODE STATES WORKLOAD`.

use onewrite_crash::{ExploreOptions, Workload, explore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, states, workload] = &arguments[..] else { return Err("usage: explore MODE STATES WORKLOAD".into()) };
    let workload: Workload = workload.parse()?;
    let options = ExploreOptions { states_max: states.parse()?, ..ExploreOptions::new(mode.parse()?) };
    println!("{}", serde_json::to_string_pretty(&explore(&workload, &options)?)?);
    Ok(())
}
