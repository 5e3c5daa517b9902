//! Counts the FLUSH commands of fsyncs at the device.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{Choices, Executor, MIB, Operation, PAGE_SIZE};
use onewrite_device::Profile;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, Manner, NewNode, Position};

use crate::error::LabError;
use crate::session::{FormatOptions, format};

const DEVICE_BYTES: u64 = 512 * MIB;

/// The fsyncs to count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncs {
    /// Fsyncs that commit one page each.
    pub(super) commits: u64,
    /// Whether a second fsync with nothing to commit follows each of them.
    pub(super) idle: bool,
}

/// FLUSHes of the fsyncs on `profile`, without those of mkfs, mount and unmount.
pub(super) fn flushes_of(profile: &str, mode: Mode, syncs: Syncs) -> Result<usize, LabError> {
    let executor = Executor::ideal();
    let recording = Rc::new(RefCell::new(Recording::default()));
    let device = Profile::load(profile)?.device(Some(DEVICE_BYTES))?;
    let port = executor.runtime().attach(Box::new(Recorded::new(device, Rc::clone(&recording))));
    let watched = Rc::clone(&recording);
    executor.block_on(async move {
        let options = FormatOptions { is_zeroed: true, ..FormatOptions::default() };
        format(&port, &options, &mut Choices::new(1)).await?;
        let fs = Ext4::mount(port, MountOptions::new(mode)).await?;
        let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.fsync(ino).await?;
        watched.borrow_mut().events.clear();
        for number in 0..syncs.commits {
            let content = Content::Pattern { seed: number, compressible_percent: 0, length: PAGE_SIZE as u64 };
            fs.write(ino, Position::At(number * PAGE_SIZE as u64), content, Manner::default()).await?;
            fs.fsync(ino).await?;
            if syncs.idle {
                fs.fsync(ino).await?;
            }
        }
        Ok::<_, LabError>(())
    })??;
    let is_flush = |event: &&RecordedEvent| match event {
        RecordedEvent::Submitted(_, request) => request.operation == Operation::Flush,
        _ => false,
    };
    Ok(recording.borrow().events.iter().filter(is_flush).count())
}
