//! `onewrite probe`

use std::path::Path;

use anyhow::bail;
use onewrite_block::{Device, Executor, HostProfile, Nanos, Time};
use onewrite_device::FileDisk;
use onewrite_lab::experiment::wall_time;
use onewrite_lab::probe::{self, ProbeOptions, Spread};
use onewrite_lab::session::{DeviceChoice, Stack};

use crate::args::Probe;
use crate::output::{self, is_stdout, write_json};
use crate::outputs::Outputs;
use crate::progress::Bar;

/// Probes a device.
pub fn probe(args: &Probe) -> anyhow::Result<()> {
    let outputs = Outputs { json: args.json.as_ref(), files: args.chart.iter().collect(), ..Outputs::default() };
    outputs.check(&[Path::new(&args.device)])?;
    let choice = DeviceChoice::named(&args.device)?;
    let device = device(args, &choice)?;
    let time = if choice.is_emulated() { Time::Virtual } else { wall_time() };
    let executor = Executor::new(time, HostProfile::ideal());
    let port = executor.runtime().attach(device);
    let options = ProbeOptions { bytes_max: args.max, seed: args.seed };
    let (bar, most) = (Bar::new("probe", "bytes"), args.max);
    let found = executor.block_on(async move {
        let found = probe::probe(&port, options, |bytes| bar.reach(bytes, most)).await;
        bar.end();
        found
    })??;
    if let Some(path) = &args.chart {
        output::write(path, &onewrite_lab::draw::probe(&found))?;
    }
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&found)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        print(&found);
    }
    Ok(())
}

fn device(args: &Probe, choice: &DeviceChoice) -> anyhow::Result<Box<dyn Device>> {
    let DeviceChoice::Disk(path) = choice else { return Ok(choice.under(Stack::Raw).open(Some(args.size))?) };
    if !path.exists() {
        bail!("{}: no such file; name one that exists, or a profile", path.display());
    }
    if !args.force {
        bail!("{}: probing overwrites its beginning; --force probes all the same", path.display());
    }
    Ok(Box::new(FileDisk::open_direct(path)?))
}

fn print(found: &probe::Probe) {
    outln!("{}: reads of 4 KiB         min       mean        max", found.device);
    print_spread("from the buffer", found.buffer_read);
    print_spread("from flash", found.flash_read);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    match (found.eviction_begins_bytes, found.eviction_certain_bytes, found.eviction_spot()) {
        (Some(begins), Some(certain), Some(spot)) => {
            outln!("eviction begins after {:.2} MB written and is certain after {:.2} MB", mb(begins), mb(certain));
            outln!("zp pads {} bytes: {:.2} MB, an eighth more than was certain", spot.bytes, mb(spot.bytes));
        }
        _ if found.sizes.is_empty() => {
            outln!("a read from the buffer cannot be told from one from flash, so no eviction spot can be found");
        }
        _ => outln!("no eviction spot up to what was written; look further with --max"),
    }
    if !found.persist.is_empty() {
        outln!("written before      FLUSH   eviction");
    }
    for one in &found.persist {
        let (flush, eviction) = (Nanos(one.flush.mean_ns).to_string(), Nanos(one.eviction.mean_ns).to_string());
        outln!("{:>10} KiB {flush:>10} {eviction:>10}", one.dirty_bytes >> 10);
    }
}

fn print_spread(what: &str, spread: Spread) {
    let span = |nanos: u64| Nanos(nanos).to_string();
    outln!("  {what:20} {:>10} {:>10} {:>10}", span(spread.min_ns), span(spread.mean_ns), span(spread.max_ns));
}
