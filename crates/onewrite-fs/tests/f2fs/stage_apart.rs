//! Power cuts with the staging area on a device of its own: each of the two loses what it was not told to keep.

use onewrite_block::{Choices, Device, Geometry, Image, Nanos, RamDisk};
use onewrite_fs::f2fs::F2fs;
use onewrite_fs::{FileSystem, FileView, FsResult};

use super::stage::{MIB, again, get, put, run_on_both, with_both};
use crate::support::f2fs_volume::{assert_clean, new_disk};
use crate::support::volume::image;

/// Steps that each end with a promise.
const STEPS: u8 = 5;

/// A disk that loses what is neither flushed nor FUA, and takes eight pages at once.
fn forgetful(image: Image, fua: bool) -> Box<dyn Device> {
    let geometry = Geometry { fua, transfer_pages_max: 8, ..Geometry::plain("forgetful", image.pages()) };
    Box::new(RamDisk::with_image(image, geometry))
}

/// What a power cut leaves of a disk.
fn cut(mut disk: Box<dyn Device>, choices: &mut Choices) -> Image {
    let power = disk.as_power_cut().expect("a RAM disk has a switch");
    power.cut(choices);
    power.recover(Nanos::ZERO).expect("nothing is damaged");
    image(disk)
}

async fn take_step(fs: &F2fs, step: u8) -> FsResult<()> {
    let ino = match step {
        // A record, and then one behind a checkpoint.
        0 | 4 => put(fs, "bytes", u64::from(step) * 100, &[step + 1; 300]).await?,
        // Blocks of the image that a mapping names.
        1 => put(fs, "pages", 0, &[2; 12288]).await?,
        // A transaction of more pages than one request takes.
        2 => {
            let mut ino = fs.root();
            for page in 0..24 {
                ino = put(fs, "parts", page * 4096, &[3; 2000]).await?;
            }
            ino
        }
        _ => return fs.sync().await,
    };
    fs.fsync(ino).await
}

async fn expect_steps(fs: &F2fs, steps: u8) -> FsResult<()> {
    let bytes = get(fs, "bytes").await?;
    assert_eq!(bytes[..300], [1; 300]);
    assert!(steps < 2 || get(fs, "pages").await? == [2; 12288], "pages");
    for page in 0..24 {
        assert!(steps < 3 || get(fs, "parts").await?[page * 4096..][..2000] == [3; 2000], "part {page}");
    }
    assert!(steps < 5 || bytes[400..] == [5; 300], "bytes behind the checkpoint");
    Ok(())
}

#[test]
fn what_was_synced_survives_cuts_of_both_devices() {
    let fresh = image(Box::new(new_disk(64 * MIB)));
    for (fua, steps) in [false, true].into_iter().flat_map(|fua| (1..=STEPS).map(move |steps| (fua, steps))) {
        for seed in 0..8 {
            let disks = (forgetful(fresh.clone(), fua), forgetful(Image::new(MIB / 4096), fua));
            let left = run_on_both(Nanos::ZERO, disks, move |fs| async move {
                for step in 0..steps {
                    take_step(&fs, step).await?;
                }
                Ok(())
            });
            let (disk, area) = left.expect("it works");
            let mut choices = Choices::new(seed);
            let (disk, area) = (cut(disk, &mut choices), cut(area, &mut choices));
            let after = with_both((again(&disk), again(&area)), move |fs| async move {
                expect_steps(&fs, steps).await?;
                fs.unmount().await
            });
            let (disk, _) = after.unwrap_or_else(|error| panic!("FUA {fua}, {steps} steps, seed {seed}: {error}"));
            assert_clean(&disk);
        }
    }
}
