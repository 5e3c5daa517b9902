//! Paper: compares the results of the papers, row by row, with measurements of this program.
//!
//! `scoreboard.toml` has the rows, one claim each. A row's id selects its entry in the table of `rows.rs`: experiment,
//! cells, winner, duration. A row without an experiment is listed with the reason (`missing.rs`). Experiments run the
//! same sessions, devices and file systems as everything else. What they find are a figure and cases (`found.rs`), and
//! `terms.rs`
//! and `verdict.rs` hold both to what the row asks.

mod amplification;
mod blocks;
mod calibration;
pub mod cell;
mod claim;
mod cleaning;
mod databases;
mod entry;
pub mod false_recovery;
mod flushes;
mod found;
mod git;
pub mod groups;
mod journals;
mod measure;
pub mod mechanisms;
mod missing;
mod padding;
mod photographs;
mod recovery;
pub mod results;
mod rows;
mod scoreboard;
pub mod scores;
mod spread;
mod staging;
mod sync_drop;
mod terms;
pub mod ts_clock;
mod variant;
mod verdict;

pub use entry::Duration;
pub use found::{Asked, Case};
pub use measure::{Measured, run};
pub use scoreboard::{Kind, Row, scoreboard};
pub use verdict::{Even, Terms, Verdict};

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> Row {
        scoreboard().unwrap().into_iter().find(|row| row.id == id).unwrap()
    }

    #[test]
    fn every_experiment_has_its_row() {
        let rows = scoreboard().unwrap();
        assert_eq!(rows.len(), 112);
        assert!(rows::ROWS.iter().all(|entry| rows.iter().any(|row| row.id == entry.id)));
    }

    #[test]
    fn both_translation_layers_amplify_as_in_the_paper() {
        let fast = ["ts-waf-fast-25-16g", "ts-waf-fast-25-1g"];
        for id in ["ts-waf-full-blocks", "ts-waf-page-25-16g", "ts-waf-page-25-1g"].into_iter().chain(fast) {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.verdict(), Verdict::Agrees, "{measured}");
        }
    }

    #[test]
    fn each_mode_writes_the_blocks_of_the_paper() {
        for id in ["afs-blocks-oj", "afs-blocks-dj", "afs-blocks-sdj"] {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.verdict(), Verdict::Agrees, "{measured}");
        }
    }

    #[test]
    fn a_commit_that_pads_sends_no_flush() {
        let measured = run(&row("zp-flushes")).unwrap();
        assert_eq!(measured.verdict(), Verdict::Agrees, "{measured}");
    }

    #[test]
    fn a_row_without_an_experiment_says_so() {
        assert!(run(&row("cal-ocssd-read")).unwrap_err().to_string().contains("cal-ocssd-read"));
    }
}
