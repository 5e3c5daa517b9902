//! Copies between pages and the host's page cache: they take less time than a submission, so the disk does them at
//! once.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};

use onewrite_block::{Lpn, PAGE_SIZE, Page};
use rustix::io::{Errno, ReadWriteFlags};

use super::work::Extent;

/// Most pieces of memory of one call: IOV_MAX of Linux.
const SLICES_MAX: usize = 1024;

/// Reads pages if the host has all of them in memory.
pub(super) fn copy_in(file: &File, start: Lpn, count: u32) -> Option<Vec<Page>> {
    let mut pages = Vec::with_capacity(count as usize);
    while pages.len() < count as usize {
        // The first page is read alone: if the host lacks it, no memory is prepared for the others.
        let most = if pages.is_empty() { 1 } else { SLICES_MAX };
        let part = most.min(count as usize - pages.len());
        pages.append(&mut copy_part_in(file, Extent::of_pages(start, pages.len() as u64).end(), part)?);
    }
    Some(pages)
}

fn copy_part_in(file: &File, offset: u64, count: usize) -> Option<Vec<Page>> {
    let mut pages: Vec<Page> = (0..count).map(|_| Page::new([0; PAGE_SIZE])).collect();
    let mut slices: Vec<IoSliceMut> = pages.iter_mut().map(|page| IoSliceMut::new(page.bytes_mut())).collect();
    let length = rustix::io::preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT).ok()?;
    pages.iter_mut().filter(|page| *page.bytes() == [0; PAGE_SIZE]).for_each(|page| *page = Page::ZEROS);
    (length == count * PAGE_SIZE).then_some(pages)
}

/// Writes pages from where they lie into the host's page cache; `None` if some have to be generated.
pub(super) fn copy_out(file: &File, start: Lpn, pages: &[Page]) -> Option<io::Result<()>> {
    let held: Option<Vec<IoSlice>> =
        pages.iter().map(|page| page.held_bytes().map(|bytes| IoSlice::new(bytes))).collect();
    let offset = Extent::of_pages(start, 0).offset;
    Some(write_slices(&mut held?, offset, |slices, offset| rustix::io::pwritev(file, slices, offset)))
}

/// Writes all slices, however few bytes `write` takes at once.
fn write_slices(
    mut rest: &mut [IoSlice<'_>],
    mut offset: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    while !rest.is_empty() {
        let most = rest.len().min(SLICES_MAX);
        match write(&rest[..most], offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                IoSlice::advance_slices(&mut rest, length);
                offset += length as u64;
            }
            Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use onewrite_block::Pattern;

    use super::*;

    fn scratch(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("onewrite-{name}-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn pages_are_read_where_the_host_has_them_and_zeros_take_no_memory() {
        let file = scratch("copy-in");
        let count = SLICES_MAX + 3;
        let mut pages: Vec<Page> = (1..=count).map(|number| Page::from_slice(&number.to_le_bytes())).collect();
        pages[count - 2] = Page::ZEROS;
        assert!(copy_out(&file, Lpn(2), &pages).unwrap().is_ok());
        let read = copy_in(&file, Lpn(2), count as u32).unwrap();
        assert!(read == pages);
        assert!(std::ptr::eq(read[count - 2].held_bytes().unwrap(), Page::ZEROS.held_bytes().unwrap()));
        assert!(copy_in(&file, Lpn(3), count as u32).is_none(), "the last page lies behind the end of the file");
        file.set_len((count + 2) as u64 * PAGE_SIZE as u64 - 1).unwrap();
        assert!(copy_in(&file, Lpn(2), count as u32).is_none(), "a part of the last page lies behind the end");
    }

    #[test]
    fn pages_are_written_from_where_they_lie_and_generated_ones_are_left_to_others() {
        let file = scratch("copy-out");
        let pages: Vec<Page> = (0..SLICES_MAX + 3).map(|number| Page::from_slice(&number.to_le_bytes())).collect();
        assert!(copy_out(&file, Lpn(2), &pages).unwrap().is_ok());
        let mut bytes = vec![1; (SLICES_MAX + 5) * PAGE_SIZE];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..2 * PAGE_SIZE].iter().all(|byte| *byte == 0));
        let written = bytes[2 * PAGE_SIZE..].chunks_exact(PAGE_SIZE).map(Page::from_slice);
        assert!(written.eq(pages));
        let generated = Page::pattern(Pattern { seed: 1, compressible_percent: 0 });
        assert!(copy_out(&file, Lpn(0), &[Page::ZEROS, generated]).is_none());
    }

    #[test]
    fn slices_are_written_whole_however_few_bytes_go_at_once() {
        let bytes: Vec<u8> = (0..3 * PAGE_SIZE).map(|index| index as u8 ^ (index >> 8) as u8).collect();
        for most in [1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1] {
            let mut slices: Vec<IoSlice> = bytes.chunks(PAGE_SIZE).map(IoSlice::new).collect();
            let (mut written, mut calls) = (Vec::new(), 0);
            let take = |slices: &[IoSlice<'_>], offset: u64| {
                calls += 1;
                if calls % 3 == 0 {
                    return Err(Errno::INTR);
                }
                assert_eq!(offset, 100 + written.len() as u64);
                let part: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(most).collect();
                written.extend_from_slice(&part);
                Ok(part.len())
            };
            write_slices(&mut slices, 100, take).unwrap();
            assert!(written == bytes, "{most} bytes at once");
        }
        let full = write_slices(&mut [IoSlice::new(&bytes)], 0, |_, _| Err(Errno::NOSPC)).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
