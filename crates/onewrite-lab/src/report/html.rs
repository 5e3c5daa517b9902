//! The report of a comparison as an HTML page: results, method and set-up, with charts.

use onewrite_block::Cause;

use super::compared::{Compared, Comparison, SHOWN, reads, syncs, writes};
use super::figures::{device, figures, promise};
use super::page::{self, table};
use super::table::subject;
use super::units::{bytes, grouped, plain, ratio};
use super::{jobs, setup};
use crate::draw::{self, Bar, Spread, Stack, escape};
use crate::results::Distribution;

/// The whole page.
pub(super) fn page(comparison: &Comparison) -> String {
    let body = [
        head(comparison),
        charts(comparison),
        figures_table(comparison),
        jobs_table(comparison),
        reading(comparison),
        foot(comparison),
    ]
    .concat();
    page::page(&subject(comparison), &body)
}

fn head(comparison: &Comparison) -> String {
    let Some(first) = comparison.runs.first() else { return "<h1>Nothing was compared</h1>\n".to_owned() };
    let job = escape(&first.result.onewrite.job);
    let runs = &comparison.runs;
    let fact = |fact: setup::Fact| {
        let differs = if fact.differs() { " class=\"differs\"" } else { "" };
        format!("<div{differs}><dt>{}</dt><dd>{}</dd></div>", fact.name, escape(&fact.words(runs)))
    };
    let facts: String = setup::facts(runs).into_iter().map(fact).collect();
    let lead = lead(runs);
    let notes: String =
        comparison.notes().iter().map(|note| format!("<p class=\"warning\">{}</p>\n", escape(note))).collect();
    format!(
        "<header>\n<p class=\"over\">Onewrite comparison</p>\n<h1>{job}</h1>\n{lead}{notes}<dl>{facts}</dl>\n\
         </header>\n"
    )
}

/// The fastest run of each promise, the strongest promise first. Runs with different promises are not ranked. A run
/// whose direct reads came from memory is not ranked either.
fn lead(runs: &[Compared]) -> String {
    let mut promises: Vec<String> = Vec::new();
    for promise in runs.iter().map(promise) {
        if !promises.contains(&promise) {
            promises.push(promise);
        }
    }
    promises.sort_by_key(|promise| {
        std::cmp::Reverse(["metadata", "data", "version"].iter().position(|name| name == promise))
    });
    let sentences: String = promises.iter().map(|kept| fastest(runs, kept)).collect();
    format!("<p class=\"lead\">{}</p>\n", sentences.trim_end())
}

fn fastest(runs: &[Compared], kept: &str) -> String {
    let rate = |run: &&Compared| run.result.onewrite.operations_per_second;
    let names = |run: &Compared| format!("<b>{}</b>", escape(&run.label));
    let (buffered, mut same): (Vec<&Compared>, Vec<&Compared>) =
        runs.iter().filter(|run| promise(run) == kept).partition(|run| run.reads_from_memory());
    same.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let ranked = match same[..] {
        [] => String::new(),
        [only] => format!("{} promises {kept}: {} operations/s. ", names(only), plain(rate(&only))),
        [best, .., worst] => {
            let ratio = rate(&best) / rate(&worst).max(f64::MIN_POSITIVE);
            let rate = plain(rate(&best));
            format!(
                "Of those that promise {kept}, {} is fastest: {rate} operations/s, {ratio:.2}× {}. ",
                names(best),
                names(worst)
            )
        }
    };
    let unranked = buffered.iter().map(|run| {
        let rate = plain(rate(run));
        format!("{} promises {kept} and is not ranked: its {rate} operations/s read from memory. ", names(run))
    });
    ranked + &unranked.collect::<String>()
}

fn charts(comparison: &Comparison) -> String {
    let runs = &comparison.runs;
    [
        section("Throughput", "operations a second; more is better", &throughput(runs)),
        latencies("Read latency", runs, reads),
        latencies("Write latency", runs, writes),
        latencies("fsync latency", runs, syncs),
        section(BYTES, BYTES_NOTE, &(legend(runs) + &by_cause(runs))),
        flushes(runs),
        flash(runs),
    ]
    .concat()
}

const BYTES: &str = "Bytes written to the device, by cause";
const BYTES_NOTE: &str = "for each byte that the workload wrote; layout of the files, the run and the clean unmount \
                          together; less is better";

fn section(title: &str, note: &str, chart: &str) -> String {
    if chart.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n{chart}</section>\n")
}

fn throughput(runs: &[Compared]) -> String {
    let bar = |run: &Compared| {
        let value = run.result.onewrite.operations_per_second;
        let text = plain(value) + if run.reads_from_memory() { ", from memory" } else { "" };
        Bar { label: run.label.clone(), value, text }
    };
    draw::bars("Throughput in operations a second", &runs.iter().map(bar).collect::<Vec<_>>())
}

fn latencies(title: &str, runs: &[Compared], of: fn(&Compared) -> &Distribution) -> String {
    let points = |run: &Compared| {
        let [median, high, highest] = SHOWN.map(|percent| of(run).percentile.at(percent));
        Some([median?.0, high?.0, highest?.0])
    };
    let spreads: Vec<Spread> =
        runs.iter().map(|run| Spread { label: run.label.clone(), points: points(run) }).collect();
    let note = "median <b class=\"dot\"></b>, 99 % <b class=\"hollow\"></b> and 99.9 % <b class=\"tick-mark\"></b> of \
                the operations took no longer; logarithmic scale, further left is better";
    section(title, note, &draw::spreads(title, &spreads))
}

/// Causes with writes in at least one run.
fn causes(runs: &[Compared]) -> Vec<(usize, Cause)> {
    let written = |index: usize| runs.iter().any(|run| device(run).host_write_bytes_by_cause.0[index] > 0);
    Cause::ALL.into_iter().enumerate().filter(|(index, _)| written(*index)).collect()
}

fn legend(runs: &[Compared]) -> String {
    let item = |(_, cause): (usize, Cause)| format!("<span><i class=\"{0}\"></i>{0}</span>", cause.name());
    format!("<p class=\"legend\">{}</p>\n", causes(runs).into_iter().map(item).collect::<String>())
}

fn by_cause(runs: &[Compared]) -> String {
    let stack = |run: &Compared| {
        let written = device(run).host_write_bytes_by_cause.0;
        let asked = run.result.onewrite.total.write.io_bytes.max(1) as f64;
        let part = |(index, cause): (usize, Cause)| {
            let title = format!("{} {}: {}", run.label, cause.name(), bytes(written[index]));
            (cause.name().to_owned(), written[index] as f64 / asked, title)
        };
        let parts = causes(runs).into_iter().map(part).collect();
        let text = format!("{}× · {}", ratio(run.result.written_per_byte()), bytes(device(run).host_write_bytes));
        Stack { label: run.label.clone(), parts, text }
    };
    draw::stacked(BYTES, &runs.iter().map(stack).collect::<Vec<_>>())
}

/// FLUSHes for each fsync if all runs have fsyncs; else their total.
fn flushes(runs: &[Compared]) -> String {
    let has_syncs = runs.iter().all(|run| run.result.flushes_per_sync().is_some());
    let bar = |run: &Compared| {
        let count = device(run).flushes;
        let (value, text) = match run.result.flushes_per_sync() {
            Some(each) if has_syncs => (each, format!("{each:.3} · {}", grouped(count))),
            _ => (count as f64, grouped(count)),
        };
        Bar { label: run.label.clone(), value, text }
    };
    let note = match has_syncs {
        true => "for each fsync of the workload: how often the device had to make its buffer durable; fewer is better",
        false => "how often the device had to make its buffer durable; fewer is better",
    };
    section("FLUSH commands", note, &draw::bars("FLUSH commands", &runs.iter().map(bar).collect::<Vec<_>>()))
}

/// Charts of flash operations; empty if no device has flash.
fn flash(runs: &[Compared]) -> String {
    if runs.iter().all(|run| device(run).waf.is_none()) {
        return String::new();
    }
    let bars = |bar: &dyn Fn(&Compared) -> (f64, String)| {
        let bars = runs.iter().map(|run| (run.label.clone(), bar(run)));
        bars.map(|(label, (value, text))| Bar { label, value, text }).collect::<Vec<_>>()
    };
    let each = |run: &Compared| device(run).flash_bytes_per_application_byte;
    let wear = bars(&|run| (each(run).unwrap_or(0.0), ratio(each(run))));
    let waf = bars(&|run| (device(run).waf.unwrap_or(0.0), ratio(device(run).waf)));
    let are_few = runs.iter().all(|run| device(run).erases < ERASES_FEW);
    let erases = bars(&|run| {
        if are_few {
            return (device(run).erases as f64, grouped(device(run).erases));
        }
        let asked = run.result.onewrite.total.write.io_bytes.max(1) as f64 / 1e9;
        let each = device(run).erases as f64 / asked;
        (each, format!("{} · {}", plain(each), grouped(device(run).erases)))
    });
    let note = "flash bytes programmed for each byte written to the device; garbage collection and mapping add to 1";
    let wears = "flash bytes programmed for each byte that the workload wrote, padding and log included: what wears \
                 the flash out";
    section("Flash bytes for each byte asked", wears, &draw::bars("Flash bytes for each byte asked", &wear))
        + &section("Write amplification", note, &draw::bars("Write amplification", &waf))
        + &section("Flash blocks erased", erases_note(are_few), &draw::bars("Erases", &erases))
}

/// With fewer erases a rate for each GB means nothing, because one erase would change it.
const ERASES_FEW: u64 = 100;

fn erases_note(are_few: bool) -> &'static str {
    match are_few {
        true => "how many: too few for a rate; fewer is better",
        false => "for each GB that the workload wrote; fewer is better",
    }
}

/// All figures as a table, to read or copy. First come the differences in the set-ups.
fn figures_table(comparison: &Comparison) -> String {
    let runs = &comparison.runs;
    let heads: Vec<String> = std::iter::once(String::new()).chain(runs.iter().map(|run| escape(&run.label))).collect();
    let row = |label: &str, cells: &[String]| {
        let label = match label.strip_prefix("  ") {
            Some(label) => format!("<span class=\"sub\">{}</span>", escape(label)),
            None => escape(label),
        };
        std::iter::once(label).chain(cells.iter().map(|cell| escape(cell))).collect::<Vec<String>>()
    };
    let differing = setup::differing(runs);
    let mut rows: Vec<Vec<String>> = differing.iter().map(|fact| row(fact.name, &fact.values)).collect();
    rows.extend(figures(runs).iter().map(|line| row(&line.label, &line.cells)));
    format!("<section class=\"long\">\n<h2>All figures</h2>\n{}</section>\n", table(&heads, &rows))
}

/// The table of each job or group of each run.
fn jobs_table(comparison: &Comparison) -> String {
    let rows = jobs::rows(&comparison.runs);
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    let table = table(&jobs::HEADS.map(str::to_owned), &rows);
    format!("<section class=\"long jobs\">\n<h2>Each job</h2>\n{table}</section>\n")
}

/// Explains what the figures mean, and what they do not mean.
fn reading(comparison: &Comparison) -> String {
    let is_virtual = comparison.runs.iter().all(|run| run.result.onewrite.virtual_seconds.is_some());
    let source = match is_virtual {
        true => {
            "<p>The file system is real code and wrote a real ext4 image. The device under it is <b>emulated</b>, and \
             time is virtual: the figures follow from the device profile and the host profile, are the same on every \
             machine, and say nothing of a particular disk of yours. Read them as ratios between the columns.</p>"
        }
        false => {
            "<p>Measured on a <b>real disk</b> with the machine's own clock: a second run will differ, and whatever \
             else ran on the machine is in the figures.</p>"
        }
    };
    let losses: String = comparison
        .runs
        .iter()
        .filter_map(|run| run.crash.as_ref()?.first_loss.as_ref().map(|loss| (run, loss)))
        .map(|(run, loss)| {
            format!("<p class=\"loss\"><b>{}</b> lost something it promised: {}</p>", escape(&run.label), escape(loss))
        })
        .collect();
    format!(
        "<section class=\"reading\">\n<h2>How to read this</h2>\n{source}\n\
         <p>The columns do not promise the same. <b>metadata</b>: the tree is whole after a crash, file content may be \
         stale. <b>data</b>: and no file shows blocks that were never its own. <b>version</b>: the whole tree is as it \
         was at one moment. In every mode what was synced survives. A mode that is faster and promises less has not \
         won.</p>\n{losses}</section>\n"
    )
}

fn foot(comparison: &Comparison) -> String {
    let version = comparison.runs.first().map_or("", |run| run.result.version);
    format!(
        "<footer>\n<p>Onewrite {version}. The same command gives the same figures:</p>\n<pre>{}</pre>\n</footer>\n",
        escape(&comparison.command)
    )
}
