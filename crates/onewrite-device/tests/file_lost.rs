//! After a failed FLUSH of the file disk, no later FLUSH succeeds; a FLUSH of a file that became shorter fails.

mod host_mount;

use host_mount::{Host, HostMount};
use onewrite_block::{Cause, DeviceError, Executor, Lpn, MIB, PAGE_SIZE, Page, Request};
use onewrite_device::FileDisk;

/// Linux treats pages that it could not write back as clean, so a second `fdatasync` succeeds.
#[test]
fn after_a_failed_flush_nothing_is_acknowledged_any_more() {
    let Some(mount) = HostMount::in_room(Host::Ext4, "lost", Some(48 * MIB)) else { return };
    let disk = FileDisk::create(mount.path("disk.img"), 128 * MIB).unwrap();
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let work = async move {
        let page = |number: u64| Page::from_slice(&number.to_le_bytes().repeat(PAGE_SIZE / 8));
        for number in 1..80 * MIB / PAGE_SIZE as u64 {
            port.request(Request::write(Lpn(number), vec![page(number)], Cause::Data)).await?;
        }
        let first = port.request(Request::flush(Cause::Data)).await.unwrap_err();
        for _ in 0..4 {
            assert_eq!(port.request(Request::flush(Cause::Data)).await, Err(first.clone()));
        }
        let write = Request::write(Lpn(1), vec![page(1)], Cause::Data);
        assert_eq!(port.request(write).await, Err(first.clone()));
        assert!(port.request(Request::read(Lpn(9), 1, Cause::Data)).await.is_ok(), "it can still be read");
        Ok::<_, DeviceError>(first)
    };
    let first = executor.block_on(work).unwrap().unwrap();
    assert!(matches!(first, DeviceError::Host { operation: "flush", .. }), "{first:?}");
}

#[test]
fn a_flush_of_a_file_that_others_made_shorter_fails() {
    let path = std::env::temp_dir().join(format!("onewrite-shorter-{}", std::process::id()));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(FileDisk::create(&path, MIB).unwrap()));
    let shorten = path.clone();
    let work = async move {
        let write = || Request::write(Lpn(1), vec![Page::from_slice(&[1; PAGE_SIZE])], Cause::Data);
        port.request(write()).await.unwrap();
        port.request(Request::flush(Cause::Data)).await.unwrap();
        std::fs::OpenOptions::new().write(true).open(&shorten).unwrap().set_len(PAGE_SIZE as u64).unwrap();
        port.request(write()).await.unwrap();
        let told = port.request(Request::flush(Cause::Data)).await.unwrap_err();
        assert_eq!(port.request(write()).await, Err(told.clone()), "nothing is acknowledged any more");
        told
    };
    let told = executor.block_on(work).unwrap().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(told.contains("8192 bytes long, of 1048576"), "{told}");
}
