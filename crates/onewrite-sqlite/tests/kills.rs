//! Processes that are killed while they commit: what they told of is there, and nothing is torn.

mod support;

use std::ffi::OsStr;
use std::path::Path;

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_testing::{killed_after, tell_committed};
use support::{Image, Mounted, add, judge, make};

#[path = "../examples/ledger.rs"]
mod ledger;

/// Names the image to the process that is killed.
const IMAGE: &str = "ONEWRITE_SQLITE_ON";
/// Names the journal mode to it.
const JOURNAL: &str = "ONEWRITE_SQLITE_JOURNAL";

/// Starts the test `work` in another process, kills it when it has told of `count` commits, and returns the last that
/// it told of.
fn killed(work: &str, image: &Path, journal: &OsStr, count: i64) -> i64 {
    killed_after(work, &[(IMAGE, image.as_os_str()), (JOURNAL, journal)], count as u64) as i64
}

/// Not a test of its own: [`entries_survive_kills`] starts it in a process and kills that.
#[test]
fn adds_until_it_is_killed() {
    let (Some(image), Ok(journal)) = (std::env::var_os(IMAGE), std::env::var(JOURNAL)) else { return };
    let mounted = Mounted::new(Path::new(&image), MountOptions::new(Mode::DataAsync));
    let database = mounted.open("/db", &journal);
    for number in judge(&database) + 1.. {
        add(&database, number).unwrap();
        tell_committed(number as u64);
    }
}

#[test]
fn entries_survive_kills() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"] {
        let image = Image::new();
        make(&image.mounted(Mode::DataAsync).open("/db", journal));
        let mut last = 0;
        for round in 1..=3 {
            let told = killed("adds_until_it_is_killed", &image.0, OsStr::new(journal), last + round * 17);
            assert!(told >= last + round * 17, "{journal}: the process ended after {told}");
            let found = judge(&image.mounted(Mode::DataAsync).open("/db", journal));
            assert!(found == told || found == told + 1, "{journal}: {found} entries, {told} were committed");
            image.check();
            last = found;
        }
    }
}

/// Not a test of its own: [`orders_and_stock_agree_after_kills`] starts it in a process and kills that.
#[test]
fn orders_until_it_is_killed() {
    let Some(image) = std::env::var_os(IMAGE) else { return };
    ledger::run(Path::new(&image), u64::MAX, |count| tell_committed(count as u64)).unwrap();
}

#[test]
fn orders_and_stock_agree_after_kills() {
    let image = Image::new();
    for round in 1..=4 {
        let told = killed("orders_until_it_is_killed", &image.0, OsStr::new(""), round * 60);
        let (orders, pieces) = ledger::run(&image.0, 0, |_| ()).unwrap();
        assert!(told >= round * 60 && (orders == told || orders == told + 1), "{orders} orders, {told} were told");
        assert_eq!(orders + pieces, ledger::PIECES);
        image.check();
    }
}
