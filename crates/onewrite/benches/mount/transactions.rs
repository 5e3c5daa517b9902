//! Transactions of SQLite beside their rivals, in one run: in this process on an image, on the mount, on the kernel's
//! ext4 on a loop device, and on the host's own file system. All images lie in the same directory.
//!
//! A transaction inserts a row of 100 random bytes with `synchronous=FULL`. Every door runs in turn, several rounds;
//! the best of the rounds counts.

use std::path::Path;
use std::time::{Duration, Instant};

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, make_image};
use onewrite_testing::verdict;
use rusqlite::{Connection, OpenFlags};

use crate::systems::System;

const SPAN: Duration = Duration::from_secs(3);
const IMAGE_BYTES: u64 = 2 << 30;

/// How SQLite reaches its database.
enum Door {
    /// In this process, in a mode.
    InProcess(Mode, &'static str),
    /// Through a mounted file system.
    Mounted(System, &'static str),
}

impl Door {
    fn all() -> Vec<Door> {
        vec![
            Door::InProcess(Mode::DataAsync, "MEMORY"),
            Door::InProcess(Mode::Ordered, "WAL"),
            Door::Mounted(System::Ours("data+async"), "DELETE"),
            Door::Mounted(System::Kernel("kernel", "data=ordered"), "DELETE"),
            Door::Mounted(System::Kernel("kernel", "data=ordered"), "WAL"),
            Door::Mounted(System::Host, "DELETE"),
            Door::Mounted(System::Host, "WAL"),
        ]
    }

    fn name(&self) -> String {
        match self {
            Door::InProcess(mode, journal) => format!("in process {mode} {journal}"),
            Door::Mounted(System::Ours(mode), journal) => format!("mount {mode} {journal}"),
            Door::Mounted(system, journal) => format!("{} {journal}", system.name()),
        }
    }

    fn is_possible(&self) -> bool {
        match self {
            Door::InProcess(..) => true,
            Door::Mounted(system, _) => system.is_possible(),
        }
    }

    /// Transactions in a second; 0, loudly, where it cannot be mounted.
    fn rate(&self) -> f64 {
        match self {
            Door::InProcess(mode, journal) => in_process(*mode, journal),
            Door::Mounted(system, journal) => {
                let Some(mounted) = system.mount() else { return 0.0 };
                let path = mounted.path().join("db");
                transactions(&Connection::open(path).expect("SQLite opens a file"), journal)
            }
        }
    }
}

fn in_process(mode: Mode, journal: &str) -> f64 {
    let image = std::env::temp_dir().join(format!("onewrite-transactions-{}.img", std::process::id()));
    make_image(&image, IMAGE_BYTES).expect("there is room for an image");
    let rate = on_image(&image, mode, journal);
    std::fs::remove_file(&image).expect("it is ours");
    rate
}

fn on_image(image: &Path, mode: Mode, journal: &str) -> f64 {
    let volume = Volume::open(image, MountOptions::new(mode)).expect("a new image");
    let registered = onewrite_sqlite::register("onewrite", &volume).expect("SQLite takes a VFS");
    let database =
        Connection::open_with_flags_and_vfs("/db", OpenFlags::default(), "onewrite").expect("a new database");
    let rate = transactions(&database, journal);
    drop((database, registered));
    volume.close().expect("it unmounts");
    rate
}

fn transactions(database: &Connection, journal: &str) -> f64 {
    let set = format!("PRAGMA journal_mode = {journal}");
    let got: String = database.query_row(&set, [], |row| row.get(0)).expect("a journal mode");
    assert_eq!(got, journal.to_lowercase());
    database.execute_batch("PRAGMA synchronous = FULL; CREATE TABLE entry (content)").expect("a table");
    let mut insert = database.prepare("INSERT INTO entry VALUES (randomblob(100))").expect("a statement");
    #[expect(clippy::disallowed_methods, reason = "wall time is what is measured")]
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < SPAN {
        insert.execute([]).expect("a transaction");
        count += 1;
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

/// Ours, a rival, and the least that we want of its rate.
const WANTED: [(&str, &str, f64); 5] = [
    ("in process data+async MEMORY", "kernel WAL", 1.2),
    ("in process data+async MEMORY", "kernel DELETE", 3.3),
    ("mount data+async DELETE", "kernel DELETE", 1.5),
    ("in process data+async MEMORY", "host WAL", 1.2),
    ("in process data+async MEMORY", "host DELETE", 3.3),
];

/// Measures and prints all doors.
pub fn compare(rounds: usize) {
    let doors: Vec<Door> = Door::all().into_iter().filter(Door::is_possible).collect();
    let mut best = vec![0.0_f64; doors.len()];
    for round in 1..=rounds {
        for (best, door) in best.iter_mut().zip(&doors) {
            eprintln!("round {round} of {rounds}: {}", door.name());
            *best = best.max(door.rate());
        }
    }
    println!("transactions in a second, best of {rounds} rounds");
    doors.iter().zip(&best).for_each(|(door, best)| println!("{:34} {best:>8.0}", door.name()));
    println!("\nratios");
    for (ours, rival, wanted) in WANTED {
        let rate = |name: &str| doors.iter().position(|door| door.name() == name).map(|at| best[at]);
        let (Some(own), Some(other)) = (rate(ours), rate(rival)) else { continue };
        let verdict = verdict(own >= wanted * other);
        println!("{ours} / {rival} {:.2} (wanted {wanted:.1}): {verdict}", own / other);
    }
}
