//! Remount: the mount behind a power cut that leaves synced puts in the staging area (`papers/002` §5.6).
//!
//! The paper unmounts without patching; here the power is cut behind the last put, with the file system mounted. Our
//! mount merges what it finds and writes a checkpoint, so no access behind it is degraded; the paper's marks inodes
//! and merges at the first access.

use super::flash::OnFlash;
use crate::error::LabError;
use crate::paper::cell::Work;
use crate::paper::found::{Case, Found};
use crate::session::{F2fsStack, Remounted, remount_after};
use crate::sqlite::{Journal, Kind, SqliteJob};

/// The paper's 10,000 synced puts.
const PUTS: SqliteJob =
    SqliteJob { journal: Some(Journal::Wal), operations: Some(10_000), ..SqliteJob::new(Kind::RandSync) };

/// Numbers of parallel units whose mounts are shown beside that of the whole device.
const UNITS: [u32; 3] = [1, 2, 4];

/// Milliseconds of the mount.
pub(in crate::paper) fn milliseconds() -> Result<Found, LabError> {
    let place = OnFlash::staged(F2fsStack::STAGE_BYTES);
    let remounted = remount(place, PUTS)?;
    let mut cases = vec![
        Case::shown("transactions merged", remounted.transactions as f64),
        Case::shown("MB read", remounted.read_bytes as f64 / 1e6),
        Case::shown("MB written", remounted.written_bytes as f64 / 1e6),
    ];
    for units in UNITS {
        let alone = remount(OnFlash { units: Some(units), ..place }, PUTS)?;
        cases.push(Case::shown(format!("with {units} of 16 units"), milliseconds_of(&alone)));
    }
    Ok(Found { figure: milliseconds_of(&remounted), cases })
}

fn remount(place: OnFlash, puts: SqliteJob) -> Result<Remounted, LabError> {
    remount_after(&place.spec(&Work::Sqlite(puts))?, place.device()?)
}

fn milliseconds_of(remounted: &Remounted) -> f64 {
    remounted.time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;

    use super::*;

    #[test]
    fn a_mount_behind_a_cut_takes_longer_the_more_was_staged_and_the_same_each_time() {
        let remounted = |puts| {
            let place = OnFlash { bytes: 2048 * MIB, ..OnFlash::staged(32 * MIB) };
            remount(place, SqliteJob { operations: Some(puts), ..PUTS }).unwrap()
        };
        let (few, many) = (remounted(10), remounted(300));
        assert_eq!(many, remounted(300));
        assert!(few.transactions >= 10 && many.transactions >= 300, "{few:?} {many:?}");
        assert!(few.time < many.time && few.read_bytes < many.read_bytes, "{few:?} {many:?}");
    }
}
