//! Keys: all settings of a job file. Parser, error messages and help all read this one table.

use super::arithmetic::ValueResult;
use super::direction::PerDirection;
use super::known;
use super::options::Options;
use super::parse::*;
use super::value;

/// One setting.
pub struct Key {
    /// fio's name.
    pub name: &'static str,
    /// fio's second name, if it has one.
    pub alias: Option<&'static str>,
    /// Possible values after `=`.
    pub form: &'static str,
    apply: fn(&mut Options, Option<&str>) -> ValueResult<()>,
}

/// Most files of a job, accesses under way at once, and clones; the last is also fio's limit.
const FILES_MAX: u32 = 1 << 22;
const DEPTH_MAX: u32 = 1 << 16;
const CLONES_MAX: u32 = 4096;

/// Every key, in fio's order of subjects.
pub const KEYS: &[Key] = &[
    key("name", "a name", |o, v| set(&mut o.name, text(v).map(|name| Some(name.to_owned())))),
    key("directory", "directories of the image, `:` between them", |o, v| {
        set(&mut o.directories, text(v).and_then(value::names))
    }),
    key("filename", "files, `:` between them", |o, v| set(&mut o.file_names, text(v).and_then(value::names))),
    alias("nrfiles", "nr_files", "1 or more", |o, v| set(&mut o.file_count, count(v, FILES_MAX))),
    key(
        "ioengine",
        "sync, psync, pvsync, pvsync2, vsync, mmap, splice, libaio, posixaio, io_uring, filecreate, filestat, \
         filedelete, falloc or ftruncate",
        |o, v| engine(o, text(v)?),
    ),
    key("iodepth", "1 or more", |o, v| set(&mut o.depth, count(v, DEPTH_MAX))),
    key("numjobs", "1 or more", |o, v| set(&mut o.clones, count(v, CLONES_MAX))),
    alias(
        "rw",
        "readwrite",
        "read, write, randread, randwrite, rw, randrw, trim, randtrim, trimwrite or randtrimwrite",
        |o, v| access(o, text(v)?),
    ),
    key("rwmixread", "0 to 100", |o, v| set(&mut o.read_percent, percent(v))),
    alias("bs", "blocksize", "a size, or read,write,trim", |o, v| fixed_size(o, text(v)?)),
    alias("bsrange", "blocksize_range", "4k-64k, or read,write,trim", |o, v| size_range(o, text(v)?)),
    key("bssplit", "4k/60:8k/40, or read,write,trim", |o, v| size_split(o, text(v)?)),
    key("size", "a size, or N%", |o, v| set(&mut o.size, text(v).and_then(value::amount).map(Some))),
    alias("io_size", "io_limit", "a size, or N%", |o, v| {
        set(&mut o.io_size, text(v).and_then(value::amount).map(Some))
    }),
    key("filesize", "a size, or 1m-4m", |o, v| set(&mut o.file_size, text(v).and_then(file_size).map(Some))),
    key("direct", "0 or 1", |o, v| set(&mut o.direct, value::switch(v))),
    key("sync", "none, sync or dsync", |o, v| set(&mut o.sync, text(v).and_then(sync))),
    key("fsync", "a number of writes", |o, v| set(&mut o.fsync_every, text(v).and_then(value::number))),
    key("fdatasync", "a number of writes", |o, v| set(&mut o.fdatasync_every, text(v).and_then(value::number))),
    key("end_fsync", "0 or 1", |o, v| set(&mut o.end_fsync, value::switch(v))),
    alias("runtime", "timeout", "a span: 10s, 2m", |o, v| set(&mut o.runtime, seconds(v).map(nonzero))),
    key("time_based", "nothing, 0 or 1", |o, v| set(&mut o.time_based, value::flag(v))),
    key("ramp_time", "a span: 10s, 2m", |o, v| set(&mut o.ramp_time, seconds(v))),
    key("thinktime", "a span: 100us, 5ms", |o, v| set(&mut o.think.span, micros(v))),
    key("thinktime_blocks", "1 or more", |o, v| set(&mut o.think.accesses, at_least_one(v))),
    key("thinktime_blocks_type", "complete or issue", |_, v| one_of(v, &["complete", "issue"])),
    key("thinktime_iotime", "a span: 100us, 5ms", |o, v| set(&mut o.think.busy, seconds(v))),
    key("randseed", "a number", |o, v| set(&mut o.seed, text(v).and_then(value::bytes).map(Some))),
    key("norandommap", "nothing, 0 or 1", |o, v| set(&mut o.random_map, value::flag(v).map(|off| !off))),
    key(
        "random_distribution",
        "random, zipf[:theta[:center]], pareto[:h[:center]], normal[:deviation[:center]], zoned:50/10:50/90 or \
         zoned_abs:50/1g:50/9g",
        |o, v| set(&mut o.distribution, text(v).and_then(distribution)),
    ),
    key("buffer_compress_percentage", "0 to 100", |o, v| set(&mut o.compressible_percent, percent(v))),
    key("verify", "0, or the name of a checksum that fio has: crc32c, md5, …", |o, v| {
        set(&mut o.verify, text(v).and_then(verify))
    }),
    key("overwrite", "0 or 1", |o, v| set(&mut o.overwrite, value::switch(v))),
    key("fallocate", "none, native, posix, keep or truncate", |o, v| {
        set(&mut o.fallocate, text(v).and_then(fallocate))
    }),
    key("invalidate", "0 or 1", |o, v| set(&mut o.invalidate, value::switch(v))),
    key("pre_read", "0 or 1", |o, v| set(&mut o.pre_read, value::switch(v))),
    key("create_on_open", "0 or 1", |o, v| set(&mut o.create_on_open, value::switch(v))),
    alias("stonewall", "wait_for_previous", "nothing, 0 or 1", |o, v| set(&mut o.stonewall, value::flag(v))),
    key("group_reporting", "nothing, 0 or 1", |o, v| set(&mut o.group_reporting, value::flag(v))),
    key("new_group", "nothing, 0 or 1", |o, v| set(&mut o.new_group, value::flag(v))),
    key("rwmixwrite", "0 to 100", |o, v| set(&mut o.read_percent, percent(v).map(|writes| 100 - writes))),
    key("buffered", "0 or 1", |o, v| set(&mut o.direct, value::switch(v).map(|buffered| !buffered))),
    key("loops", "1 or more", |o, v| set(&mut o.loops, at_least_one(v))),
    key("number_ios", "a number of accesses", |o, v| set(&mut o.accesses_max, text(v).and_then(value::bytes))),
    key("offset", "a size, or N%", |o, v| set(&mut o.offset, text(v).and_then(value::amount))),
    key("offset_increment", "a size, or N%", |o, v| set(&mut o.offset_increment, text(v).and_then(value::amount))),
    key("offset_align", "a size", |o, v| set(&mut o.offset_align, text(v).and_then(value::bytes))),
    alias("bs_unaligned", "blocksize_unaligned", "nothing, 0 or 1", |o, v| set(&mut o.unaligned, value::flag(v))),
    alias("blockalign", "ba", "a size, or read,write,trim", |o, v| {
        let mut sizes = PerDirection::all(0);
        rates(&mut sizes, v)?;
        o.align = Some(sizes);
        Ok(())
    }),
    key("bs_is_seq_rand", "0 or 1", |o, v| set(&mut o.sizes_by_order, value::switch(v))),
    key("percentage_random", "0 to 100, or read,write,trim", |o, v| percents(&mut o.random_percent, v)),
    key("rw_sequencer", "sequential or identical", |o, v| set(&mut o.identical, text(v).and_then(identical))),
    key("file_service_type", "roundrobin[:N], sequential[:N] or random[:N]", |o, v| file_service(o, text(v)?)),
    key("zonemode", "none or strided", |o, v| set(&mut o.strided.enabled, text(v).and_then(zone_mode))),
    key("zonesize", "a size", |o, v| set(&mut o.strided.size, text(v).and_then(value::bytes))),
    key("zonerange", "a size", |o, v| set(&mut o.strided.range, text(v).and_then(value::bytes))),
    key("zoneskip", "a size", |o, v| set(&mut o.strided.skip, text(v).and_then(value::bytes))),
    key("rate", "bytes a second, or read,write,trim", |o, v| rates(&mut o.pace.bytes, v)),
    alias("rate_min", "ratemin", "bytes a second, or read,write,trim", |o, v| rates(&mut o.pace.bytes_least, v)),
    key("rate_iops", "accesses a second, or read,write,trim", |o, v| rates(&mut o.pace.accesses, v)),
    key("rate_iops_min", "accesses a second, or read,write,trim", |o, v| rates(&mut o.pace.accesses_least, v)),
    key("rate_process", "linear or poisson", |o, v| set(&mut o.pace.poisson, text(v).and_then(rate_process))),
    alias("rate_cycle", "ratecycle", "milliseconds", |o, v| set(&mut o.pace.cycle, millis(v))),
    key("rate_ignore_thinktime", "0 or 1", |o, v| set(&mut o.pace.ignores_thinking, value::switch(v))),
    key("latency_target", "a span: 500us, 10ms", |o, v| set(&mut o.latency.target, micros(v))),
    key("latency_window", "a span: 100ms, 5s", |o, v| set(&mut o.latency.window, micros(v))),
    key("latency_percentile", "0 to 100", |o, v| set(&mut o.latency.percentile, text(v).and_then(real_percent))),
    key("latency_run", "0 or 1", |o, v| set(&mut o.latency.goes_on, value::switch(v))),
    key("max_latency", "a span, or read,write,trim", |o, v| spans(&mut o.latency_most, v)),
    alias("steadystate", "ss", "iops, iops_slope, bw or bw_slope, each with :N or :N%", |o, v| {
        set(&mut o.steadiness.criterion, text(v).and_then(criterion).map(Some))
    }),
    alias("steadystate_duration", "ss_dur", "a span of whole seconds", |o, v| {
        set(&mut o.steadiness.seconds, whole_seconds(v))
    }),
    alias("steadystate_ramp_time", "ss_ramp", "a span: 10s, 2m", |o, v| set(&mut o.steadiness.ramp, seconds(v))),
    alias("startdelay", "start_delay", "a span, or 1s-5s", |o, v| set(&mut o.start_delay, text(v).and_then(delay))),
    key("wait_for", "a job before", |o, v| set(&mut o.wait_for, text(v).map(|name| Some(name.to_owned())))),
    key("exitall", "nothing, 0 or 1", |o, v| set(&mut o.ends_others, value::flag(v))),
    key("exit_what", "group, stonewall or all", |o, v| set(&mut o.exit_scope, text(v).and_then(exit_scope))),
    key("flow_id", "a number", |o, v| set(&mut o.flow.id, text(v).and_then(value::bytes))),
    key("flow", "a number", |o, v| set(&mut o.flow.weight, text(v).and_then(value::bytes))),
    key("flow_sleep", "microseconds", |o, v| set(&mut o.flow.sleep, micros(v))),
    key("continue_on_error", "none, read, write, io, verify or all", |o, v| {
        continue_on_error(&mut o.tolerance, text(v)?)
    }),
    key("ignore_error", "ENOSPC:EIO, or read,write,verify", |o, v| ignored_errors(&mut o.tolerance, text(v)?)),
    key("do_verify", "0 or 1", |o, v| set(&mut o.checking.reads_back, value::switch(v))),
    key("verify_backlog", "a number of writes", |o, v| set(&mut o.checking.backlog, text(v).and_then(value::bytes))),
    key("verify_backlog_batch", "a number of blocks", |o, v| {
        set(&mut o.checking.batch, text(v).and_then(value::bytes))
    }),
    key("unlink", "0 or 1", |o, v| set(&mut o.unlink, value::switch(v))),
    key("fsync_on_close", "0 or 1", |o, v| set(&mut o.fsync_on_close, value::switch(v))),
    key("create_only", "0 or 1", |o, v| set(&mut o.create_only, value::switch(v))),
    key("allow_file_create", "0 or 1", |o, v| set(&mut o.may_create, value::switch(v))),
    alias("fill_device", "fill_fs", "0 or 1", |o, v| set(&mut o.fill_device, value::switch(v))),
    key("filename_format", "a name with $jobname, $jobnum, $filenum or $clientuid", |o, v| {
        set(&mut o.file_name_format, text(v).map(|format| Some(format.to_owned())))
    }),
    key("read_iolog", "iologs of fio, `:` between them", |o, v| {
        set(&mut o.iolog_paths, text(v).and_then(value::names))
    }),
    key("replay_no_stall", "0 or 1", |o, v| set(&mut o.replay_unpaced, value::switch(v))),
    key("replay_redirect", "a file", |o, v| set(&mut o.replay_redirect, text(v).map(|name| Some(name.to_owned())))),
    key("replay_time_scale", "percent, 1 or more", |o, v| set(&mut o.replay_time_percent, at_least_one(v))),
    key("replay_scale", "1 or more", |o, v| set(&mut o.replay_divisor, at_least_one(v))),
    key("replay_align", "a power of 2", |o, v| set(&mut o.replay_align, text(v).and_then(value::power_of_two))),
    key("replay_skip", "read, write, trim or sync, `,` between them", |o, v| {
        set(&mut o.replay_skips, text(v).and_then(skipped))
    }),
];

const fn key(name: &'static str, form: &'static str, apply: fn(&mut Options, Option<&str>) -> ValueResult<()>) -> Key {
    Key { name, alias: None, form, apply }
}

const fn alias(
    name: &'static str,
    alias: &'static str,
    form: &'static str,
    apply: fn(&mut Options, Option<&str>) -> ValueResult<()>,
) -> Key {
    Key { name, alias: Some(alias), form, apply }
}

/// Why a setting was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The key belongs to an engine that has no meaning here.
    OfEngine(String),
    /// Any other fault.
    Other(String),
}

/// Applies one setting.
///
/// # Errors
/// The key, what is wrong with it, and the possible values.
pub(super) fn apply(options: &mut Options, name: &str, value: Option<&str>) -> Result<(), Fault> {
    let Some(key) = KEYS.iter().find(|key| key.name == name || key.alias == Some(name)) else {
        return without_meaning(name);
    };
    (key.apply)(options, value).map_err(|problem| Fault::Other(format!("`{name}`: {problem} (possible: {})", key.form)))
}

/// Handles a key that is not in the table: one without effect, one of fio that is not supported, or an unknown one.
fn without_meaning(name: &str) -> Result<(), Fault> {
    if known::inert(name).is_some() {
        return Ok(());
    }
    if let Some(engine) = known::engine_of(name) {
        return Err(Fault::OfEngine(format!("key `{name}` is for fio's engine {engine}, which has no meaning here")));
    }
    if known::UNSUPPORTED.contains(&name) {
        return Err(Fault::Other(format!("key `{name}` is not supported: fio knows it, Onewrite does not")));
    }
    let meant = known::nearest(name, names()).map(|key| format!("; did you mean `{key}`?"));
    let cure = meant.unwrap_or_else(|| "; docs/jobs.md lists the keys".to_owned());
    Err(Fault::Other(format!("key `{name}` is unknown to fio and to Onewrite{cure}")))
}

/// All known keys, also those without effect.
fn names() -> impl Iterator<Item = &'static str> {
    let inert = known::INERT.iter().flat_map(|(_, keys)| keys.iter().copied());
    KEYS.iter().flat_map(|key| std::iter::once(key.name).chain(key.alias)).chain(inert)
}

#[cfg(test)]
mod tests {
    use super::super::options::{BlockSizes, Distribution};
    use super::*;

    fn applied(name: &str, value: &str) -> Options {
        let mut options = Options::default();
        apply(&mut options, name, Some(value)).unwrap();
        options
    }

    fn refused(name: &str, value: Option<&str>) -> bool {
        apply(&mut Options::default(), name, value).is_err()
    }

    #[test]
    fn the_modifier_of_rw_depends_on_randomness() {
        let random = applied("rw", "randwrite:8");
        assert_eq!((random.random, random.random_every, random.sequential_skip), (true, 8, 0));
        let sequential = applied("readwrite", "read:-8k");
        assert_eq!((sequential.random, sequential.random_every, sequential.sequential_skip), (false, 1, -8192));
    }

    #[test]
    fn a_split_is_stronger_than_a_range_than_a_size() {
        let mut options = applied("bssplit", "4k/50:8k/50");
        apply(&mut options, "bs", Some("64k")).unwrap();
        assert!(matches!(options.block_sizes.write, BlockSizes::Split(_)));
    }

    #[test]
    fn distributions_have_fios_defaults() {
        assert_eq!(
            applied("random_distribution", "zipf").distribution,
            Distribution::Zipf { theta: 1.1, center: None }
        );
        let pareto = applied("random_distribution", "pareto:0.3:0.5").distribution;
        assert_eq!(pareto, Distribution::Pareto { h: 0.3, center: Some(0.5) });
    }

    #[test]
    fn what_fio_has_and_this_has_not_is_refused() {
        let values = [
            ("zonemode", "zbd"),
            ("file_service_type", "zipf"),
            ("random_distribution", "zoned:50/50:60/50"),
            ("ioengine", "rados"),
        ];
        assert!(values.iter().all(|(name, value)| refused(name, Some(value))));
        assert!(
            refused("random_distribution", Some("zipf:1.0"))
                && refused("direct", None)
                && refused("iodepth", Some("0"))
        );
    }
}
