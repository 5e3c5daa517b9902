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
/// Names of block sizes, and bytes that are written with each: more than any buffer holds.
const BLOCKS: [(&str, u64); 3] = [("4k", 192 * MIB), ("64k", 512 * MIB), ("1m", GIB)];

/// The largest drop over patterns and block sizes, each of which is shown.
pub(super) fn largest(profile: &Profile) -> Result<Found, LabError> {
    let mut cases = Vec::new();
    for pattern in ["write", "randwrite"] {
        for (block, bytes) in BLOCKS {
            let iops = |fsync| iops(profile, &job(pattern, (block, bytes), fsync));
            cases.push(Case::shown(format!("{pattern} of {block}"), iops(0)? / iops(100)?));
        }
    }
    Ok(Found { figure: cases.iter().map(|case| case.figure).fold(f64::NAN, f64::max), cases })
}

fn job(pattern: &str, (block, bytes): (&str, u64), fsync: u32) -> String {
    format!(
        "[w]\nrw={pattern}\nbs={block}\nsize=1g\nio_size={bytes}\nioengine=libaio\ndirect=1\noverwrite=1\n\
         iodepth=64\nfsync={fsync}\n"
    )
}

fn iops(profile: &Profile, job: &str) -> Result<f64, LabError> {
    let job = JobSpec::Fio(JobFile::parse("drop.fio", job)?);
    let spec = RunSpec { delayed_allocation: false, ..RunSpec::new(job, Stack::Ext4(Mode::Ordered), &profile.name) };
    let device = profile.device(Some(DEVICE_BYTES))?;
    Ok(session::run(&spec, device, Extras::default())?.onewrite.total.write.iops)
}
