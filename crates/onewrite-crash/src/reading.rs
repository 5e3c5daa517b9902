//! Reading: the pages of a file; of a large one only where it has data.
//!
//! A sparse file may have 16 TiB. It is read along its data, so that the time depends on its blocks, not on its size.

use onewrite_block::{PAGE_SIZE, Page};
use onewrite_fs::{Data, FileView, FsError, FsResult, Ino, Manner, SeekTarget};

const PAGE_BYTES: u64 = PAGE_SIZE as u64;
/// Files up to this size are read from beginning to end, holes too.
const WHOLE_MAX: u64 = 16 << 20;
/// Most bytes of one request.
const PIECE_MAX: u64 = 1 << 20;
/// Most pages of a file; more can only come from damage, or from an image that is too large to explore.
const PAGES_MAX: usize = (4 << 30) / PAGE_SIZE;

/// The pages among the first `size` bytes of a file, by number. Pages of holes may be missing.
pub(crate) async fn pages_of<F: FileView>(
    fs: &F,
    (ino, size): (Ino, u64),
    manner: Manner,
) -> FsResult<Vec<(u64, Page)>> {
    if size <= WHOLE_MAX {
        return Ok((0..).zip(whole(fs.read(ino, 0, size, manner).await?)).collect());
    }
    let (mut pages, mut at) = (Vec::new(), 0);
    while pages.len() < PAGES_MAX
        && let Some(start) = next_data(fs, ino, at).await?.filter(|start| *start < size)
    {
        let start = start / PAGE_BYTES * PAGE_BYTES;
        let stop = fs.seek(ino, start, SeekTarget::Hole).await?.min(start + PIECE_MAX).min(size);
        at = stop.max(start + 1).next_multiple_of(PAGE_BYTES);
        let data = fs.read(ino, start, at - start, manner).await?;
        pages.extend((start / PAGE_BYTES..).zip(whole(data)));
    }
    Ok(pages)
}

/// The pages of data that begin with a page. What the last one holds behind the data is nobody's.
fn whole(data: Data) -> Vec<Page> {
    let (mut pages, visible) = (data.pages, data.length % PAGE_SIZE);
    if visible > 0
        && let Some(last) = pages.last_mut()
        && last.bytes()[visible..].iter().any(|byte| *byte != 0)
    {
        last.bytes_mut()[visible..].fill(0);
    }
    pages
}

/// Where data begin at `offset` or behind it; `None` if there are none.
async fn next_data<F: FileView>(fs: &F, ino: Ino, offset: u64) -> FsResult<Option<u64>> {
    match fs.seek(ino, offset, SeekTarget::Data).await {
        Ok(start) => Ok(Some(start)),
        Err(FsError::BeyondEnd(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
