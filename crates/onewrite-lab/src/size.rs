//! Sizes and time spans as people write them, on the command line and from Python: `64M`, `1GiB`, `500MB`, `60s`.
//!
//! Single letters and `iB` are powers of 1024; a letter with `B` is a power of 1000, as in `ls --block-size` and
//! `numfmt`.

use std::str::FromStr;
use std::time::Duration;

/// Parses a number of bytes.
///
/// # Errors
/// A message with valid examples.
pub fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].to_ascii_lowercase());
    let factor = factor(&unit).ok_or_else(|| format!("`{text}` is not a size; write 4096, 64M, 1GiB or 500MB"))?;
    let count = number(digits, text, "sizes stay below 16EiB")?;
    count.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large; sizes stay below 16EiB"))
}

/// Parses the digits before a unit.
fn number(digits: &str, text: &str, limit: &str) -> Result<u64, String> {
    match digits.is_empty() {
        true if text.is_empty() => Err("the value is missing".to_owned()),
        true => Err(format!("`{text}` does not begin with a number")),
        false => digits.parse().map_err(|_| format!("`{text}` is too large; {limit}")),
    }
}

/// Parses a count of repetitions, which must not be zero.
///
/// # Errors
/// A message with valid values.
pub fn count<T: FromStr + PartialEq + Default>(text: &str) -> Result<T, String> {
    match text.parse() {
        Ok(zero) if zero == T::default() => Err("nothing would be done; give 1 or more".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => {
            Err(format!("`{text}` is no count; give a whole number of 1 or more, below 2^{}", 8 * size_of::<T>()))
        }
    }
}

fn factor(unit: &str) -> Option<u64> {
    if matches!(unit, "" | "b") {
        return Some(1);
    }
    let power = "kmgtpe".find(unit.chars().next()?)? as u32 + 1;
    match &unit[1..] {
        "" | "ib" => Some(1024_u64.pow(power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// Parses a time span; the default unit is the second.
///
/// # Errors
/// A message with valid examples.
pub fn span(text: &str) -> Result<Duration, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let count = number(&text[..end], text, "write 500ms, 60s or 2m")?;
    match &text[end..] {
        "ms" => Ok(Duration::from_millis(count)),
        "" | "s" => Ok(Duration::from_secs(count)),
        "m" => Ok(Duration::from_secs(count.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(count.saturating_mul(3600))),
        _ => Err(format!("`{text}` is not a span of time; write 500ms, 60s or 2m")),
    }
}

/// A size, or a share of a size that is known later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeOrShare {
    /// Bytes.
    Bytes(u64),
    /// A share, above 0 and at most 1.
    Share(f64),
}

impl SizeOrShare {
    /// The size in bytes. A share of `whole` is rounded down to pages of `page_bytes`, but is at least one page.
    pub fn bytes(self, whole: u64, page_bytes: u64) -> u64 {
        match self {
            SizeOrShare::Bytes(bytes) => bytes,
            SizeOrShare::Share(share) => ((whole as f64 * share) as u64 / page_bytes).max(1) * page_bytes,
        }
    }
}

/// Parses a size like [`bytes`], or a share such as `2.5%`.
pub fn bytes_or_share(text: &str) -> Result<SizeOrShare, String> {
    let text = text.trim();
    let Some(percent) = text.strip_suffix('%') else { return bytes(text).map(SizeOrShare::Bytes) };
    match percent.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(SizeOrShare::Share(percent / 100.0)),
        _ => Err(format!("`{text}` is no share; write a number above 0 and at most 100, and %")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_unless_they_say_otherwise() {
        assert_eq!(
            (bytes("4096"), bytes("64M"), bytes("1GiB"), bytes("1gb")),
            (Ok(4096), Ok(64 << 20), Ok(1 << 30), Ok(1_000_000_000))
        );
        assert_eq!(bytes("10PiB"), Ok(10 << 50));
        assert!(bytes("16EiB").unwrap_err().contains("below 16EiB"));
        assert!(["", "M", "1X", "1.5G", "-1", "99999999999T"].iter().all(|text| bytes(text).is_err()));
    }

    #[test]
    fn spans_have_units() {
        assert_eq!(
            (span("60"), span("2m"), span("500ms")),
            (Ok(Duration::from_secs(60)), Ok(Duration::from_secs(120)), Ok(Duration::from_millis(500)))
        );
        assert!(span("1y").is_err());
    }
}
