//! Sizes: which bytes of each file a job uses, and how many bytes it moves, as in fio 3.33's `setup_files`.
//!
//! ```text
//!   0         offset                    offset + size          whole
//!   ├───────────┼────── used by the job ──────┼──────────────────┤
//! ```
//!
//! `size=N%` is a share of each file and applies only once: of 10 MiB, `size=50%` leaves 5 MiB.

use onewrite_block::Choices;

use crate::job::{Amount, Options};

/// Bytes of files without an own size for `fill_device`; no device has room for them.
const FILL_BYTES: u64 = 1 << 44;

/// Bytes that a job moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amounts {
    /// Bytes of a pass.
    pub size: u64,
    /// Bytes after which the job ends.
    pub limit: u64,
}

/// The bytes of one file that a job uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes from `offset` on that the job uses.
    pub size: u64,
    /// Bytes of the file.
    pub whole: u64,
}

/// The bytes of all its files that a job uses.
pub(super) struct Sizes {
    /// Each file.
    pub files: Vec<Extent>,
    /// Bytes that it moves.
    pub amounts: Amounts,
}

impl Sizes {
    /// End of the last byte of a device that the options give in bytes; shares of the device do not count.
    pub(crate) fn last_byte(&self, options: &Options) -> u64 {
        let in_bytes = |amount: Amount| matches!(amount, Amount::Bytes(_));
        let is_absolute = in_bytes(options.offset) && in_bytes(options.offset_increment);
        let size = match options.size {
            Some(Amount::Bytes(size)) => size,
            _ => options.block_size_most(),
        };
        let end = |file: &Extent| file.offset.saturating_add(size);
        if is_absolute { self.files.iter().map(end).max().unwrap_or(0) } else { 0 }
    }
}

/// The bytes that a job with `options` uses of its files; these have `existing` bytes already.
///
/// # Errors
/// If there are none.
pub(crate) fn of_files(
    options: &Options,
    clone: u32,
    existing: &[u64],
    choices: &mut Choices,
) -> Result<Sizes, String> {
    let block = options.block_size_least();
    let parts = match (options.file_size, options.size) {
        (None, Some(Amount::Bytes(size))) => equal_parts(size, existing.len() as u64, block),
        (None, _) if options.fill_device => vec![FILL_BYTES; existing.len()],
        (None, Some(Amount::Percent(_))) if existing.iter().all(|&bytes| bytes == 0) => {
            return Err("size=N% needs filesize= or a raw device".to_owned());
        }
        (None, None) if existing.iter().all(|&bytes| bytes == 0) => {
            return Err("size= is missing (or filesize=, or a raw device: --fs raw)".to_owned());
        }
        _ => vec![0; existing.len()],
    };
    let mut files = Vec::new();
    for (&existing, part) in existing.iter().zip(parts) {
        let offset = offset(options, clone, existing);
        let size = match options.file_size {
            Some((least, most)) => file_size(least, most, block, choices).checked_sub(offset),
            None if part == 0 => existing.checked_sub(offset),
            None => Some(part),
        };
        let size = size.ok_or_else(|| format!("offset={offset} lies behind the end of the file"))?;
        let size = percent_of(options.size, size, offset, block);
        files.push(Extent { offset, size, whole: existing.max(offset.saturating_add(size)) });
    }
    let amounts = amounts(options, &files);
    match files.iter().find(|file| file.size < block) {
        Some(file) => {
            let size = file.size;
            Err(format!("a file of {size} bytes is smaller than a block of {block}; raise size="))
        }
        None => Ok(Sizes { files, amounts }),
    }
}

/// The bytes that a job with `options` uses of a device of `bytes` bytes; there may be none.
pub(super) fn of_device(options: &Options, clone: u32, bytes: u64) -> Sizes {
    let offset = offset(options, clone, bytes).min(bytes);
    let room = bytes - offset;
    let size = match options.size {
        Some(Amount::Bytes(size)) if !options.fill_device => size.min(room),
        share => percent_of(share, room, offset, options.block_size_least()),
    };
    let files = vec![Extent { offset, size, whole: bytes }];
    let amounts = amounts(options, &files);
    Sizes { files, amounts }
}

/// Bytes of a pass, and bytes after which the job ends.
fn amounts(options: &Options, files: &[Extent]) -> Amounts {
    let total = files.iter().fold(0_u64, |sum, file| {
        let share = match options.io_size {
            Some(percent @ Amount::Percent(_)) => percent.of(file.size),
            _ => file.size,
        };
        sum.saturating_add(share)
    });
    let size = match options.size {
        Some(Amount::Bytes(size)) if size <= total => size,
        _ => total,
    };
    let limit = match options.io_size {
        Some(Amount::Bytes(limit)) => limit,
        _ => size,
    };
    Amounts { size, limit }
}

/// First byte of a clone in a file of `bytes` bytes (`get_start_offset`).
fn offset(options: &Options, clone: u32, bytes: u64) -> u64 {
    let step = options.offset_increment.of(bytes).saturating_mul(u64::from(clone));
    let offset = options.offset.of(bytes).saturating_add(step);
    let is_share = [options.offset, options.offset_increment].iter().any(|part| matches!(part, Amount::Percent(_)));
    let align = if options.offset_align == 0 { options.block_size_least() } else { options.offset_align };
    if is_share { offset.checked_next_multiple_of(align).unwrap_or(offset) } else { offset }
}

fn equal_parts(size: u64, count: u64, block: u64) -> Vec<u64> {
    let (each, larger) = (size / count, (size - size / count * count) / block);
    (0..count).map(|index| each + if index < larger { block } else { 0 }).collect()
}

fn file_size(least: u64, most: u64, block: u64, choices: &mut Choices) -> u64 {
    if least == most {
        return least;
    }
    let size = least + choices.below(most - least + 1);
    (size - size % block).max(least)
}

/// `size=N%`: a percentage of the file including the part before the offset, but at most the part after it.
fn percent_of(share: Option<Amount>, size: u64, offset: u64, block: u64) -> u64 {
    match share {
        Some(Amount::Percent(percent)) if percent < 100 => {
            let used = Amount::Percent(percent).of(size.saturating_add(offset)).min(size);
            used - used % block
        }
        _ => size,
    }
}
