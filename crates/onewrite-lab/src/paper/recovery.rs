//! Recovery: times the recovery of LDJ and of its rivals (`papers/001` §6.5, `000` §4.6.4): rows `ldj-recovery-*`.
//!
//! The papers restart the machine "while running each workload" and do not say when. Here the power is cut after the
//! last operation of the workload, before any unmount. The measured time is the replay of the log until it is empty.
//! The papers time e2fsck, which in every mode reads more than the log.

use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;
use onewrite_fs::journal::Recovered;

use super::cell::Cell;
use super::entry::Rivalry;
use super::found::Found;
use super::journals::ldj_cell;
use crate::error::LabError;
use crate::session::recovery_after;

/// The largest ratio of the times over devices and workloads, without git; each is shown.
pub(super) fn worst_over(Rivalry { rival, devices, works, each }: Rivalry) -> Result<Found, LabError> {
    let mut cases = Vec::new();
    for device in devices {
        for work in works {
            let seconds = |mode| seconds_of(&ldj_cell(device, mode, *work));
            cases.push(each.case(work.name(), seconds(Mode::Ldj)? / seconds(rival)?).on(device));
        }
    }
    Ok(Found::largest_of(cases))
}

fn seconds_of(cell: &Cell) -> Result<f64, LabError> {
    Ok(recovered_after(cell)?.nanoseconds as f64 / 1e9)
}

fn recovered_after(cell: &Cell) -> Result<Recovered, LabError> {
    let device = Profile::load(cell.device)?.device(Some(cell.device_bytes))?;
    let empty = || LabError::Option(format!("mode {} on {} left an empty log", cell.mode, cell.device));
    recovery_after(&cell.spec()?, device)?.ok_or_else(empty)
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;

    use super::*;
    use crate::paper::cell::Work;

    #[test]
    fn a_cut_run_is_recovered_in_the_same_time_each_time_and_what_is_compressed_is_read_faster() {
        let work =
            Work::RandomWrites { block_bytes: 4096, threads: 2, file_bytes: 4 * MIB, io_bytes: 4 * MIB, interval: 8 };
        let recovered = |mode| {
            let cell = Cell::new("sata-850pro", mode, work);
            recovered_after(&Cell { device_bytes: 256 * MIB, log_bytes: 32 * MIB, ..cell }).unwrap()
        };
        let (ordered, data, ldj) = (recovered(Mode::Ordered), recovered(Mode::Data), recovered(Mode::Ldj));
        assert_eq!(ldj, recovered(Mode::Ldj));
        assert!(ordered.transactions > 10 && ordered.written_blocks < data.written_blocks / 10, "{ordered:?} {data:?}");
        assert!(data.written_blocks > 500 && ldj.written_blocks > 500, "{data:?} {ldj:?}");
        assert!(ldj.log_blocks_read < data.log_blocks_read, "{data:?} {ldj:?}");
        assert!(ldj.nanoseconds < 2 * data.nanoseconds, "{data:?} {ldj:?}");
    }
}
