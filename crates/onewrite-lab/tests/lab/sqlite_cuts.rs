//! SQLite under the crash explorer: what its documentation and the modes promise, and the losses that it admits.

use onewrite_lab::experiment::{CrashExperiment, CrashFs};
use onewrite_lab::sqlite::{Kept, SqliteProof, SqliteProved};

fn proved(experiment: &CrashExperiment, room: &str) -> SqliteProved {
    let name = &experiment.workload;
    let room = std::env::temp_dir().join(format!("onewrite-sqlite-cuts-{}-{room}", std::process::id()));
    std::fs::create_dir(&room).unwrap();
    let proof = SqliteProof::named(name).unwrap().unwrap();
    let proved = experiment.exploration().unwrap().prove_sqlite(proof, &room, &|_, _| ()).unwrap();
    std::fs::remove_dir_all(&room).unwrap();
    proved
}

fn in_mode(name: &str, mode: &str, states: u64) -> SqliteProved {
    let experiment =
        CrashExperiment { mode: Some(mode.to_owned()), states, e2fsck_every: 0, ..CrashExperiment::new(name) };
    proved(&experiment, &format!("{}-{mode}", name.replace(':', "-")))
}

/// Asserts that the promise is `kept` and held in more than a few distinct trees.
fn holds(name: &str, mode: &str, kept: Kept) -> SqliteProved {
    let proved = in_mode(name, mode, 250);
    let complaint = proved.report.failure.as_ref().map(|failure| &failure.complaint);
    assert_eq!((proved.kept, complaint), (kept, None), "{name} {mode}");
    assert!(proved.report.states > 20 && proved.report.checks > 10, "{name} {mode}: {:?}", proved.report);
    proved
}

#[test]
fn journals_of_sqlite_keep_what_was_committed_on_every_kind_of_mode() {
    for mode in ["ordered", "data", "data+async", "ldj", "sdj"] {
        for name in ["sqlite:delete:extra", "sqlite:truncate", "sqlite:persist", "sqlite:wal"] {
            holds(name, mode, Kept::All);
        }
    }
}

#[test]
fn without_a_journal_atomic_files_keep_what_was_committed_in_one_database_and_in_two() {
    for mode in ["data", "data+async", "ldj", "sdj"] {
        for name in ["sqlite:off", "sqlite:memory", "sqlite:off:full:attached", "sqlite:memory:full:attached"] {
            holds(name, mode, Kept::All);
        }
    }
}

fn on_f2fs(name: &str) -> SqliteProved {
    let experiment = CrashExperiment { fs: CrashFs::F2fs, states: 250, ..CrashExperiment::new(name) };
    proved(&experiment, &format!("f2fs-{}", name.replace(':', "-")))
}

#[test]
fn on_f2fs_journals_keep_what_was_committed() {
    for name in ["sqlite:delete:extra", "sqlite:truncate", "sqlite:persist", "sqlite:wal:extra"] {
        let proved = on_f2fs(name);
        assert_eq!((proved.kept, proved.report.refused), (Kept::All, 0), "{name}");
        assert!(proved.report.checks > 10, "{:?}", proved.report);
    }
    // With drafts the change to WAL takes no journal whose removal could be lost.
    let wal = on_f2fs("sqlite:wal");
    assert!(wal.kept == Kept::Some && wal.report.refused == 0 && wal.damaged == 0, "{wal:?}");
}

/// One transaction is larger than a draft of F2FS; with `off` SQLite uses no batches that it could take back.
#[test]
fn without_syncs_a_large_transaction_has_a_journal() {
    for journal in ["delete", "truncate", "persist"] {
        let name = format!("sqlite:{journal}:off");
        let proved = on_f2fs(&name);
        assert_eq!((proved.kept, proved.report.refused), (Kept::Nothing, 0), "{name}");
        assert!(proved.report.checks > 10, "{name}: {:?}", proved.report);
        holds(&name, "data", Kept::Some);
    }
}

/// A run that never met what SQLite admits would show nothing.
#[test]
fn the_losses_that_sqlite_admits_are_met() {
    let off = holds("sqlite:off", "ordered", Kept::Nothing);
    assert!(off.damaged > 0, "nothing was damaged: {off:?}");
    let wal = holds("sqlite:wal:normal", "ordered", Kept::Some);
    assert!(wal.shorter > 0 && wal.damaged == 0, "{wal:?}");
    let delete = holds("sqlite:delete:full", "ordered", Kept::AllButLast);
    assert!(delete.shorter > 0, "no journal came back: {delete:?}");
}

#[test]
fn one_seed_gives_one_report() {
    let report = || serde_json::to_string(&in_mode("sqlite:wal", "data", 60).report).unwrap();
    assert_eq!(report(), report());
}
