//! Sync drop: how much slower writes are with an fsync after every hundred (`papers/001` §6.1, figure 3): the rows
//! `cal-fsync-drop-*`.
//!
//! The paper ran fio with `ioengine=libaio direct=1 iodepth=64 fsync=0 or 100 rw=write or randwrite` over block sizes,
//! and explains the drop by "transaction commit and write buffer flushing": through ext4, whose fsync sends one FLUSH
//! before the commit block and has that block made durable, on SATA by another. So does this, on 16 GiB as all rows, in
//! a file that was written before. A FLUSH of the bare device is half of what SATA pays here.

use onewrite_block::{GIB, MIB};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;

use super::found::{Case, Found};
use crate::error::LabError;
use crate::job::JobFile;
use crate::session::{self, Extras, JobSpec, RunSpec, Stack};

const DEVICE_BYTES: u64 = 16 * GIB;
/// Block sizes, as fio writes them.
const BLOCKS: [&str; 3] = ["4k", "64k", "1m"];
/// Bytes that are written with each: more than any buffer and a hard disk's cache hold.
const BYTES: u64 = 512 * MIB;

/// The largest drop over patterns and block sizes, each of which is shown.
pub(super) fn largest(profile: &Profile) -> Result<Found, LabError> {
    let mut cases = Vec::new();
    for pattern in ["write", "randwrite"] {
        for block in BLOCKS {
            let iops = |fsync| iops(profile, &job(pattern, block, fsync));
            cases.push(Case::shown(format!("{pattern} of {block}"), iops(0)? / iops(100)?));
        }
    }
    Ok(Found::largest_of(cases))
}

fn job(pattern: &str, block: &str, fsync: u32) -> String {
    format!(
        "[w]\nrw={pattern}\nbs={block}\nsize=1g\nio_size={BYTES}\nioengine=libaio\ndirect=1\noverwrite=1\n\
         iodepth=64\nfsync={fsync}\n"
    )
}

fn iops(profile: &Profile, job: &str) -> Result<f64, LabError> {
    let job = JobSpec::Fio(JobFile::parse("drop.fio", job)?);
    let spec = RunSpec { delayed_allocation: false, ..RunSpec::new(job, Stack::Ext4(Mode::Ordered), &profile.name) };
    let device = profile.device(Some(DEVICE_BYTES))?;
    Ok(session::run(&spec, device, Extras::default())?.onewrite.total.write.iops)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worst of the cases, in sequence with 4 KiB, alone: the others are far below.
    #[test]
    fn an_fsync_through_ext4_costs_what_the_paper_measured() {
        for (name, paper) in [("nvme-960pro", 17.8), ("sata-850pro", 7.3), ("hdd-barracuda", 9.1)] {
            let profile = Profile::load(name).unwrap();
            let iops = |fsync| iops(&profile, &job("write", "4k", fsync)).unwrap();
            let times = iops(0) / iops(100);
            println!("{name}: {times:.2} times, paper {paper}");
            assert!((times / paper - 1.0).abs() <= 0.1, "{name}: {times}, paper {paper}");
        }
    }
}
