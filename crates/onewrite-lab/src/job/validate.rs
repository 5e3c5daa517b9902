//! Validate: which options of a job go together; called when all are known.

use onewrite_block::Nanos;

use super::behaviour::Work;
use super::direction::{Direction, PerDirection};
use super::options::{Access, Distribution, Options};
use super::size::Amount;

/// Refuses combinations that cannot run, as fio's `fixup_options` and `setup_files` do.
pub(super) fn validate(options: &Options) -> Result<(), String> {
    size(options)?;
    if options.time_based && options.runtime.is_none() {
        return Err("time_based needs runtime=".to_owned());
    }
    if options.direction == Access::Only(Direction::Trim) && (options.fsync_every | options.fdatasync_every) != 0 {
        return Err("fsync= and fdatasync= count writes; this job only trims".to_owned());
    }
    if options.strided.enabled && options.strided.size == 0 {
        return Err("zonemode=strided needs zonesize=".to_owned());
    }
    if options.strided.enabled && options.strided.reach() < options.block_size_most() {
        return Err("zonemode=strided: a zone is smaller than a block; raise zonesize= or zonerange=".to_owned());
    }
    if options.unaligned && options.direct {
        return Err("bs_unaligned does not go with direct=1".to_owned());
    }
    engine(options)?;
    verify(options)
}

/// Refuses a size below the smallest block. Planning checks whether there is a size at all, because that depends on the
/// target.
fn size(options: &Options) -> Result<(), String> {
    if let Some(Amount::Bytes(size)) = options.size
        && size < options.block_size_least()
    {
        return Err(format!("size={size} is smaller than the smallest block of {} bytes", options.block_size_least()));
    }
    Ok(())
}

/// Refuses what an engine cannot do; for example, those that make or remove files touch each file once.
fn engine(options: &Options) -> Result<(), String> {
    let is_once = matches!(options.work, Work::Create | Work::Delete);
    if is_once && (options.time_based || options.loops > 1) {
        return Err("filecreate and filedelete touch each file once; leave time_based and loops out".to_owned());
    }
    let has_goal = options.latency.target > Nanos::ZERO || options.steadiness.seconds > 0;
    let has_most = options.latency_most != PerDirection::all(Nanos::ZERO);
    if options.work.is_on_nodes() && (has_goal || has_most) {
        return Err("latency_target, max_latency and steadystate look at accesses; this engine has none".to_owned());
    }
    if options.work == Work::Truncate && !options.writes() {
        return Err("ftruncate only writes; say rw=write or rw=randwrite".to_owned());
    }
    Ok(())
}

fn is_aligned(options: &Options) -> bool {
    let sizes = &options.block_sizes;
    let page = onewrite_block::PAGE_SIZE as u64;
    [&sizes.read, &sizes.write].iter().all(|sizes| sizes.least() % page == 0 && sizes.most() % page == 0)
}

/// Verify must know the content of each block, so two concurrent writes must never overlap.
fn verify(options: &Options) -> Result<(), String> {
    let has_map = options.random_map && options.align.is_none() && options.distribution == Distribution::Uniform;
    let may_overlap = (options.random && !has_map) || options.strided.enabled;
    if options.verify && options.writes() && may_overlap && options.concurrency() > 1 {
        return Err("verify with norandommap or a distribution needs iodepth=1, else writes overlap".to_owned());
    }
    if options.verify && options.writes() && options.direct && !is_aligned(options) {
        return Err("verify with direct=1 needs block sizes that are multiples of 4096".to_owned());
    }
    let shares_file = options.clones > 1 && !options.file_names.is_empty();
    if options.verify && options.writes() && shares_file && options.offset_increment == Amount::Bytes(0) {
        return Err("verify with numjobs= above 1 and filename= cannot tell whose content is right".to_owned());
    }
    Ok(())
}
