//! `onewrite host`

use onewrite_lab::{experiment, host};

use crate::args::HostMeasure;

/// Measures this machine and prints a host profile.
pub fn measure(args: &HostMeasure) -> anyhow::Result<()> {
    note!("measuring for some seconds; let nothing else run");
    let profile = host::measure(&args.directory)?;
    outln!("# Measured by `onewrite host measure`; use with --host FILE.");
    out!("{}", toml::to_string(&profile)?);
    Ok(())
}

/// Prints a host profile.
pub fn show(name: &str) -> anyhow::Result<()> {
    out!("{}", toml::to_string(&experiment::host(name)?.1)?);
    Ok(())
}
