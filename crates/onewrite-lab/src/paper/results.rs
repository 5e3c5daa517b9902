//! Results: measures every journal mode on every device. There is one table for each device and log, beside the papers'
//! rows.

use std::fmt::Write as _;

use onewrite_block::{GIB, MIB};
use onewrite_fs::ext4::Mode;
use onewrite_fs::journal::Padding;

use super::cell::{Cell, Work};
use super::entry::Duration;
use super::false_recovery::{COMMITS, FalseRecoveries, false_recoveries};
use super::measure::run;
use super::scoreboard::{Row, scoreboard};
use super::scores::{Outcome, Scores};
use crate::cores::side_by_side;
use crate::error::LabError;
use crate::report::{markdown_html, page};
use crate::results::RunResult;
use crate::workload::filebench::{Length, Personality};

/// The modes of the papers, in the order of the tables: a choice of [`Mode::ALL`], and padding without TRIM.
const MODES: [Mode; 10] = [
    Mode::Ordered,
    Mode::Data,
    Mode::DataAsync,
    Mode::DataLazy,
    Mode::Ldj,
    Mode::Soj,
    Mode::Sdj,
    Mode::SdjAsync,
    Mode::Zp(Padding::PLAIN),
    Mode::Zp(Padding { trims: false, ..Padding::PLAIN }),
];
/// Writes between two fsyncs.
const INTERVALS: [u32; 5] = [1, 8, 32, 128, 512];
/// Families of rows that are measured beside the tables.
const FAMILIES: [&str; 3] = ["afs-", "ldj-", "zp-"];

const HEAD: &str = "# Results

Every journal mode in virtual time on emulated devices of 16 GiB, made by `make results` from seed 1. What the figures \
say, and where they
differ from the papers, is in `results-notes.md`.

- `fsync N`: fio's random writes of 4 KiB over one file of 256 MiB, half of each page compressible, an fsync after \
every N; 256 MiB are
  written or 30 s pass. Writes a second.
- `varmail`, `fileserver`: filebench's personalities, 10,000 operations. Operations a second.
- In brackets: bytes written to the device for each byte that the workload wrote, layout and the checkpoints at the \
end included.
- `no SHARE`: the mode needs a command that the device lacks.
- 256 MiB of page cache, delayed allocation where the mode has it, the default host profile.

";

/// `head`, which begins with a title, and under the title whether the run was short.
pub(super) fn headed(head: &str, is_short: bool) -> String {
    let (title, rest) = head.split_once('\n').expect("a title");
    let short = if is_short { SHORT } else { "" };
    format!("{title}\n{short}{rest}")
}

const SHORT: &str = "
**A short run (`--short`)**, with a small part of the work that is described below, on fewer and smaller devices. It \
shows that all of it runs; its figures stand for nothing.
";

/// Scope of a study.
#[derive(Clone, Debug)]
pub struct ResultsStudy {
    /// Device profiles.
    pub devices: Vec<&'static str>,
    /// Bytes of a device.
    pub device_bytes: u64,
    /// Sizes of the log.
    pub logs: Vec<u64>,
    /// An additional size of the log, only for `ldj`.
    pub large_log: Option<u64>,
    /// Bytes of the file, and bytes of random writes.
    pub io_bytes: u64,
    /// Operations of a personality.
    pub operations: u64,
    /// Files of a personality, if not filebench's number.
    pub files: Option<u32>,
    /// Whether to measure the papers' rows and false recoveries too.
    pub rows: bool,
}

/// Device, log and modes of one table.
type Plan = (&'static str, u64, Vec<Mode>);

impl ResultsStudy {
    /// The study of `docs/results.md`.
    pub fn full() -> ResultsStudy {
        ResultsStudy {
            devices: vec!["sata-850pro", "nvme-960pro", "nvme-share", "hdd-barracuda"],
            device_bytes: 16 * GIB,
            logs: vec![128 * MIB, GIB],
            large_log: Some(5 * GIB),
            io_bytes: 256 * MIB,
            operations: 10_000,
            files: None,
            rows: true,
        }
    }

    /// A small study that takes seconds.
    pub fn short() -> ResultsStudy {
        ResultsStudy {
            devices: vec!["sata-850pro", "nvme-share"],
            device_bytes: 512 * MIB,
            logs: vec![32 * MIB],
            large_log: None,
            io_bytes: 2 * MIB,
            operations: 100,
            files: Some(600),
            rows: false,
        }
    }

    fn works(&self) -> Vec<(String, Work)> {
        let fio = |interval| {
            let (file_bytes, io_bytes) = (self.io_bytes, self.io_bytes);
            let work = Work::RandomWrites { block_bytes: 4096, threads: 1, file_bytes, io_bytes, interval };
            (format!("fsync {interval}"), work)
        };
        let named = |personality: Personality| {
            let (files, operations) = (self.files, self.operations);
            (
                personality.name().to_owned(),
                Work::Personality {
                    personality,
                    files,
                    length: Length::Operations(operations),
                    compressible_percent: 50,
                },
            )
        };
        let personalities = [Personality::Varmail, Personality::Fileserver].map(named);
        INTERVALS.into_iter().map(fio).chain(personalities).collect()
    }

    fn tables(&self) -> Vec<Plan> {
        let mut tables = Vec::new();
        for device in &self.devices {
            tables.extend(self.logs.iter().map(|log| (*device, *log, MODES.to_vec())));
            tables.extend(self.large_log.iter().map(|log| (*device, *log, vec![Mode::Ldj])));
        }
        tables
    }

    /// Runs all cells, then the rows, on all cores. After each one calls `watch` with the number of all cells or rows.
    ///
    /// # Errors
    /// The first error, in the order of the tables.
    pub fn run(&self, watch: &(dyn Fn(usize) + Sync)) -> Result<JournalResults, LabError> {
        let works = self.works();
        let mut cells = Vec::new();
        let tables = self.tables();
        for (device, log_bytes, modes) in &tables {
            for mode in modes {
                cells.extend(works.iter().map(|(_, work)| Cell {
                    log_bytes: *log_bytes,
                    device_bytes: self.device_bytes,
                    ..Cell::new(device, *mode, *work)
                }));
            }
        }
        let outcomes = side_by_side(0, cells.len(), |place| {
            let figure = Figure::of(&cells[place]);
            watch(cells.len());
            figure
        })?;
        let mut outcomes = outcomes.into_iter();
        let tables = tables.into_iter().map(|(device, log_bytes, modes)| {
            let row = |mode: &Mode| (*mode, outcomes.by_ref().take(works.len()).collect());
            Table { device, log_bytes, rows: modes.iter().map(row).collect() }
        });
        let tables = tables.collect();
        let columns = works.into_iter().map(|(name, _)| name).collect();
        if !self.rows {
            let (rows, false_recoveries) = (Scores::default(), Vec::new());
            return Ok(JournalResults { is_short: true, columns, tables, rows, false_recoveries });
        }
        let rows = self.measure_rows(watch)?;
        Ok(JournalResults { is_short: false, columns, tables, rows, false_recoveries: false_recoveries(COMMITS)? })
    }

    /// The rows; one that fails says why, and the others stand.
    fn measure_rows(&self, watch: &(dyn Fn(usize) + Sync)) -> Result<Scores, LabError> {
        let is_ours = |row: &Row| FAMILIES.iter().any(|family| row.id.starts_with(family));
        let wanted = |row: &Row| row.can_run() && is_ours(row) && row.duration() != Duration::MinutesOfFiles;
        let rows: Vec<Row> = scoreboard()?.into_iter().filter(wanted).collect();
        let outcomes = side_by_side(0, rows.len(), |place| {
            let row = &rows[place];
            let outcome = run(row).map_or_else(|why| Outcome::Failed(row.clone(), why.to_string()), Outcome::Measured);
            watch(rows.len());
            Ok(outcome)
        })?;
        Ok(Scores(outcomes))
    }
}

/// Figures of one cell.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Operations a second.
    pub speed: f64,
    /// Bytes written to the device for each byte that the workload wrote.
    pub written_per_byte: f64,
    /// FLUSH commands for each commit.
    pub flushes_per_commit: f64,
}

impl Figure {
    /// Runs a cell; `None` if the device lacks what the mode needs.
    fn of(cell: &Cell) -> Result<Option<Figure>, LabError> {
        Ok(cell.run()?.map(|result| Figure {
            speed: cell.speed(&result),
            written_per_byte: result.written_per_byte().unwrap_or(0.0),
            flushes_per_commit: flushes_per_commit(&result),
        }))
    }
}

fn flushes_per_commit(result: &RunResult) -> f64 {
    let commits = result.onewrite.fs.as_ref().map_or(0, |fs| fs.commits);
    result.onewrite.device.flushes as f64 / commits.max(1) as f64
}

/// The table of one device and one log size.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    device: &'static str,
    log_bytes: u64,
    rows: Vec<(Mode, Vec<Option<Figure>>)>,
}

/// All results of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalResults {
    is_short: bool,
    columns: Vec<String>,
    tables: Vec<Table>,
    rows: Scores,
    false_recoveries: Vec<FalseRecoveries>,
}

impl JournalResults {
    /// The results as an HTML page.
    pub fn html(&self) -> String {
        page("Results", &markdown_html(&self.markdown()))
    }

    /// The results as Markdown tables.
    pub fn markdown(&self) -> String {
        let mut text = headed(HEAD, self.is_short);
        for table in &self.tables {
            self.table(table, &mut text);
        }
        if !self.rows.0.is_empty() {
            text += &format!("## The papers beside it\n\n{}", self.rows.markdown());
        }
        if !self.false_recoveries.is_empty() {
            text += "\n## False recovery\n\n| log | trimmed behind its tail | states with log blocks missing | taken \
                     for whole |\n|---|---|---:|---:|\n";
        }
        for kind in &self.false_recoveries {
            let log = if kind.by_checksum { "`ldj`: a checksum over all" } else { "`ldj-paper`: what decompresses" };
            let trimmed = if kind.trimmed { "yes" } else { "no" };
            writeln!(text, "| {log} | {trimmed} | {} | {} |", kind.states, kind.believed).expect("a string");
        }
        text
    }

    fn table(&self, table: &Table, text: &mut String) {
        let log = if table.log_bytes >= GIB {
            format!("{} GiB", table.log_bytes / GIB)
        } else {
            format!("{} MiB", table.log_bytes / MIB)
        };
        writeln!(text, "## {}, log of {log}\n", table.device).expect("a string");
        writeln!(text, "| mode | {} |", self.columns.join(" | ")).expect("a string");
        writeln!(text, "|---|{}", "---:|".repeat(self.columns.len())).expect("a string");
        for (mode, figures) in &table.rows {
            let cell = |figure: &Option<Figure>| match figure {
                None => "no SHARE".to_owned(),
                Some(figure) => format!("{} ({:.2})", thousands(figure.speed), figure.written_per_byte),
            };
            let cells: Vec<String> = figures.iter().map(cell).collect();
            writeln!(text, "| `{mode}` | {} |", cells.join(" | ")).expect("a string");
        }
        text.push('\n');
    }
}

/// A number with thin spaces between groups of three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (first > 0).then(|| digits[..first].to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(
            [0.4, 12.0, 999.6, 123_456.0, 1_000_000.0].map(thousands),
            ["0", "12", "1 000", "123 456", "1 000 000"]
        );
    }

    #[test]
    fn every_mode_has_a_row_and_what_a_device_cannot_do_is_marked() {
        let results = ResultsStudy::short().run(&|_| ()).unwrap();
        let text = results.markdown();
        for mode in MODES {
            assert_eq!(text.matches(&format!("| `{mode}` |")).count(), 2, "{text}");
        }
        assert_eq!(text.matches("| no SHARE").count(), 3 * 7, "{text}");
        assert!(text.starts_with("# Results\n\n**A short run (`--short`)**"), "{text}");
    }
}
