//! Files that grow over bytes that another implementation left behind their end.

use onewrite_block::{Cause, Device, DevicePort, Executor, Lpn, PAGE_SIZE, Request};
use onewrite_fs::{Allocation, AttributeChanges, Content, FileSystem, FsResult, Ino, Manner, NewNode, Position};

const PAGE: u64 = PAGE_SIZE as u64;
const NAME: &[u8] = b"one";
/// The file ends in its second page: F2FS keeps shorter ones in their inodes.
const SIZE: u64 = PAGE + 100;
const DIRECT: Manner = Manner { direct: true, once: false };

/// What makes the file grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    Truncation(u64),
    Write(u64),
    DirectWrite,
    Extend(u64),
    ZeroRange,
    InsertRange,
}

/// All that grow it within the last page and beyond.
pub const ALL: [Growth; 9] = [
    Growth::Truncation(PAGE + 300),
    Growth::Truncation(4 * PAGE),
    Growth::Write(PAGE + 300),
    Growth::Write(3 * PAGE + 5),
    Growth::DirectWrite,
    Growth::Extend(200),
    Growth::Extend(3 * PAGE),
    Growth::ZeroRange,
    Growth::InsertRange,
];

impl Growth {
    async fn of<F: FileSystem>(self, fs: &F, file: Ino) -> FsResult<()> {
        let ones = vec![1; PAGE_SIZE];
        match self {
            Growth::Truncation(size) => {
                let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
                fs.set_attributes(file, changes).await
            }
            Growth::Write(at) => {
                fs.write(file, Position::At(at), Content::Bytes(b"z"), Manner::default()).await.map(drop)
            }
            Growth::DirectWrite => {
                fs.write(file, Position::At(3 * PAGE), Content::Bytes(&ones), DIRECT).await.map(drop)
            }
            Growth::Extend(length) => fs.allocate(file, SIZE, length, Allocation::Extend).await,
            Growth::ZeroRange => fs.allocate(file, 2 * PAGE, PAGE, Allocation::ZeroRange).await,
            Growth::InsertRange => fs.allocate(file, 0, PAGE, Allocation::InsertRange).await,
        }
    }

    /// Where the byte behind the old end is now.
    fn old_end(self) -> u64 {
        if self == Growth::InsertRange { SIZE + PAGE } else { SIZE }
    }
}

async fn made<F: FileSystem>(fs: &F, name: &[u8], content: &[u8]) -> FsResult<Ino> {
    let file = fs.create(fs.root(), name, NewNode::FILE).await?;
    fs.write(file, Position::At(0), Content::Bytes(content), Manner::default()).await?;
    Ok(file)
}

/// Makes the file.
pub async fn make<F: FileSystem>(fs: &F) -> FsResult<()> {
    made(fs, NAME, &[b'a'; SIZE as usize]).await.map(drop)
}

/// Makes it grow.
pub async fn grow<F: FileSystem>(fs: &F, growth: Growth) -> FsResult<()> {
    growth.of(fs, fs.lookup(fs.root(), NAME).await?).await
}

/// What can be read of the 200 bytes that were put behind the end.
pub async fn shown<F: FileSystem>(fs: &F, growth: Growth) -> FsResult<Vec<u8>> {
    let file = fs.lookup(fs.root(), NAME).await?;
    let bytes = fs.read(file, growth.old_end(), 200, Manner::default()).await?.to_vec();
    Ok(bytes.into_iter().filter(|byte| *byte == b'S').collect())
}

/// Puts bytes behind the end of the file on the device.
pub fn leave_bytes(device: Box<dyn Device>) -> Box<dyn Device> {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let door = port.clone();
    assert!(executor.block_on(async move { patch(&door).await }).expect("nothing halts") >= 1);
    drop(executor);
    port.unplug()
}

/// Changes the file's last page, and its copies in a log; gives the number of these pages.
async fn patch(door: &DevicePort) -> u32 {
    let mut patched = 0;
    for lpn in (0..door.geometry().pages).map(Lpn) {
        let mut page = door.request(Request::read(lpn, 1, Cause::Data)).await.expect("read").remove(0);
        if page.bytes()[..100] == [b'a'; 100] && page.bytes()[100..] == [0; PAGE_SIZE - 100] {
            page.bytes_mut()[100..300].fill(b'S');
            door.request(Request::write(lpn, vec![page], Cause::Data)).await.expect("write");
            patched += 1;
        }
    }
    patched
}
