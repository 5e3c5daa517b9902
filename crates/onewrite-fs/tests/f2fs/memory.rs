//! The smallest page cache: what leaves it or fills it in the middle of an operation does no harm.

use std::rc::Rc;

use onewrite_block::{Cause, DevicePort, Nanos};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::coming_to;
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, with_mount};
use crate::support::late::{Late, LateDisk, Plan};
use crate::support::volume::image;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

async fn write(fs: &F2fs, file: Ino, pages: std::ops::Range<u64>, byte: u8) -> FsResult<()> {
    for page in pages {
        let content = Content::Bytes(&[byte; PAGE as usize]);
        fs.write(file, Position::At(page * PAGE), content, Manner::default()).await?;
    }
    Ok(())
}

async fn page(fs: &F2fs, file: Ino, page: u64) -> FsResult<Vec<u8>> {
    Ok(fs.read(file, page * PAGE, PAGE, Manner::default()).await?.to_vec())
}

/// Runs `work` on a disk whose late requests it plans. fsck.f2fs must find nothing afterwards.
fn on_late_disk<F: Future<Output = FsResult<()>> + 'static>(
    work: impl FnOnce(Rc<F2fs>, DevicePort, Plan) -> F + 'static,
) {
    let plan = Plan::default();
    let disk = LateDisk::new(new_disk(160 * MIB), &plan);
    let options = F2fsOptions { cache_pages: F2fsOptions::CACHE_PAGES_MIN, ..F2fsOptions::default() };
    let ((), left) = with_mount(disk, options, Left::Unmounted, |fs, port| work(fs, port, plan));
    assert_clean(&image(left));
}

/// The reader waits for room in memory, and the node that it wants gets a new block meanwhile.
#[test]
fn a_node_that_moves_before_it_is_read_is_read_where_it_is() {
    let work = |fs: Rc<F2fs>, port: DevicePort, plan: Plan| async move {
        let other = fs.create(fs.root(), b"other", NewNode::FILE).await?;
        write(&fs, other, 0..300, 1).await?;
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        // A node of addresses names them.
        write(&fs, file, 1_000..1_010, 1).await?;
        // Widen this range if the test misses its mark.
        // With one of these numbers of clean pages memory is full when the node is to come.
        for clean in 200..256 {
            fs.sync().await?;
            fs.drop_caches();
            write(&fs, other, 0..16, 2).await?;
            write(&fs, file, 1_005..1_006, 2).await?;
            fs.drop_caches();
            fs.read(other, 20 * PAGE, clean * PAGE, Manner::default()).await?;
            plan.set(&[Late::writes(Cause::Data, 1)]);
            let reader = Rc::clone(&fs);
            let reading = port.runtime().start(async move { page(&reader, file, 1_000).await });
            port.runtime().sleep(Nanos::from_millis(1)).await;
            fs.fsync(file).await?;
            fs.drop_caches();
            assert_eq!(reading.await?, [1; PAGE as usize]);
        }
        Ok(())
    };
    coming_to("node moved while it was loaded", || on_late_disk(work));
}

/// The second fsync places the node anew while the first writes it: it may not leave memory when the first ends.
#[test]
fn a_node_that_the_next_round_of_fsyncs_writes_stays_in_memory_until_then() {
    on_late_disk(|fs, port, plan| async move {
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        write(&fs, file, 0..2, 1).await?;
        fs.sync().await?;
        plan.set(&[Late::writes(Cause::Journal, 2)]);
        let mut fsyncs = Vec::new();
        for byte in [2, 3] {
            write(&fs, file, 0..2, byte).await?;
            let syncer = Rc::clone(&fs);
            fsyncs.push(port.runtime().start(async move { syncer.fsync(file).await }));
            port.runtime().sleep(Nanos::from_millis(1)).await;
        }
        // The first round has ended, the second has not.
        port.runtime().sleep(Nanos::from_millis(1_500)).await;
        fs.drop_caches();
        assert_eq!(page(&fs, file, 1).await?, [3; PAGE as usize]);
        for fsync in fsyncs {
            fsync.await?;
        }
        Ok(())
    });
}
