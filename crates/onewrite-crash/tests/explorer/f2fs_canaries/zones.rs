//! Canaries on the zones of an open-channel SSD: the explorer catches them there, too.

use onewrite_crash::{Alter, Altered, F2fsSubject, Promise};

use super::twisted::twisted;
use super::twists::{ForgetsNatJournal, NoMark};
use super::{Layer, SEEDS, SYNCING};
use crate::support::returns_early::ReturnsEarly;
use crate::zones::explored;

/// Asserts that a variant breaks one of `promises` from each seed.
#[track_caller]
fn assert_caught<A: Alter<F2fsSubject> + Copy + Send + Sync>(change: A, promises: &[Promise]) {
    for seed in SEEDS {
        let workload = format!("script:{SYNCING}");
        let report = explored(|sound| Altered { sound, change }, &workload, 0, (2_000, seed));
        let broken = report.violations.first().map(|violation| violation.promise);
        assert!(broken.is_some_and(|broken| promises.contains(&broken)), "seed {seed}: {broken:?}");
    }
}

#[test]
fn the_sound_file_system_passes_the_same_states() {
    let report = explored(|sound| sound, &format!("script:{SYNCING}"), 0, (2_000, 1));
    assert!(report.is_sound() && report.states > 300, "{report:?}");
}

#[test]
fn nodes_without_the_mark_of_an_fsync_on_zones() {
    // The checker, too, sees what the unmount leaves without them.
    assert_caught(Layer(|disk| twisted(disk, NoMark)), &[Promise::Durability, Promise::Structure]);
}

#[test]
fn nat_journal_forgotten_on_zones() {
    assert_caught(Layer(|disk| twisted(disk, ForgetsNatJournal)), &[Promise::Structure, Promise::Recovery]);
}

#[test]
fn an_fsync_that_returns_early_on_zones() {
    assert_caught(ReturnsEarly, &[Promise::Durability]);
}
