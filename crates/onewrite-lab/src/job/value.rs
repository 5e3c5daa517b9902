//! Values: numbers, sizes, time spans and ranges, in the notation of fio's `parse.c`.
//!
//! `kb_base` has fio's default, 1024: `k`, `kb` and `ki` are 1024, `kib` is 1000 (fio's historical habit, the reverse
//! of the standard).

use onewrite_block::Nanos;

use super::arithmetic::{self, ValueResult};
use super::direction::PerDirection;
use super::size::{Amount, SplitPart};

/// A whole number, decimal or `0x`, without a unit.
pub(super) fn number(text: &str) -> ValueResult<u64> {
    let digits = text.trim();
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a whole number"))
}

/// A number of bytes: `4096`, `4k`, `1m`, `2g`, `0x1000`, or arithmetic in parentheses.
pub(super) fn bytes(text: &str) -> ValueResult<u64> {
    let trimmed = text.trim();
    if let Some(inner) = in_parentheses(trimmed) {
        return arithmetic::value(inner, bytes);
    }
    if trimmed.starts_with("0x") || trimmed.starts_with("0X") {
        return number(trimmed);
    }
    let (digits, unit) = split_unit(trimmed);
    let factor = byte_factor(&unit).ok_or_else(|| format!("`{text}` is not a size; write 4096, 4k, 1m, 2g or 1t"))?;
    digits
        .parse::<u64>()
        .ok()
        .and_then(|value| value.checked_mul(factor))
        .ok_or_else(|| format!("`{text}` is not a size below 2^64 bytes; write 4096, 4k, 1m, 2g or 1t"))
}

fn in_parentheses(text: &str) -> Option<&str> {
    text.strip_prefix('(')?.strip_suffix(')')
}

/// 1, 2, 4, 8, …
pub(crate) fn power_of_two(text: &str) -> ValueResult<u64> {
    match bytes(text)? {
        value if value.is_power_of_two() => Ok(value),
        value => Err(format!("{value} is not a power of 2")),
    }
}

fn split_unit(text: &str) -> (&str, String) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].to_ascii_lowercase())
}

fn byte_factor(unit: &str) -> Option<u64> {
    if matches!(unit, "" | "b") {
        return Some(1);
    }
    let power = "kmgtp".find(unit.chars().next()?)? as u32 + 1;
    match &unit[1..] {
        "" | "b" | "i" => Some(1024_u64.pow(power)),
        "ib" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// Bytes, or a percentage with `%`.
pub(super) fn amount(text: &str) -> ValueResult<Amount> {
    match text.trim().strip_suffix('%') {
        Some(percent) => Ok(Amount::Percent(number_between(percent, 1, 100)? as u8)),
        None => Ok(Amount::Bytes(bytes(text)?)),
    }
}

/// A whole number within bounds.
pub(crate) fn number_between(text: &str, least: u64, most: u64) -> ValueResult<u64> {
    match bytes(text)? {
        value if (least..=most).contains(&value) => Ok(value),
        value => Err(format!("{value} is out of range; {least} to {most} are possible")),
    }
}

/// A time span. Without a suffix the unit is `default_unit`; inside parentheses it is the microsecond.
pub(super) fn span(text: &str, default_unit: Nanos) -> ValueResult<Nanos> {
    if let Some(inner) = in_parentheses(text.trim()) {
        let micros = arithmetic::value(inner, |word| Ok(span(word, Nanos::from_micros(1))?.0 / 1000))?;
        return in_time(text, micros.checked_mul(1000));
    }
    let (digits, unit) = split_unit(text.trim());
    let factor = match unit.as_str() {
        "" => default_unit,
        "us" | "usec" => Nanos::from_micros(1),
        "ms" | "msec" => Nanos::from_millis(1),
        "s" => Nanos::from_secs(1),
        "m" => Nanos::from_secs(60),
        "h" => Nanos::from_secs(3600),
        "d" => Nanos::from_secs(86400),
        _ => return Err(format!("`{text}` is not a span; units are us, ms, s, m, h and d")),
    };
    let value = digits.parse::<u64>().map_err(|_| format!("`{text}` is not a span; write 10s, 500ms or 2m"))?;
    in_time(text, value.checked_mul(factor.0))
}

/// A time span of `nanos`, if it is not too long for any run.
pub(crate) fn in_time(text: &str, nanos: Option<u64>) -> ValueResult<Nanos> {
    let span = nanos.filter(|nanos| *nanos <= SPAN_MAX.0).map(Nanos);
    span.ok_or_else(|| format!("`{text}` is too long; a year (366d) is the most"))
}

/// Longest time span of a job; sums of several stay far from overflow.
const SPAN_MAX: Nanos = Nanos::from_secs(366 * 86_400);

/// `0` or `1`; no value means one.
pub(super) fn flag(text: Option<&str>) -> ValueResult<bool> {
    if text.is_none() { Ok(true) } else { switch(text) }
}

/// `0` or `1`.
pub(super) fn switch(text: Option<&str>) -> ValueResult<bool> {
    match text.map(str::trim) {
        None => Err("needs a value: 0 or 1".to_owned()),
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(format!("`{other}` is not possible; 0 and 1 are")),
    }
}

/// `low-high` or `low:high` in bytes; the smaller number comes first.
pub(super) fn range(text: &str) -> ValueResult<(u64, u64)> {
    let (low, high) = text
        .split_once('-')
        .or_else(|| text.split_once(':'))
        .ok_or_else(|| format!("`{text}` is not a range; write 4k-64k"))?;
    let (low, high) = (bytes(low)?, bytes(high)?);
    Ok((low.min(high), low.max(high)))
}

/// One size, or two with `-` or `:` between them.
pub(crate) fn size_or_range(text: &str) -> ValueResult<(u64, u64)> {
    if text.contains(['-', ':']) {
        return range(text);
    }
    let size = bytes(text)?;
    Ok((size, size))
}

/// `read,write,trim`. One value is for all, two are for read and for write and trim. An empty place keeps `before`.
pub(crate) fn per_direction<T: Clone>(
    text: &str,
    before: &PerDirection<T>,
    parse: impl Fn(&str) -> ValueResult<T>,
) -> ValueResult<PerDirection<T>> {
    let parts: Vec<&str> = text.strip_suffix(',').unwrap_or(text).split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` has {} parts; at most three are possible: read,write,trim", parts.len()));
    }
    let place = |index: usize, before: &T| match parts[index.min(parts.len() - 1)] {
        "" => Ok(before.clone()),
        part => parse(part),
    };
    Ok(PerDirection { read: place(0, &before.read)?, write: place(1, &before.write)?, trim: place(2, &before.trim)? })
}

/// `size/percent:size/percent…`; sizes without a percentage share the rest.
pub(super) fn split(text: &str) -> ValueResult<Vec<SplitPart>> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').map_or((part, ""), |(size, percent)| (size, percent));
        let percent = if percent.is_empty() { None } else { Some(number_between(percent, 0, 100)? as u8) };
        parts.push((number_between(size, 1, u64::MAX)?, percent.filter(|&percent| percent > 0)));
    }
    let given: u32 = parts.iter().filter_map(|(_, percent)| percent.map(u32::from)).sum();
    let open = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
    if given > 100 || (open == 0 && given < 100) {
        return Err(format!("`{text}`: the percentages add up to {given}, not to 100"));
    }
    let rest = (100 - given).checked_div(open).unwrap_or(0) as u8;
    Ok(parts.into_iter().map(|(bytes, percent)| SplitPart { bytes, percent: percent.unwrap_or(rest) }).collect())
}

/// Names separated by `:`; `\:` is a colon inside a name.
pub(super) fn names(text: &str) -> ValueResult<Vec<String>> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&':') => {
                names.last_mut().expect("one at least").push(letters.next().unwrap_or(':'))
            }
            ':' => names.push(String::new()),
            _ => names.last_mut().expect("one at least").push(letter),
        }
    }
    if names.iter().any(String::is_empty) {
        return Err(format!("`{text}` holds an empty name"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_fios_units() {
        for (text, value) in
            [("4096", 4096), ("4k", 4096), ("4KB", 4096), ("1ki", 1024), ("1KiB", 1000), ("2m", 2 << 20)]
        {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        assert_eq!(bytes("0x1000"), Ok(4096));
        assert!(["", "k", "4q", "4.5k", "-4k", "4kx", "99999999t"].iter().all(|text| bytes(text).is_err()));
    }

    #[test]
    fn spans_have_fios_units() {
        assert_eq!(span("10", Nanos::from_secs(1)), Ok(Nanos::from_secs(10)));
        assert_eq!(span("10", Nanos::from_micros(1)), Ok(Nanos::from_micros(10)));
        assert_eq!(span("2M", Nanos::from_secs(1)), Ok(Nanos::from_secs(120)));
        assert!(span("10sec", Nanos::from_secs(1)).is_err(), "fio reads this as microseconds");
    }

    #[test]
    fn a_split_shares_what_is_left() {
        let percents = |text| split(text).unwrap().iter().map(|part| part.percent).collect::<Vec<_>>();
        assert_eq!(percents("4k/60:8k/40"), [60, 40]);
        assert_eq!(percents("4k/50:8k:16k"), [50, 25, 25]);
        assert!(split("4k/60:8k/50").is_err());
    }

    #[test]
    fn directions_take_one_two_or_three_values() {
        let before = PerDirection::all(1);
        let parse = |text| per_direction(text, &before, bytes).map(|d| (d.read, d.write, d.trim));
        assert_eq!(parse("4k"), Ok((4096, 4096, 4096)));
        assert_eq!(parse("4k,8k"), Ok((4096, 8192, 8192)));
        assert_eq!(parse(",8k"), Ok((1, 8192, 8192)));
        assert!(parse("1,2,3,4").is_err());
    }

    #[test]
    fn an_escaped_colon_stays_in_the_name() {
        assert_eq!(names("/a:/b\\:c").unwrap(), ["/a", "/b:c"]);
    }
}
