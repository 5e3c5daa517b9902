//! Show: the study as Markdown tables, and as an HTML page with a chart for each device and job.

use std::fmt::Write as _;

use super::super::results::headed;
use super::{Cost, Figure, Job, Mechanism, Mechanisms, Table};
use crate::draw::{Bar, bars, escape};
use crate::report::{markdown_html, page};

const HEAD: &str = "# Every mechanism, side by side

What the same work costs with each consistency mechanism of the papers, and with what they compare it with. Made by
`make mechanisms` from seed 1, in virtual time, on new emulated devices of 16 GiB, with 256 MiB of page cache and else
the defaults of `onewrite run`.

- A cell: operations a second of the whole run; in brackets what was written to the device, and what was programmed
  on its flash, for each byte that the workload wrote; for SQLite in KiB for each operation. These bytes are those of
  the second half of the work: what a run of half the length writes, layout and unmount with it, is taken off.
- `1 KiB, fsync each`: 4,096 random writes of 1 KiB over a file of 1 MiB; half of the content compresses, and of
  `random content` nothing. `varmail`, `fileserver`: filebench's, 50,000 operations, half of the content compresses; and
  the file server with 16 MiB of page cache. SQLite: 3,000 operations of AndroBench, with a write-ahead log, and without
  a journal where files are atomic; its pages compress well.
- `ts-clock` is `ordered` with TS-CLOCK, which says what pages leave a page cache that is full: it matters in the file
  server alone. `ts-clock.md` has the study of caches.
- `promise` is what survives a power cut beside what was synced (`crash-model.md`): `data` no foreign content; `version`
  the tree of some moment; `checkpoint` what F2FS had at its last one; `names` the names and inodes of some moment.
  `papers` names the paper that has the mechanism (`papers.md`); none for what they compare it with.
- `–`: the file system has no atomic files. On `ocssd-huawei` ext4 lies over PFTL, F2FS on the flash
  itself.
- A new device collects no garbage in these runs; `onewrite run --age steady` shows one that does.

";

impl Mechanisms {
    /// The tables, with what costs least in front.
    pub fn markdown(&self) -> String {
        let mut text = headed(HEAD, self.is_short);
        self.least(&mut text);
        for table in &self.tables {
            self.table(table, &mut text);
        }
        text
    }

    /// The same as an HTML page, with charts of the programmed bytes.
    pub fn html(&self) -> String {
        let mut body = markdown_html(&self.markdown());
        for table in &self.tables {
            body += &format!("<h2>{}, programmed on flash</h2>\n", escape(table.device));
            for (place, job) in self.jobs.iter().enumerate() {
                body += &format!("<h3>{}: {}, and operations a second</h3>\n", escape(job.name), job.cost.unit());
                body += &chart(table, job, place);
            }
        }
        page("Every mechanism, side by side", &body)
    }

    /// Which mechanism programs least, and which is fastest, of all and of those that keep a version.
    fn least(&self, text: &mut String) {
        *text += "## Which costs least\n\nFewest bytes on flash and most operations a second, of all mechanisms, and \
                  of those after which the tree of some\nmoment is there (\"version\"). Who is within 2% of the first \
                  stands beside it.\n\n";
        writeln!(text, "| device | least, most | {} |", self.heads()).expect("a string");
        writeln!(text, "|---|---|{}", "---|".repeat(self.jobs.len())).expect("a string");
        for table in &self.tables {
            for (name, cost) in COSTS {
                for (of, promise) in [("", None), (", version", Some("version"))] {
                    let cells: Vec<String> = (0..self.jobs.len()).map(|job| best(table, job, cost, promise)).collect();
                    writeln!(text, "| `{}` | {name}{of} | {} |", table.device, cells.join(" | ")).expect("a string");
                }
            }
        }
        text.push('\n');
    }

    fn heads(&self) -> String {
        self.jobs.map(|job| job.name).join(" | ")
    }

    fn table(&self, table: &Table, text: &mut String) {
        writeln!(text, "## {}\n", table.device).expect("a string");
        writeln!(text, "| mechanism | papers | promise | {} |", self.heads()).expect("a string");
        writeln!(text, "|---|---|---|{}", "---:|".repeat(self.jobs.len())).expect("a string");
        let (ran, others): (Vec<_>, Vec<_>) =
            table.rows.iter().partition(|(_, figures)| figures.iter().any(Option::is_some));
        for (mechanism, figures) in ran {
            let promise = figures.iter().flatten().next().map_or("–", |figure| &figure.promise);
            let Mechanism { name, paper, .. } = mechanism;
            let cells: Vec<String> = figures.iter().map(cell).collect();
            writeln!(text, "| `{name}` | {paper} | {promise} | {} |", cells.join(" | ")).expect("a string");
        }
        text.push('\n');
        let others: Vec<String> = others.iter().map(|(mechanism, _)| format!("`{}`", mechanism.name)).collect();
        if !others.is_empty() {
            writeln!(text, "Not on this device: {}.\n", others.join(", ")).expect("a string");
        }
    }
}

impl Cost {
    fn unit(self) -> &'static str {
        match self {
            Cost::PerByte => "bytes for each byte",
            Cost::KibPerOperation => "KiB for each operation",
        }
    }
}

fn cell(figure: &Option<Figure>) -> String {
    let Some(Figure { speed, written, programmed, .. }) = figure else { return "–".to_owned() };
    format!("{speed:.0} ({}; {})", short(*written), short(*programmed))
}

/// Three digits, or all before the point.
fn short(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Largest relative distance from the best that stands beside it, as in the verdicts of the scoreboard.
const ALIKE: f64 = 0.02;

type CostOf = fn(&Figure) -> f64;

/// What is least in the best figure, with its name.
const COSTS: [(&str, CostOf); 2] = [("bytes", |figure| figure.programmed), ("speed", |figure| 1.0 / figure.speed)];

/// The mechanisms with the least `cost` in column `place`, of those with this promise.
fn best(table: &Table, place: usize, cost: CostOf, promise: Option<&str>) -> String {
    let cells = table.rows.iter().filter_map(|(mechanism, figures)| Some((mechanism.name, figures[place].as_ref()?)));
    let asked = cells.filter(|(_, figure)| promise.is_none_or(|promise| figure.promise == promise));
    let best = names(asked.map(|(name, figure)| (name, cost(figure))));
    if best.is_empty() { "–".to_owned() } else { best }
}

/// The names with the least value, and with those that are [`ALIKE`], in the order of the table.
fn names<'a>(costs: impl Iterator<Item = (&'a str, f64)> + Clone) -> String {
    let least = costs.clone().map(|(_, cost)| cost).fold(f64::INFINITY, f64::min);
    let alike = costs.filter(|(_, cost)| *cost <= least * (1.0 + ALIKE)).map(|(name, _)| format!("`{name}`"));
    alike.collect::<Vec<_>>().join(", ")
}

/// A bar is at most so many times as long as the median one; zero padding would make all others invisible.
const LONGEST: f64 = 4.0;

fn chart(table: &Table, job: &Job, place: usize) -> String {
    let cell =
        |(mechanism, figures): &(Mechanism, Vec<Option<Figure>>)| Some((mechanism.name, figures[place].clone()?));
    let cells: Vec<(&str, Figure)> = table.rows.iter().filter_map(cell).collect();
    let mut sorted: Vec<f64> = cells.iter().map(|(_, figure)| figure.programmed).collect();
    sorted.sort_by(f64::total_cmp);
    let most = LONGEST * sorted[sorted.len() / 2];
    let bar = |(name, figure): &(&str, Figure)| {
        let Figure { programmed, speed, .. } = *figure;
        let cut = if programmed > most { " (bar cut)" } else { "" };
        let text = format!("{}{cut} · {speed:.0}/s", short(programmed));
        Bar { label: (*name).to_owned(), value: programmed.min(most), text }
    };
    let title = format!("{} on {}: {} programmed", job.name, table.device, job.cost.unit());
    bars(&title, &cells.iter().map(bar).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::MechanismStudy;
    use super::*;

    #[test]
    fn every_mechanism_has_its_row_and_what_cannot_run_is_marked() {
        let found = MechanismStudy::short().run(&|_| ()).unwrap();
        let text = found.markdown();
        for (name, tables) in [("ts-clock", 2), ("sdj+async", 1), ("zp-data", 2), ("f2fs+share", 1), ("f2fs+stage", 2)]
        {
            assert_eq!(text.matches(&format!("\n| `{name}` |")).count(), tables, "{text}");
        }
        assert!(text.contains("Not on this device: `soj`, `sdj`, `sdj+async`, `f2fs+ipu`, `f2fs+share`.\n"), "{text}");
        let row = |device: &str, name: &str| {
            let table = found.tables.iter().find(|table| table.device == device).unwrap();
            table.rows.iter().find(|(mechanism, _)| mechanism.name == name).unwrap().1.clone()
        };
        let ran = |device, name| row(device, name).iter().flatten().count();
        assert_eq!(["ordered", "data", "f2fs", "f2fs+stage"].map(|name| ran("nvme-share", name)), [6, 7, 7, 6]);
        assert_eq!(["sdj", "f2fs+share", "f2fs"].map(|name| ran("ocssd-huawei", name)), [0, 0, 7], "no SHARE there");

        let programmed = |name| row("nvme-share", name)[0].as_ref().unwrap().programmed;
        assert!(programmed("sdj") < programmed("data") && programmed("f2fs+stage") < programmed("ordered") / 2.0);
        assert!(found.html().matches("<svg").count() == 14, "a chart for each device and job");
    }

    #[test]
    fn those_alike_stand_beside_the_best() {
        let costs = [("a", 2.0), ("b", 1.0), ("c", 1.015), ("d", 1.03)];
        assert_eq!(names(costs.into_iter()), "`b`, `c`");
        assert_eq!(names([].into_iter()), "");
        assert_eq!([0.5, 12.345, 8197.04].map(short), ["0.50", "12.3", "8197"]);
    }
}
