//! `onewrite trace`

use std::path::{Path, PathBuf};

use anyhow::Context;
use onewrite_lab::generate::{self, Generation};
use onewrite_lab::is_same_file;
use onewrite_lab::trace::{self, Drawing, Summary, TraceWriter, WriteFormat};

use super::cache::options;
use crate::args::{Lines, Trace, TraceInput};
use crate::output::{self, is_stdout, write_json};
use crate::progress::Bar;

/// Carries one of the subcommands out.
pub fn trace(args: &Trace) -> anyhow::Result<()> {
    match args {
        Trace::Summarise { traces, input, json } => {
            let summaries = traces.iter().map(|path| summarise(path, input)).collect::<anyhow::Result<Vec<_>>>()?;
            if let Some(path) = json {
                write_json(path, &(serde_json::to_string_pretty(&summaries)? + "\n"))?;
            }
            if !json.as_deref().is_some_and(is_stdout) {
                print(traces, &summaries);
            }
            Ok(())
        }
        Trace::Convert { trace, output, input, to } => copy(trace, output, input, *to, 0, u64::MAX),
        Trace::Cut { trace, output, input, skip, take, to } => {
            copy(trace, output, input, *to, *skip, take.unwrap_or(u64::MAX))
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

fn open(path: &Path, input: &TraceInput) -> anyhow::Result<trace::Trace> {
    anyhow::ensure!(input.page_size > 0, "--page-size 0 is no size; take 4096");
    Ok(trace::Trace::open(path, &options(input))?)
}

fn summarise(path: &Path, input: &TraceInput) -> anyhow::Result<Summary> {
    let mut open = open(path, input)?;
    let total = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let bar = Bar::new(&path.display().to_string(), "bytes");
    let mut before = 0;
    let summary = trace::summarise(&mut open, input.page_size, |trace| {
        bar.advance(trace.bytes_read() - before, total);
        before = trace.bytes_read();
    })?;
    bar.finish("bytes of the trace");
    Ok(summary)
}

/// The columns of the dissertation's table 2-2, in MB of 2²⁰ bytes, and the footprint.
fn print(traces: &[std::path::PathBuf], summaries: &[Summary]) {
    let names: Vec<String> = traces.iter().map(|path| path.display().to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(5);
    let heads = ["read MiB", "write MiB", "write range MiB", "footprint MiB", "pages"];
    outln!("{:width$} {:>12} {:>12} {:>16} {:>14} {:>14}", "trace", heads[0], heads[1], heads[2], heads[3], heads[4]);
    for (name, summary) in names.iter().zip(summaries) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        outln!(
            "{name:width$} {:>12.1} {:>12.1} {:>16.1} {:>14.1} {:>14}",
            mib(summary.read_bytes),
            mib(summary.write_bytes),
            mib(summary.write_range_bytes),
            mib(summary.footprint_bytes),
            summary.requests
        );
    }
}

/// Refuses to write over what is read, by whatever name.
fn differ(from: &Path, to: &Path) -> anyhow::Result<()> {
    let is_same = from == to || is_same_file(from, to);
    anyhow::ensure!(!is_same, "{} would be written over while it is read; give a new name", from.display());
    Ok(())
}

fn copy(from: &Path, to: &Path, input: &TraceInput, lines: Lines, skip: u64, take: u64) -> anyhow::Result<()> {
    differ(from, to)?;
    let mut open = open(from, input)?;
    let format = match lines {
        Lines::Bytes => WriteFormat::Bytes(input.page_size),
        Lines::Pages => WriteFormat::Pages(input.page_size),
    };
    let mut writer = TraceWriter::create(to)?;
    let (mut number, mut taken) = (0_u64, 0_u64);
    let mut volume = None;
    while taken < take
        && let Some(record) = open.next_record()?
    {
        if *volume.get_or_insert(record.volume) != record.volume {
            let (first, other) = (volume.unwrap_or(0), record.volume);
            anyhow::bail!(
                "the trace has volumes {first} and {other}, which our format cannot tell apart: add --volume {first}"
            );
        }
        if number >= skip {
            writer.record(&record, format)?;
            taken += 1;
        }
        number += 1;
    }
    writer.finish()?;
    eprintln!("{}: {taken} records from {} ({})", to.display(), from.display(), open.format());
    Ok(())
}

fn generate(what: Generation<'_>, output: &Path) -> anyhow::Result<()> {
    let requests = generate::generate(what)?;
    let mut writer = TraceWriter::create(output)?;
    requests.iter().try_for_each(|request| writer.page(*request))?;
    writer.finish()?;
    let Generation { kind, seed, scale, .. } = what;
    eprintln!("{}: {} pages of {kind}, seed {seed}, scale {scale}", output.display(), requests.len());
    Ok(())
}

fn draw(from: &Path, to: &Path, input: &TraceInput, only_writes: bool) -> anyhow::Result<()> {
    differ(from, to)?;
    output::check(&[Some(&to.to_owned())])?;
    let drawing = Drawing { page_bytes: input.page_size, only_writes };
    let title = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    open(from, input)?;
    let svg = trace::draw(&title, drawing, || trace::Trace::open(from, &options(input)))?;
    output::write(to, &svg)
}
