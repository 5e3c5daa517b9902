//! Keys: the settings a job file may hold. The table is the whole truth: parser, error messages and help read it.

use onewrite_block::Nanos;

use super::options::{Access, BlockSizes, Direction, Distribution, Engine, Fallocate, Options, PerDirection, SyncMode};
use super::value::{self, ValueResult};

/// One setting.
pub struct Key {
    /// fio's name.
    pub name: &'static str,
    /// fio's second name, if it has one.
    pub alias: Option<&'static str>,
    /// What may stand after `=`.
    pub form: &'static str,
    apply: fn(&mut Options, Option<&str>) -> ValueResult<()>,
}

/// Every key, in fio's order of subjects.
pub const KEYS: &[Key] = &[
    key("name", "a name", |o, v| set(&mut o.name, text(v).map(|name| Some(name.to_owned())))),
    key("directory", "directories of the image, `:` between them", |o, v| {
        set(&mut o.directories, text(v).and_then(value::names))
    }),
    key("filename", "files, `:` between them", |o, v| set(&mut o.file_names, text(v).and_then(value::names))),
    alias("nrfiles", "nr_files", "1 or more", |o, v| set(&mut o.file_count, count(v))),
    key("ioengine", "sync, psync, pvsync, libaio or io_uring", |o, v| set(&mut o.engine, text(v).and_then(engine))),
    key("iodepth", "1 or more", |o, v| set(&mut o.depth, count(v))),
    key("numjobs", "1 or more", |o, v| set(&mut o.clones, count(v))),
    alias("rw", "readwrite", "read, write, randread, randwrite, rw, randrw, trim or randtrim", |o, v| {
        access(o, text(v)?)
    }),
    key("rwmixread", "0 to 100", |o, v| set(&mut o.read_percent, percent(v))),
    alias("bs", "blocksize", "a size, or read,write,trim", |o, v| fixed_size(o, text(v)?)),
    alias("bsrange", "blocksize_range", "4k-64k, or read,write,trim", |o, v| size_range(o, text(v)?)),
    key("bssplit", "4k/60:8k/40, or read,write,trim", |o, v| size_split(o, text(v)?)),
    key("size", "a size, or N%", |o, v| set(&mut o.size, text(v).and_then(value::amount).map(Some))),
    alias("io_size", "io_limit", "a size, or N%", |o, v| {
        set(&mut o.io_size, text(v).and_then(value::amount).map(Some))
    }),
    key("filesize", "a size, or 1m-4m", |o, v| set(&mut o.file_size, text(v).and_then(file_size).map(Some))),
    key("direct", "0 or 1", |o, v| set(&mut o.direct, value::switch(v, false))),
    key("sync", "none, sync or dsync", |o, v| set(&mut o.sync, text(v).and_then(sync))),
    key("fsync", "a number of writes", |o, v| set(&mut o.fsync_every, text(v).and_then(value::number))),
    key("fdatasync", "a number of writes", |o, v| set(&mut o.fdatasync_every, text(v).and_then(value::number))),
    key("end_fsync", "0 or 1", |o, v| set(&mut o.end_fsync, value::switch(v, false))),
    alias("runtime", "timeout", "a span: 10s, 2m", |o, v| set(&mut o.runtime, seconds(v).map(nonzero))),
    key("time_based", "nothing, 0 or 1", |o, v| set(&mut o.time_based, value::switch(v, true))),
    key("ramp_time", "a span: 10s, 2m", |o, v| set(&mut o.ramp_time, seconds(v))),
    key("thinktime", "a span: 100us, 5ms", |o, v| set(&mut o.think_time, micros(v))),
    key("randseed", "a number", |o, v| set(&mut o.seed, text(v).and_then(value::bytes).map(Some))),
    key("norandommap", "nothing, 0 or 1", |o, v| set(&mut o.random_map, value::switch(v, true).map(|off| !off))),
    key("random_distribution", "random, zipf[:theta[:center]] or pareto[:h[:center]]", |o, v| {
        set(&mut o.distribution, text(v).and_then(distribution))
    }),
    key("buffer_compress_percentage", "0 to 100", |o, v| set(&mut o.compressible_percent, percent(v))),
    key("verify", "0 or crc32c", |o, v| set(&mut o.verify, text(v).and_then(verify))),
    key("overwrite", "0 or 1", |o, v| set(&mut o.overwrite, value::switch(v, false))),
    key("fallocate", "none, native, posix, keep or truncate", |o, v| {
        set(&mut o.fallocate, text(v).and_then(fallocate))
    }),
    key("invalidate", "0 or 1", |o, v| set(&mut o.invalidate, value::switch(v, false))),
    key("create_on_open", "0 or 1", |o, v| set(&mut o.create_on_open, value::switch(v, false))),
    alias("stonewall", "wait_for_previous", "nothing, 0 or 1", |o, v| set(&mut o.stonewall, value::switch(v, true))),
    key("group_reporting", "nothing, 0 or 1", |o, v| set(&mut o.group_reporting, value::switch(v, true))),
    // Every job is a task here, whether fio would make it a thread or a process.
    key("thread", "nothing, 0 or 1", |_, v| value::switch(v, true).map(drop)),
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

/// Applies one setting.
///
/// # Errors
/// The key, what is wrong with it, and what is possible.
pub fn apply(options: &mut Options, name: &str, value: Option<&str>) -> Result<(), String> {
    let Some(key) = KEYS.iter().find(|key| key.name == name || key.alias == Some(name)) else {
        let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        return Err(format!("key `{name}` is unknown or not supported; supported are {}", known.join(", ")));
    };
    (key.apply)(options, value).map_err(|problem| format!("`{name}`: {problem} (possible: {})", key.form))
}

fn set<T>(place: &mut T, value: ValueResult<T>) -> ValueResult<()> {
    *place = value?;
    Ok(())
}

fn text(value: Option<&str>) -> ValueResult<&str> {
    match value {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err("needs a value".to_owned()),
    }
}

fn count(value: Option<&str>) -> ValueResult<u32> {
    Ok(value::number_between(text(value)?, 1, u64::from(u32::MAX))? as u32)
}

fn percent(value: Option<&str>) -> ValueResult<u8> {
    Ok(value::number_between(text(value)?, 0, 100)? as u8)
}

fn seconds(value: Option<&str>) -> ValueResult<Nanos> {
    value::span(text(value)?, Nanos::from_secs(1))
}

fn micros(value: Option<&str>) -> ValueResult<Nanos> {
    value::span(text(value)?, Nanos::from_micros(1))
}

fn nonzero(span: Nanos) -> Option<Nanos> {
    (span > Nanos::ZERO).then_some(span)
}

fn unsupported<T>(text: &str) -> ValueResult<T> {
    Err(format!("`{text}` is unknown or not supported"))
}

fn engine(text: &str) -> ValueResult<Engine> {
    match text {
        "sync" | "psync" | "pvsync" => Ok(Engine::Blocking),
        "libaio" => Ok(Engine::Libaio),
        "io_uring" => Ok(Engine::IoUring),
        other => unsupported(other),
    }
}

fn access(options: &mut Options, text: &str) -> ValueResult<()> {
    let (kind, modifier) = text.split_once(':').map_or((text, None), |(kind, modifier)| (kind, Some(modifier)));
    (options.direction, options.random) = match kind {
        "read" => (Access::Only(Direction::Read), false),
        "write" => (Access::Only(Direction::Write), false),
        "trim" => (Access::Only(Direction::Trim), false),
        "rw" | "readwrite" => (Access::Mixed, false),
        "randread" => (Access::Only(Direction::Read), true),
        "randwrite" => (Access::Only(Direction::Write), true),
        "randtrim" => (Access::Only(Direction::Trim), true),
        "randrw" => (Access::Mixed, true),
        other => return unsupported(other),
    };
    (options.random_every, options.sequential_skip) = match modifier {
        None => (1, 0),
        Some(every) if options.random => (value::number_between(every, 1, u64::MAX)?, 0),
        Some(skip) => (1, signed_bytes(skip)?),
    };
    Ok(())
}

fn signed_bytes(text: &str) -> ValueResult<i64> {
    let (sign, magnitude) = text.strip_prefix('-').map_or((1, text), |magnitude| (-1, magnitude));
    let bytes = i64::try_from(value::bytes(magnitude)?).map_err(|_| format!("`{text}` is too large"))?;
    Ok(sign * bytes)
}

/// `bs` is what remains where neither `bsrange` nor `bssplit` is given; fio has them in this order of strength.
fn fixed_size(options: &mut Options, text: &str) -> ValueResult<()> {
    sizes(options, text, |part| Ok(BlockSizes::Fixed(value::number_between(part, 1, u64::MAX)?)))
}

fn size_range(options: &mut Options, text: &str) -> ValueResult<()> {
    sizes(options, text, |part| match value::range(part)? {
        (0, _) => Err("a block has at least one byte".to_owned()),
        (least, most) if least == most => Ok(BlockSizes::Fixed(least)),
        (least, most) => Ok(BlockSizes::Range { least, most }),
    })
}

fn size_split(options: &mut Options, text: &str) -> ValueResult<()> {
    sizes(options, text, |part| Ok(BlockSizes::Split(value::split(part)?)))
}

fn sizes(options: &mut Options, text: &str, parse: impl Fn(&str) -> ValueResult<BlockSizes>) -> ValueResult<()> {
    let new = value::per_direction(text, &options.block_sizes, parse)?;
    let stronger =
        |before: &BlockSizes, new: BlockSizes| if strength(&new) >= strength(before) { new } else { before.clone() };
    let before = &options.block_sizes;
    options.block_sizes = PerDirection {
        read: stronger(&before.read, new.read),
        write: stronger(&before.write, new.write),
        trim: stronger(&before.trim, new.trim),
    };
    Ok(())
}

const fn strength(sizes: &BlockSizes) -> u8 {
    match sizes {
        BlockSizes::Fixed(_) => 0,
        BlockSizes::Range { .. } => 1,
        BlockSizes::Split(_) => 2,
    }
}

fn file_size(text: &str) -> ValueResult<(u64, u64)> {
    match value::size_or_range(text)? {
        (0, _) => Err("a file has at least one byte".to_owned()),
        sizes => Ok(sizes),
    }
}

fn sync(text: &str) -> ValueResult<SyncMode> {
    match text {
        "0" | "none" => Ok(SyncMode::None),
        "1" | "sync" => Ok(SyncMode::Sync),
        "dsync" => Ok(SyncMode::Dsync),
        other => unsupported(other),
    }
}

fn distribution(text: &str) -> ValueResult<Distribution> {
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let parameter = parts.next().map(fraction).transpose()?;
    let center = parts.next().map(fraction).transpose()?;
    if parts.next().is_some() || center.is_some_and(|center| !(0.0..=1.0).contains(&center)) {
        return Err(format!("`{text}`: the centre is a number from 0 to 1, and nothing follows it"));
    }
    match (kind, parameter) {
        ("random", None) => Ok(Distribution::Uniform),
        ("zipf", theta) => match theta.unwrap_or(1.1) {
            theta if theta > 0.0 && theta != 1.0 => Ok(Distribution::Zipf { theta, center }),
            theta => Err(format!("theta is {theta}; it must be above 0 and other than 1")),
        },
        ("pareto", h) => match h.unwrap_or(0.2) {
            h if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto { h, center }),
            h => Err(format!("h is {h}; it must lie between 0 and 1")),
        },
        _ => unsupported(text),
    }
}

fn fraction(text: &str) -> ValueResult<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| format!("`{text}` is not a number"))
}

fn verify(text: &str) -> ValueResult<bool> {
    match text {
        "0" => Ok(false),
        "crc32c" | "crc32c-intel" => Ok(true),
        other => unsupported(other),
    }
}

fn fallocate(text: &str) -> ValueResult<Fallocate> {
    match text {
        "0" | "none" => Ok(Fallocate::None),
        "native" | "posix" | "1" => Ok(Fallocate::Extend),
        "keep" => Ok(Fallocate::KeepSize),
        "truncate" => Ok(Fallocate::Truncate),
        other => unsupported(other),
    }
}

#[cfg(test)]
mod tests {
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
        let values =
            [("rw", "trimwrite"), ("verify", "md5"), ("random_distribution", "zoned:50/50"), ("ioengine", "mmap")];
        assert!(values.iter().all(|(name, value)| refused(name, Some(value))));
        assert!(
            refused("random_distribution", Some("zipf:1.0"))
                && refused("direct", None)
                && refused("iodepth", Some("0"))
        );
    }
}
