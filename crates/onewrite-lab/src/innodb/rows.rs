//! Rows: bytes of InnoDB's pages and log as sysbench 1.0 fills them, for modes that compress.
//!
//! A page of 16 KiB holds rows of `sbtest` in the compact format of the MySQL manual: header, `id`, transaction, roll
//! pointer, `k`, `c` (ten groups of eleven random digits) and `pad` (five groups), 208 bytes each, up to fifteen
//! sixteenths of the page. An index page holds keys alone. A change in the log carries the new digits.

use onewrite_block::split_mix;

use super::load::PageNo;
use super::scale::PAGE_BYTES;

/// Bytes of a row: five of header, two of lengths, `id`, six of transaction, seven of roll pointer, `k`, 120 and 60.
const ROW_BYTES: usize = 5 + 2 + 4 + 6 + 7 + 4 + 120 + 60;
const PAGE: usize = PAGE_BYTES as usize;
/// What InnoDB fills of a new page.
const FILLED: usize = PAGE / 16 * 15;
/// Bytes before the first row: page header and the two system records.
const HEADER: usize = 120;

/// `groups` groups of eleven digits with dashes between them, and a blank behind.
fn digits(groups: usize, bits: &mut u64, into: &mut Vec<u8>) {
    for group in 0..groups {
        let mut number = split_mix(bits);
        for _ in 0..11 {
            into.push(b'0' + (number % 10) as u8);
            number /= 10;
        }
        into.push(if group + 1 < groups { b'-' } else { b' ' });
    }
}

/// Version `version` of a page. Few rows of a page change from one version to the next, so most digits stay.
pub(super) fn page(page: PageNo, version: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE);
    bytes.extend_from_slice(&page.0.to_be_bytes());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.resize(HEADER, 0);
    let rows = (FILLED - HEADER) / ROW_BYTES;
    for row in 0..rows as u64 {
        let id = page.0 * rows as u64 + row;
        let changes = if row % 16 == version % 16 { version } else { 0 };
        push_row(id, changes, &mut bytes);
    }
    bytes.resize(PAGE, 0);
    bytes
}

fn push_row(id: u64, version: u64, into: &mut Vec<u8>) {
    let mut bits = id ^ version << 40;
    into.extend_from_slice(&[60, 120, 0, 0, (id % 128) as u8, 0, ROW_BYTES as u8]);
    into.extend_from_slice(&(id as u32 | 1 << 31).to_be_bytes());
    into.extend_from_slice(&version.to_be_bytes()[2..]);
    into.extend_from_slice(&[0x80, 0, 0, 0, 0x2d, 1, 0x10]);
    into.extend_from_slice(&((split_mix(&mut bits) % 1_000_000) as u32 | 1 << 31).to_be_bytes());
    digits(10, &mut bits, into);
    digits(5, &mut bits, into);
}

/// Bytes of the log from `begin` on: records that carry a changed row's digits between their headers.
pub(super) fn log(begin: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length as usize + ROW_BYTES);
    let mut bits = begin;
    while bytes.len() < length as usize {
        bytes.extend_from_slice(&[0x26, 0x80]);
        bytes.extend_from_slice(&(begin as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 18]);
        digits(10, &mut bits, &mut bytes);
    }
    bytes.truncate(length as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_full_of_rows_and_a_version_changes_some_of_them() {
        let (first, second) = (page(PageNo(7), 1), page(PageNo(7), 2));
        assert!(first.len() == PAGE && first[FILLED..].iter().all(|byte| *byte == 0));
        let differ = first.iter().zip(&second).filter(|(one, other)| one != other).count();
        assert!((500..3_000).contains(&differ), "{differ} bytes differ");
        assert!(first[HEADER..FILLED - ROW_BYTES].iter().filter(|byte| byte.is_ascii_digit()).count() > PAGE / 2);
        assert_eq!(log(512, 1000).len(), 1000);
    }
}
