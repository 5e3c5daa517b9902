//! Parse: values of keys, one function for each kind of value.

use std::sync::Arc;

use onewrite_block::Nanos;

use super::arithmetic::ValueResult;
use super::behaviour::{Criterion, ExitScope, FileService, Tolerance, Work};
use super::direction::{Direction, PerDirection};
use super::known::ENGINES_ELSEWHERE;
use super::options::{Access, BlockSizes, Distribution, Engine, Fallocate, Options, SyncMode, ZoneShare};
use super::size::Amount;
use super::value;

pub(super) fn set<T>(place: &mut T, value: ValueResult<T>) -> ValueResult<()> {
    *place = value?;
    Ok(())
}

pub(super) fn text(value: Option<&str>) -> ValueResult<&str> {
    match value {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err("needs a value".to_owned()),
    }
}

/// A number from 1 to `most`.
pub(super) fn count(value: Option<&str>, most: u32) -> ValueResult<u32> {
    Ok(value::number_between(text(value)?, 1, u64::from(most))? as u32)
}

pub(super) fn percent(value: Option<&str>) -> ValueResult<u8> {
    Ok(value::number_between(text(value)?, 0, 100)? as u8)
}

pub(super) fn seconds(value: Option<&str>) -> ValueResult<Nanos> {
    value::span(text(value)?, Nanos::from_secs(1))
}

pub(super) fn micros(value: Option<&str>) -> ValueResult<Nanos> {
    value::span(text(value)?, Nanos::from_micros(1))
}

pub(super) fn millis(value: Option<&str>) -> ValueResult<Nanos> {
    Ok(Nanos::from_millis(value::number_between(text(value)?, 1, 86_400_000)?))
}

/// A time span of whole seconds.
pub(super) fn whole_seconds(value: Option<&str>) -> ValueResult<u64> {
    let span = seconds(value)?;
    match span.0 % Nanos::from_secs(1).0 {
        0 => Ok(span.0 / Nanos::from_secs(1).0),
        _ => Err(format!("{span} is no number of whole seconds")),
    }
}

/// A percentage from 0 to 100, with decimals.
pub(super) fn real_percent(text: &str) -> ValueResult<f64> {
    let percent = text.trim().parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| format!("`{text}` is no number from 0 to 100"))
}

pub(super) fn at_least_one(value: Option<&str>) -> ValueResult<u64> {
    value::number_between(text(value)?, 1, u64::MAX)
}

/// A word without effect, which must be one that fio knows.
pub(super) fn one_of(value: Option<&str>, words: &[&str]) -> ValueResult<()> {
    let word = text(value)?;
    if words.contains(&word) { Ok(()) } else { unsupported(word) }
}

pub(super) fn nonzero(span: Nanos) -> Option<Nanos> {
    (span > Nanos::ZERO).then_some(span)
}

fn unsupported<T>(text: &str) -> ValueResult<T> {
    Err(format!("`{text}` is unknown or not supported"))
}

pub(super) fn engine(options: &mut Options, text: &str) -> ValueResult<()> {
    (options.engine, options.work) = match text {
        "sync" | "psync" | "pvsync" | "pvsync2" | "vsync" | "mmap" | "splice" => (Engine::Blocking, Work::Accesses),
        "libaio" | "posixaio" => (Engine::Libaio, Work::Accesses),
        "io_uring" => (Engine::IoUring, Work::Accesses),
        "filecreate" => (Engine::Blocking, Work::Create),
        "filestat" => (Engine::Blocking, Work::Stat),
        "filedelete" => (Engine::Blocking, Work::Delete),
        "falloc" => (Engine::Blocking, Work::Allocate),
        "ftruncate" => (Engine::Blocking, Work::Truncate),
        other => {
            let name = if other.starts_with("external:") { "external" } else { other };
            return match ENGINES_ELSEWHERE.iter().find(|(engine, _)| *engine == name) {
                Some((_, reach)) => {
                    Err(format!("fio's engine `{other}` has no meaning here: it reaches {reach}, no file system"))
                }
                None => unsupported(other),
            };
        }
    };
    Ok(())
}

pub(super) fn access(options: &mut Options, text: &str) -> ValueResult<()> {
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
        "trimwrite" => (Access::TrimWrite, false),
        "randtrimwrite" => (Access::TrimWrite, true),
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

/// Bytes of the largest access.
const BLOCK_MAX: u64 = 1 << 30;

pub(super) fn fixed_size(options: &mut Options, text: &str) -> ValueResult<()> {
    sizes(options, text, |part| Ok(BlockSizes::Fixed(value::number_between(part, 1, BLOCK_MAX)?)))
}

pub(super) fn size_range(options: &mut Options, text: &str) -> ValueResult<()> {
    sizes(options, text, |part| match value::range(part)? {
        (0, _) => Err("a block has at least one byte".to_owned()),
        (_, most) if most > BLOCK_MAX => Err(format!("a block has at most {BLOCK_MAX} bytes")),
        (least, most) if least == most => Ok(BlockSizes::Fixed(least)),
        (least, most) => Ok(BlockSizes::Range { least, most }),
    })
}

pub(super) fn size_split(options: &mut Options, text: &str) -> ValueResult<()> {
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

pub(super) fn file_size(text: &str) -> ValueResult<(u64, u64)> {
    match value::size_or_range(text)? {
        (0, _) => Err("a file has at least one byte".to_owned()),
        sizes => Ok(sizes),
    }
}

pub(super) fn sync(text: &str) -> ValueResult<SyncMode> {
    match text {
        "0" | "none" => Ok(SyncMode::None),
        "1" | "sync" => Ok(SyncMode::Sync),
        "dsync" => Ok(SyncMode::Dsync),
        other => unsupported(other),
    }
}

pub(super) fn distribution(text: &str) -> ValueResult<Distribution> {
    if let Some(zones) = text.strip_prefix("zoned_abs:").or_else(|| text.strip_prefix("zoned_abs=")) {
        return zoned(zones, |extent| Ok(Amount::Bytes(value::number_between(extent, 1, u64::MAX)?)));
    }
    if let Some(zones) = text.strip_prefix("zoned:").or_else(|| text.strip_prefix("zoned=")) {
        return zoned(zones, |extent| Ok(Amount::Percent(value::number_between(extent, 0, 100)? as u8)));
    }
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
        ("normal" | "gauss", deviation) => match deviation.unwrap_or(0.0) {
            deviation if (0.0..=100.0).contains(&deviation) => Ok(Distribution::Normal { deviation, center }),
            deviation => Err(format!("the deviation is {deviation}; it is a percentage, 0 to 100")),
        },
        _ => unsupported(text),
    }
}

/// `share/extent:share/extent…`; with commas, lists for reads, writes and trims.
fn zoned(text: &str, extent: impl Fn(&str) -> ValueResult<Amount> + Copy) -> ValueResult<Distribution> {
    let zones = value::per_direction(text, &PerDirection::all(Vec::new()), |part| zone_shares(part, extent))?;
    Ok(Distribution::Zoned(Arc::new(zones)))
}

/// A list of zones. Zones without a share or an extent divide the rest; the shares must add up to the whole.
fn zone_shares(text: &str, extent: impl Fn(&str) -> ValueResult<Amount>) -> ValueResult<Vec<ZoneShare>> {
    let mut zones = Vec::new();
    for part in text.split(':') {
        let (accesses, reach) = part.split_once('/').ok_or_else(|| format!("`{part}` is not ACCESSES/EXTENT"))?;
        let reach = if reach.is_empty() { None } else { Some(extent(reach)?) };
        zones.push((value::number_between(accesses, 0, 100)? as u8, reach));
    }
    let accesses: u32 = zones.iter().map(|(accesses, _)| u32::from(*accesses)).sum();
    let percents = zones.iter().filter_map(|(_, extent)| match extent {
        Some(Amount::Percent(percent)) => Some(u32::from(*percent)),
        _ => None,
    });
    let (covered, open) = (percents.sum::<u32>(), zones.iter().filter(|(_, extent)| extent.is_none()).count() as u32);
    let is_whole = open > 0 || covered == 100 || matches!(zones[0].1, Some(Amount::Bytes(_)));
    if zones.len() > 256 || accesses > 100 || covered > 100 || !is_whole {
        return Err(format!(
            "`{text}`: accesses add up to {accesses} %, extents to {covered} %; both make 100 at most"
        ));
    }
    let rest = Amount::Percent((100 - covered).checked_div(open).unwrap_or(0) as u8);
    let missing = (100 - accesses) as u8;
    let mut zones: Vec<ZoneShare> =
        zones.into_iter().map(|(accesses, extent)| ZoneShare { accesses, extent: extent.unwrap_or(rest) }).collect();
    // As in fio: accesses that no zone claims go to the zones without a share, else to the last zone.
    let idle = zones.iter().filter(|zone| zone.accesses == 0).count() as u8;
    match idle {
        0 => zones.last_mut().expect("one at least").accesses += missing,
        _ => zones.iter_mut().filter(|zone| zone.accesses == 0).for_each(|zone| zone.accesses = missing / idle),
    }
    Ok(zones)
}

fn fraction(text: &str) -> ValueResult<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| format!("`{text}` is not a number"))
}

/// fio's checksums differ in the time they take; here all names select CRC32C.
pub(super) fn verify(text: &str) -> ValueResult<bool> {
    match text {
        "0" | "none" => Ok(false),
        "md5" | "crc64" | "crc32c" | "crc32c-intel" | "crc32" | "crc16" | "crc7" | "xxhash" | "sha512" | "sha256"
        | "sha1" | "sha3-224" | "sha3-256" | "sha3-384" | "sha3-512" | "meta" | "pattern" | "pattern_hdr" | "1" => {
            Ok(true)
        }
        other => unsupported(other),
    }
}

pub(super) fn fallocate(text: &str) -> ValueResult<Fallocate> {
    match text {
        "0" | "none" => Ok(Fallocate::None),
        "native" | "posix" | "1" => Ok(Fallocate::Extend),
        "keep" => Ok(Fallocate::KeepSize),
        "truncate" => Ok(Fallocate::Truncate),
        other => unsupported(other),
    }
}

pub(super) fn file_service(options: &mut Options, text: &str) -> ValueResult<()> {
    let (kind, accesses) = text.split_once(':').map_or((text, None), |(kind, accesses)| (kind, Some(accesses)));
    let accesses = accesses.map(|accesses| value::number_between(accesses, 1, u64::MAX)).transpose()?;
    (options.service, options.service_accesses) = match kind {
        "random" => (FileService::Random, accesses.unwrap_or(1)),
        "roundrobin" => (FileService::RoundRobin, accesses.unwrap_or(1)),
        "sequential" => (FileService::Sequential, accesses.unwrap_or(0)),
        other => return unsupported(other),
    };
    Ok(())
}

pub(super) fn zone_mode(text: &str) -> ValueResult<bool> {
    match text {
        "none" => Ok(false),
        "strided" => Ok(true),
        "zbd" => Err("`zbd` needs a device of zones, and none here has them; strided is possible".to_owned()),
        other => unsupported(other),
    }
}

pub(super) fn rate_process(text: &str) -> ValueResult<bool> {
    match text {
        "linear" => Ok(false),
        "poisson" => Ok(true),
        other => unsupported(other),
    }
}

pub(super) fn exit_scope(text: &str) -> ValueResult<ExitScope> {
    match text {
        "group" => Ok(ExitScope::Group),
        "stonewall" => Ok(ExitScope::Stonewall),
        "all" => Ok(ExitScope::All),
        other => unsupported(other),
    }
}

/// One time span, or two with `-` or `:` between them.
pub(super) fn delay(text: &str) -> ValueResult<(Nanos, Nanos)> {
    let span = |text| value::span(text, Nanos::from_secs(1));
    match text.split_once(['-', ':']) {
        None => Ok((span(text)?, span(text)?)),
        Some((low, high)) => {
            let (low, high) = (span(low)?, span(high)?);
            Ok((low.min(high), low.max(high)))
        }
    }
}

pub(super) fn identical(text: &str) -> ValueResult<bool> {
    match text {
        "sequential" => Ok(false),
        "identical" => Ok(true),
        other => unsupported(other),
    }
}

pub(super) fn continue_on_error(tolerance: &mut Tolerance, text: &str) -> ValueResult<()> {
    (tolerance.reads, tolerance.writes, tolerance.contents) = match text {
        "none" | "0" => (false, false, false),
        "read" => (true, false, false),
        "write" => (false, true, false),
        "io" => (true, true, false),
        "verify" => (false, false, true),
        "all" | "1" => (true, true, true),
        other => return unsupported(other),
    };
    Ok(())
}

/// `READ,WRITE,VERIFY`; each is a list such as `ENOSPC:5:…`.
pub(super) fn ignored_errors(tolerance: &mut Tolerance, text: &str) -> ValueResult<()> {
    let mut lists = text.split(',').map(|list| list.split(':').filter(|name| !name.is_empty()).map(errno).collect());
    tolerance.read_errors = lists.next().unwrap_or(Ok(Vec::new()))?;
    tolerance.write_errors = lists.next().unwrap_or(Ok(Vec::new()))?;
    let contents: Vec<i32> = lists.next().unwrap_or(Ok(Vec::new()))?;
    tolerance.contents |= !contents.is_empty();
    Ok(())
}

fn errno(name: &str) -> ValueResult<i32> {
    const NAMES: &[(&str, i32)] = &[
        ("ENOENT", 2),
        ("EIO", 5),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EINVAL", 22),
        ("EFBIG", 27),
        ("ENOSPC", 28),
        ("EROFS", 30),
        ("EILSEQ", 84),
        ("ETIMEDOUT", 110),
        ("EDQUOT", 122),
    ];
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.map_or_else(|| value::number_between(name, 1, 255).map(|number| number as i32), Ok)
}

/// A comma-separated list of the words read, write, trim and sync.
pub(super) fn skipped(text: &str) -> ValueResult<[bool; 4]> {
    let mut skips = [false; 4];
    for name in text.split(',').map(str::trim) {
        match ["read", "write", "trim", "sync"].iter().position(|known| *known == name) {
            Some(index) => skips[index] = true,
            None => return unsupported(name),
        }
    }
    Ok(skips)
}

/// `read,write,trim`, each in bytes.
pub(super) fn rates(place: &mut PerDirection<u64>, value: Option<&str>) -> ValueResult<()> {
    *place = value::per_direction(text(value)?, place, value::bytes)?;
    Ok(())
}

pub(super) fn percents(place: &mut PerDirection<u8>, value: Option<&str>) -> ValueResult<()> {
    let one = |part: &str| Ok(value::number_between(part, 0, 100)? as u8);
    *place = value::per_direction(text(value)?, place, one)?;
    Ok(())
}

/// `read,write,trim`, each a time span; the default unit is the microsecond.
pub(super) fn spans(place: &mut PerDirection<Nanos>, value: Option<&str>) -> ValueResult<()> {
    *place = value::per_direction(text(value)?, place, |part| value::span(part, Nanos::from_micros(1)))?;
    Ok(())
}

/// `iops:10%`, `bw_slope:64k`
pub(super) fn criterion(text: &str) -> ValueResult<Criterion> {
    let (name, limit) = text.split_once(':').ok_or("a limit is missing: write iops:10% or iops:50")?;
    let (counts_bytes, is_slope) = match name {
        "iops" => (false, false),
        "iops_slope" => (false, true),
        "bw" => (true, false),
        "bw_slope" => (true, true),
        other => return unsupported(other),
    };
    let (number, is_percent) = limit.strip_suffix('%').map_or((limit, false), |number| (number, true));
    let real = || number.parse::<f64>().ok().filter(|limit| limit.is_finite() && *limit >= 0.0);
    let limit = match counts_bytes && !is_percent {
        true => value::bytes(number)? as f64,
        false => real().ok_or_else(|| format!("`{number}` is no number, zero or more"))?,
    };
    Ok(Criterion { counts_bytes, is_slope, limit, is_percent })
}
