//! Validate: what a job's options must fulfil together, once all are known.

use super::options::{Access, Amount, Direction, Distribution, Options};

/// Refuses combinations that cannot run, as fio's `fixup_options` and `setup_files` do.
pub fn validate(options: &Options) -> Result<(), String> {
    size(options)?;
    if options.time_based && options.runtime.is_none() {
        return Err("time_based needs runtime=".to_owned());
    }
    if options.direct && !is_aligned(options) {
        return Err("direct=1 needs block sizes that are multiples of 4096".to_owned());
    }
    if options.direction == Access::Only(Direction::Trim) && (options.fsync_every | options.fdatasync_every) != 0 {
        return Err("fsync= and fdatasync= count writes; this job only trims".to_owned());
    }
    verify(options)
}

fn size(options: &Options) -> Result<(), String> {
    let is_given = matches!(options.size, Some(Amount::Bytes(_))) || options.file_size.is_some();
    if !is_given && options.size.is_none() {
        return Err("size= is missing (or filesize=, or size=N% of a raw device)".to_owned());
    }
    if let Some(Amount::Bytes(size)) = options.size
        && size < options.block_size_least()
    {
        return Err(format!("size={size} is smaller than the smallest block of {} bytes", options.block_size_least()));
    }
    Ok(())
}

fn is_aligned(options: &Options) -> bool {
    let sizes = &options.block_sizes;
    let page = onewrite_block::PAGE_SIZE as u64;
    [&sizes.read, &sizes.write].iter().all(|sizes| sizes.least() % page == 0 && sizes.most() % page == 0)
}

/// Verify must know what a block holds, so two writes under way at once must never meet.
fn verify(options: &Options) -> Result<(), String> {
    let may_overlap = options.random && (!options.random_map || options.distribution != Distribution::Uniform);
    if options.verify && options.writes() && may_overlap && options.concurrency() > 1 {
        return Err("verify with norandommap or a distribution needs iodepth=1, else writes overlap".to_owned());
    }
    if options.verify && options.writes() && options.clones > 1 && !options.file_names.is_empty() {
        return Err("verify with numjobs= above 1 and filename= cannot tell whose content is right".to_owned());
    }
    Ok(())
}
