//! Contents: what each byte of a verified file must be, as ranges of patterns.

use std::collections::BTreeMap;

use onewrite_block::crc32c;
use onewrite_fs::Content;

/// The content of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// Selects the content.
    pub seed: u64,
    /// Percent of it that compresses.
    pub compressible_percent: u8,
}

/// What one file holds. Ranges do not overlap; bytes outside all ranges are unknown.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    ranges: BTreeMap<u64, (u64, Filling)>,
}

impl Contents {
    /// Notes that `length` bytes from `offset` on now hold `filling`.
    pub fn write(&mut self, offset: u64, length: u64, filling: Filling) {
        self.clear(offset, offset + length);
        self.ranges.insert(offset, (offset + length, filling));
    }

    /// Forgets a range; a known range that reaches into it is shortened.
    pub(super) fn clear(&mut self, start: u64, end: u64) {
        let touched: Vec<u64> = self.overlapping(start, end).map(|(&begin, _)| begin).collect();
        for begin in touched {
            let (stop, filling) = self.ranges.remove(&begin).expect("just seen");
            if begin < start {
                self.ranges.insert(begin, (start, filling));
            }
            if stop > end {
                self.ranges.insert(end, (stop, filling));
            }
        }
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&u64, &(u64, Filling))> {
        let first = self.ranges.range(..=start).next_back().map_or(start, |(&begin, _)| begin);
        self.ranges.range(first..end).filter(move |(_, (stop, _))| *stop > start)
    }

    /// Compares the CRC32C of each known part of `bytes`, read at `offset`, with the expected one.
    ///
    /// # Errors
    /// First byte of the first part that differs, and both checksums.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), (u64, String)> {
        let end = offset + bytes.len() as u64;
        for (&begin, &(stop, filling)) in self.overlapping(offset, end) {
            let (begin, stop) = (begin.max(offset), stop.min(end));
            let found = crc32c(!0, &bytes[(begin - offset) as usize..(stop - offset) as usize]) ^ !0;
            let expected = checksum(filling, begin, stop - begin);
            if found != expected {
                return Err((begin, format!("crc32c of {} bytes is {found:08x}, not {expected:08x}", stop - begin)));
            }
        }
        Ok(())
    }
}

fn checksum(filling: Filling, offset: u64, length: u64) -> u32 {
    let Filling { seed, compressible_percent } = filling;
    let content = Content::Pattern { seed, compressible_percent, length };
    let page = onewrite_block::PAGE_SIZE as u64;
    let pages = offset / page..(offset + length).div_ceil(page);
    pages.fold(!0, |register, index| crc32c(register, &content.part_of_page(offset, index).1)) ^ !0
}

#[cfg(test)]
mod tests {
    use onewrite_fs::pattern_page;

    use super::*;

    const A: Filling = Filling { seed: 1, compressible_percent: 0 };
    const B: Filling = Filling { seed: 2, compressible_percent: 50 };

    fn bytes(filling: Filling, page: u64) -> Vec<u8> {
        pattern_page(filling.seed, filling.compressible_percent, page).bytes().to_vec()
    }

    #[test]
    fn a_later_write_wins_where_it_lies() {
        let mut contents = Contents::default();
        contents.write(0, 12288, A);
        contents.write(4096, 4096, B);
        let file = [bytes(A, 0), bytes(B, 1), bytes(A, 2)].concat();
        assert_eq!(contents.check(0, &file), Ok(()));
        assert_eq!(contents.check(100, &file[100..9000]), Ok(()));
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let mut contents = Contents::default();
        contents.write(4096, 4096, A);
        let mut file = [vec![7; 4096], bytes(A, 1)].concat();
        assert_eq!(contents.check(0, &file), Ok(()), "what was never written is unknown");
        file[5000] ^= 1;
        assert_eq!(contents.check(0, &file).unwrap_err().0, 4096);
    }
}
