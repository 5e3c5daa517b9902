//! Spread: a ratio of two cells over seeds and neighbouring numbers of threads, so that no row hangs on one of them.
//!
//! The first variant is the cell as it stands. Work without threads of its own choosing (a copy, one thread) and work
//! that takes minutes (filebench's file server) has that one alone.

use super::cell::{Cell, Work};
use super::variant::Variant;
use crate::error::LabError;
use crate::workload::filebench::Personality;

const VARIANTS: [Variant; 5] = [
    Variant::PLAIN,
    Variant { seed: 2, threads: 0 },
    Variant { seed: 3, threads: 0 },
    Variant { seed: 1, threads: -1 },
    Variant { seed: 1, threads: 1 },
];

/// Median, least and most of several figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    /// Least and most; `None` of one figure.
    pub(super) range: Option<(f64, f64)>,
}

impl Spread {
    /// Of ratios a/b, one for each variant.
    pub(super) fn of(a: &[f64], b: &[f64]) -> Spread {
        let mut ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        Spread { median: ratios[ratios.len() / 2], range: (ratios.len() > 1).then_some((least, most)) }
    }
}

/// The speeds of a cell, one for each variant.
pub(super) fn speeds(cell: &Cell) -> Result<Vec<f64>, LabError> {
    let variants = if varies(cell.work) { &VARIANTS[..] } else { &VARIANTS[..1] };
    let speed = |variant: &Variant| {
        let cell = Cell { variant: *variant, ..*cell };
        Ok(cell.speed(&cell.result()?))
    };
    variants.iter().map(speed).collect()
}

/// Ratio of the speeds of two cells with the same work.
pub(super) fn ratio(a: &Cell, b: &Cell) -> Result<Spread, LabError> {
    Ok(Spread::of(&speeds(a)?, &speeds(b)?))
}

fn varies(work: Work) -> bool {
    match work {
        Work::RandomWrites { threads, .. } => threads > 1,
        Work::Personality { personality, files, .. } => files.is_none() && personality != Personality::Fileserver,
        Work::Synced { .. }
        | Work::PostMark { .. }
        | Work::Sqlite(_)
        | Work::Innodb(_)
        | Work::Fio { .. }
        | Work::Copy { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;
    use onewrite_fs::ext4::Mode;

    use super::*;

    #[test]
    fn the_median_stands_for_all_and_the_range_says_how_far_they_are_apart() {
        let spread = Spread::of(&[2.0, 4.0, 3.0], &[1.0, 1.0, 1.0]);
        assert_eq!((spread.median, spread.range), (3.0, Some((2.0, 4.0))));
        assert_eq!(Spread::of(&[2.0], &[1.0]), Spread { median: 2.0, range: None });
    }

    #[test]
    fn each_seed_and_number_of_threads_is_a_run_of_its_own() {
        let work =
            Work::RandomWrites { block_bytes: 4096, threads: 4, file_bytes: 4 * MIB, io_bytes: 4 * MIB, interval: 8 };
        let cell = |threads| {
            let Work::RandomWrites { block_bytes, file_bytes, io_bytes, interval, .. } = work else { unreachable!() };
            let work = Work::RandomWrites { block_bytes, threads, file_bytes, io_bytes, interval };
            Cell { device_bytes: 256 * MIB, log_bytes: 32 * MIB, ..Cell::new("nvme-share", Mode::Ordered, work) }
        };
        let found = speeds(&cell(4)).unwrap();
        assert!(found.len() == 5 && found[3] < found[0] && found[0] < found[4], "{found:?}");
        assert_eq!(speeds(&cell(1)).unwrap().len(), 1);
    }
}
