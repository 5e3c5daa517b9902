//! `onewrite cache`

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use onewrite_block::Nanos;
use onewrite_lab::cache::{CacheCell, CacheFigures, LayerFigures, Stage, StudyProgress};
use onewrite_lab::experiment::{CacheExperiment, LayerChoice, TraceChoice};
use onewrite_lab::results::Distribution;
use onewrite_lab::trace::{TraceOptions, Volumes};

use crate::args::{Cache, TraceInput};
use crate::output::{self, is_stdout, write_json};
use crate::outputs::Outputs;
use crate::progress::Bar;

/// Runs a trace through policies and sizes.
pub fn cache(args: &Cache) -> anyhow::Result<()> {
    let outputs = Outputs {
        json: args.json.as_ref(),
        files: args.after.iter().chain(&args.chart).collect(),
        ..Outputs::default()
    };
    outputs.check(&[&args.trace])?;
    if args.each {
        return each(args);
    }
    let figures = run(args, options(&args.trace, &args.input)?)?;
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        print(&figures);
    }
    Ok(())
}

/// Studies each volume as if it were a trace of its own.
fn each(args: &Cache) -> anyhow::Result<()> {
    let all = options(&args.trace, &args.input)?;
    let mut found = Vec::new();
    for volume in Volumes::of(&args.trace, &all, args.input.page_size)?.numbers() {
        let of = |path: &Option<PathBuf>| path.as_deref().map(|path| of_volume(path, volume));
        let own = Cache { after: of(&args.after), chart: of(&args.chart), ..args.clone() };
        let figures = run(&own, alone(volume, &all, args.input.page_size))?;
        if !args.json.as_deref().is_some_and(is_stdout) {
            outln!("volume {volume}");
            print(&figures);
        }
        found.push(figures);
    }
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&found)? + "\n"))?;
    }
    Ok(())
}

fn run(args: &Cache, options: TraceOptions) -> anyhow::Result<CacheFigures> {
    let study = experiment(args).study(options)?;
    if args.chart.is_some() && study.sizes.iter().all(|size| *size == study.sizes[0]) {
        bail!("--chart shows misses over sizes: give --size several that differ, as 1%,3%,10%,30%");
    }
    let bar = Bar::new("cache", "pages");
    let done = [const { AtomicU64::new(0) }; 4];
    let figures = study.run(&|step: StudyProgress| {
        let (place, name) = match step.stage {
            Stage::Reading => (0, "cache: reading the trace"),
            Stage::Filling => (1, "cache: filling the device"),
            Stage::Aging => (2, "cache: aging the device"),
            Stage::Requests => (3, "cache"),
        };
        let before = done[place].fetch_add(step.done, Ordering::Relaxed);
        bar.stage((name, "pages"), before + step.done, step.total);
        Ok(())
    })?;
    bar.finish("requests");
    if let Some(path) = &args.chart {
        let title = args.trace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_page = path.extension().is_some_and(|extension| extension == "html");
        let chart = if is_page { figures.html(&title)? } else { figures.svg(&title)? };
        output::write(path, &chart)?;
    }
    Ok(figures)
}

fn experiment(args: &Cache) -> CacheExperiment {
    CacheExperiment {
        trace: args.trace.clone(),
        input: choice(&args.input),
        policies: args.policies.clone(),
        sizes: args.sizes.clone(),
        flash_block: args.flash_block,
        after: args.after.clone(),
        device: args.device.clone(),
        timed: args.timed,
        layer: LayerChoice { ftl: Some(args.ftl.into()), log_blocks: args.log_blocks, map_cache: args.map_cache },
        device_size: args.device_size,
        blank: args.blank,
        age: args.age,
        threads: args.threads,
    }
}

fn choice(input: &TraceInput) -> TraceChoice {
    let TraceInput { format, volume, pack, action, page_size } = input.clone();
    TraceChoice { format, volume, pack, action, page_size }
}

/// How to read the trace at `path`. For packed volumes, reads it once beforehand.
pub fn options(path: &Path, input: &TraceInput) -> anyhow::Result<TraceOptions> {
    Ok(choice(input).options(path)?)
}

/// Options for one volume, which begins at page 0.
pub fn alone(volume: u32, all: &TraceOptions, page_bytes: u64) -> TraceOptions {
    let packing = Some(Volumes::alone(volume, page_bytes));
    TraceOptions { volume: Some(volume), packing, ..all.clone() }
}

/// Adds the volume to a file name: `out.csv` for volume 3 is `out-3.csv`.
pub fn of_volume(path: &Path, volume: u32) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (stem, rest) =
        name.split_once('.').map_or((name.as_str(), String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    path.with_file_name(format!("{stem}-{volume}{rest}"))
}

fn print(figures: &CacheFigures) {
    let has_device = figures.cells.iter().any(|cell| cell.device.is_some());
    let has_layer = figures.cells.iter().any(|cell| cell.device.as_ref().is_some_and(|device| device.layer.is_some()));
    let is_timed =
        figures.cells.iter().any(|cell| cell.device.as_ref().is_some_and(|device| device.response_ns.is_some()));
    let mut device = if has_device { format!(" {:>12} {:>7} {:>9}", "time", "WAF", "erases") } else { String::new() };
    if is_timed {
        device += &format!(" {:>10} {:>10}", "response", "p99");
    }
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
        let response = device.response_ns.as_ref().map_or_else(String::new, print_response);
        let layer = device.layer.as_ref().map_or_else(String::new, print_layer);
        format!(" {:>10.2} s {waf:>7} {:>9}{response}{layer}", device.elapsed_seconds, device.erases)
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

/// Formats mean and 99th percentile.
fn print_response(response: &Distribution) -> String {
    let mean = Nanos(response.moments.mean.round() as u64).to_string();
    let high = response.percentile.at(99.0).map_or("–".to_owned(), |span| span.to_string());
    format!(" {mean:>10} {high:>10}")
}

/// Formats merges and mapping traffic.
fn print_layer(layer: &LayerFigures) -> String {
    let LayerFigures { switch_merges, partial_merges, full_merges, map_reads, map_programs, .. } = layer;
    format!(" {switch_merges:>9} {partial_merges:>9} {full_merges:>9} {map_reads:>9} {map_programs:>9}")
}
