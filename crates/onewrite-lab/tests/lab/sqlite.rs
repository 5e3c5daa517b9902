//! SQLite as a workload: real SQLite on the emulated `nvme-share`, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};

use onewrite_block::MIB;
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, Extras, JobSpec, RunSpec, Stack};
use onewrite_lab::sqlite::{Journal, Kind, SqliteJob};

/// Runs `kind`; the result, and the image that it leaves.
fn run(kind: Kind, journal: Journal, mode: Mode, (operations, seed): (u32, u64)) -> (RunResult, Vec<u8>) {
    let job =
        JobSpec::Sqlite(SqliteJob { journal: Some(journal), operations: Some(operations), ..SqliteJob::new(kind) });
    let spec = RunSpec { seed, ..RunSpec::new(job, Stack::Ext4(mode), "nvme-share") };
    // Tests of this process run beside one another.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let image = std::env::temp_dir().join(format!("onewrite-sqlite-{process}-{number}.img"));
    let device = Profile::load("nvme-share").unwrap().device(Some(128 * MIB)).unwrap();
    let extras = Extras { image: Some(image.clone()), ..Extras::default() };
    let result = session::run(&spec, device, extras).unwrap();
    let bytes = std::fs::read(&image).unwrap();
    std::fs::remove_file(&image).unwrap();
    (result, bytes)
}

/// Operations of each kind.
fn counts(result: &RunResult) -> Vec<(&str, u64)> {
    let all = result.onewrite.total.onewrite.as_ref().unwrap();
    all.by_kind.iter().map(|(kind, of_kind)| (*kind, of_kind.total_ios)).collect()
}

#[test]
fn one_seed_gives_one_run_to_the_byte_and_another_seed_another() {
    let cases = [
        (Journal::Delete, Mode::Ordered),
        (Journal::Wal, Mode::Ordered),
        (Journal::Off, Mode::Sdj),
        (Journal::Memory, Mode::Ldj),
    ];
    for (journal, mode) in cases {
        let first = run(Kind::Gmail, journal, mode, (60, 1));
        let again = run(Kind::Gmail, journal, mode, (60, 1));
        assert!(
            first == again,
            "{journal:?} on {mode}: {:?} and {:?}",
            first.0.onewrite.device,
            again.0.onewrite.device
        );
        assert!(first != run(Kind::Gmail, journal, mode, (60, 2)), "{journal:?} on {mode}");
    }
}

/// The run itself judges the database and the image; here every application does so in every journal mode.
#[test]
fn every_application_ends_sound_in_every_journal_mode() {
    for kind in Kind::ALL.into_iter().filter(|kind| !BATCHES.contains(kind)) {
        for journal in Journal::ALL {
            for mode in [Mode::Ordered, Mode::Sdj] {
                let (result, _) = run(kind, journal, mode, (90, 1));
                let (ops, flushes) = (counts(&result), result.onewrite.device.flushes);
                let is_synced = !matches!(kind, Kind::SeqAsync | Kind::RandAsync);
                let (done, synced) = (ops.iter().map(|(_, count)| count).sum::<u64>(), flushes > 40);
                assert!(done >= 85 && (synced || !is_synced), "{kind:?} {journal:?} {mode}: {ops:?} {flushes}");
            }
        }
    }
}

const BATCHES: [Kind; 2] = [Kind::RandSync1k, Kind::RandSync10k];

/// The run judges the number of records, too: 20 or 5 for each of 1,000 or 10,000 puts.
#[test]
fn batches_put_many_records_in_a_transaction_into_records_that_are_there() {
    for (kind, most_transactions) in BATCHES.into_iter().zip([2, 1]) {
        let (result, _) = run(kind, Journal::Wal, Mode::Ordered, (most_transactions, 1));
        assert_eq!(counts(&result), [("transaction", u64::from(most_transactions))]);
        // The records that are there first are written, too.
        let bytes = result.onewrite.device.host_write_bytes;
        assert!(bytes > 2 * 40_000 * 100, "{kind:?}: {bytes} bytes");
    }
}

#[test]
fn androbench_has_three_hundred_transactions_of_each_kind() {
    let job = JobSpec::Sqlite(SqliteJob::new(Kind::Androbench));
    let spec = RunSpec::new(job, Stack::Ext4(Mode::Sdj), "nvme-share");
    let device = Profile::load("nvme-share").unwrap().device(Some(128 * MIB)).unwrap();
    let result = session::run(&spec, device, Extras::default()).unwrap();
    assert_eq!(counts(&result), [("delete", 300), ("insert", 300), ("update", 300)]);
    // Without a journal of SQLite a transaction is one commit of the log.
    let commits = result.onewrite.fs.as_ref().unwrap().commits;
    assert!((900..920).contains(&commits), "{commits} commits");
}

#[test]
fn sqlite_needs_a_file_system() {
    let job = JobSpec::Sqlite(SqliteJob::new(Kind::Gmail));
    let device = Profile::load("nvme-share").unwrap().device(Some(128 * MIB)).unwrap();
    let error = session::run(&RunSpec::new(job, Stack::Raw, "nvme-share"), device, Extras::default()).unwrap_err();
    assert!(error.to_string().contains("file system"), "{error}");
}
