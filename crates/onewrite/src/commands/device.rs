//! `onewrite device`: shows a profile, its geometry and its behaviour under load.

use std::path::Path;

use anyhow::{Context, bail};
use onewrite_block::{Choices, Durable, Geometry, Lpn, Nanos, Operation, PAGE_SIZE, Page, PowerLoss, Zones};
use onewrite_device::micro::{self, Bench, FlushCost, Micro, Throughput};
use onewrite_device::{Layer, OperationLatency, Profile, waf};
use onewrite_lab::draw;
use onewrite_lab::experiment::LayerChoice;

use crate::args::Device;
use crate::output::{self, write_json};
use crate::outputs::Outputs;

/// Lists the profiles, or shows and measures one.
pub fn device(args: &Device) -> anyhow::Result<()> {
    let outputs = Outputs { json: args.json.as_ref(), files: args.timeline.iter().collect(), ..Outputs::default() };
    outputs.check(&args.profile.iter().map(Path::new).collect::<Vec<_>>())?;
    let Some(name) = &args.profile else { return list() };
    if let (Some(percent), Some(range)) = (args.block_utilization, args.range) {
        return write_amplification(args, name, percent, range);
    }
    let profile = Profile::named(name)?;
    if let Some(path) = &args.timeline {
        draw_timeline(&profile, args, path)?;
    }
    // Random writes need a map; an open-channel device has none, so its loads run over the host's.
    let micro = micro::measure(&profile.clone().translated(), args.size)?;
    if let Some(path) = &args.json {
        return write_json(path, &(serde_json::to_string_pretty(&micro)? + "\n"));
    }
    show(&profile, args.size)?;
    if let Some(Layer::Open { .. }) = profile.own_layer() {
        outln!("\nThe loads below run over a translation layer of the host (`--ftl dftl`).");
    }
    print_micro(&micro);
    Ok(())
}

fn list() -> anyhow::Result<()> {
    let width = Profile::names().map(str::len).max().unwrap_or(0);
    for name in Profile::names() {
        outln!("{name:width$}  {}", Profile::load(name)?.description);
    }
    Ok(())
}

fn write_amplification(args: &Device, name: &str, percent: u32, range: u64) -> anyhow::Result<()> {
    if name != "ftl-16g" {
        bail!("--block-utilization is an experiment on `ftl-16g` (16 GB, 15% spare, 4 MB blocks), not on `{name}`");
    }
    if !(4 << 20..=16 << 30).contains(&range) {
        bail!("--range is from 4MiB (a block) to 16GiB (the device)");
    }
    let layer =
        LayerChoice { ftl: Some(args.ftl.into()), log_blocks: args.log_blocks, map_cache: args.map_cache }.layer()?;
    layer.map_or(Ok(()), |layer| layer.check(&waf::space()))?;
    let found = match layer {
        None => waf::run(percent, range, args.seed),
        Some(Layer::Fast { random_blocks }) => waf::run_fast(percent, range, args.seed, random_blocks),
        Some(Layer::Bast { log_blocks }) => waf::run_bast(percent, range, args.seed, log_blocks),
        Some(Layer::Dftl { cache_bytes }) => {
            let cache_bytes = cache_bytes.unwrap_or((16 << 30) / Layer::CAPACITY_PER_CACHE);
            waf::run_dftl(percent, range, args.seed, cache_bytes)
        }
        Some(Layer::Open { .. }) => bail!("--ftl open translates nothing, so it amplifies nothing; take another layer"),
    };
    match &args.json {
        Some(path) => write_json(path, &(serde_json::to_string(&found)? + "\n")),
        None => {
            outln!("{:.3} flash pages programmed for each of {} host pages", found.waf, found.host_pages);
            Ok(())
        }
    }
}

fn show(profile: &Profile, size_bytes: u64) -> anyhow::Result<()> {
    let device = profile.device(Some(size_bytes))?;
    outln!("{}: {}\n", profile.name, profile.description);
    print_promises(device.geometry());
    if let Some(layer) = profile.own_layer() {
        outln!("translation layer      {}", layer.name());
    }
    if let Ok(shape) = profile.shape(Some(size_bytes)) {
        outln!("\n{}", draw::geometry(&shape));
    }
    Ok(())
}

fn print_promises(geometry: &Geometry) {
    let share = match (geometry.share_pairs_max, geometry.share_atomic) {
        (0, _) => "no".to_owned(),
        (pairs, true) => format!("up to {pairs} pairs, all or none"),
        (pairs, false) => format!("up to {pairs} pairs, not atomic"),
    };
    let power_cut = match geometry.on_power_loss {
        PowerLoss::KeepsCompleted => "loses nothing that completed",
        PowerLoss::AnySubset => "may lose any of what was not flushed",
    };
    outln!("capacity               {} MiB", (geometry.pages * PAGE_SIZE as u64) >> 20);
    outln!("queue depth            {}", geometry.queue_depth);
    outln!("largest transfer       {} KiB", (geometry.transfer_pages_max as usize * PAGE_SIZE) >> 10);
    outln!("FUA                    {}", if geometry.fua { "yes" } else { "no" });
    outln!("SHARE                  {share}");
    if let Some(buffer) = geometry.write_buffer {
        let (size, begins) = (buffer.bytes >> 10, buffer.eviction_begins_bytes >> 10);
        outln!("write buffer           {size} KiB; the first page may leave after {begins} KiB");
    }
    if let Some(Zones { count, zone_pages, open_max, .. }) = geometry.zones {
        let open = if open_max == u32::MAX { String::new() } else { format!(", {open_max} of them open at once") };
        outln!("zones                  {count} of {} KiB{open}", (zone_pages as usize * PAGE_SIZE) >> 10);
    }
    outln!("a power cut            {power_cut}");
}

fn print_micro(micro: &Micro) {
    outln!(
        "\n{:24} {:>6} {:>12} {:>10} {:>12} {:>12}",
        "load, new device",
        "depth",
        "requests/s",
        "MB/s",
        "p50",
        "p99"
    );
    micro.throughput.iter().for_each(print_throughput);
    outln!("\nFLUSH after so many dirty bytes");
    for FlushCost { dirty_bytes, nanos } in &micro.flush {
        outln!("  {:>8} KiB  {:>12}", dirty_bytes >> 10, Nanos(*nanos).to_string());
    }
    let buffer = &micro.buffer;
    let (near, far) = (Nanos(buffer.buffer_read_nanos), Nanos(buffer.flash_read_nanos));
    // Elsewhere no read was found that the buffer serves.
    if near < far {
        outln!("\n4 KiB read from the buffer {near}, from flash {far}");
    }
    if let (Some(begins), Some(certain)) = (buffer.eviction_begins_bytes, buffer.eviction_certain_bytes) {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        outln!("eviction begins after {:.2} MB written and is certain after {:.2} MB", mb(begins), mb(certain));
    }
    outln!("an fsync every 100 writes costs up to {:.1} times the throughput", micro.sync_drop.times);
}

fn print_throughput(throughput: &Throughput) {
    let load = throughput.load;
    let order = if load.is_random { "random" } else { "sequential" };
    let kind = if load.is_write { "write" } else { "read" };
    let name = format!("{order} {kind}, {} KiB", load.request_bytes >> 10);
    let (p50, p99) = (Nanos(throughput.latency.p50), Nanos(throughput.latency.p99));
    let (iops, rate) = (throughput.iops, throughput.mb_s);
    outln!("{name:24} {:>6} {iops:>12.0} {rate:>10.1} {:>12} {:>12}", load.depth, p50.to_string(), p99.to_string());
}

/// Draws the dies of a small, full device during random writes with garbage collection.
fn draw_timeline(profile: &Profile, args: &Device, path: &Path) -> anyhow::Result<()> {
    const SIZE_BYTES: u64 = 64 << 20;
    const WARM_UP_WRITES: u64 = 20_000;
    const DRAWN_WRITES: u64 = 500;
    let ssd = profile.ssd(Some(SIZE_BYTES)).context("--timeline draws the dies of an SSD")?;
    let (shape, pages) = (ssd.shape(), SIZE_BYTES / PAGE_SIZE as u64);
    let mut bench = Bench::new(Box::new(ssd), args.seed);
    let mut choices = Choices::new(args.seed).stream("timeline", 0);
    bench.fill(pages);
    for number in 0..WARM_UP_WRITES + DRAWN_WRITES {
        if number == WARM_UP_WRITES {
            bench.device_mut().record_operations();
        }
        let start = Lpn(choices.below(pages));
        bench.one(Operation::Write { start, pages: vec![Page::ZEROS], durable: Durable::AfterFlush });
    }
    let svg = draw::timeline(&shape, &bench.device_mut().take_operations());
    output::write(path, &svg)?;
    bench.device().latencies().iter().for_each(print_histogram);
    outln!();
    note!("timeline: {}", path.display());
    Ok(())
}

fn print_histogram(operation: &OperationLatency) {
    const BAR_MAX: u64 = 50;
    let most = operation.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1).max(1);
    outln!("{} ({} requests)", operation.operation, operation.latency.count);
    for bucket in operation.buckets.iter().filter(|bucket| bucket.count > 0) {
        let bar = draw::bar(bucket.count, most, BAR_MAX);
        outln!("  up to {:>10} {:>7} {bar}", Nanos(bucket.up_to).to_string(), bucket.count);
    }
}
