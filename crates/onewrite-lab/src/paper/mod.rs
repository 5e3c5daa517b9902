//! Paper: compares the results of the papers, row by row, with measurements of this program.
//!
//! `scoreboard.toml` has the rows, one claim each. A row's id selects its entry in the table of `rows.rs`: experiment,
//! cells, winner, duration. A row without an experiment is listed but cannot be run. Experiments run the same sessions,
//! devices and file systems as everything else.

mod amplification;
mod blocks;
mod calibration;
pub mod cell;
mod claim;
mod databases;
mod entry;
pub mod false_recovery;
mod flushes;
pub mod groups;
mod journals;
mod measure;
mod padding;
mod photographs;
mod recovery;
pub mod results;
mod rows;
mod scoreboard;
pub mod scores;
pub mod ts_clock;

pub use entry::Duration;
pub use measure::{Measured, run};
pub use scoreboard::{Kind, Row, scoreboard};

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
            assert_eq!(measured.agrees(), Some(true), "{measured}");
        }
    }

    #[test]
    fn each_mode_writes_the_blocks_of_the_paper() {
        for id in ["afs-blocks-oj", "afs-blocks-dj", "afs-blocks-sdj"] {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.agrees(), Some(true), "{measured}");
        }
    }

    #[test]
    fn a_commit_that_pads_sends_no_flush_and_pushing_out_is_faster_than_one() {
        for id in ["zp-flushes", "zp-evict-flush"] {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.agrees(), Some(true), "{measured}");
        }
    }

    #[test]
    fn a_row_without_an_experiment_says_so() {
        assert!(run(&row("ldj-git")).unwrap_err().to_string().contains("ldj-git"));
    }

    #[test]
    fn a_device_figure_passes_within_a_tenth_and_a_best_case_by_its_direction() {
        let agrees = |id: &str, measured| Measured { measured, row: row(id) }.agrees();
        assert_eq!([0.031, 0.033].map(|found| agrees("cal-zp-buffer-read", found)), [Some(true), Some(false)]);
        assert_eq!([1.1, 0.98].map(|found| agrees("afs-fio-sdj-oj-1g", found)), [Some(true), Some(false)]);
        assert_eq!([3.0, -3.0].map(|found| agrees("ts-spclock-ssd", found)), [Some(true), Some(false)]);
    }

    #[test]
    fn what_differs_is_called_different() {
        let measured = Measured { measured: 7.0, row: row("afs-blocks-oj") };
        assert!(measured.to_string().contains("DIFFERS by +16.7 %"), "{measured}");
    }
}
