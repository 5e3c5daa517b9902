//! Units: formats numbers for people.

use onewrite_block::Nanos;

/// Formats a number with commas: `12,345`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats about three significant digits: `0.123`, `4.56`, `78.9`, `1,234`.
pub(super) fn plain(number: f64) -> String {
    match number {
        number if number >= 100.0 => grouped(number.round() as u64),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

/// Formats bytes in powers of 1000: `1.23 GB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{} {}", plain(value), UNITS[unit]) }
}

/// Formats a whole number of binary units, `1 GiB`; else like [`bytes`].
pub(super) fn capacity(count: u64) -> String {
    for (unit, name) in [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if count >= unit && count.is_multiple_of(unit) {
            return format!("{} {name}", count / unit);
        }
    }
    bytes(count)
}

/// Formats a latency; a dash if there is none.
pub(super) fn latency(span: Option<Nanos>) -> String {
    span.map_or_else(|| "–".to_owned(), |span| span.to_string())
}

/// Formats a ratio with three decimals; a dash if there is none.
pub(super) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!((plain(0.1234), plain(45.67), plain(1234.5)), ("0.12".into(), "45.7".into(), "1,235".into()));
        assert_eq!((bytes(999), bytes(1_234_000_000)), ("999 B".into(), "1.23 GB".into()));
        assert_eq!((capacity(1 << 30), capacity(3_000_000)), ("1 GiB".into(), "3.00 MB".into()));
    }
}
