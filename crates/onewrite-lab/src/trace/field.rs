//! Field: parses numbers and words of a line; errors name the field.

use onewrite_cache::Access;

/// What is wrong with a line.
pub(super) type Problem = String;

/// Bytes of a sector of the block layer and of disks.
pub(super) const SECTOR: u64 = 512;

/// Text for an error message, shortened to 60 characters.
pub(super) fn shown(text: &[u8]) -> String {
    const MOST: usize = 60;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// A whole number.
pub(super) fn number(field: &[u8], name: &str) -> Result<u64, Problem> {
    let field = field.trim_ascii();
    let refuse = |what| Err(format!("{name} is {}, {what}", shown(field)));
    if field.is_empty() {
        return refuse("but a whole number is needed");
    }
    let mut value = 0_u64;
    for byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return refuse("but a whole number is needed");
        }
        match value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit))) {
            Some(next) => value = next,
            None => return refuse("which does not fit into 64 bits"),
        }
    }
    Ok(value)
}

/// A number times a unit.
pub(super) fn scaled(field: &[u8], unit: u64, name: &str) -> Result<u64, Problem> {
    let value = number(field, name)?;
    value.checked_mul(unit).ok_or_else(|| format!("{name} is {value}, which times {unit} does not fit into 64 bits"))
}

/// Seconds with up to nine decimals, in nanoseconds.
pub(super) fn seconds(field: &[u8], name: &str) -> Result<u64, Problem> {
    let field = field.trim_ascii();
    let dot = field.iter().position(|byte| *byte == b'.').unwrap_or(field.len());
    let (whole, decimals) = (&field[..dot], field.get(dot + 1..).unwrap_or_default());
    let mut nanos = 0;
    let mut unit = 100_000_000;
    for byte in decimals {
        if !byte.is_ascii_digit() {
            return Err(format!("{name} is {}, but seconds are needed", shown(field)));
        }
        nanos += u64::from(byte - b'0') * unit;
        unit /= 10;
    }
    let whole = if whole.is_empty() { 0 } else { scaled(whole, 1_000_000_000, name)? };
    whole.checked_add(nanos).ok_or_else(|| format!("{name} is {}, which is too large", shown(field)))
}

/// The number of a volume.
pub(super) fn volume(field: &[u8], name: &str) -> Result<u32, Problem> {
    let value = number(field, name)?;
    u32::try_from(value).map_err(|_| format!("{name} is {value}; volumes are numbered with 32 bits"))
}

/// Whether a word means a write or a read.
pub(super) fn access(field: &[u8]) -> Result<Access, Problem> {
    match field.trim_ascii() {
        [b'r' | b'R'] => Ok(Access::Read),
        [b'w' | b'W'] => Ok(Access::Write),
        word if word.eq_ignore_ascii_case(b"read") => Ok(Access::Read),
        word if word.eq_ignore_ascii_case(b"write") => Ok(Access::Write),
        other => Err(format!("the operation is {}, but r or w is needed", shown(other))),
    }
}

/// The first `N` fields of a line, with separators of one byte. Further fields are ignored; too few are an error.
pub(super) fn fields<'a, const N: usize>(line: &'a [u8], separator: u8, form: &str) -> Result<[&'a [u8]; N], Problem> {
    let mut found = [&line[..0]; N];
    let mut parts = line.split(|byte| *byte == separator);
    for (count, place) in found.iter_mut().enumerate() {
        *place = parts.next().ok_or_else(|| format!("{} has {count} fields; a line is `{form}`", shown(line)))?;
    }
    Ok(found)
}

/// The first `N` fields of a line, with blanks between them.
pub(super) fn words<'a, const N: usize>(line: &'a [u8], form: &str) -> Result<[&'a [u8]; N], Problem> {
    let mut found = [&line[..0]; N];
    let mut parts = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (count, place) in found.iter_mut().enumerate() {
        *place = parts.next().ok_or_else(|| format!("{} has {count} fields; a line is `{form}`", shown(line)))?;
    }
    Ok(found)
}
