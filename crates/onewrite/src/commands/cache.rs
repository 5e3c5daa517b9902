//! `onewrite cache`

use onewrite_cache::PolicyKind;
use onewrite_device::Profile;
use onewrite_lab::cache::{CacheCell, CacheFigures, CacheStudy, DevicePlan, HELD_MAX, LayerFigures};
use onewrite_lab::trace::TraceOptions;

use super::layer::layer;
use crate::args::{Cache, TraceInput};
use crate::output::{self, is_stdout, write_json};
use crate::progress::Bar;

/// Runs a trace through policies and sizes.
pub fn cache(args: &Cache) -> anyhow::Result<()> {
    output::check(&[args.json.as_ref(), args.after.as_ref()])?;
    let study = study(args)?;
    let bar = Bar::new("cache", "requests");
    let figures = study.run(&|done, total| bar.advance(done, total))?;
    bar.finish("requests");
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        print(&figures);
    }
    Ok(())
}

fn study(args: &Cache) -> anyhow::Result<CacheStudy> {
    let layer = layer(args.ftl, args.log_blocks, args.map_cache)?;
    let plan = |name: &String| -> anyhow::Result<DevicePlan> {
        Ok(DevicePlan {
            profile: Profile::load(name)?,
            layer,
            size_bytes: args.device_size,
            is_blank: args.blank,
            age_bytes: args.age,
        })
    };
    Ok(CacheStudy {
        trace: args.trace.clone(),
        options: options(&args.input),
        policies: policies(&args.policies)?,
        sizes: args.sizes.clone(),
        page_bytes: args.input.page_size,
        flash_block_bytes: args.flash_block,
        after: args.after.clone(),
        device: args.device.as_ref().map(plan).transpose()?,
        threads: args.threads,
        held_max: HELD_MAX,
    })
}

/// How a trace is to be read.
pub fn options(input: &TraceInput) -> TraceOptions {
    TraceOptions { format: input.format.clone(), volume: input.volume, action: input.action }
}

fn policies(names: &[String]) -> anyhow::Result<Vec<PolicyKind>> {
    if names == ["all"] {
        return Ok(PolicyKind::ALL.to_vec());
    }
    names.iter().map(|name| name.parse().map_err(anyhow::Error::msg)).collect()
}

fn print(figures: &CacheFigures) {
    let has_device = figures.cells.iter().any(|cell| cell.device.is_some());
    let has_layer = figures.cells.iter().any(|cell| cell.device.as_ref().is_some_and(|device| device.layer.is_some()));
    let mut device = if has_device { format!(" {:>12} {:>7} {:>9}", "time", "WAF", "erases") } else { String::new() };
    if has_layer {
        device += &format!(" {:>9} {:>9} {:>9} {:>9} {:>9}", "switch", "partial", "full", "map reads", "programs");
    }
    outln!(
        "{:>10} {:13} {:>8} {:>12} {:>12} {:>12} {:>12}{device}",
        "cache",
        "policy",
        "hits",
        "misses",
        "evicted clean",
        "dirty",
        "after reads"
    );
    figures.cells.iter().for_each(print_cell);
}

fn print_cell(cell: &CacheCell) {
    let hits = 100.0 * cell.hits as f64 / (cell.requests.max(1)) as f64;
    let device = cell.device.as_ref().map_or_else(String::new, |device| {
        let waf = device.waf.map_or_else(|| "-".to_owned(), |waf| format!("{waf:.3}"));
        let layer = device.layer.as_ref().map_or_else(String::new, print_layer);
        format!(" {:>10.2} s {waf:>7} {:>9}{layer}", device.elapsed_seconds, device.erases)
    });
    outln!(
        "{:>6} KiB {:13} {hits:>7.2}% {:>12} {:>13} {:>12} {:>12}{device}",
        cell.size_bytes >> 10,
        cell.policy,
        cell.misses,
        cell.evicted_clean,
        cell.evicted_dirty,
        cell.after_reads
    );
}

/// Merges and map traffic.
fn print_layer(layer: &LayerFigures) -> String {
    let LayerFigures { switch_merges, partial_merges, full_merges, map_reads, map_programs, .. } = layer;
    format!(" {switch_merges:>9} {partial_merges:>9} {full_merges:>9} {map_reads:>9} {map_programs:>9}")
}
