//! Share: the ioctl by which a program shares pages, and copies that become shares.

use fuser::Errno;
use onewrite_block::PAGE_SIZE;
use onewrite_fs::{FsError, ShareBy, ShareRange, Sharing};

use super::atomic::Outcome;
use super::convert::Answer;
use super::handles::Open;
use super::inodes::Writer;
use super::server::{Mountable, Server};

/// `_IOW(0xf5, 0x82, …)`, on the target, open for writing: a `u64` with a count, and for each range four words of 64
/// bits in the machine's byte order: inode number of the source, byte there, byte in the target, length. The size of
/// the argument, up to 16,383 bytes, is part of the request's number.
const SHARE: u32 = 0x4000_f582;
const SIZE_BITS: u32 = 0x3fff << 16;
const WORDS_PER_RANGE: usize = 4;

/// Bytes from which on a copy is worth a SHARE.
const SHARED_COPY_BYTES_MIN: u64 = 64 << 10;

/// A range of a request; the kernel names the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    source: u64,
    source_offset: u64,
    target_offset: u64,
    length: u64,
}

/// The ranges of a request to share; `None` for another request.
///
/// # Errors
/// EINVAL for an argument that does not hold what it counts.
pub(super) fn parse(number: u32, argument: &[u8]) -> Option<Answer<Vec<Wanted>>> {
    (number & !SIZE_BITS == SHARE).then(|| ranges(argument).ok_or_else(|| Errno::EINVAL.into()))
}

/// The ranges behind their count; `None` if there are fewer.
fn ranges(argument: &[u8]) -> Option<Vec<Wanted>> {
    let (words, _) = argument.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let count = words.next()?;
    let words: Vec<u64> = words.collect();
    let (ranges, _) = words.as_chunks::<WORDS_PER_RANGE>();
    let range = |&[source, source_offset, target_offset, length]: &[u64; WORDS_PER_RANGE]| Wanted {
        source,
        source_offset,
        target_offset,
        length,
    };
    let ranges = ranges.get(..usize::try_from(count).ok()?)?;
    Some(ranges.iter().map(range).collect())
}

impl<F: Mountable> Server<F> {
    /// Shares ranges into an open file, for user `uid`, who has all sources open for reading.
    ///
    /// # Errors
    /// EBADF if the file is not open for writing, EPERM if a source is not open for reading, and as
    /// [`onewrite_fs::SharePages::share`].
    pub(super) async fn share(&self, wanted: &[Wanted], open: Open, (uid, writer): (u32, Writer)) -> Answer<Outcome> {
        if !self.handles.manners(open).is_some_and(|manners| manners.can_write) {
            return Err(Errno::EBADF.into());
        }
        let mut ranges = Vec::with_capacity(wanted.len());
        for Wanted { source, source_offset, target_offset, length } in wanted.iter().copied() {
            let source = self.numbers.inside(fuser::INodeNo(source));
            if !self.handles.is_open_for_reading(source, uid) {
                return Err(Errno::EPERM.into());
            }
            ranges.push(ShareRange { source, source_offset, target: open.ino, target_offset, length });
        }
        self.drop_privileges(open.ino, writer).await?;
        self.fs.share(&ranges).await?;
        Ok(Outcome { value: Vec::new(), stale: vec![open.ino] })
    }

    /// Shares whole pages of a range that a program wants to copy; returns the bytes shared. 0: the caller copies. In
    /// modes that log content it always does: a SHARE would send the whole log home first.
    pub(super) async fn share_instead_of_copy(&self, from: (Open, u64), to: (Open, u64), length: u64) -> Answer<u64> {
        let ((from, source_offset), (to, target_offset)) = (from, to);
        let pages_max = match self.fs.sharing() {
            Ok(Sharing { by: ShareBy::Remapping, pages_max }) if !self.fs.has_drafts() => pages_max,
            _ => return Ok(0),
        };
        let size = self.fs.attributes(from.ino).await?.size;
        let page = PAGE_SIZE as u64;
        let length = length.min(size.saturating_sub(source_offset)).min(pages_max * page) / page * page;
        if length < SHARED_COPY_BYTES_MIN || !(source_offset | target_offset).is_multiple_of(page) {
            return Ok(0);
        }
        self.drop_privileges(to.ino, Writer::DropsSetId).await?;
        let range = ShareRange { source: from.ino, source_offset, target: to.ino, target_offset, length };
        match self.fs.share_lazily(&[range]).await {
            Ok(()) => Ok(length),
            // Holes, overlaps, or pages both replaced and added: a copy can do them.
            Err(FsError::Invalid(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_the_ranges_that_it_counts() {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let two = words(&[2, 11, 0, 4096, 8192, 12, 4096, 0, 4096]);
        let number = SHARE | (two.len() as u32) << 16;
        let parsed = parse(number, &two).expect("a share").expect("whole");
        let second = Wanted { source: 12, source_offset: 4096, target_offset: 0, length: 4096 };
        assert_eq!((parsed.len(), parsed[1]), (2, second));
        assert!(parse(number, &words(&[2, 11, 0, 4096, 8192])).expect("a share").is_err());
        assert!(parse(number, &words(&[u64::MAX, 11, 0, 4096, 8192])).expect("a share").is_err());
        assert!(parse(number, &[]).expect("a share").is_err());
        assert!(parse(0x4000_f580, &two).is_none());
    }

    #[test]
    fn no_ranges_are_ranges() {
        assert_eq!(ranges(&0u64.to_ne_bytes()), Some(Vec::new()));
    }
}
