//! Scarce: a workload on an F2FS of 64 MiB with few free segments, so that its writes start cleaning.

use onewrite_crash::{Action, Workload};

const PAGE: u64 = 4096;
/// Pages of the file that fills most of the image.
const PAGES: u64 = 2800;

fn write(page: u64, count: u64, seed: u64) -> Action {
    let count = count.min(PAGES - page);
    Action::Write { file: "/a".into(), offset: page * PAGE, length: count * PAGE, seed, direct: false }
}

/// A file over most of the image whose pages are overwritten in places, until few segments are free and none is empty.
/// Then rounds of as much again, with fsyncs of this file and of a new one.
pub fn scarce() -> Workload {
    let fsync = |file: &str| Action::Fsync(file.into());
    let setup = vec![Action::Create("/a".into()), write(0, PAGES, 1)];
    let mut warm_up: Vec<Action> = (0..PAGES).step_by(64).map(|page| write(page, 32, 2)).collect();
    warm_up.extend((32..PAGES).step_by(128).map(|page| write(page, 32, 3)));
    warm_up.push(Action::Sync);
    let mut task = vec![Action::Create("/n".into())];
    for round in 0..5 {
        task.extend((0..PAGES).step_by(256).map(|page| write(page + 16 * round, 16, 10 + round)));
        task.push(Action::Append { file: "/n".into(), length: 6000, seed: round });
        task.extend([fsync("/n"), write(round, 1, 77 + round), fsync("/a")]);
    }
    Workload { setup, warm_up, tasks: vec![task] }
}
