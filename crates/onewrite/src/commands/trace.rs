//! `onewrite trace`

use std::path::{Path, PathBuf};

use anyhow::Context;
use onewrite_lab::generate::{self, Generation};
use onewrite_lab::trace::{self, Drawing, Record, Summary, TraceOptions, TraceWriter, Volumes, WriteFormat};

use super::cache::{alone, options};
use crate::args::{Lines, Trace, TraceInput};
use crate::output::{self, is_stdout, write_json};
use crate::outputs::Outputs;
use crate::progress::Bar;

/// Runs one of the subcommands.
pub fn trace(args: &Trace) -> anyhow::Result<()> {
    match args {
        Trace::Summarise { traces, input, each, json } => {
            let inputs: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
            Outputs { json: json.as_ref(), ..Outputs::default() }.check(&inputs)?;
            let mut summaries = Vec::new();
            for path in traces {
                summaries.extend(summaries_of(path, input, *each)?);
            }
            if let Some(path) = json {
                let figures: Vec<&Summary> = summaries.iter().map(|(_, summary)| summary).collect();
                write_json(path, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
            }
            if !json.as_deref().is_some_and(is_stdout) {
                print(&summaries);
            }
            Ok(())
        }
        Trace::Convert { trace, output, input, to, no_times } => {
            copy(trace, output, input, *to, Kept { skip: 0, take: u64::MAX, no_times: *no_times })
        }
        Trace::Cut { trace, output, input, skip, take, to, no_times } => {
            let kept = Kept { skip: *skip, take: take.unwrap_or(u64::MAX), no_times: *no_times };
            copy(trace, output, input, *to, kept)
        }
        Trace::Generate { name, output, seed, scale, load_file, clients } => {
            let load_file = load_file.as_deref();
            let what = Generation { kind: *name, seed: *seed, scale: *scale, load_file, clients: *clients };
            let output = output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.csv")));
            generate(what, &output)
        }
        Trace::Draw { trace, output, input, writes } => draw(trace, output, input, *writes),
    }
}

/// Names and summaries of the trace or of each of its volumes.
fn summaries_of(path: &Path, input: &TraceInput, each: bool) -> anyhow::Result<Vec<(String, Summary)>> {
    let all = options(path, input)?;
    let name = path.display().to_string();
    if !each {
        return Ok(vec![(name, summarise(path, &all, input.page_size)?)]);
    }
    let volumes = Volumes::of(path, &all, input.page_size)?.numbers();
    let of = |volume: u32| {
        let options = alone(volume, &all, input.page_size);
        Ok((format!("{name}, volume {volume}"), summarise(path, &options, input.page_size)?))
    };
    volumes.into_iter().map(of).collect()
}

fn summarise(path: &Path, options: &TraceOptions, page_bytes: u64) -> anyhow::Result<Summary> {
    let mut open = trace::Trace::open(path, options)?;
    let total = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let bar = Bar::new(&path.display().to_string(), "bytes");
    let mut before = 0;
    let summary = trace::summarise(&mut open, page_bytes, |trace| {
        bar.advance(trace.bytes_read() - before, total);
        before = trace.bytes_read();
    })?;
    bar.finish("bytes of the trace");
    Ok(summary)
}

/// Prints requests and time, the columns of the dissertation's table 2-2 in MB of 2²⁰ bytes, and the footprint.
fn print(summaries: &[(String, Summary)]) {
    let width = summaries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(5);
    let heads =
        ["requests", "writes", "duration", "read MiB", "write MiB", "write range MiB", "footprint MiB", "pages"];
    let [requests, writes, duration, read, write, range, footprint, pages] = heads;
    outln!(
        "{:width$} {requests:>12} {writes:>7} {duration:>12} {read:>12} {write:>12} {range:>16} {footprint:>14} \
         {pages:>14}",
        "trace"
    );
    for (name, summary) in summaries {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let share = 100.0 * summary.write_records as f64 / summary.records.max(1) as f64;
        let duration = summary.duration_seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.3} s"));
        outln!(
            "{name:width$} {:>12} {share:>5.1} % {duration:>12} {:>12.1} {:>12.1} {:>16.1} {:>14.1} {:>14}",
            summary.records,
            mib(summary.read_bytes),
            mib(summary.write_bytes),
            mib(summary.write_range_bytes),
            mib(summary.footprint_bytes),
            summary.requests
        );
    }
}

/// Refuses an output that cannot or must not be made.
fn makes(output: &Path, inputs: &[&Path]) -> anyhow::Result<()> {
    Outputs { files: vec![&output.to_owned()], ..Outputs::default() }.check(inputs)
}

/// What is copied of a trace.
#[derive(Clone, Copy)]
struct Kept {
    /// Records left out first.
    skip: u64,
    /// Most records after them.
    take: u64,
    /// Whether times are left out.
    no_times: bool,
}

/// Copies records. Times count from the first copied record.
fn copy(from: &Path, to: &Path, input: &TraceInput, lines: Lines, kept: Kept) -> anyhow::Result<()> {
    makes(to, &[from])?;
    let options = options(from, input)?;
    let has_times = !kept.no_times && trace::Trace::has_times(from, &options)?;
    let mut open = trace::Trace::open(from, &options)?;
    let format = match lines {
        Lines::Bytes => WriteFormat::Bytes(input.page_size),
        Lines::Pages => WriteFormat::Pages(input.page_size),
    };
    let mut writer = TraceWriter::create(to)?;
    if has_times {
        writer = writer.with_times(format)?;
    }
    let (mut number, mut taken) = (0_u64, 0_u64);
    let (mut volume, mut begin) = (None, None);
    while taken < kept.take
        && let Some(record) = open.next_record()?
    {
        if *volume.get_or_insert(record.volume) != record.volume {
            let (first, other) = (volume.unwrap_or(0), record.volume);
            anyhow::bail!(
                "the trace has volumes {first} and {other}, which our format cannot tell apart: add --volume {first}, \
                 or --pack"
            );
        }
        if number >= kept.skip {
            let since = open.seen().since_first(record.time_ns);
            let time_ns = since.saturating_sub(*begin.get_or_insert(since));
            writer.record(&Record { time_ns, ..record }, format)?;
            taken += 1;
        }
        number += 1;
    }
    if taken == 0 {
        let what =
            input.volume.map_or_else(|| "the trace".to_owned(), |volume| format!("volume {volume} of the trace"));
        match kept.take {
            0 => anyhow::bail!("--take 0 takes nothing; leave it out, or take 1 or more"),
            _ => {
                anyhow::bail!("{}: no record is left: {what} has {number}; pass over fewer with --skip", from.display())
            }
        }
    }
    writer.finish()?;
    let times = if has_times { ", with times" } else { "" };
    note!("{}: {taken} records from {} ({}){times}", to.display(), from.display(), open.format());
    Ok(())
}

fn generate(what: Generation<'_>, output: &Path) -> anyhow::Result<()> {
    makes(output, what.load_file.as_slice())?;
    let requests = generate::generate(what)?;
    let mut writer = TraceWriter::create(output)?;
    requests.iter().try_for_each(|request| writer.page(*request))?;
    writer.finish()?;
    let Generation { kind, seed, scale, .. } = what;
    note!("{}: {} pages of {kind}, seed {seed}, scale {scale}", output.display(), requests.len());
    Ok(())
}

fn draw(from: &Path, to: &Path, input: &TraceInput, only_writes: bool) -> anyhow::Result<()> {
    makes(to, &[from])?;
    let drawing = Drawing { page_bytes: input.page_size, only_writes };
    let title = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let options = options(from, input)?;
    let svg = trace::draw(&title, drawing, || trace::Trace::open(from, &options))?;
    output::write(to, &svg)
}
