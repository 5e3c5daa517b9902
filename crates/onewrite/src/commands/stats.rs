//! `onewrite stats`

use anyhow::{Context, bail};
use onewrite_block::{Cause, Counters};
use onewrite_host::fuse::{Latency, STATS_ATTRIBUTE, Stats as MountStats};
use rustix::io::Errno;

use crate::args::Stats;

/// Bytes of statistics, at most.
const BYTES_MAX: usize = 64 * 1024;

/// Asks the mount, and prints what it says.
pub fn stats(args: &Stats) -> anyhow::Result<()> {
    let shown = args.directory.display();
    let mut value = vec![0; BYTES_MAX];
    let length = match rustix::fs::getxattr(&args.directory, STATS_ATTRIBUTE, &mut value[..]) {
        Ok(length) => length,
        Err(Errno::NODATA | Errno::OPNOTSUPP) => bail!("{shown}: not the root of a mount of `onewrite mount`"),
        Err(Errno::ACCESS) => bail!("{shown}: only root and who mounted it may see its statistics"),
        Err(error) => return Err(std::io::Error::from(error)).with_context(|| shown.to_string()),
    };
    value.truncate(length);
    let stats: MountStats = serde_json::from_slice(&value).with_context(|| format!("{shown}: its statistics"))?;
    match args.json {
        true => outln!("{}", serde_json::to_string_pretty(&stats)?),
        false => print(&stats),
    }
    Ok(())
}

fn print(stats: &MountStats) {
    let MountStats { source, mode, pid, seconds, requests, in_flight, fs, device } = stats;
    outln!("{source}: mode {mode}, process {pid}, mounted for {seconds:.1} s, {in_flight} requests under way");
    outln!("{:12} {:>10} {:>10} {:>10} {:>10} {:>10}", "request", "count", "p50 us", "p99 us", "p99.9 us", "max us");
    for (kind, Latency { count, p50_us, p99_us, p999_us, max_us }) in requests {
        outln!("{kind:12} {count:>10} {p50_us:>10.1} {p99_us:>10.1} {p999_us:>10.1} {max_us:>10.1}");
    }
    outln!(
        "file system: {} commits, {} written to the log, {} checkpoints ({} waited for), {} brought home",
        fs.commits,
        mebibytes(fs.journal_bytes),
        fs.checkpoints,
        fs.forced_checkpoints,
        mebibytes(fs.checkpoint_bytes)
    );
    print_device(device);
    let syncs: u64 = ["fsync", "fdatasync"].iter().filter_map(|kind| requests.get(*kind)).map(|kind| kind.count).sum();
    if syncs > 0 {
        outln!("{:.2} flushes for each sync of a program", device.flushes as f64 / syncs as f64);
    }
}

fn print_device(device: &Counters) {
    let by_cause = Cause::ALL.into_iter().filter(|cause| device.host_write_bytes_of(*cause) > 0);
    let by_cause = by_cause.map(|cause| format!("{} {}", cause.name(), mebibytes(device.host_write_bytes_of(cause))));
    outln!(
        "device: {} written ({}), {} read, {} flushes, {} writes with FUA, {} trims, {} shares",
        mebibytes(device.host_write_bytes()),
        by_cause.collect::<Vec<_>>().join(", "),
        mebibytes(device.host_read_bytes),
        device.flushes,
        device.fua_writes,
        device.trims,
        device.shares
    );
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}
