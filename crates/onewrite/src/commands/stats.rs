//! `onewrite stats`

use anyhow::{Context, bail};
use onewrite_block::{Cause, Counters};
use onewrite_host::fuse::{Latency, Stats as MountStats, read_stats};
use rustix::io::Errno;

use crate::args::Stats;

/// With fewer syncs of programs the ratio of flushes to them says nothing: the commits of the timer outweigh them.
const SYNCS_MIN: u64 = 100;

/// Asks the mount, and prints what it says.
pub fn stats(args: &Stats) -> anyhow::Result<()> {
    let shown = args.directory.display();
    let stats = match read_stats(&args.directory) {
        Ok(stats) => stats,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NODATA | Errno::OPNOTSUPP) => bail!("{shown}: not the root of a mount of `onewrite mount`"),
            Some(Errno::ACCESS) => {
                return Err(error)
                    .with_context(|| format!("{shown}: only root and who mounted it may see its statistics"));
            }
            Some(Errno::NOTCONN) => {
                return Err(error)
                    .with_context(|| format!("{shown}: the mount is dead; `onewrite umount {shown}` ends it"));
            }
            _ => return Err(error).with_context(|| shown.to_string()),
        },
    };
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
        "file system: {} commits, {} written to the log, {} checkpoints ({} waited for), {} brought home, {} of it by \
         SHARE",
        fs.commits,
        mebibytes(fs.journal_bytes),
        fs.checkpoints,
        fs.forced_checkpoints,
        mebibytes(fs.checkpoint_bytes),
        mebibytes(fs.shared_bytes)
    );
    print_device(device);
    let syncs: u64 = ["fsync", "fdatasync"].iter().filter_map(|kind| requests.get(*kind)).map(|kind| kind.count).sum();
    if syncs >= SYNCS_MIN {
        outln!("{:.2} flushes for each of {syncs} syncs of programs", device.flushes as f64 / syncs as f64);
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
