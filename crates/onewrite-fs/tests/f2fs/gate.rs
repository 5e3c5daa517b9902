//! Checkpoints and content under way: neither waits for the other for ever.

use std::rc::Rc;

use onewrite_block::{Cause, Choices, DevicePort, Executor, HostProfile, MIB, PAGE_SIZE, Request, Time};
use onewrite_device::Profile;
use onewrite_fs::f2fs::mkfs::{MkfsOptions, plan};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Manner, NewNode, Position};

/// A new F2FS on a card that takes one request at a time, so that a writer waits between its runs.
async fn new_fs(port: DevicePort) -> FsResult<F2fs> {
    let size_bytes = port.geometry().pages * PAGE_SIZE as u64;
    let options = MkfsOptions { device_is_zeroed: true, ..MkfsOptions::new(size_bytes, &mut Choices::new(1)) };
    for (block, page) in plan(&options).expect("a plan") {
        port.request(Request::write(block.page(), vec![page], Cause::Metadata)).await?;
    }
    F2fs::mount(port, F2fsOptions::default()).await
}

/// Runs `work` while another task makes as many checkpoints, then unmounts.
fn beside_checkpoints(count: u32, work: impl AsyncFnOnce(&F2fs) -> FsResult<()> + 'static) {
    let executor = Executor::seeded(Time::Virtual, HostProfile::default(), 1);
    let device = Profile::load("ideal").expect("a profile").device(Some(96 * MIB)).expect("a device");
    let (runtime, port) = (executor.runtime(), executor.runtime().attach(device));
    let done = executor.block_on(async move {
        let fs = Rc::new(new_fs(port).await?);
        let other = Rc::clone(&fs);
        let checkpoints = runtime.start(async move {
            for number in 0..count {
                let name = format!("d{number}");
                let directory = other.create(other.root(), name.as_bytes(), NewNode::DIRECTORY).await?;
                other.fsync(directory).await?;
            }
            FsResult::Ok(())
        });
        work(&fs).await?;
        checkpoints.await?;
        fs.unmount().await
    });
    done.expect("neither waits for ever").expect("no error");
}

#[test]
fn a_checkpoint_comes_between_the_runs_of_a_direct_write() {
    beside_checkpoints(200, async |fs| {
        let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        // Three runs at least: a segment has 512 blocks.
        let content = vec![7; 1200 * PAGE_SIZE];
        let direct = Manner { direct: true, ..Manner::default() };
        for _ in 0..20 {
            fs.write(file, Position::At(0), Content::Bytes(&content), direct).await?;
        }
        assert!(fs.read(file, 0, content.len() as u64, direct).await?.to_vec() == content, "what was written");
        Ok(())
    });
}

#[test]
fn a_checkpoint_comes_between_the_runs_of_a_file_whose_pages_are_not_neighbours() {
    beside_checkpoints(400, async |fs| {
        let file = fs.create(fs.root(), b"f", NewNode::FILE).await?;
        for round in 0..10 {
            for page in 0..64 {
                let content = Content::Bytes(&[round; PAGE_SIZE]);
                fs.write(file, Position::At(2 * page * PAGE_SIZE as u64), content, Manner::default()).await?;
            }
            fs.fsync(file).await?;
        }
        Ok(())
    });
}
